"""One effect and everything that can happen to it: the worlds, the ledger's side, and each next step.

Up to three workers own the run one after the other. Requests are delayed, dropped or land late; replies are lost or
come late; a worker crashes, pauses between permission and send, or tries again itself; the ledger's clock may jump; a
person sends again or says that it did not happen, under the guards of the engine. Time passes in ticks of one span.
A crash, a drop and a lost reply are the courses in which what is pending stays pending until its time is over.

The world (network, target, person) is modelled here, the ledger's side is only carried out: what to do next, what
proves what and which state follows is asked of `fencepost.core`. Visiting all courses is explorer.py.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from fencepost.core import compensation, outcome, recovery, retry
from fencepost.core.contract import Contract
from fencepost.core.records import Attempt, Observation, Operation
from fencepost.core.recovery import Moment
from fencepost.core.states import FINAL_OPERATION_STATES, OperationState, Outcome
from fencepost.core.transitions import ATTEMPT, OPERATION, AttemptEvent, OperationEvent

SPAN = 10
"""Microseconds from a dispatch until every trace of it must be dead and digested; one tick of the model."""
MOST_SENT = 3
"""A person's resends are explored up to this many attempts; the engine's own end with the budget."""
REMEMBERED = 2
"""Ticks after which a forgetful target no longer knows a key; its real window lies between the two."""


@dataclass(frozen=True)
class World:
    """What the target really does, whatever the contract says of it, and what may go wrong around it.

    `ticks` is how long it is watched; `forgets`: a key is unknown again after `REMEMBERED` ticks. `atomic`: the target
    is the ledger's own database, and the effect lands in the commit that records its result.
    """

    key: bool = False
    forgets: bool = False
    fence: bool = False
    lags: bool = False
    accounts: int = 1
    takeovers: int = 2
    ticks: int = 2
    jumps: bool = False
    refuses: bool = False
    cannot_tell: bool = False
    deadline_holds: bool = True
    atomic: bool = False


@dataclass(frozen=True)
class Habits:
    """What whoever carries the decisions out does; each habit switched off is a rule taken out."""

    asks: bool = True
    raises_first: bool = True
    takes_fresh_tokens: bool = True
    watches_own_clock: bool = True
    compares_scope: bool = True
    intends_first: bool = True
    doubts_lost_replies: bool = True
    guards_the_commit: bool = True


@dataclass(frozen=True)
class Row:
    """One row of the ladder: who the target is, how an unknown outcome is recovered, and what that buys."""

    target: str
    recovery: str
    contract: Contract
    world: World
    habits: Habits = field(default_factory=Habits)

    @property
    def name(self) -> str:
        """The row as a person reads it."""
        return f"{self.target} | {self.recovery}"


class Sent(NamedTuple):
    """One attempt: what the ledger holds of it, and where its request and its reply are."""

    outcome: Outcome
    token: int
    dispatched: int  # by the ledger's clock, in ticks
    account: int
    owner: int = 0  # who dispatched it, where that is compared when it lands
    pending: bool = True
    reply: Outcome | None = None


class Account(NamedTuple):
    """What the target holds in one scope."""

    applied: int = 0
    key_seen: int | None = None
    visible: int = 0
    token: int = 0


class Answer(NamedTuple):
    """A look-up's answer on its way to whoever asked."""

    says: str
    began: Moment
    asker: int


class State(NamedTuple):
    """Everything that can differ between two moments; hashable, so that a state is explored once."""

    accounts: tuple[Account, ...]
    tick: int = 0
    ahead: int = 0
    owner: int = 0
    owned_since: int = 0
    account: int = 0
    token: int = 0
    state: OperationState | None = None
    conflict: bool = False
    attempts: tuple[Sent, ...] = ()
    asked: bool = False
    cannot_tell: int = 0
    answer: Answer | None = None
    hold: recovery.HoldReason | None = None
    compensated: bool = False

    @property
    def applied(self) -> int:
        """How often the effect took place, in all scopes."""
        return sum(account.applied for account in self.accounts)


# -- the ledger's side: carried out here, decided in core -----------------------------------------------------------


