"""What a ledger never holds if the protocol was kept: each contradiction a named function with a sentence.

A rule looks at one run with everything that belongs to it, or at the ledger as a whole, and yields what it finds: the
place, and what is wrong there. Its name is the function's. Pure: walking through a ledger is `store.walk`, saying what
was found `runtime.checking`. The rules here are those on runs, their ownership and their waits; those on operations and
evidence are `contradictions_of_effects`, those on parents, children and turns `contradictions_of_families`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from fencepost.core.errors import ErrorRecord, JobFailed, RunNotFound
from fencepost.core.records import History, Lease, Step
from fencepost.core.standin import agree
from fencepost.core.states import FINAL_RUN_STATES, OperationState, RunState, SignalState, StepState

Found = tuple[str, str]
"""A place, such as a position or a signal, and what is wrong there."""


@dataclass(slots=True)
class Ledgerwide:
    """What is judged of a ledger as a whole, and what its runs are judged by.

    `base` is what every generation and token has reached since the last restore; `now` the store's clock.
    """

    now: int
    base: int = 0
    highest_token: int | None = None
    void_tokens: list[str] = field(default_factory=list)
    half_closed_leases: list[str] = field(default_factory=list)
    audits_of_nothing: list[tuple[int, str, str]] = field(default_factory=list)
    silent_proposals: list[tuple[int, str, str]] = field(default_factory=list)
    silent_ticks: list[tuple[int, str, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Kin:
    """What a run is judged by beside itself: its parent and the other turns of it.

    `parent` is the state of the run that it was started by, `waits` that of the position which waits for it there,
    None where there is none. `print_before` is the fingerprint of the turn before it.
    """

    parent: RunState | None = None
    waits: StepState | None = None
    same_turn: int = 1
    turn_before: RunState | None = None
    print_before: str | None = None
    has_next_turn: bool = False
    is_parent_purged: bool = False


@dataclass(slots=True)
class Whole:
    """One run with everything that the ledger holds of it.

    `kin` is there for a child, and for a run of more turns than one. `counted` is how many attempts each operation says
    that it has, by position; `strays` are attempts of no operation; `verbs` how often each verb was done to the run, by
    the audit; `shared_keys` those that more than one operation has.
    """

    history: History
    counted: dict[str, int] = field(default_factory=dict)
    strays: list[str] = field(default_factory=list)
    lease: Lease | None = None
    kin: Kin | None = None
    verbs: dict[str, int] = field(default_factory=dict)
    shared_keys: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Contradiction:
    """One finding: the rule that is broken, in which run ("" for the ledger), where, and how."""

    rule: str
    namespace: str
    run: str
    where: str
    says: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.run + ', ' if self.run else ''}{self.where}: {self.says}"


RunRule = Callable[[Whole, Ledgerwide], Iterator[Found]]
LedgerRule = Callable[[Ledgerwide], Iterator[Found]]

ORDERLY_ENDS = FINAL_RUN_STATES - {RunState.TERMINATED}
"""The ends that a run comes to by itself: none before every operation of it is known."""

_OWNED = (RunState.RUNNING, RunState.CANCELLING, RunState.COMPENSATING)
_UNKNOWN = (OperationState.UNKNOWN, OperationState.DISPATCHED)


# -- a run's own row --------------------------------------------------------------------------------------------------


def ended_and_moving(whole: Whole, _: Ledgerwide) -> Iterator[Found]:
    """A run has a time of its end if, and only if, its state is final."""
    run = whole.history.run
    if (run.state in FINAL_RUN_STATES) != (run.ended_at is not None):
        yield "run", f"it is {run.state}, and {'has no' if run.ended_at is None else 'has a'} time of its end"


def ended_without_its_answer(whole: Whole, _: Ledgerwide) -> Iterator[Found]:
    """What has succeeded has a result, what has failed an error, and what was cancelled says by whom and why."""
    run = whole.history.run
    answers = {
        RunState.SUCCEEDED: ("result", run.result),
        RunState.FAILED: ("error", run.error),
        RunState.CANCELLING: ("request to cancel", run.cancel),
        RunState.CANCELLED: ("request to cancel", run.cancel),
    }
    name, answer = answers.get(run.state, ("", ""))
    if answer is None:
        yield "run", f"it is {run.state} without a {name}"


def held_without_a_reason(whole: Whole, _: Ledgerwide) -> Iterator[Found]:
    """A run says why it is held if, and only if, it is."""
    run = whole.history.run
    if (run.state is RunState.HELD) != (run.hold is not None):
        yield "run", f"it is {run.state}, and {'says no' if run.hold is None else 'gives a'} reason for a hold"


def held_for_what_is_known(whole: Whole, _: Ledgerwide) -> Iterator[Found]:
    """A hold for an unknown operation ends when everything is known: whoever settles it lets the run go on."""
    run = whole.history.run
    if run.state is not RunState.HELD or run.hold is None:
        return
    said = json.loads(run.hold)
    if said.get("state") == OperationState.UNKNOWN and not any(
        one.state in _UNKNOWN or one.conflict for one in whole.history.operations
    ):
        yield str(said.get("step")), "the run is held because it is unknown, and it is not"


def input_of_another_print(whole: Whole, _: Ledgerwide) -> Iterator[Found]:
    """The fingerprint by which a second start is compared is that of the input with which the first turn began."""
    run = whole.history.run
    if run.turn == 0 and not agree(run.fingerprint, run.input):
        yield "input", "its fingerprint is not that of the stored input"
    if whole.kin is not None and whole.kin.print_before not in (None, run.fingerprint):
        yield "input", "its fingerprint is not that of the turn before it"


# -- who owns it ------------------------------------------------------------------------------------------------------


def owned_by_nobody(whole: Whole, _: Ledgerwide) -> Iterator[Found]:
    """A running run has an owner, and no run has one that nobody works on."""
    run = whole.history.run
    if run.state is RunState.RUNNING and run.lease is None:
        yield "run", "it is running, and nobody owns it"
    if run.lease is not None and run.state not in _OWNED:
        yield "run", f"it is {run.state}, and lease {run.lease} owns it"


def owned_by_a_lease_that_never_was(whole: Whole, _: Ledgerwide) -> Iterator[Found]:
    """The lease that owns a run is there."""
    run = whole.history.run
    if run.lease is not None and whole.lease is None:
        yield "run", f"lease {run.lease}, which owns it, is not there"


def owned_by_a_lease_that_is_over(whole: Whole, ledger: Ledgerwide) -> Iterator[Found]:
    """A run whose owner's lease is over for longer than the margin was taken over: no worker is there to do it."""
    lease = whole.lease
    if lease is None or whole.history.run.lease is None:
        return
    over_since = lease.closed_at if lease.closed_at is not None else lease.expires_at + lease.margin
    if ledger.now - over_since > lease.margin:
        seconds = (ledger.now - over_since) // 1_000_000
        yield "run", f"the lease of its owner (pid {lease.pid} on {lease.host}) is over for {seconds} s"


