"""A job on many runs: begun, carried out run by run, paused, and gone on with after a pause, a kill or a Ctrl-C.

Each run is done in the version that was seen, and ticked off in the commit of the verb that is done to it: whoever goes
on with a job does none twice, also beside somebody who is still at it. What is done to a run keeps the limits of its
queue as always, since a verb only lets it be claimed. Which runs are meant is `bulk`; what a verb does is `verbs`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fencepost.core.bulk import BULK, Bulk, BulkEvent, BulkRun, BulkState, NotToBeDone, Tick, digest
from fencepost.core.errors import Misuse, RunNotFound, VerbRefused
from fencepost.core.identity import canonical
from fencepost.core.records import Audit, History
from fencepost.runtime.bulk import IN_BULK, Each, Selection, require_known, select
from fencepost.runtime.deeds import Desk
from fencepost.runtime.permits import Asked, ask, refuse

if TYPE_CHECKING:
    from fencepost.store.api import Decision, Store

_PAGE = 100

PAUSE, RESUME = "pause bulk", "resume bulk"


def begin(app: Desk, verb: str, wanted: Selection, **arguments: Any) -> Bulk | None:
    """Write a job down, with the runs that are meant; nothing is done to them yet. None: there are no such runs.

    The same verb on the same runs, as they were seen, is the same job while that is open. `arguments` are the verb's
    own, `by` and `reason` among them.

    Raises:
        Misuse: the selection or the verb is none, or who or why is missing.
        NotPermitted: they lack the verb's role; no job is written down, which somebody who has it could meet.
        VerbRefused: the job is there already, and paused.
    """
    require_known(verb)
    ask(app, verb, "", by=str(arguments["by"]), reason=str(arguments["reason"]))
    runs = select(app.store, app.namespace, wanted)
    if not runs:
        return None
    own = canonical({name: value for name, value in arguments.items() if name not in ("by", "reason")})
    who, why = str(arguments["by"]), str(arguments["reason"])
    new = Bulk(0, app.namespace, verb, own, digest(verb, own, runs), who, why, app.store.now())
    bulk, _ = app.store.start_bulk(new, runs)
    if bulk.state is BulkState.PAUSED:
        raise VerbRefused(
            f"bulk job {bulk.no} is the same, and is paused",
            hint=f"`fencepost bulks resume {bulk.no}` goes on with it", ids={"bulk": str(bulk.no)},
        )  # fmt: skip
    return bulk


def carry_out(app: Desk, bulk: Bulk, *, by: str) -> Iterator[Each]:
    """Do what is left of a job, in this person's name; ends early where somebody pauses it.

    Whoever takes no more of it has stopped it: nothing is done to the others.
    """
    after = -1
    while page := app.store.bulk_runs(bulk.no, every=False, after=after, limit=_PAGE):
        for one in page:
            after = one.place
            done = _do(app, bulk, one, by)
            if done is not None:
                yield done
            elif named(app, bulk.no).state is not BulkState.RUNNING:
                return
    app.store.finish_bulk(bulk.no)


def pause(app: Asked, no: int, *, by: str, reason: str) -> Bulk:
    """Let nobody go on with a job until it is resumed; what is being done to a run is done.

    Raises:
        VerbRefused: it is done.
        NotPermitted: they lack the role that it needs.
    """
    return _moved(app, no, PAUSE, BulkEvent.PAUSE, by=by, reason=reason)


def resume(app: Asked, no: int, *, by: str, reason: str) -> Bulk:
    """Let somebody go on with a job, which `carry_out` does. See `pause`."""
    return _moved(app, no, RESUME, BulkEvent.RESUME, by=by, reason=reason)


def named(app: Asked, no: int) -> Bulk:
    """The job with this number. Raises `Misuse`."""
    found = app.store.bulk(app.namespace, no)
    if found is None:
        raise Misuse(f"there is no bulk job {no}", hint="`fencepost bulks --all` lists them", ids={"bulk": str(no)})
    return found


def _moved(app: Asked, no: int, verb: str, event: BulkEvent, *, by: str, reason: str) -> Bulk:
    about = f"bulk:{no}"
    ask(app, verb, about, by=by, reason=reason)
    while True:
        bulk = named(app, no)
        if not BULK.allows(bulk.state, event):
            why = f"bulk job {no} is {bulk.state}"
            refuse(app, verb, about, by=by, reason=reason, why=why)
            raise VerbRefused(why, hint="choose the runs anew with `fencepost bulk`", ids={"bulk": str(no)})
        to = BULK.after(bulk.state, event)
        before, after = canonical({"bulk": bulk.state.value}), canonical({"bulk": to.value})
        row = Audit(app.store.now(), by, verb, about, "done", reason, before, after, namespace=app.namespace)
        # A second click changes nothing, and leaves no row; somebody else's click is looked at once more.
        if to is bulk.state or app.store.move_bulk(no, expected=bulk.state, to=to, audit=row):
            return replace(bulk, state=to)


def _do(app: Desk, bulk: Bulk, one: BulkRun, by: str) -> Each | None:
    """Do the verb to one run; None: it is not to be done, since the job is paused or somebody else has done it."""
    ticks = Tick(bulk.no, one.run.no)
    as_seen = replace(one.run, version=one.seen)
    why = bulk.reason if by == bulk.actor else f"{bulk.reason} (bulk job {bulk.no}, which {bulk.actor} has begun)"
    try:
        after = IN_BULK[bulk.verb](
            _Ticking(app, ticks), as_seen, version=one.seen, by=by, reason=why, **json.loads(bulk.arguments)
        )
    except NotToBeDone:
        return None
    except RunNotFound:
        raise
    except Misuse as refused:
        kept = app.store.refuse_in_bulk(ticks, refused.message)
        return Each(one.run.id, one.was, one.was, refused=refused.message, version=one.seen) if kept else None
    return Each(one.run.id, one.was, after.state.value, version=one.seen)


class _Ticking:
    """Stands in for an app while a verb is done to one run of a job: that is ticked off in the verb's own commit."""

    def __init__(self, app: Desk, ticks: Tick) -> None:
        self.workflows = app.workflows
        self.namespace = app.namespace
        self.policy = app.policy
        self.login = app.login
        self.seconded = app.seconded
        self.store: Any = _TickingStore(app.store, ticks)


class _TickingStore:
    """A store whose `decide` ticks off."""

    def __init__(self, store: Store, ticks: Tick) -> None:
        self._store = store
        self._ticks = ticks

    def __getattr__(self, verb: str) -> Any:
        return getattr(self._store, verb)

    def decide(self, run: int, decision: Decision, *, confirms: Any = None) -> History:
        """See `Store.decide`."""
        return self._store.decide(run, decision, confirms=confirms, ticks=self._ticks)
