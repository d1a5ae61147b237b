"""Owns every transition: what each event does to each stored state, "nothing happens" included.

`OPERATION`, `ATTEMPT`, `RUN`, `STEP`, `SIGNAL`, `LEASE` and `RECEIPT` are total tables: each state x event cell is
either the next state, the same state (nothing happens), or illegal. `Table.after` answers a legal cell and raises
`IllegalTransition` for the others, changing nothing. The store's statements, the fault points, the reference and the
explorer all read these tables. Which event an outcome amounts to is folded in `outcome`; nothing here knows time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Generic, TypeVar

from fencepost.core.errors import Misuse
from fencepost.core.states import (
    LeaseState,
    OperationState,
    Outcome,
    ReceiptState,
    RunState,
    SignalState,
    StepState,
)


class IllegalTransition(Misuse):
    """The event cannot happen in this state; the state stays as it was."""


class OperationEvent(StrEnum):
    """What can happen to an operation."""

    RESERVE = "reserve"
    DISPATCH = "dispatch"
    APPLY = "apply"
    RELEASE = "release"
    REFUSE = "refuse"
    LOSE = "lose"
    TAKE_OVER = "take over"
    CANCEL = "cancel"
    RETRY = "retry"
    CONTRADICT = "contradict"
    SETTLE_CONFLICT = "settle conflict"


class AttemptEvent(StrEnum):
    """What evidence says of one attempt."""

    APPLIED = "applied"
    NOT_APPLIED = "not applied"
    CONTRADICT = "contradict"


class RunEvent(StrEnum):
    """What can happen to a run."""

    CLAIM = "claim"
    TAKE_OVER = "take over"
    WAIT = "wait"
    RELEASE = "release"
    HOLD = "hold"
    RESUME = "resume"
    CANCEL = "cancel"
    COMPENSATE = "compensate"
    SUCCEED = "succeed"
    FAIL = "fail"
    CONTINUE = "continue"
    MIGRATE = "migrate"
    END_CANCELLED = "end cancelled"
    TERMINATE = "terminate"
    REOPEN = "reopen"
    END_COMPENSATED = "end compensated"
    END_PARTLY_COMPENSATED = "end partly compensated"
    END_COMPENSATION_FAILED = "end compensation failed"


class StepEvent(StrEnum):
    """What can happen to a recorded position that is not an effect."""

    FINISH = "finish"
    FAIL = "fail"
    CANCEL = "cancel"
    RESUME = "resume"


class SignalEvent(StrEnum):
    """What can happen to a kept signal."""

    APPLY = "apply"
    REFUSE = "refuse"


class LeaseEvent(StrEnum):
    """What can happen to a lease."""

    RENEW = "renew"
    EXPIRE = "expire"
    END = "end"


class ReceiptEvent(StrEnum):
    """What can happen to a key at a receiver."""

    BEGIN = "begin"
    ANSWER = "answer"
    RELEASE = "release"
    LOSE = "lose"
    ASK = "ask"


State = TypeVar("State", bound=StrEnum)
Event = TypeVar("Event", bound=StrEnum)


@dataclass(frozen=True)
class Row(Generic[State, Event]):
    """One legal cell: `event` in `state` (None: no row yet) leads to `to`."""

    table: str
    state: State | None
    event: Event
    to: State

    @cached_property
    def texts(self) -> tuple[str, str, str]:
        """The values of state (or "nothing"), event and next state, as rows and statements hold them."""
        return (self.state.value if self.state is not None else "nothing", self.event.value, self.to.value)

    @property
    def name(self) -> str:
        """The row's name in fault points and diagrams, such as "operation:reserved:dispatch"."""
        return f"{self.table}:{self.state or 'nothing'}:{self.event}"


