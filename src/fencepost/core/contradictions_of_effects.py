"""What no operation, attempt or observation says if every rule was kept: each contradiction a named function.

What is known of an operation is folded anew from its attempts (`outcome`) and compared with its state, its evidence and
its key. Pure, as `contradictions`, which has the records that these look at and the rules on runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from fencepost.core.contradictions import Found, Ledgerwide, RunRule, Whole
from fencepost.core.epoch import NOBODY
from fencepost.core.identity import KEY_SCHEMES
from fencepost.core.outcome import Verdict, fold
from fencepost.core.position import effect_position, is_of_turn, plain
from fencepost.core.records import CONFLICT_SETTLED, LOOK_UP, STATEMENT, Operation
from fencepost.core.standin import agree
from fencepost.core.states import OperationState, Outcome, RunState


def _verdict(operation: Operation) -> Verdict:
    return fold(attempt.outcome for attempt in operation.attempts).verdict


def _undisputed(whole: Whole, *states: OperationState) -> Iterator[Operation]:
    """The operations in these states without a conflict, which leaves attempts unresolved whatever the state."""
    return (one for one in whole.history.operations if one.state in states and not one.conflict)


# -- the state is the fold of the attempts ----------------------------------------------------------------------------


def succeeded_without_proof(whole: Whole, _: Ledgerwide) -> Iterator[Found]:
    """An operation has succeeded only if an attempt of it is proved applied."""
    for one in _undisputed(whole, OperationState.SUCCEEDED):
        if _verdict(one) is not Verdict.APPLIED:
            yield one.position, "it has succeeded, and no attempt is proved applied"


def failed_without_proof(whole: Whole, _: Ledgerwide) -> Iterator[Found]:
    """An operation has failed only if every attempt of it is proved not applied; and it says why."""
    for one in _undisputed(whole, OperationState.FAILED):
        if _verdict(one) not in (Verdict.NOT_APPLIED, Verdict.NOTHING_SENT):
            yield one.position, f"it has failed, and its attempts are {_verdict(one)}"
        if one.error is None:
            yield one.position, "it has failed without an error"


def not_begun_without_proof(whole: Whole, _: Ledgerwide) -> Iterator[Found]:
    """An operation is reserved, or was taken back, only if every attempt of it is proved not applied."""
    for one in _undisputed(whole, OperationState.RESERVED, OperationState.CANCELLED):
        if _verdict(one) not in (Verdict.NOT_APPLIED, Verdict.NOTHING_SENT):
            yield one.position, f"it is {one.state}, and its attempts are {_verdict(one)}"


def unknown_although_known(whole: Whole, _: Ledgerwide) -> Iterator[Found]:
    """An operation is unknown only while an attempt of it is unresolved and none is applied."""
    for one in _undisputed(whole, OperationState.UNKNOWN):
        if _verdict(one) is not Verdict.UNRESOLVED:
            yield one.position, f"it is unknown, and its attempts are {_verdict(one)}"


def in_flight_although_over(whole: Whole, _: Ledgerwide) -> Iterator[Found]:
    """An operation is in flight only while its newest attempt is unresolved and none is applied."""
    for one in _undisputed(whole, OperationState.DISPATCHED):
        newest = one.attempts[-1].outcome if one.attempts else None
        if newest is not Outcome.UNRESOLVED or _verdict(one) is Verdict.APPLIED:
            yield one.position, f"it is dispatched, and its newest attempt is {newest or 'not there'}"


def in_flight_without_an_owner(whole: Whole, _: Ledgerwide) -> Iterator[Found]:
    """An operation is in flight only while somebody owns its run: else it is unknown, and asked about."""
    run = whole.history.run
    for one in _undisputed(whole, OperationState.DISPATCHED):
        if run.lease is None:
            yield one.position, f"it is dispatched, and nobody owns the run, which is {run.state}"


def applied_twice_unseen(whole: Whole, _: Ledgerwide) -> Iterator[Found]:
    """An effect that was applied more than once is in conflict until a person has put it right."""
    for one in whole.history.operations:
        applied = sum(attempt.outcome is Outcome.APPLIED for attempt in one.attempts)
        if applied > 1 and not one.conflict and not _was_put_right(one):
            yield one.position, f"{applied} attempts were applied, and nobody was told"


def conflict_without_a_hold(whole: Whole, _: Ledgerwide) -> Iterator[Found]:
    """A run with a conflict is held, has ended, or is about to be looked at: it does not wait for anything else."""
    if whole.history.run.state is RunState.WAITING:
        for one in whole.history.operations:
            if one.conflict:
                yield one.position, "its evidence contradicts itself, and the run waits for something else"


# -- attempts ---------------------------------------------------------------------------------------------------------


def attempts_miscounted(whole: Whole, _: Ledgerwide) -> Iterator[Found]:
    """An operation has as many attempts as it says, numbered from 1 on, and each belongs to one."""
    for stray in whole.strays:
        yield stray, "it belongs to no operation"
    for one in whole.history.operations:
        counted = whole.counted.get(one.position, 0)
        numbers = [attempt.number for attempt in one.attempts]
        if numbers != list(range(1, counted + 1)):
            yield one.position, f"it says {counted} attempts, and those that are there are numbered {numbers}"


def settled_without_evidence(whole: Whole, _: Ledgerwide) -> Iterator[Found]:
    """What is proved of an attempt has its evidence, and the time since when it is known."""
    for one in whole.history.operations:
        for attempt in one.attempts:
            settled = attempt.outcome is not Outcome.UNRESOLVED
            if settled and (attempt.evidence is None or attempt.settled_at is None):
                yield f"{one.position}, attempt {attempt.number}", f"it is {attempt.outcome} without evidence"


def attempt_out_of_its_time(whole: Whole, _: Ledgerwide) -> Iterator[Found]:
    """An attempt begins before its last byte leaves, and its trace ends after that; a later one begins no earlier."""
    for one in whole.history.operations:
        before = 0
        for attempt in one.attempts:
            if not before <= attempt.dispatched_at <= attempt.send_by <= attempt.span_ends_at:
                yield f"{one.position}, attempt {attempt.number}", "its times are not in order"
            before = attempt.dispatched_at


def generation_above_its_run(whole: Whole, _: Ledgerwide) -> Iterator[Found]:
    """Nothing of a run was written under a generation that the run has not reached."""
    highest = whole.history.run.generation
    for one in whole.history.operations:
        reached = [one.generation, *(attempt.generation for attempt in one.attempts)]
        reached += [seen.generation for seen in one.observations if seen.generation is not None]
        if max(reached) > highest:
            yield one.position, f"generation {max(reached)} is above the run's, which is {highest}"


def token_out_of_order(whole: Whole, ledger: Ledgerwide) -> Iterator[Found]:
    """Each attempt at a target that compares tokens has a token of its own, above those before, that was issued."""
    for one in whole.history.operations:
        before = None
        for attempt in one.attempts:
            if attempt.token is None:
                continue
            if before is not None and attempt.token <= before:
                yield f"{one.position}, attempt {attempt.number}", f"its token {attempt.token} is not above {before}"
            if attempt.token > (ledger.highest_token or 0) and attempt.lease != NOBODY:
                yield f"{one.position}, attempt {attempt.number}", f"its token {attempt.token} was never issued"
            before = attempt.token


# -- evidence ---------------------------------------------------------------------------------------------------------


def evidence_overruled(whole: Whole, _: Ledgerwide) -> Iterator[Found]:
    """What a look-up found did happen, or is shown as a conflict: evidence is never outvoted."""
    # Of replies that needs no rule: whoever reads one that contradicts what is proved shows a conflict
    # (`Operation.learn`).
    for one in _undisputed(whole, OperationState.FAILED, OperationState.CANCELLED):
        for seen in one.observations:
            if seen.kind == LOOK_UP and seen.says == "found" and not _was_put_right(one):
                yield one.position, f"observation {seen.no} ({seen.kind}) says {seen.says}, and it is {one.state}"


def _was_put_right(one: Operation) -> bool:
    return any(seen.kind == CONFLICT_SETTLED for seen in one.observations)


def stated_without_a_word(whole: Whole, _: Ledgerwide) -> Iterator[Found]:
    """Each statement of a person about an effect stands in the audit too."""
    stated = Counter(seen.kind for one in whole.history.operations for seen in one.observations)
    for kind, verb in ((STATEMENT, "settle"), (CONFLICT_SETTLED, "settle conflict")):
        if stated[kind] > whole.verbs.get(verb, 0):
            yield "run", f"{stated[kind]} observations are a person's ({kind}), and {whole.verbs.get(verb, 0)} audited"


# -- identity ---------------------------------------------------------------------------------------------------------


def request_of_another_print(whole: Whole, _: Ledgerwide) -> Iterator[Found]:
    """The fingerprint by which code is compared is that of the request that was stored, and is sent."""
    for one in whole.history.operations:
        if not agree(one.fingerprint, one.request):
            yield one.position, "its fingerprint is not that of the stored request"


def key_of_another_place(whole: Whole, _: Ledgerwide) -> Iterator[Found]:
    """A key is made of its operation's place by the scheme that is stored with it."""
    run = whole.history.run
    for one in whole.history.operations:
        made = KEY_SCHEMES.get(one.key_scheme)
        if made is None:
            yield one.position, f"its key is of scheme {one.key_scheme}, which nobody knows"
        elif one.key != made(run.namespace, run.id, one.step, one.item, one.contract_version, turn=run.turn):
            yield one.position, "its key is not that of its place"


