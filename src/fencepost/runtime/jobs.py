"""A workflow's wait for a job that an outside system has taken over, and what its silence means.

    reported ──▶ the result, or `JobFailed`
    silent   ──▶ ask the target, if the code says how ──▶ found · absent: `JobLost` · cannot tell: wait on
                                                    └── nobody to ask: `HeartbeatLost`, `WaitExpired`

A silent job may have ended, be at work, or never have begun: it is unknown, as an effect without an answer is, and its
effect is not begun anew before that is known (laws 2 and 3). What is reported comes in through `callbacks`; the rows of
waits are `positions`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar

from fencepost.core.approval import Approval
from fencepost.core.callback import failure_in, value_in
from fencepost.core.duration import microseconds
from fencepost.core.errors import (
    ErrorRecord,
    FencepostError,
    HeartbeatLost,
    JobFailed,
    JobLost,
    JobUnknown,
    Misuse,
    StepFailed,
    WaitExpired,
)
from fencepost.core.identity import canonical, check_name
from fencepost.core.position import effect_position
from fencepost.effects.answers import Absent, Found, Inconclusive
from fencepost.effects.declare import Bound, Effect
from fencepost.runtime.taken import described
from fencepost.runtime.waiting import EXPIRED, WaitSpec

if TYPE_CHECKING:
    from datetime import timedelta

    from fencepost.core.driver import Driver
    from fencepost.core.records import Signal

R = TypeVar("R")

LOST = ErrorRecord.of(HeartbeatLost, "the job was not heard of in time")
_FAILED = ErrorRecord.of(JobFailed, "").class_name
_WAIT_ON = "`await run.wait(...)` for it again, which takes a late report, or pass ask= to find out"


class JobSpec(WaitSpec[R]):
    """A wait for the report on a job that `effect` has handed over; its name may be waited for again."""

    __slots__ = ("effect", "heartbeat")

    def __init__(self, name: str, kind: type[R], *, within: int | None, heartbeat: int | None, effect: str) -> None:
        super().__init__(name, kind, within=within, many=True, also=f"job of {effect}, {heartbeat}")
        self.heartbeat = heartbeat
        self.effect = effect

    def result_of(self, signal: Signal) -> str:
        """The result that a report holds. Raises `ValueRefused` for what is no report."""
        value = value_in(signal.payload)
        assert value is not None, "a job that has failed has no result"
        return value

    def failure_in(self, signal: Signal) -> ErrorRecord | None:
        """The error of a job that has failed. Raises `ValueRefused` for what is no report."""
        return failure_in(signal.payload) if value_in(signal.payload) is None else None

    def due_at(self, now: int) -> int | None:
        """When it is over unless something is heard before."""
        return min((now + one for one in (self.within, self.heartbeat) if one is not None), default=None)

    def over(self, due_at: int, detail: str | None) -> ErrorRecord:
        """Whether the whole time was over, or the job has fallen silent."""
        return EXPIRED if self.heartbeat is None or until_in(detail) == due_at else LOST

    def may_be_put_off(self) -> bool:
        """A heartbeat may have come since the wait was read."""
        return self.heartbeat is not None

    def detail(self, now: int) -> str:
        """What its row says while it is open; `until` is when it is over whatever is heard."""
        return canonical(
            {
                "within": self.within,
                "allows": None,
                "many": True,
                "takes": described(self.kind),
                "job": self.effect,
                "heartbeat": self.heartbeat,
                "until": None if self.within is None else now + self.within,
            }
        )


def job_terms(
    name: str,
    kind: type[Any],
    callback: Effect[..., Any] | None,
    *,
    within: str | timedelta | None,
    heartbeat: str | timedelta | None,
    ask: Bound[Any] | None,
    is_plain: bool,
) -> dict[str, Any]:
    """The terms of a wait for a job, from what `run.wait` was given.

    Raises:
        Misuse: it does not say which effect has handed the job over, asks with what is no read, or is for an approval.
    """
    check_name(name, what="callback")
    if isinstance(ask, Bound):
        ask.performed = True
    if not isinstance(callback, Effect):
        raise Misuse(
            f"the wait for {name!r} does not say which effect has handed the job over",
            hint="write run.wait(name, Result, callback=effect, heartbeat=..., ask=...)",
        )
    if not is_plain or kind is Approval:
        raise Misuse(
            f"the wait for {name!r} is for a job and for something else",
            hint="leave allows=, item=, authorise=, valid_for= and many= out; a job's name may be waited for again",
        )
    if ask is not None and (not isinstance(ask, Bound) or ask.step.kind != "read"):
        raise Misuse(
            f"ask= of the wait for {name!r} is no read",
            hint="declare it with @read: (call, ...) -> Found[Result] | Absent | Inconclusive, and pass ask=it(...)",
        )
    return {
        "effect": callback.name,
        "within": None if within is None else microseconds(within, what="within"),
        "heartbeat": None if heartbeat is None else microseconds(heartbeat, what="heartbeat"),
        "ask": ask,
    }


class Jobs:
    """The jobs of one run, as its workflow waits for them."""

    __slots__ = ("_driver", "_unknown")

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._unknown: dict[str, set[str]] = {}
        """The jobs whose silence the workflow was told of, by the effect that has handed them over."""

    async def wait(
        self, name: str, kind: type[R], effect: str, *, within: int | None, heartbeat: int | None,
        ask: Bound[Any] | None,
    ) -> R:  # fmt: skip
        """Wait for the report on a job; see `Run.wait`."""
        driver = self._driver
        began, left = driver.now(), within
        while True:
            spec = JobSpec(name, kind, within=left, heartbeat=heartbeat, effect=effect)
            try:
                result = await driver.wait(name, spec)
            except StepFailed as error:
                silence = self._silence(error, name, effect)
            else:
                self._unknown.get(effect, set()).discard(name)
                return result
            answer = Inconclusive() if ask is None else await self._asked(ask)
            if isinstance(answer, Found):
                found: R = answer.result
                return found
            if isinstance(answer, Absent):
                raise JobLost(f"the job {name!r} fell silent, and is not there", ids=silence.ids)
            left = None if within is None else within - (driver.now() - began)
            if ask is None or isinstance(silence, WaitExpired) or (left is not None and left <= 0):
                self._unknown.setdefault(effect, set()).add(name)
                raise silence

    def _silence(self, error: StepFailed, name: str, effect: str) -> FencepostError:
        """What is told of a wait that ended without a result. Raises what is known of the job."""
        match error.record.class_name:
            case LOST.class_name:
                return HeartbeatLost(f"the job {name!r} was not heard of in time", hint=_WAIT_ON, ids=error.ids)
            case EXPIRED.class_name:
                return WaitExpired(f"nothing came for the job {name!r} in time", hint=_WAIT_ON, ids=error.ids)
            case str() as failed if failed == _FAILED:
                self._unknown.get(effect, set()).discard(name)
                raise JobFailed(error.record.message, ids=error.ids) from None
        raise error

    async def _asked(self, ask: Bound[Any]) -> Any:
        """What the target says of a silent job; one that cannot be asked cannot tell."""
        try:
            answer = await self._driver.do("read", ask.step.name, None, ask)
        except StepFailed as error:
            return Inconclusive(error.record.said)
        if not isinstance(answer, Found | Absent | Inconclusive):
            wrong = Misuse(
                f"{ask.step.name} answered {type(answer).__name__}, not what became of the job",
                hint="let it return Found(result), Absent() or Inconclusive(why)",
            )
            self._driver.fault(wrong)
            raise wrong
        return answer

    def require_known(self, bound: Bound[Any], item: str | None) -> None:
        """Refuse to hand a job over anew while one of the same effect is unknown; what is recorded is no new one.

        Raises:
            JobUnknown: nothing was sent, and the run is held.
        """
        names = self._unknown.get(bound.step.name)
        if not names or not isinstance(bound.step, Effect) or bound.step.contract.repeatable:
            return
        if bound.step.contract.independent or self._driver.has_asked(effect_position(bound.step.name, item)):
            return
        unknown = JobUnknown(
            f"{bound.step.name} would hand a job over while it is not known what became of {', '.join(sorted(names))}",
            hint=f"ask before: {_WAIT_ON}; an effect whose jobs do not stand in for each other is independent=True",
            ids={"run": self._driver.run_id, "step": effect_position(bound.step.name, item)},
        )
        self._driver.fault(unknown)
        raise unknown


def until_in(detail: str | None) -> int | None:
    """When a job's wait is over whatever is heard, as its row says."""
    found = json.loads(detail or "{}").get("until")
    return found if isinstance(found, int) else None