def generation_that_is_void(whole: Whole, ledger: Ledgerwide) -> Iterator[Found]:
    """Since the last restore every run has a generation above all that were given before it."""
    if whole.history.run.generation < ledger.base:
        yield "run", f"its generation {whole.history.run.generation} is below {ledger.base}"


# -- how it ended -----------------------------------------------------------------------------------------------------


def ended_with_an_unknown(whole: Whole, _: Ledgerwide) -> Iterator[Found]:
    """A run comes to its end only when every operation of it is known; a person alone may end it before."""
    run = whole.history.run
    if run.state in ORDERLY_ENDS:
        for one in whole.history.operations:
            if one.state in _UNKNOWN:
                yield one.position, f"the run is {run.state}, and it is {one.state}"


def compensated_in_part(whole: Whole, _: Ledgerwide) -> Iterator[Found]:
    """A run is compensated, or has succeeded, only if every compensation that was begun has succeeded."""
    run = whole.history.run
    if run.state in (RunState.COMPENSATED, RunState.SUCCEEDED):
        for one in whole.history.operations:
            if one.compensates is not None and one.state is not OperationState.SUCCEEDED:
                yield one.position, f"the run is {run.state}, and this compensation of {one.compensates} is {one.state}"


def compensation_that_did_not_fail(whole: Whole, _: Ledgerwide) -> Iterator[Found]:
    """A run's compensation has failed only if none of it has succeeded; otherwise it is partly compensated."""
    if whole.history.run.state is RunState.COMPENSATION_FAILED:
        for one in whole.history.operations:
            if one.compensates is not None and one.state is OperationState.SUCCEEDED:
                yield one.position, "the run says that no compensation succeeded, and this one has"