def key_of_two_operations(whole: Whole, _: Ledgerwide) -> Iterator[Found]:
    """No two operations have one key."""
    for one in whole.history.operations:
        if one.key in whole.shared_keys:
            yield one.position, "another operation has its key"


# -- compensation -----------------------------------------------------------------------------------------------------


def compensating_nothing(whole: Whole, _: Ledgerwide) -> Iterator[Found]:
    """What is compensated has happened, in the same run; what an earlier turn of it did is looked at there."""
    stands = {one.position for one in whole.history.operations if one.state is OperationState.SUCCEEDED}
    for one in whole.history.operations:
        place = one.compensates
        if place is not None and place not in stands and not (whole.history.run.turn and is_of_turn(place)):
            yield one.position, f"it compensates {one.compensates}, which has not happened"


def compensated_twice(whole: Whole, _: Ledgerwide) -> Iterator[Found]:
    """An effect is compensated by one operation: what is tried again is another attempt of it."""
    for place, times in Counter(one.compensates for one in whole.history.operations).items():
        if place is not None and times > 1:
            yield place, f"{times} operations compensate it"


def done_both_ways(whole: Whole, _: Ledgerwide) -> Iterator[Found]:
    """What was done another way has not happened itself."""
    stands = {one.position for one in whole.history.operations if one.state is OperationState.SUCCEEDED}
    for one in whole.history.operations:
        instead_of = effect_position(plain(one.step), one.item)
        if instead_of != one.position and one.position in stands and instead_of in stands:
            yield one.position, f"{instead_of} has happened as well"


ON_EFFECTS: tuple[RunRule, ...] = (
    succeeded_without_proof,
    failed_without_proof,
    not_begun_without_proof,
    unknown_although_known,
    in_flight_although_over,
    in_flight_without_an_owner,
    applied_twice_unseen,
    conflict_without_a_hold,
    attempts_miscounted,
    settled_without_evidence,
    attempt_out_of_its_time,
    generation_above_its_run,
    token_out_of_order,
    evidence_overruled,
    stated_without_a_word,
    request_of_another_print,
    key_of_another_place,
    key_of_two_operations,
    compensating_nothing,
    compensated_twice,
    done_both_ways,
)
