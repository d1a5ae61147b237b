"""What a wait accepts, and the calls that are sent only with an approval: what `run.wait` and `run.do` hand down.

A wait for an approval names one exact call by its digest, and remembers what was given for it, so that `run.do` finds
the wait of the approval that it is handed. Rows of waits are `positions`, checking an approval when it is used is
`rights`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from fencepost.core.approval import Approval, Right, approval_of
from fencepost.core.duration import microseconds
from fencepost.core.errors import ErrorRecord, Misuse, WaitExpired
from fencepost.core.identity import canonical, check_name, digest_text
from fencepost.effects.declare import Bound, Step
from fencepost.effects.values import Door
from fencepost.runtime.taken import described

if TYPE_CHECKING:
    from datetime import timedelta

    from fencepost.core.records import Signal

R = TypeVar("R")

EXPIRED = ErrorRecord.of(WaitExpired, "the wait's time is over")

Granted = dict[str, tuple[Approval, "ApprovalSpec"]]
"""The approvals that a run was given, by their ids, each with its wait."""


class WaitSpec(Generic[R]):
    """What a wait accepts: the type of its signals, how long, and whether its name may be waited for again."""

    __slots__ = ("allows", "door", "fingerprint", "kind", "many", "name", "request", "within")

    def __init__(
        self, name: str, kind: type[R], *, within: int | None, many: bool, allows: str | None = None, also: str = ""
    ) -> None:
        self.name = name
        self.kind = kind
        self.door = Door(kind, where=f"signal {name}")
        self.within = within
        self.allows = allows
        self.many = many
        self.request: str | None = None
        """The arguments of the call that its answer allows, as canonical JSON."""
        asked = [name, within, allows, many]
        self.fingerprint = digest_text(canonical([*asked, also] if also else asked).encode())

    def decode(self, payload: str) -> R:
        """The value that the workflow gets. Raises `ValueRefused` for one of another type."""
        return self.door.decode(payload)  # type: ignore[no-any-return]  # the door reads R

    def result_of(self, signal: Signal) -> str:
        """What the wait's row holds once this signal has closed it."""
        return signal.payload

    def failure_in(self, signal: Signal) -> ErrorRecord | None:  # noqa: ARG002 - only a job can report that it failed
        """The error with which this signal closes the wait; None: with a value."""
        return None

    def due_at(self, now: int) -> int | None:
        """When the wait is over without a signal, if it is opened now."""
        return None if self.within is None else now + self.within

    def over(self, due_at: int, detail: str | None) -> ErrorRecord:  # noqa: ARG002 - only a job can have fallen silent
        """What the workflow is told of a wait that was over at `due_at`, as its row has it."""
        return EXPIRED

    def may_be_put_off(self) -> bool:
        """Whether others may give the wait more time while it is open."""
        return False

    def detail(self, now: int) -> str:  # noqa: ARG002 - only a job's end is an instant
        """What the wait's row says of it while it is open, as JSON; it is opened now."""
        return canonical(
            {"within": self.within, "allows": self.allows, "many": self.many, "takes": described(self.kind)}
        )