def ended_by_hand_without_a_word(whole: Whole, _: Ledgerwide) -> Iterator[Found]:
    """Whoever ended or cancelled a run, or stated what became of an effect, stands in the audit."""
    run = whole.history.run
    if run.state is RunState.TERMINATED and not whole.verbs.get("terminate"):
        yield "run", "it was terminated, and no audit row says by whom"
    if run.cancel is not None and not whole.verbs.get("cancel"):
        yield "run", "its cancel was asked for, and no audit row says by whom"


# -- the order of answers ---------------------------------------------------------------------------------------------


def delivered_unfinished(whole: Whole, _: Ledgerwide) -> Iterator[Found]:
    """What the workflow was given is complete: a step that is not open, an operation that is final."""
    for step in whole.history.steps:
        if step.delivered and step.state is StepState.OPEN:
            yield step.position, f"it was delivered as number {step.delivered}, and is open"
    for one in whole.history.operations:
        final = one.state in (OperationState.SUCCEEDED, OperationState.FAILED, OperationState.CANCELLED)
        if one.delivered and not (final and one.delivered_at is not None):
            yield one.position, f"it was delivered as number {one.delivered}, and is {one.state}"


def delivered_out_of_order(whole: Whole, _: Ledgerwide) -> Iterator[Found]:
    """Each answer has a number of its own, from 1 on without a gap; only a person's verb takes some back."""
    given = [step.delivered for step in whole.history.steps] + [one.delivered for one in whole.history.operations]
    numbers = Counter(number for number in given if number)
    for number, times in numbers.items():
        if times > 1:
            yield "run", f"{times} answers were delivered as number {number}"
    missing = set(range(1, max(numbers, default=0) + 1)) - set(numbers)
    if missing and not (whole.verbs.get("resume") or whole.verbs.get("redecide")):
        yield "run", f"no answer was delivered as number {min(missing)}, though later ones were"


# -- steps, waits and signals -----------------------------------------------------------------------------------------


def step_half_closed(whole: Whole, _: Ledgerwide) -> Iterator[Found]:
    """A step has a time of its end if, and only if, it is not open; one that failed has its error."""
    for step in whole.history.steps:
        if (step.state is StepState.OPEN) != (step.closed_at is None):
            yield step.position, f"it is {step.state}, and {'has no' if step.closed_at is None else 'has a'} end"
        if step.state is StepState.FAILED and step.error is None:
            yield step.position, "it has failed without an error"


def wait_over_without_its_signal(whole: Whole, _: Ledgerwide) -> Iterator[Found]:
    """A wait that has its value has it from the one signal that was applied to it."""
    applied = Counter(signal.position for signal in whole.history.signals if signal.state is SignalState.APPLIED)
    for step in whole.history.steps:
        if step.kind == "wait" and step.state is StepState.DONE and applied[step.position] != 1:
            yield step.position, f"it has its value, and {applied[step.position]} signals were applied to it"


def signal_applied_to_nothing(whole: Whole, _: Ledgerwide) -> Iterator[Found]:
    """An applied signal names the wait that took it, which is done, or has failed by what it said."""
    over = {step.position for step in whole.history.steps if step.kind == "wait" and _is_answered(step)}
    for signal in whole.history.signals:
        if signal.state is SignalState.APPLIED and signal.position not in over:
            yield f"signal {signal.id}", f"it was applied to {signal.position!r}, which is no wait that has its value"


