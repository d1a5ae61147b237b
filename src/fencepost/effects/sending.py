"""Runs a step's body once and reads what came of it: a value, or an error with what it proves.

An error of `call.http` or `call.sending()` that the body lets through carries its proof; errors of well-known clients
are read by `classifiers`; anything else that a body raises after dispatch leaves the attempt unresolved. Nothing is
retried here. Leading the operation on is `perform`.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
from concurrent.futures import Executor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fencepost.core.classify import Reading, read_error
from fencepost.core.duration import SECOND
from fencepost.core.errors import FenceRefused, NotSent
from fencepost.core.identity import canonical
from fencepost.core.records import RUNS_ON
from fencepost.core.states import Outcome
from fencepost.effects.answers import Absent, Conflicting, Found, Inconclusive
from fencepost.effects.attempting import Attempting
from fencepost.effects.call import Call, SyncCall
from fencepost.effects.classifiers import read_client_error
from fencepost.effects.failures import error_record
from fencepost.effects.needs import LookedUp, Sent
from fencepost.effects.overdue import Overdue

if TYPE_CHECKING:
    from collections.abc import Callable

    from fencepost.core.fence import Fence
    from fencepost.effects.declare import Bound, Effect

RETURNED = canonical({"kind": "returned"})
"""The evidence of a body that returned and let us see no reply: its own word."""

CANCEL_WITHIN = 10 * SECOND
"""Microseconds that the target has to answer a cancel: it holds up nothing, and only the end of its worker waits."""


async def run_async(bound: Bound[Any], attempting: Attempting, executor: Executor, overdue: Overdue) -> Sent:
    """Run the body in this event loop, or in `executor` if it is a plain function, bounded by the attempt timeout."""
    step = bound.step
    try:
        with overdue.bounded(step.attempt_timeout / SECOND, attempting):
            if step.is_async:
                value = await step.body(Call(attempting), *bound.args, **bound.kwargs)
            else:
                body = attempting.transacted or step.body
                value = await _in_thread(executor, body, attempting, bound.args, bound.kwargs)
    except BaseException as error:
        if is_told_to_stop(error):
            raise
        return failed(attempting, error)
    return returned(attempting, value)


def is_told_to_stop(error: BaseException) -> bool:
    """Whether somebody ends this task or process; all else that a body raises is read, never guessed about.

    A cancel that the body itself brought, such as that of a task which it awaited, is an error like others.
    """
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is None or task.cancelling() > 0
    return isinstance(error, KeyboardInterrupt | GeneratorExit)


async def raise_async(fence: Fence, resource: str, token: int, within: int, executor: Executor) -> str | None:
    """Push a token to the target within so many microseconds; None, or why it is not certain that it is there."""
    raising = fence.raise_to
    try:
        async with asyncio.timeout(within / SECOND):
            if asyncio.iscoroutinefunction(raising):
                await raising(resource, token)
            else:
                await asyncio.get_running_loop().run_in_executor(executor, raising, resource, token)
    except BaseException as error:
        if is_told_to_stop(error):
            raise
        record = error_record(error)
        return f"the token could not be raised at {fence.name}: {record.class_name}: {record.message}"
    return None


async def load_async(
    load: Callable[..., Any], reference: str, attempting: Attempting, executor: Executor, overdue: Overdue
) -> Sent:
    """Read a result by its reference."""
    try:
        with overdue.bounded(attempting.contract.timeout / SECOND, attempting):
            if asyncio.iscoroutinefunction(load):
                value = await load(Call(attempting), reference)
            else:
                value = await _in_thread(executor, load, attempting, (reference,), {})
    except BaseException as error:
        if is_told_to_stop(error):
            raise
        return failed(attempting, error)
    return returned(attempting, value)


async def _in_thread(
    executor: Executor, body: Callable[..., Any], attempting: Attempting, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    context = contextvars.copy_context()
    work = executor.submit(context.run, functools.partial(body, SyncCall(attempting), *args, **kwargs))
    attempting.thread = work
    try:
        return await asyncio.wrap_future(work)
    except asyncio.CancelledError:
        # A thread cannot be stopped. What it brings after its time is no answer any more, but it is evidence.
        if not work.cancel():
            if attempting.late is not None:
                work.add_done_callback(attempting.late)
            attempting.is_left()
        raise


async def cancel_async(  # noqa: PLR0917 - as the others here, and what is asked about
    effect: Effect[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    attempting: Attempting,
    executor: Executor,
    overdue: Overdue,
) -> Sent:
    """Ask the target to cancel; what it answers is kept, and proves nothing."""
    cancel = effect.declared.cancel
    assert cancel is not None, "only a declared hook is called"
    try:
        with overdue.bounded(CANCEL_WITHIN / SECOND, attempting):
            if asyncio.iscoroutinefunction(cancel):
                value = await cancel(Call(attempting), *args, **kwargs)
            else:
                value = await _in_thread(executor, cancel, attempting, args, kwargs)
    except BaseException as error:
        if is_told_to_stop(error):
            raise
        return failed(attempting, error)
    return returned(attempting, value)


def returned(attempting: Attempting, value: Any) -> Sent:
    """What a body that returned proves: applied, with the raw reply as evidence where we saw one."""
    evidence = RETURNED if attempting.evidence is None else canonical(attempting.evidence)
    return Sent(evidence, value=value, sends=attempting.sends, reference=attempting.reference)


def failed(attempting: Attempting, error: BaseException) -> Sent:
    """What a body that raised proves."""
    reading = _reading(attempting, error)
    evidence = dict(attempting.evidence or {"kind": "raised"})
    record = error_record(error)
    evidence["error"] = {"class": record.class_name, "message": record.message[:500]}
    if attempting.thread is not None and not attempting.thread.done():
        evidence["thread"] = RUNS_ON
    if attempting.sends is not None and attempting.sends > 1:
        evidence["sends"] = attempting.sends  # an attempt that stays unresolved has no other place for it
    return Sent(
        canonical(evidence),
        error=error,
        reading=reading,
        sends=attempting.sends,
        reference=attempting.reference,
        replayed=attempting.replayed or reading.replayed,
    )


def _reading(attempting: Attempting, error: BaseException) -> Reading:
    proof = attempting.proof_in(error)
    if proof is not None:
        return proof
    if isinstance(error, NotSent):
        return Reading(Outcome.NOT_APPLIED, retryable=False)
    if isinstance(error, FenceRefused) and attempting.left <= 1:
        return read_error(error, nothing_left=False)
    known = read_client_error(error, attempting.contract, now=attempting.site.now())
    if known is not None:
        # It was not inside `call.sending()`, so nobody counted what else the body sent: a pause, but no proof.
        return replace(known, outcome=Outcome.UNRESOLVED)
    return read_error(error, nothing_left=False)


# -- look-ups -----------------------------------------------------------------------------------------------------


async def look_up_async(bound: Bound[Any], attempting: Attempting, executor: Executor, overdue: Overdue) -> LookedUp:
    """Ask the target; whatever is not an answer is `Inconclusive`."""
    reconcile, args, kwargs = bound.effect.declared.reconcile, bound.args, bound.kwargs
    assert reconcile is not None, "only a declared look-up is asked for"
    try:
        with overdue.bounded(attempting.contract.timeout / SECOND, attempting):
            if asyncio.iscoroutinefunction(reconcile):
                answer = await reconcile(Call(attempting), *args, **kwargs)
            else:
                answer = await _in_thread(executor, reconcile, attempting, args, kwargs)
    except BaseException as error:
        if is_told_to_stop(error):
            raise
        record = error_record(error)  # a look-up that raises has not answered
        return Inconclusive(f"{record.class_name}: {record.message}")
    return _answer(answer)


def _answer(answer: object) -> LookedUp:
    if isinstance(answer, Found | Absent | Inconclusive | Conflicting):
        return answer
    return Inconclusive(f"the look-up returned {type(answer).__name__}, not Found, Absent or Inconclusive")