def record_of(state: State, contract: Contract | None = None) -> Operation:
    """The ledger's record of the operation, as core reads it."""
    span = SPAN if contract is None else contract.span
    attempts = [
        Attempt(
            number=number,
            dispatched_at=sent.dispatched * SPAN,
            send_by=sent.dispatched * SPAN + span,
            span_ends_at=sent.dispatched * SPAN + span,
            lease="",
            generation=0,
            outcome=sent.outcome,
            token=sent.token,
        )
        for number, sent in enumerate(state.attempts, 1)
    ]
    last = attempts[-1].dispatched_at if attempts else 0
    says = ["absent"] * state.asked + ["inconclusive"] * state.cannot_tell
    return Operation(
        run=1, step="pay", item=None, effect="pay", contract_version=1, key="k", key_scheme=1, request="{}",
        fingerprint="f", scope="0", reserved_at=0, state=state.state or OperationState.RESERVED,
        conflict=state.conflict, first_dispatched_at=attempts[0].dispatched_at if attempts else None,
        attempts=attempts,
        observations=[Observation(recovery.LOOK_UP, one, "", seen_at=last, began_at=last) for one in says],
    )  # fmt: skip


def _moment(row: Row, state: State, token: int | None = None) -> Moment:
    owned_for = (state.tick - state.owned_since) * SPAN if row.habits.watches_own_clock else 1_000 * SPAN
    scope = str(state.account) if row.habits.compares_scope else "0"
    return Moment((state.tick + state.ahead) * SPAN, owned_for, scope, token)


def _settle(row: Row, state: State, proofs: dict[int, Outcome]) -> State:
    """Take evidence in, fold, and move the operation."""
    attempts = list(state.attempts)
    contradicted = False
    for number, says in proofs.items():
        known = attempts[number].outcome
        event = outcome.evidence_event(known, says, contradicted=state.conflict)
        if event is not None:
            contradicted |= event is AttemptEvent.CONTRADICT
            attempts[number] = attempts[number]._replace(outcome=ATTEMPT.after(known, event))
    state = state._replace(attempts=tuple(attempts))
    folded = outcome.fold(sent.outcome for sent in attempts)
    if contradicted or folded.conflict:
        return state._replace(conflict=True, state=OPERATION.after(state.state, OperationEvent.CONTRADICT))
    record = record_of(state, row.contract)
    again = retry.budget_left(row.contract.retry, record.attempts, budget_from=0, now=_moment(row, state).now)
    event = outcome.operation_event(folded, may_go_again=again)
    moved = OPERATION.after(state.state, event)
    return state._replace(state=moved, hold=state.hold if moved is OperationState.UNKNOWN else None)


def _dispatch(row: Row, state: State) -> State:
    now = _moment(row, state).now // SPAN
    sent = Sent(Outcome.UNRESOLVED, state.token, now, state.account, state.owner if row.world.atomic else 0)
    return state._replace(
        state=OPERATION.after(state.state, OperationEvent.DISPATCH),
        attempts=(*state.attempts, sent),
        asked=False,
        cannot_tell=0,
        hold=None,
    )


def _unresolved(state: State) -> list[int]:
    return [number for number, sent in enumerate(state.attempts) if sent.outcome is Outcome.UNRESOLVED]


# -- what can happen next -------------------------------------------------------------------------------------------


Step = tuple[str, State]


def steps(row: Row, state: State) -> Iterator[Step]:
    yield from _time_passes(row, state)
    yield from _network(row, state)
    yield from _replies_arrive(row, state)
    if state.state is None:
        yield "the intent is written", state._replace(state=OPERATION.after(None, OperationEvent.RESERVE))
        return
    if state.hold is not None:
        yield from _person(row, state)
    elif state.state is OperationState.DISPATCHED:
        yield from _flight_ends(row, state)
    elif state.answer is None or state.answer.asker != state.owner:
        yield from _decided(row, state)
    yield from _takeover(row, state)
    yield from _answer_arrives(row, state)
    yield from _compensation(row, state)


def _time_passes(row: Row, state: State) -> Iterator[Step]:
    if state.tick < row.world.ticks:
        late = row.world.deadline_holds
        attempts = tuple(sent._replace(pending=sent.pending and not late) for sent in state.attempts)
        yield "a span passes", state._replace(tick=state.tick + 1, attempts=attempts)
    if row.world.jumps and not state.ahead and state.attempts:
        yield "the ledger's clock jumps ahead by a span", state._replace(ahead=1)
    if state.account + 1 < row.world.accounts and state.state is not None:
        yield "the credentials are changed to another account", state._replace(account=state.account + 1)


def _network(row: Row, state: State) -> Iterator[Step]:
    for number, sent in enumerate(state.attempts):
        if not sent.pending:
            continue
        account = state.accounts[sent.account]
        if row.world.atomic:
            yield _commits(row, state, number)
            continue
        if row.world.fence and sent.token < account.token:
            yield f"request {number + 1} is fenced off", _replied(state, number, Outcome.NOT_APPLIED, account)
            continue
        if row.world.refuses:
            yield f"request {number + 1} is refused", _replied(state, number, Outcome.NOT_APPLIED, account)
        raised = account._replace(token=max(account.token, sent.token))
        if row.world.key and _remembers(row, state, account):
            yield f"request {number + 1} meets its key", _replied(state, number, Outcome.APPLIED, raised)
            continue
        applied = raised._replace(applied=account.applied + 1, key_seen=state.tick, visible=state.tick + 1)
        yield f"request {number + 1} is applied", _replied(state, number, Outcome.APPLIED, applied)


