"""What leading an operation needs done, and what it is answered: the words between `perform` and whoever drives it.

`perform` and `deliberate` yield needs and do nothing themselves; `runtime.performing` meets them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from fencepost.core.records import IN_PROGRESS, KEPT_OUT, REPLAYED_FAILURE, REPLY
from fencepost.core.states import Outcome
from fencepost.effects.answers import Absent, Conflicting, Found, Inconclusive

if TYPE_CHECKING:
    from fencepost.core.classify import Reading
    from fencepost.core.records import Attempt
    from fencepost.effects.entry import Entry, Result
    from fencepost.effects.values import Carried
    from fencepost.store.moves import Move, Observe


class Record(NamedTuple):
    """Make these moves durable before going on."""

    moves: list[Move]
    observations: list[Observe]


class Send(NamedTuple):
    """Run the effect's body once for this attempt; its permission is durable."""

    entry: Entry
    attempt: Attempt


class Ask(NamedTuple):
    """Look up at the target what became of the operation."""

    entry: Entry


class IssueToken(NamedTuple):
    """Take a fresh token for the resource that the operation's request touches; answered None if the run is lost."""

    entry: Entry


class Authorise(NamedTuple):
    """Check the approval under which the operation is to be sent, while nothing of it can have happened.

    Answered None if it may be sent now, the `ErrorRecord` that its workflow is to see if it may not, or a `Conclusion`
    if nobody can say yet.
    """

    entry: Entry


class ReadContained(NamedTuple):
    """Read what of this dispatch's marks is contained now; answered with the containments, none if it may go."""

    entry: Entry


class RaiseFence(NamedTuple):
    """Push a token to the target; answered None, or with why nothing may be concluded from a look-up."""

    entry: Entry
    token: int


class Load(NamedTuple):
    """Read the missing result of an operation that is known to have happened, by its reference."""

    entry: Entry


class Reread(NamedTuple):
    """Take in what others have seen of the operation since its run was loaded; answered None."""

    entry: Entry


class Rest(NamedTuple):
    """Keep the run and come back at `until` (store clock); answered False if it cannot be kept so long."""

    until: int


@dataclass(slots=True)
class Sent:
    """What came of running the body once: a value, or an error with what it proves."""

    evidence: str
    value: Any = None
    error: BaseException | None = None
    reading: Reading | None = None
    sends: int | None = None
    reference: str | None = None
    replayed: bool = False
    cancelled: bool = False
    """Whether the body was told that its run is cancelled, and brought nothing."""
    kept_out: bool = False
    """It was refused because of its credential, and a breaker has opened: what was refused waits for that."""

    @property
    def leaves(self) -> str | None:
        """The kind of observation that it leaves beside its attempt's outcome; None: that says everything."""
        if self.kept_out:
            return KEPT_OUT
        if self.replayed:
            return REPLAYED_FAILURE
        if self.reading is None or self.reading.outcome is not Outcome.UNRESOLVED:
            return None
        return IN_PROGRESS if self.reading.in_progress else REPLY


class Committed(NamedTuple):
    """The value of an atomic body: its writes and its result are in the ledger, recorded at `at`."""

    carried: Carried
    at: int
    outcome: Result


LookedUp = Found[Any] | Absent | Inconclusive | Conflicting
Need = Record | Send | ReadContained | Authorise | IssueToken | RaiseFence | Ask | Load | Reread | Rest
