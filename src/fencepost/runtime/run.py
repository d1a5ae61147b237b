"""What a workflow's body speaks: `Run`, the whole language in which it orders steps.

Every method returns something to await and records nothing by itself; the driver in `core` hands it up, `execution`
performs it. `Run` is small on purpose: another engine can implement the same names.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from fencepost.core.duration import SECOND, microseconds
from fencepost.core.errors import (
    ApprovalRefused,
    ChildFailed,
    CompensationIncomplete,
    ErrorRecord,
    Misuse,
    RunNotFound,
    StepFailed,
    WaitExpired,
)
from fencepost.core.identity import check_name
from fencepost.core.position import FORWARD
from fencepost.core.schedule import instant_in
from fencepost.effects.declare import Bound, Effect, Step
from fencepost.effects.values import Door
from fencepost.runtime.ends import UNKNOWN, EndedRun, end_spec
from fencepost.runtime.jobs import Jobs, job_terms
from fencepost.runtime.report import CompensationReport
from fencepost.runtime.resting import RestsOn, named
from fencepost.runtime.waiting import EXPIRED, Granted, approved, wait_spec

if TYPE_CHECKING:
    import uuid as uuids

    from fencepost.core.approval import Approval, Right
    from fencepost.core.draws import Draws
    from fencepost.core.driver import Driver
    from fencepost.runtime.workflow import Workflow

R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")

Duration = str | timedelta


class ContinueAs:
    """What a workflow returns so that its run goes on with a fresh history; made by `run.continue_as`."""

    __slots__ = ("args", "kwargs")

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.args = args
        self.kwargs = kwargs


class Run:
    """The run as its workflow sees it."""

    __slots__ = ("_driver", "_granted", "_jobs", "_principal", "id")

    def __init__(self, driver: Driver, principal: str | None) -> None:
        self._driver = driver
        self._principal = principal
        self._granted: Granted = {}
        self._jobs: Jobs | None = None
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

    def do(
        self,
        bound: Bound[R],
        *,
        item: str | None = None,
        approval: Approval | None = None,
        after: Iterable[RestsOn] = (),
    ) -> Awaitable[R]:
        """Perform a step and return its result.

        `item` tells repetitions of one effect apart (`item=line.id`): met again with the same item and parameters it
        returns the recorded result. `approval` is what `run.wait(name, Approval, allows=...)` returned for this very
        effect, item and arguments: it is checked just before the effect is sent, and used by it. `after` names the
        effects that this one rests on, `after=[reserve, (charge, line.id)]`: they are compensated only when this one
        has been. It is kept with the effect, and changes nothing of when it is sent.

        Raises:
            StepFailed: the step failed for good, proved not to have happened.
            ApprovalRefused: the approval does not allow it, `refusal` says why; nothing was sent.
            JobUnknown: it would hand over anew a job of whose silence the workflow was told; the run is held.
        """
        if not isinstance(bound, Bound):
            raise Misuse(
                f"run.do takes a bound step, not {type(bound).__name__}", hint="write `await run.do(step(arguments))`"
            )
        bound.performed = True
        step = bound.step
        if item is not None:
            item = check_name(item, what="item")
        if after:
            bound.after = named(bound, after)
        if self._jobs is not None:
            self._jobs.require_known(bound, item)
        if approval is not None:
            return _approving(self._driver.do(step.kind, step.name, item, approved(bound, approval, self._granted)))
        return self._driver.do(step.kind, step.name, item, bound)

    def forward(self, bound: Bound[R], *, item: str | None = None) -> Awaitable[R]:
        """Do what a step that failed was to do by the other way that its effect declares (`forward=`).

        `bound` and `item` are those of the `run.do` that has raised. The other effect has the same arguments and a key
        of its own. To go back instead, write `await run.compensate(...)`: a run that goes back does not go forward too,
        and is held if it tries to, as it is if the effect was not proved to have failed.

        Raises:
            StepFailed: the other way failed for good as well.
        """
        other = bound.step.declared.forward if isinstance(bound.step, Effect) else None
        bound.performed = True
        if other is None:
            raise Misuse(f"{bound.step.name} declares no other way", hint="declare it: @effect(forward=...)")
        call = Bound(other, bound.args, bound.kwargs)
        call.performed = True
        item = None if item is None else check_name(item, what="item")
        return self._driver.do("effect", FORWARD + bound.step.name, item, call)

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
        callback: Effect[..., Any] | None = None,
        heartbeat: Duration | None = None,
        ask: Bound[Any] | None = None,
    ) -> Awaitable[R]:
        """Wait for a signal of that name and return its value, of type `kind`.

        A signal that came before is taken at once. `many`: the name may be waited for again.

        With `Approval` as the type, a person's answer to one exact call is waited for. `allows` is that call, an effect
        with its arguments, and `item` the item with which it will be done; `authorise` a read `(call, right) -> bool`,
        asked when the approval is used whether the approver and the run's principal may still have this done;
        `valid_for` how long after it was given it may be used.

        With `callback`, the report on a job is waited for that this effect has handed to an outside system, together
        with the token of that name (`call.callback(name)`). `heartbeat` is how long the job may be silent;
        `app.heartbeat` gives it that time once more. `ask` is a read that returns `Found(result)`, `Absent()` or
        `Inconclusive(why)`: what has become of a job that has fallen silent. It is waited for on while that cannot be
        told, up to `within`.

        Raises:
            WaitExpired: nothing came `within` that time.
            HeartbeatLost: the job fell silent, and there is no `ask`; what became of it is not known.
            JobFailed: the job reported that it has failed.
            JobLost: `ask` answered that there is no such job.
        """
        if callback is not None or heartbeat is not None or ask is not None:
            is_plain = allows is None and item is None and authorise is None and valid_for is None and not many
            terms = job_terms(name, kind, callback, within=within, heartbeat=heartbeat, ask=ask, is_plain=is_plain)
            self._jobs = self._jobs or Jobs(self._driver)
            return self._jobs.wait(name, kind, **terms)
        spec = wait_spec(
            self._granted, self.id, name, kind, turn=self._driver.turn, within=within, many=many, allows=allows,
            item=item, authorise=authorise, valid_for=valid_for,
        )  # fmt: skip
        return _expiring(self._driver.wait(name, spec), name)

    def ended(self, run_id: str, *, within: Duration | None = None) -> Awaitable[EndedRun]:
        """Wait until another run has ended, one that is no child of this run, and say how: meanwhile this run is a row.

        One that has ended before is told at once. A run that is held has not ended. Of one that goes on in turns it is
        the end of the last.

        Raises:
            RunNotFound: no run has this id.
            WaitExpired: it did not end `within` that time.
        """
        spec = end_spec(self.id, run_id, None if within is None else microseconds(within, what="within"))
        return _of_other(_expiring(self._driver.wait(spec.name, spec), spec.name), run_id)

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

    @overload
    def child(
        self, workflow: Workflow[..., R], /, *args: Any, id: str, detached: Literal[False] = False, **kwargs: Any
    ) -> Awaitable[R]: ...
    @overload
    def child(
        self, workflow: Workflow[..., Any], /, *args: Any, id: str, detached: Literal[True], **kwargs: Any
    ) -> Awaitable[str]: ...
    def child(
        self, workflow: Workflow[..., Any], /, *args: Any, id: str, detached: bool = False, **kwargs: Any
    ) -> Awaitable[Any]:
        """Start a run of another workflow and wait for its result.

        It acts for the same principal, and is this run's child: a cancel of this run cancels it too, a compensation
        compensates it too, and this run ends only when it has ended. `detached`: only start it; the answer is its id,
        and what becomes of it is no matter of this run's.

        Args:
            workflow: one of the app's workflows; the child is pinned to its version.
            *args: its arguments, and
            **kwargs: by name.
            id: of the child, from its own business event, as `app.start` takes one.
            detached: whether this run goes on at once.

        Raises:
            ChildFailed: it failed, or was cancelled, terminated or compensated; `child` is its id.
        """
        from fencepost.runtime.children import ChildCall
        from fencepost.runtime.workflow import Workflow

        if not isinstance(workflow, Workflow):
            raise Misuse(f"{workflow!r} is no workflow", hint="pass the function that @workflow() decorates")
        call = ChildCall(workflow, args, kwargs, id=id, detached=detached)
        return _of_child(self._driver.child(workflow.name, call), call.id)

    def continue_as(self, *args: Any, **kwargs: Any) -> R:  # type: ignore[type-var]  # it stands for what is returned
        """Go on as a new turn, called with these arguments: `return run.continue_as(page + 1)`.

        The next turn begins with an empty history under the same run id, so that a run may go on for ever. Nothing is
        carried over but the arguments and the signals that no wait has taken. What this turn has done stands, and is
        compensated with the run, behind what the turns after it have done. It ends when everything of it is known and
        its children have ended.
        """
        return ContinueAs(args, kwargs)  # type: ignore[return-value]  # as above

    def compensate(self, *, reason: str) -> Awaitable[CompensationReport]:
        """Make this run's effects acceptable, the last one first; returns the report.

        What rests on others (`run.do(..., after=...)`) comes before them; those of earlier turns come last. What may
        have happened is settled before anything else, and what other branches would begin waits until it is over.

        Raises:
            CompensationIncomplete: at least one compensation failed, was refused or could not be tried.
        """
        return _complete(self._driver.compensate(reason, CompensationReport.from_text))

    def patched(self, patch: str) -> bool:
        """Whether this run goes the way of changed code: `if run.patched("charge in cents"): ... else: ...`.

        Recorded the first time it is asked. False for a run that passed this place before the change was made, which
        goes on as it began; true for every other, now and in each replay.
        """
        return self._driver.patched(check_name(patch, what="patch"))

    def deprecated(self, patch: str) -> None:
        """Say that the old way of a patch is gone from the code, in place of `patched`.

        To be written once no run of before the patch is left; to be deleted once no run is left that has recorded it.
        """
        self._driver.deprecated(check_name(patch, what="patch"))

    def progress(self, value: Any) -> None:
        """Say how far the run is, for people: `fencepost show` prints the last value, of any plain type.

        Costs no commit of its own: it goes with the next one. It is no part of the history, and no code reads it back.
        """
        self._driver.report(Door(Any if value is None else type(value), where="progress").encode(value))

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


async def _of_child(child: Awaitable[R], id: str) -> R:
    try:
        return await child
    except StepFailed as error:
        raise ChildFailed(error.record, child=id, ids=error.ids) from None


async def _of_other(wait: Awaitable[EndedRun], run_id: str) -> EndedRun:
    try:
        return await wait
    except StepFailed as error:
        if error.record.class_name == UNKNOWN.class_name:
            raise RunNotFound(error.record.message, hint="start it first", ids=error.ids | {"other": run_id}) from None
        raise


async def _complete(compensation: Awaitable[CompensationReport]) -> CompensationReport:
    report = await compensation
    if not report.complete:
        raise CompensationIncomplete(report.summary(), hint="the effects named stand; an operator can retry each")
    return report


UNAPPROVED = ErrorRecord.of(ApprovalRefused, "").class_name