def _commits(row: Row, state: State, number: int) -> Step:
    """The effect and its result land together, or not at all where the ledger has moved on."""
    sent = state.attempts[number]
    over = _replied(state, number, sent.outcome, state.accounts[0])
    attempts = tuple(one._replace(reply=None) if n == number else one for n, one in enumerate(over.attempts))
    over = over._replace(attempts=attempts)
    flies = state.state is OperationState.DISPATCHED and number == len(state.attempts) - 1
    if row.habits.guards_the_commit and not (flies and sent.owner == state.owner):
        return f"transaction {number + 1} is taken back", over
    account = state.accounts[0]
    landed = over._replace(accounts=(account._replace(applied=account.applied + 1), *state.accounts[1:]))
    if state.state in FINAL_OPERATION_STATES:
        return f"transaction {number + 1} commits", landed
    return f"transaction {number + 1} commits", _settle(row, landed, {number: Outcome.APPLIED})


def _remembers(row: Row, state: State, account: Account) -> bool:
    if account.key_seen is None:
        return False
    return not row.world.forgets or state.tick < account.key_seen + REMEMBERED


def _replied(state: State, number: int, reply: Outcome, account: Account) -> State:
    sent = state.attempts[number]._replace(pending=False, reply=reply)
    attempts = (*state.attempts[:number], sent, *state.attempts[number + 1 :])
    accounts = (*state.accounts[: sent.account], account, *state.accounts[sent.account + 1 :])
    return state._replace(attempts=attempts, accounts=accounts)


def _replies_arrive(row: Row, state: State) -> Iterator[Step]:
    """In flight only the owner's own reply counts; otherwise a late one settles an unknown or shows a conflict."""
    last = len(state.attempts) - 1
    for number, sent in enumerate(state.attempts):
        in_flight = state.state is OperationState.DISPATCHED
        if sent.reply is None or (in_flight and number != last):
            continue
        taken = _replied(state, number, sent.reply, state.accounts[sent.account])
        taken = taken._replace(
            attempts=tuple(s._replace(reply=None) if n == number else s for n, s in enumerate(taken.attempts)),
            owned_since=state.tick if in_flight else state.owned_since,
        )
        told = outcome.evidence_event(sent.outcome, sent.reply, contradicted=state.conflict)
        if in_flight or state.state is OperationState.UNKNOWN or told is AttemptEvent.CONTRADICT:
            yield f"reply {number + 1} arrives: {sent.reply}", _settle(row, taken, {number: sent.reply})


def _flight_ends(row: Row, state: State) -> Iterator[Step]:
    """The owner's own send ends without a reply: with proof that no byte left, or in doubt."""
    ended = state._replace(owned_since=state.tick)
    last = len(state.attempts) - 1
    if state.attempts[last].pending:
        attempts = (*state.attempts[:last], state.attempts[last]._replace(pending=False))
        yield "no byte left", _settle(row, ended._replace(attempts=attempts), {last: Outcome.NOT_APPLIED})
    says = Outcome.UNRESOLVED if row.habits.doubts_lost_replies else Outcome.NOT_APPLIED
    yield "the reply is lost", _settle(row, ended, {last: says})


def _decided(row: Row, state: State) -> Iterator[Step]:
    record = record_of(state, row.contract)
    match recovery.decide(record, row.contract, _moment(row, state, state.token)):
        case recovery.Dispatch():
            yield "dispatch", _dispatch(row, state)
            if not row.habits.intends_first:
                yield "sent, and crashed before the intent was durable", _sent_unrecorded(state)
        case recovery.LookUp(raise_fence=raising):
            yield from _look_up(row, state, raising=raising)
        case recovery.Disprove():
            unresolved = dict.fromkeys(_unresolved(state), Outcome.NOT_APPLIED)
            yield "what did not commit did not happen", _settle(row, state, unresolved)
        case recovery.GiveUp():
            yield "give up", state._replace(state=OPERATION.after(state.state, OperationEvent.REFUSE))
        case recovery.Hold(reason=reason):
            yield f"held: {reason}", state._replace(hold=reason, owned_since=state.tick)
        case recovery.Pause() | recovery.Settled():
            return


def _sent_unrecorded(state: State) -> State:
    account = state.accounts[0]
    return state._replace(accounts=(account._replace(applied=account.applied + 1), *state.accounts[1:]))