class ApprovalSpec(WaitSpec[Approval]):
    """A wait for somebody's approval of one exact call.

    `authorise` is the read that is asked for the persons' rights when the approval is used; `valid_for` how long after
    it was given it may be, in microseconds.
    """

    __slots__ = ("_call", "_granted", "authorise", "valid_for")

    def __init__(
        self,
        name: str,
        granted: Granted,
        call: Bound[Any],
        *,
        run: str,
        turn: int,
        item: str | None,
        within: int | None,
        many: bool,
        authorise: Step[[Right], bool] | None,
        valid_for: int | None,
    ) -> None:
        asker = None if authorise is None else authorise.name
        super().__init__(
            name, Approval, within=within, many=many, allows=call.digest(run, item, turn=turn),
            also=f"{asker}, {valid_for}",
        )  # fmt: skip
        self.authorise = authorise
        self.valid_for = valid_for
        self.request = call.request
        self._granted = granted
        self._call = {"step": call.step.name, "item": item, "version": call.version, "fingerprint": call.fingerprint}

    def decode(self, payload: str) -> Approval:
        """The approval, remembered for its use."""
        approval = super().decode(payload)
        self._granted[approval.id] = (approval, self)
        return approval

    def result_of(self, signal: Signal) -> str:
        """The approval that the signal is: what its sender said, with who and when as the ledger knows them."""
        return self.door.encode(approval_of(signal))

    def detail(self, now: int) -> str:  # noqa: ARG002 - as above
        """What a person is shown: the call, and what is checked when the approval is used."""
        return canonical(
            {
                "within": self.within,
                "allows": self.allows,
                "many": self.many,
                "call": self._call,
                "authorise": None if self.authorise is None else self.authorise.name,
                "valid_for": self.valid_for,
            }
        )


class Approved(Bound[R]):
    """A bound effect that may be sent only with this approval; `spec` is that of its wait, None if the run has none."""

    __slots__ = ("approval", "spec")

    needs_approval = True

    def __init__(self, bound: Bound[R], approval: Approval, spec: ApprovalSpec | None) -> None:
        super().__init__(bound.step, bound.args, bound.kwargs)
        self.performed = True
        self.after = bound.after
        self.approval = approval
        self.spec = spec


def approved(bound: Bound[R], approval: Approval, granted: Granted) -> Approved[R]:
    """The bound effect with the approval that it is to use.

    Raises:
        Misuse: it is no effect, or what is passed is no approval.
    """
    if bound.step.kind != "effect":
        raise Misuse(
            f"{bound.step.name} is a {bound.step.kind}, and only effects are approved", hint="leave approval= out"
        )
    if not isinstance(approval, Approval):
        raise Misuse(
            f"approval= is a {type(approval).__name__}",
            hint="pass what `await run.wait(name, Approval, allows=...)` returned",
        )
    known, spec = granted.get(approval.id, (None, None))
    return Approved(bound, approval, spec if known == approval else None)


def wait_spec(
    granted: Granted,
    run: str,
    name: str,
    kind: type[R],
    *,
    turn: int,
    within: str | timedelta | None,
    many: bool,
    allows: Bound[Any] | None,
    item: str | None,
    authorise: Step[[Right], bool] | None,
    valid_for: str | timedelta | None,
) -> WaitSpec[Any]:
    """What a wait accepts, from what `run.wait` was given.

    Raises:
        Misuse: an approval is waited for without the effect that it allows, or the other way round.
    """
    check_name(name, what="signal name")
    if isinstance(allows, Bound):
        allows.performed = True
    limit = None if within is None else microseconds(within, what="within")
    if kind is not Approval:
        if allows is not None or item is not None or authorise is not None or valid_for is not None:
            raise Misuse(
                f"the wait for {name!r} allows a call, and takes no Approval",
                hint="write run.wait(name, Approval, allows=...), or leave the options of an approval out",
            )
        return WaitSpec(name, kind, within=limit, many=many)
    if not isinstance(allows, Bound) or allows.step.kind != "effect":
        raise Misuse(
            f"the wait for {name!r} does not say which effect its approval allows",
            hint="write run.wait(name, Approval, allows=effect(arguments)), and run.do with the same arguments",
        )
    if authorise is not None and (not isinstance(authorise, Step) or authorise.kind != "read"):
        raise Misuse(
            f"authorise= of the wait for {name!r} is no read",
            hint="declare it with @read: (call, right: Right) -> bool",
        )
    return ApprovalSpec(
        name,
        granted,
        allows,
        run=run,
        turn=turn,
        item=None if item is None else check_name(item, what="item"),
        within=limit,
        many=many,
        authorise=authorise,
        valid_for=None if valid_for is None else microseconds(valid_for, what="valid_for"),
    )
