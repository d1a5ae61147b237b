"""What a workflow's body speaks: `Run`, the whole language in which it orders steps.

Every method returns something to await and records nothing by itself; the driver in `core` hands it up, `execution`
performs it. `Run` is small on purpose: another engine can implement the same names.
"""

from __future__ import annotations

from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar, overload

from fencepost.core.duration import SECOND, microseconds
from fencepost.core.errors import ApprovalRefused, CompensationIncomplete, ErrorRecord, Misuse, StepFailed, WaitExpired
from fencepost.core.identity import check_name
from fencepost.core.schedule import instant_in
from fencepost.effects.declare import Bound, Step
from fencepost.runtime.report import CompensationReport
from fencepost.runtime.waiting import Granted, approved, wait_spec

if TYPE_CHECKING:
    import uuid as uuids

    from fencepost.core.approval import Approval, Right
    from fencepost.core.draws import Draws
    from fencepost.core.driver import Driver

R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")

Duration = str | timedelta


class Run:
    """The run as its workflow sees it."""

    __slots__ = ("_driver", "_granted", "_principal", "id")

    def __init__(self, driver: Driver, principal: str | None) -> None:
        self._driver = driver
        self._principal = principal
        self._granted: Granted = {}
        self.id = driver.run_id
        """The run's id."""

    @property
    def principal(self) -> str | None:
        """On whose behalf the run acts."""
        return self._principal

    @property
    def scheduled_for(self) -> datetime | None:
        """The instant for which a schedule has started the run, in the schedule's zone; None if none has.

        What a nightly report reports on is taken from here, not from a clock: a run that was caught up stands for its
        own night.
        """
        return instant_in(self.id)

    def do(self, bound: Bound[R], *, item: str | None = None, approval: Approval | None = None) -> Awaitable[R]:
        """Perform a step and return its result.

        `item` tells repetitions of one effect apart (`item=line.id`): met again with the same item and parameters it
        returns the recorded result. `approval` is what `run.wait(name, Approval, allows=...)` returned for this very
        effect, item and arguments: it is checked just before the effect is sent, and used by it.

        Raises:
            StepFailed: the step failed for good, proved not to have happened.
            ApprovalRefused: the approval does not allow it, `refusal` says why; nothing was sent.
        """
        if not isinstance(bound, Bound):
            raise Misuse(
                f"run.do takes a bound step, not {type(bound).__name__}", hint="write `await run.do(step(arguments))`"
            )
        bound.performed = True
        step = bound.step
        if item is not None:
            item = check_name(item, what="item")
        if approval is not None:
            return _approving(self._driver.do(step.kind, step.name, item, approved(bound, approval, self._granted)))
        return self._driver.do(step.kind, step.name, item, bound)

    def wait(
        self,
        name: str,
        kind: type[R],
        *,
        within: Duration | None = None,
        many: bool = False,
        allows: Bound[Any] | None = None,
        item: str | None = None,
        authorise: Step[[Right], bool] | None = None,
        valid_for: Duration | None = None,
    ) -> Awaitable[R]:
        """Wait for a signal of that name and return its value, of type `kind`.

        A signal that came before is taken at once. `many`: the name may be waited for again.

        With `Approval` as the type, a person's answer to one exact call is waited for. `allows` is that call, an effect
        with its arguments, and `item` the item with which it will be done; `authorise` a read `(call, right) -> bool`,
        asked when the approval is used whether the approver and the run's principal may still have this done;
        `valid_for` how long after it was given it may be used.

        Raises:
            WaitExpired: nothing came `within` that time.
        """
        spec = wait_spec(
            self._granted, self.id, name, kind, within=within, many=many, allows=allows, item=item,
            authorise=authorise, valid_for=valid_for,
        )  # fmt: skip
        return _expiring(self._driver.wait(name, spec), name)

    def sleep(self, duration: Duration) -> Awaitable[None]:
        """Go on after that time; meanwhile the run is a row."""
        return self._driver.sleep(microseconds(duration))

    @overload
    def gather(self, one: Awaitable[R], /) -> Awaitable[tuple[R]]: ...
    @overload
    def gather(self, one: Awaitable[R], two: Awaitable[S], /) -> Awaitable[tuple[R, S]]: ...
    @overload
    def gather(self, one: Awaitable[R], two: Awaitable[S], three: Awaitable[T], /) -> Awaitable[tuple[R, S, T]]: ...
    @overload
    def gather(self, *branches: Awaitable[R]) -> Awaitable[tuple[R, ...]]: ...
    def gather(self, *branches: Awaitable[Any]) -> Awaitable[tuple[Any, ...]]:
        """Do several things side by side; returns their results once all have settled, or raises the first error."""
        return self._driver.gather(*branches)

    def race(self, *branches: Awaitable[R]) -> Awaitable[tuple[int, R]]:
        """Do several things side by side until one ends; returns its index and result. The others are cancelled."""
        return self._driver.race(*branches)

    def compensate(self, *, reason: str) -> Awaitable[CompensationReport]:
        """Make this run's effects acceptable, the last one first; returns the report.

        Raises:
            CompensationIncomplete: at least one compensation failed or could not be tried.
        """
        return _complete(self._driver.compensate(reason, CompensationReport.from_text))

    def now(self) -> datetime:
        """When the last answer was delivered: the same on every replay."""
        return datetime.fromtimestamp(self._driver.now() / SECOND, UTC)

    def uuid(self) -> uuids.UUID:
        """An id that is the same on every replay."""
        return self._driver.uuid()

    def random(self) -> Draws:
        """Draws that are the same on every replay."""
        return self._driver.random()


async def _expiring(wait: Awaitable[R], name: str) -> R:
    try:
        return await wait
    except StepFailed as error:
        if error.record.class_name == EXPIRED.class_name:
            raise WaitExpired(
                f"nothing came for {name!r} in time", hint="signal it earlier, or wait longer", ids=error.ids
            ) from None
        raise


async def _approving(effect: Awaitable[R]) -> R:
    try:
        return await effect
    except StepFailed as error:
        if error.record.class_name == UNAPPROVED:
            refusal, _, _ = error.record.message.partition(":")
            raise ApprovalRefused(error.record.message, refusal=refusal, ids=error.ids) from None
        raise


async def _complete(compensation: Awaitable[CompensationReport]) -> CompensationReport:
    report = await compensation
    if not report.complete:
        raise CompensationIncomplete(report.summary(), hint="the effects named stand; an operator can retry each")
    return report


EXPIRED = ErrorRecord.of(WaitExpired, "the wait's time is over")
UNAPPROVED = ErrorRecord.of(ApprovalRefused, "").class_name