class Table(Generic[State, Event]):
    """A total transition table over (state or nothing) x event."""

    def __init__(
        self,
        name: str,
        states: type[State],
        events: type[Event],
        cells: Mapping[State | None, Mapping[Event, State]],
    ) -> None:
        self.name = name
        self.states = states
        self.events = events
        self._rows = {
            (state, event): Row(name, state, event, to) for state, row in cells.items() for event, to in row.items()
        }
        missing = set(states) - set(cells)
        if missing:
            raise AssertionError(f"table {name} has no line for {sorted(missing)}")

    def row(self, state: State | None, event: Event) -> Row[State, Event]:
        """The cell; raises `IllegalTransition` where it is illegal."""
        row = self._rows.get((state, event))
        if row is None:
            raise IllegalTransition(
                f"{self.name} in state {state or 'nothing'} cannot {event}",
                hint="read the row again: somebody moved it in between",
            )
        return row

    def after(self, state: State | None, event: Event) -> State:
        """The state after `event`; raises `IllegalTransition` where the cell is illegal."""
        return self.row(state, event).to

    def allows(self, state: State | None, event: Event) -> bool:
        """Whether the cell is legal."""
        return (state, event) in self._rows

    def rows(self) -> Iterator[Row[State, Event]]:
        """Every legal cell, in the order of states and events."""
        for state in (None, *self.states):
            for event in self.events:
                row = self._rows.get((state, event))
                if row is not None:
                    yield row


_O, _OE = OperationState, OperationEvent

OPERATION = Table(
    "operation",
    OperationState,
    OperationEvent,
    {
        None: {_OE.RESERVE: _O.RESERVED, _OE.DISPATCH: _O.DISPATCHED},
        _O.RESERVED: {
            _OE.DISPATCH: _O.DISPATCHED,
            _OE.RELEASE: _O.RESERVED,
            _OE.REFUSE: _O.FAILED,
            _OE.TAKE_OVER: _O.RESERVED,
            _OE.CANCEL: _O.CANCELLED,
            # A refused attempt that later proves applied: nothing more is sent until a person has looked.
            _OE.CONTRADICT: _O.UNKNOWN,
        },
        _O.DISPATCHED: {
            _OE.APPLY: _O.SUCCEEDED,
            _OE.RELEASE: _O.RESERVED,
            _OE.REFUSE: _O.FAILED,
            _OE.LOSE: _O.UNKNOWN,
            _OE.TAKE_OVER: _O.UNKNOWN,
            _OE.CANCEL: _O.DISPATCHED,  # cancel proves nothing about what was sent
            _OE.CONTRADICT: _O.DISPATCHED,
            _OE.SETTLE_CONFLICT: _O.UNKNOWN,  # its run is held, so nobody sends; what the person says comes next
        },
        _O.UNKNOWN: {
            _OE.DISPATCH: _O.DISPATCHED,  # under its own key, or after proof of absence
            _OE.APPLY: _O.SUCCEEDED,
            _OE.RELEASE: _O.RESERVED,
            _OE.REFUSE: _O.FAILED,
            _OE.LOSE: _O.UNKNOWN,
            _OE.TAKE_OVER: _O.UNKNOWN,
            _OE.CANCEL: _O.UNKNOWN,
            _OE.CONTRADICT: _O.UNKNOWN,
            _OE.SETTLE_CONFLICT: _O.UNKNOWN,
        },
        _O.SUCCEEDED: {
            _OE.APPLY: _O.SUCCEEDED,
            _OE.LOSE: _O.SUCCEEDED,
            _OE.TAKE_OVER: _O.SUCCEEDED,
            _OE.CANCEL: _O.SUCCEEDED,
            _OE.CONTRADICT: _O.SUCCEEDED,  # the flag is raised, the state stays
            _OE.SETTLE_CONFLICT: _O.SUCCEEDED,  # the flag is taken down: the target was put right
        },
        _O.FAILED: {
            _OE.LOSE: _O.FAILED,
            _OE.TAKE_OVER: _O.FAILED,
            _OE.CANCEL: _O.FAILED,
            _OE.RETRY: _O.RESERVED,  # a person's verb, with a new budget
            _OE.CONTRADICT: _O.FAILED,
            _OE.SETTLE_CONFLICT: _O.FAILED,
        },
        _O.CANCELLED: {
            _OE.RESERVE: _O.RESERVED,  # its workflow asks for it after all
            _OE.TAKE_OVER: _O.CANCELLED,
            _OE.CANCEL: _O.CANCELLED,
            _OE.CONTRADICT: _O.CANCELLED,
            _OE.SETTLE_CONFLICT: _O.CANCELLED,
        },
    },
)