def _look_up(row: Row, state: State, *, raising: bool) -> Iterator[Step]:
    token = state.token + 1 if row.habits.takes_fresh_tokens else state.token
    raised = _raised(state, token) if raising and row.habits.raises_first else state
    began = _moment(row, state, token if raising else None)
    for says in _sees(row, state, state.account) if row.habits.asks else ["absent"]:
        asked = raised._replace(answer=Answer(says, began, state.owner), token=token)
        yield f"look up, see {says}", asked
    if row.world.cannot_tell:
        yield "look up, in vain", raised._replace(answer=Answer("inconclusive", began, state.owner), token=token)


def _raised(state: State, token: int) -> State:
    account = state.accounts[state.account]
    raised = account._replace(token=max(account.token, token))
    return state._replace(accounts=(*state.accounts[: state.account], raised, *state.accounts[state.account + 1 :]))


def _sees(row: Row, state: State, number: int) -> list[str]:
    account = state.accounts[number]
    if not account.applied:
        return ["absent"]
    return ["found", "absent"] if row.world.lags and state.tick < account.visible else ["found"]


def _answer_arrives(row: Row, state: State) -> Iterator[Step]:
    """To the owner, or late to one that was replaced: appended in any case, believed only under the guards."""
    if state.answer is None:
        return
    says, began, asker = state.answer
    taken = state._replace(answer=None)
    if row.contract.fence is not None and not row.habits.raises_first and asker == state.owner:
        taken = _raised(taken, taken.token)
    if began.now >= max((sent.dispatched * SPAN for sent in state.attempts), default=0):
        vain = says == "inconclusive"
        taken = taken._replace(
            asked=state.asked or not vain,
            cannot_tell=min(state.cannot_tell + 1, recovery.LOOKUPS_WITHOUT_ANSWER) if vain else 0,
        )
    if state.state is OperationState.UNKNOWN:
        taken = _believed(row, taken, says, began)
    yield f"the answer arrives: {says}", taken


def _believed(row: Row, state: State, says: str, began: Moment) -> State:
    unresolved = _unresolved(state)
    if says == "found" and unresolved:
        return _settle(row, state, {unresolved[-1]: Outcome.APPLIED})
    if says == "absent" and recovery.absence_is_proof(record_of(state, row.contract), row.contract, began):
        return _settle(row, state, dict.fromkeys(unresolved, Outcome.NOT_APPLIED))
    return state


def _person(row: Row, state: State) -> Iterator[Step]:
    """A person looks where the request was sent, and uses the verbs of the engine under its guards."""
    record = record_of(state, row.contract)
    then = Moment(_moment(row, state).now, _moment(row, state).owned_for, record.scope)
    if state.hold is recovery.HoldReason.SCOPE_CHANGED:
        yield "a person puts the credentials back", state._replace(account=0, hold=None, owned_since=state.tick)
    if state.state is not OperationState.UNKNOWN:
        return
    unresolved = _unresolved(state)
    fresh = state._replace(token=state.token + 1, owned_since=state.tick)
    if recovery.may_resend(record, row.contract, then) and state.account == 0 and len(state.attempts) < MOST_SENT:
        yield "a person sends again", _dispatch(row, fresh)
    for says in _sees(row, state, 0):
        if says == "found" and unresolved:
            yield "a person says: it happened", _settle(row, fresh, {unresolved[-1]: Outcome.APPLIED})
        elif says == "absent" and recovery.absence_is_proof(record, row.contract, then):
            yield (
                "a person says: it did not happen",
                _settle(row, fresh, dict.fromkeys(unresolved, Outcome.NOT_APPLIED)),
            )


def _takeover(row: Row, state: State) -> Iterator[Step]:
    if state.owner < row.world.takeovers and state.hold is None and state.state not in FINAL_OPERATION_STATES:
        yield (
            f"worker {'ABC'[state.owner + 1]} takes over",
            state._replace(
                owner=state.owner + 1,
                owned_since=state.tick,
                token=state.token + 1,
                state=OPERATION.after(state.state, OperationEvent.TAKE_OVER),
            ),
        )


def _compensation(row: Row, state: State) -> Iterator[Step]:
    """Deleting the object also frees its key at a target that keeps keys by uniqueness alone."""
    if state.state is not OperationState.SUCCEEDED or state.compensated:
        return
    record = record_of(state, row.contract)
    if compensation.to_settle_first([record]):
        return
    if compensation.may_begin_in(record, row.contract, _moment(row, state)) <= 0:
        accounts = tuple(account._replace(key_seen=None) for account in state.accounts)
        yield "compensated", state._replace(compensated=True, accounts=accounts)