_SAID_BY_SIGNALS = {ErrorRecord.of(kind, "").class_name for kind in (JobFailed, RunNotFound)}


def _is_answered(wait: Step) -> bool:
    """Whether a wait has its value, or an error that a signal brought: not one that a time brought."""
    if wait.state is StepState.FAILED and wait.error is not None:
        return ErrorRecord.from_text(wait.error).class_name in _SAID_BY_SIGNALS
    return wait.state is StepState.DONE


def signal_half_closed(whole: Whole, _: Ledgerwide) -> Iterator[Found]:
    """A signal is kept only while its run may still take it, and a refused one says why."""
    for signal in whole.history.signals:
        kept = signal.state is SignalState.KEPT
        if kept and whole.history.run.ended_at is not None:
            yield f"signal {signal.id}", "it is kept for a run that has ended"
        if kept != (signal.closed_at is None) or (signal.state is SignalState.REFUSED and signal.reason is None):
            yield f"signal {signal.id}", f"it is {signal.state}, without its time or its reason"


def signal_of_another_print(whole: Whole, _: Ledgerwide) -> Iterator[Found]:
    """The fingerprint by which a second delivery is compared is that of the signal's stored value."""
    for signal in whole.history.signals:
        if not agree(signal.fingerprint, signal.payload):
            yield f"signal {signal.id}", "its fingerprint is not that of the stored value"


# -- the ledger as a whole --------------------------------------------------------------------------------------------


def token_that_is_void(ledger: Ledgerwide) -> Iterator[Found]:
    """Since the last restore every resource's token is above all that were issued before it."""
    for resource in ledger.void_tokens:
        yield f"resource {resource}", f"its token is below {ledger.base}"


def lease_half_closed(ledger: Ledgerwide) -> Iterator[Found]:
    """A lease has a time of its end if, and only if, it is not live."""
    for lease in ledger.half_closed_leases:
        yield f"lease {lease}", "it is live and over at once, or neither"


def audit_of_nothing(ledger: Ledgerwide) -> Iterator[Found]:
    """What the audit says was done, was done to a run that is there."""
    for number, verb, run in ledger.audits_of_nothing:
        yield f"audit row {number}", f"{verb} was done to run {run!r}, which is not there"


def confirmed_without_a_word(ledger: Ledgerwide) -> Iterator[Found]:
    """What a second person confirmed was done in the same commit, under that person's name, as the audit says."""
    for number, verb, run in ledger.silent_proposals:
        yield f"proposal {number}", f"{verb} of run {run!r} was confirmed, and no audit row says that it was done"


def ticked_off_without_a_word(ledger: Ledgerwide) -> Iterator[Found]:
    """What a job on many runs has ticked off was done in the same commit, as the audit says."""
    for number, verb, run in ledger.silent_ticks:
        yield f"bulk job {number}", f"{verb} of run {run!r} is ticked off, and no audit row says that it was done"


ON_RUNS: tuple[RunRule, ...] = (
    ended_and_moving,
    ended_without_its_answer,
    held_without_a_reason,
    held_for_what_is_known,
    input_of_another_print,
    owned_by_nobody,
    owned_by_a_lease_that_never_was,
    owned_by_a_lease_that_is_over,
    generation_that_is_void,
    ended_with_an_unknown,
    compensated_in_part,
    compensation_that_did_not_fail,
    ended_by_hand_without_a_word,
    delivered_unfinished,
    delivered_out_of_order,
    step_half_closed,
    wait_over_without_its_signal,
    signal_applied_to_nothing,
    signal_half_closed,
    signal_of_another_print,
)

ON_LEDGERS: tuple[LedgerRule, ...] = (
    token_that_is_void,
    lease_half_closed,
    audit_of_nothing,
    confirmed_without_a_word,
    ticked_off_without_a_word,
)