_A, _AE = Outcome, AttemptEvent

ATTEMPT = Table(
    "attempt",
    Outcome,
    AttemptEvent,
    {
        None: {},
        _A.UNRESOLVED: {
            _AE.APPLIED: _A.APPLIED,
            _AE.NOT_APPLIED: _A.NOT_APPLIED,
            _AE.CONTRADICT: _A.UNRESOLVED,
        },
        _A.APPLIED: {_AE.APPLIED: _A.APPLIED, _AE.CONTRADICT: _A.UNRESOLVED},
        _A.NOT_APPLIED: {_AE.NOT_APPLIED: _A.NOT_APPLIED, _AE.CONTRADICT: _A.UNRESOLVED},
    },
)

_R, _RE = RunState, RunEvent

_ENDS = {
    _RE.END_COMPENSATED: _R.COMPENSATED,
    _RE.END_PARTLY_COMPENSATED: _R.PARTLY_COMPENSATED,
    _RE.END_COMPENSATION_FAILED: _R.COMPENSATION_FAILED,
}

RUN = Table(
    "run",
    RunState,
    RunEvent,
    {
        None: {_RE.RELEASE: _R.READY, _RE.CLAIM: _R.RUNNING},
        _R.READY: {
            _RE.CLAIM: _R.RUNNING,
            _RE.CANCEL: _R.CANCELLING,
            _RE.TERMINATE: _R.TERMINATED,
            _RE.HOLD: _R.HELD,
            _RE.MIGRATE: _R.READY,
        },
        _R.RUNNING: {
            _RE.TAKE_OVER: _R.RUNNING,
            _RE.WAIT: _R.WAITING,
            _RE.RELEASE: _R.READY,
            _RE.HOLD: _R.HELD,
            _RE.CANCEL: _R.CANCELLING,
            _RE.COMPENSATE: _R.COMPENSATING,
            _RE.SUCCEED: _R.SUCCEEDED,
            _RE.FAIL: _R.FAILED,
            _RE.CONTINUE: _R.CONTINUED,  # the next turn is another row, written in the same commit
            _RE.MIGRATE: _R.READY,
            _RE.TERMINATE: _R.TERMINATED,
        },
        _R.WAITING: {
            _RE.CLAIM: _R.RUNNING,
            _RE.RELEASE: _R.READY,  # a person does not want to wait for the next look-up
            _RE.CANCEL: _R.CANCELLING,
            _RE.TERMINATE: _R.TERMINATED,
            _RE.HOLD: _R.HELD,
            _RE.MIGRATE: _R.READY,
        },
        _R.HELD: {
            _RE.RESUME: _R.READY,
            _RE.CANCEL: _R.CANCELLING,
            _RE.COMPENSATE: _R.COMPENSATING,
            _RE.TERMINATE: _R.TERMINATED,
            _RE.HOLD: _R.HELD,
            _RE.MIGRATE: _R.HELD,
        },
        _R.CANCELLING: {
            _RE.CLAIM: _R.CANCELLING,
            _RE.TAKE_OVER: _R.CANCELLING,
            _RE.WAIT: _R.CANCELLING,
            _RE.RELEASE: _R.CANCELLING,
            _RE.HOLD: _R.HELD,
            _RE.CANCEL: _R.CANCELLING,
            _RE.COMPENSATE: _R.COMPENSATING,
            _RE.END_CANCELLED: _R.CANCELLED,
            _RE.MIGRATE: _R.CANCELLING,
            _RE.TERMINATE: _R.TERMINATED,
        },
        _R.COMPENSATING: {
            _RE.CLAIM: _R.COMPENSATING,
            _RE.TAKE_OVER: _R.COMPENSATING,
            _RE.WAIT: _R.COMPENSATING,
            _RE.RELEASE: _R.COMPENSATING,
            _RE.HOLD: _R.HELD,
            _RE.COMPENSATE: _R.COMPENSATING,
            _RE.MIGRATE: _R.COMPENSATING,
            _RE.TERMINATE: _R.TERMINATED,
            **_ENDS,
        },
        # Reopened, a run replays what it has and goes on from there: nothing that is answered is asked again.
        _R.SUCCEEDED: {_RE.COMPENSATE: _R.COMPENSATING, _RE.REOPEN: _R.READY},
        _R.FAILED: {
            _RE.RESUME: _R.READY,
            _RE.COMPENSATE: _R.COMPENSATING,
            _RE.MIGRATE: _R.FAILED,
            _RE.TERMINATE: _R.TERMINATED,
        },
        _R.CANCELLED: {_RE.COMPENSATE: _R.COMPENSATING, _RE.REOPEN: _R.READY},
        _R.TERMINATED: {_RE.COMPENSATE: _R.COMPENSATING, _RE.REOPEN: _R.READY},
        # Only with a new decision under which nothing stands that it does not know of: see `runtime.redeciding`.
        _R.COMPENSATED: {_RE.REOPEN: _R.READY},
        _R.PARTLY_COMPENSATED: {_RE.COMPENSATE: _R.COMPENSATING},
        _R.COMPENSATION_FAILED: {_RE.COMPENSATE: _R.COMPENSATING},
        _R.CONTINUED: {},
    },
)

