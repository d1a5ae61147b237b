"""Does one verb to one run in somebody's name, as both doors over HTTP have it done: the API's addresses and the pages.

The guards and the refusals are `runtime.verbs`'; the forms are `api_forms`; whose name it is, `callers`.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, NamedTuple

from fencepost.console.api_forms import Approve, Form, Signal
from fencepost.console.callers import Caller
from fencepost.console.versions import version_meant
from fencepost.core.records import Run
from fencepost.core.records import Signal as Sent
from fencepost.core.states import RunState
from fencepost.runtime.permits import run_for


class Acted(NamedTuple):
    """The run after a verb, and the state that it was in before."""

    before: RunState
    run: Run


async def act(caller: Caller, verb: str, run_id: str, form: Form, *, if_match: str | None) -> Acted:
    """Do a verb on the run as the caller saw it, with what the form says.

    Raises:
        VersionNeeded: it is not said which version they saw.
        ChangedSince: the run is another one by now; this, and every other refusal, leaves its audit row.
        NotPermitted, VerbRefused, SecondPersonNeeded, RunNotFound: as the verb says.
    """
    arguments = form.model_dump()
    said = {"by": caller.person, "reason": arguments.pop("reason")}
    before = await asyncio.to_thread(run_for, caller, run_id, verb, **said)
    version = version_meant(if_match, before)
    if "result" in arguments:
        given = "result" in form.model_fields_set
        arguments["result"] = json.dumps(arguments["result"]) if given else None
    done: Run = await getattr(caller, verb.replace(" ", "_"))(run_id, version=version, **said, **arguments)
    return Acted(before.state, done)


async def answer_a_wait(caller: Caller, run_id: str, form: Signal | Approve) -> Sent:
    """Send a run what it waits for, or answer the call that it asks for, in the caller's name."""
    if isinstance(form, Signal):
        return await caller.signal(run_id, form.name, form.value, id=form.id, reason=form.reason)
    return await caller.approve(
        run_id, form.name, approved=form.approved, comment=form.comment, digest=form.digest, id=form.id
    )


async def detached_by(caller: Caller, run: Run) -> list[str]:
    """The children that a cancel of their parent leaves alone, and that have not ended."""
    children: list[Any] = await asyncio.to_thread(caller.store.children, run.no)
    return [one.id for one in children if one.parent_step is None and one.ended_at is None]