_S, _SE = StepState, StepEvent

STEP = Table(
    "step",
    StepState,
    StepEvent,
    {
        None: {},
        _S.OPEN: {_SE.FINISH: _S.DONE, _SE.FAIL: _S.FAILED, _SE.CANCEL: _S.CANCELLED},
        _S.DONE: {_SE.CANCEL: _S.DONE},
        _S.FAILED: {_SE.CANCEL: _S.FAILED, _SE.RESUME: _S.OPEN},
        # Withdrawn by a completion that a resume has taken back, and asked for again.
        _S.CANCELLED: {_SE.CANCEL: _S.CANCELLED, _SE.RESUME: _S.OPEN},
    },
)

SIGNAL = Table(
    "signal",
    SignalState,
    SignalEvent,
    {
        None: {},
        SignalState.KEPT: {SignalEvent.APPLY: SignalState.APPLIED, SignalEvent.REFUSE: SignalState.REFUSED},
        SignalState.APPLIED: {},
        SignalState.REFUSED: {},
    },
)

LEASE = Table(
    "lease",
    LeaseState,
    LeaseEvent,
    {
        None: {},
        LeaseState.LIVE: {
            LeaseEvent.RENEW: LeaseState.LIVE,
            LeaseEvent.EXPIRE: LeaseState.EXPIRED,
            LeaseEvent.END: LeaseState.ENDED,
        },
        LeaseState.EXPIRED: {},
        LeaseState.ENDED: {},
    },
)

TABLES: tuple[Table, ...] = (OPERATION, ATTEMPT, RUN, STEP, SIGNAL, LEASE)  # type: ignore[type-arg]  # each table has its own states and events
"""The tables of the ledger; each of their rows is a point at which a test kills a process."""

_K, _KE = ReceiptState, ReceiptEvent

RECEIPT = Table(
    "receipt",
    ReceiptState,
    ReceiptEvent,
    {
        # Answered at once: written whole, in the handler's own transaction.
        None: {_KE.BEGIN: _K.IN_PROGRESS, _KE.ANSWER: _K.ANSWERED},
        _K.IN_PROGRESS: {
            _KE.ANSWER: _K.ANSWERED,
            _KE.RELEASE: _K.FREE,
            _KE.LOSE: _K.UNKNOWN,
            # Only once its time is over: somebody else asks what became of it.
            _KE.ASK: _K.IN_PROGRESS,
        },
        # Only once its window is over: then the key means a new request.
        _K.ANSWERED: {_KE.BEGIN: _K.IN_PROGRESS, _KE.ANSWER: _K.ANSWERED},
        _K.UNKNOWN: {_KE.ASK: _K.IN_PROGRESS, _KE.ANSWER: _K.ANSWERED, _KE.RELEASE: _K.FREE},
        _K.FREE: {_KE.BEGIN: _K.IN_PROGRESS, _KE.ANSWER: _K.ANSWERED},
    },
)
"""A receiver's keys; they are kept in a store of their own (`receiving`)."""
