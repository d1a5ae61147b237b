"""Takes in what comes from outside without a run's id: reports under a callback's token, and events.

A report, that a job is done or has failed, becomes a signal under the name of the job, so that it may come early, twice
or late like any other; a token brings one answer, and the same again is absorbed. Where the effect that handed the
token out is unknown, the report is evidence first: its request has reached somebody, so the target is asked again, and
its "absent" is not believed.

What the workflow makes of it is `jobs`; HTTP is `receiving`.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from fencepost.core import callback as tokens
from fencepost.core.callback import REPORT as SENDER
from fencepost.core.contract import Contract
from fencepost.core.errors import CallbackRefused, Misuse, RunNotFound, ValueRefused, VerbRefused
from fencepost.core.identity import canonical, check_name, digest_text
from fencepost.core.records import REPORTED, Audit, History, Observation, Operation, Signal
from fencepost.core.recovery import was_reported
from fencepost.core.states import FINAL_RUN_STATES, OperationState, Outcome, SignalState
from fencepost.core.transitions import OperationEvent
from fencepost.core.waits import RUN_ENDED
from fencepost.effects.callbacks import handed_out
from fencepost.effects.entry import Entry, Owner
from fencepost.effects.values import Door
from fencepost.runtime import audit, signalling
from fencepost.runtime.late import Report, take_in
from fencepost.runtime.moves import disown
from fencepost.runtime.verbs import at_once

if TYPE_CHECKING:
    from fencepost.core.callback import HandedOut
    from fencepost.runtime.app import App
    from fencepost.store.moves import Move, Observe

PROGRESS_BYTES_MAX = 4_096
RUNS_MAX = 10
"""So many runs that waited under one name are looked at."""

ANSWERS_MAX = 20
"""So many reports of the wrong form may come under one token before a fitting one is refused too."""


class Callbacks(ABC):
    """The part of an app that outside systems use."""

    @abstractmethod
    async def _sent(self, how: Callable[..., Signal], *args: Any, **kwargs: Any) -> Signal:
        """Keep a signal on a thread, and wake the workers of this process."""

    async def callback(self, token: str, value: Any = None, *, failed: str | None = None) -> Signal:
        """Report that a job is done, with its result; or that it has `failed`, and why.

        The holder of the token needs no other right. What becomes of the report is as for a signal: kept until the wait
        comes, applied once, or refused. The same report again is absorbed.

        Raises:
            CallbackRefused: nobody has given this token out, its run has ended, it has answered otherwise before, or
                the value is not of the type that the wait is known to take.
            ValueRefused: the value cannot be stored.
        """
        return await self._sent(report, token, value, failed=failed)

    async def heartbeat(self, token: str, *, progress: Any = None) -> bool:
        """Say that a job is alive: its wait gets its heartbeat's time once more; `progress` is shown with the run.

        False: nothing waits for it just now, so nothing runs out either.

        Raises:
            CallbackRefused: nobody has given this token out, or its run has ended.
            ValueRefused: the progress is larger than 4 KiB, or cannot be stored.
        """
        return await asyncio.to_thread(beat, self, token, progress=progress)

    async def event(self, name: str, value: Any, *, id: str, sender: str = "") -> Signal:
        """Send a signal to whichever run waits under this name: for an event that does not know the run.

        So the wait is named after what the event is about, `run.wait(f"paid {charge.id}", Paid)`. `id` is the event's
        own: one that comes again counts once, also when its wait is over and another run waits under its name.

        Raises:
            RunNotFound: no run has waited under this name so far; let the event come again.
            VerbRefused: several runs wait under this name; or as `App.signal`.
        """
        return await self._sent(send_to_waiting, name, value, id=id, sender=sender)

    async def strange_tokens(self) -> int:
        """How many tokens came, in this namespace, that nobody has given out."""
        app: App = self  # type: ignore[assignment]  # an app is what this is a part of
        return await asyncio.to_thread(app.store.strangers, app.namespace)


def report(app: App, token: str, value: Any, *, failed: str | None) -> Signal:
    """Take in a report; see `Callbacks.callback`."""
    payload = _payload(value, failed)
    found = _handed_out(app, token)
    history = _history_of(app, found)
    _keep_evidence(app, found, history, payload)
    signal = Signal(
        id=_id_for(history, found, payload), name=found.name, payload=payload, state=SignalState.KEPT,
        sent_at=app.store.now(), sender=SENDER, fingerprint=digest_text(payload.encode()),
    )  # fmt: skip
    try:
        return signalling.keep(app, found.run.id, signal, verb=SENDER, history=history)
    except VerbRefused as refused:
        raise _refusal(app, found, signal, refused) from None


def beat(app: Any, token: str, *, progress: Any) -> bool:
    """Take in a sign of life; see `Callbacks.heartbeat`."""
    said = None if progress is None else Door(type(progress), where="progress").encode(progress)
    if said is not None and (len(said.encode()) > PROGRESS_BYTES_MAX or "\\u0000" in said):
        raise ValueRefused(
            f"the progress has more than {PROGRESS_BYTES_MAX} bytes, or holds a NUL",
            hint="say how far it is; results come with the callback",
        )
    found = _handed_out(app, token)
    run = app.store.find(app.namespace, found.run.id)
    if run is None or run.state in FINAL_RUN_STATES:
        raise _over(found)
    if run.no != found.run.no and tokens.is_under_another(
        tokens.report_id(found.digest), handed_out(app.store.load(run.no).operations, found.name)
    ):
        return False  # what waits now is a job of a later turn
    return bool(app.store.beat(app.namespace, found.run.id, found.name, said))


def send_to_waiting(app: App, name: str, value: Any, *, id: str, sender: str) -> Signal:
    """Send a signal by the name of the wait alone; see `Callbacks.event`."""
    before = app.store.taken_event(app.namespace, check_name(name, what="signal name"), id)
    if before is not None:
        return signalling.send(app, before, name, value, id=id, sender=sender)  # once more, and counted once
    waits = app.store.waits_named(app.namespace, name, RUNS_MAX)
    now_waiting = sorted({run for run, is_open in waits if is_open})
    if not waits:
        raise RunNotFound(
            f"no run has waited for {name!r} so far",
            hint="an event that may come before its wait needs the run's id: `app.signal`",
            ids={"namespace": app.namespace, "signal": name},
        )
    if len(now_waiting) > 1:
        refused = VerbRefused(
            f"{len(now_waiting)} runs wait for {name!r}, and an event is for one",
            hint="name the wait after what the event is about, or send it with the run's id",
            ids={"signal": name},
        )
        for run in now_waiting:
            row = audit.of_refusal(
                app.namespace, audit.SIGNAL, run, by=sender or audit.NOBODY, why=refused.message, now=app.store.now(),
                step=name,
            )  # fmt: skip
            app.store.audit(row)
        raise refused
    run = now_waiting[0] if now_waiting else waits[0][0]
    return signalling.send(app, run, name, value, id=id, sender=sender)


def _payload(value: Any, failed: str | None) -> str:
    if failed is None:
        return tokens.done(Door(Any if value is None else type(value), where="callback").encode(value))
    if value is not None:
        raise Misuse("a job is done with a value, or has failed", hint="pass one of the two")
    return tokens.failed(failed)


def _handed_out(app: App, token: str) -> HandedOut:
    """The job that the token was handed out for, in this app's namespace."""
    digest = tokens.token_digest(token)
    found = app.store.handed_out(digest) if tokens.is_token(token) else None
    if found is None or not tokens.is_same(found.digest, digest) or found.run.namespace != app.namespace:
        app.store.count_stranger(app.namespace)
        raise CallbackRefused("nobody has given out this token", hint="send the token as it was received")
    return found


def _history_of(app: App, found: HandedOut) -> History:
    """The turn of the run that the token was handed out in: its operation is there, and tokens are no turn's own."""
    return app.store.load(found.run.no)


def _operation_of(history: History, found: HandedOut) -> Operation:
    return next(one for one in history.operations if (one.step, one.item) == (found.step, found.item))


def _id_for(history: History, found: HandedOut, payload: str) -> str:
    """The id of the report's signal: one for each token, so that only one is kept; the next one if that was no report.

    A report of the wrong form answers nothing, and its sender may mend it.
    """
    first = tokens.report_id(found.digest)
    before = {signal.id: signal for signal in history.signals}
    for number in range(1, ANSWERS_MAX + 1):
        id = tokens.report_id(found.digest, number)
        known = before.get(id)
        if known is None or known.state is not SignalState.REFUSED or known.payload == payload:
            return id
    return first


def _refusal(app: App, found: HandedOut, signal: Signal, refused: VerbRefused) -> CallbackRefused:
    """What the holder of a token is told of a report that was not taken; it is audited already."""
    stored = next((one for one in app.store.load(found.run.no).signals if one.id == signal.id), None)
    ids = {"run": found.run.id, "callback": found.name}
    if RUN_ENDED in refused.message or "the run has ended" in (stored.reason or "" if stored else ""):
        return _over(found)
    if stored is not None and stored.fingerprint != signal.fingerprint:
        return CallbackRefused("this token has brought another answer before", refusal="used", ids=ids)
    return CallbackRefused(refused.message, refusal="misfit", hint=refused.hint, ids=ids)


def _over(found: HandedOut) -> CallbackRefused:
    return CallbackRefused(
        "the run of this job has ended", refusal="over", ids={"run": found.run.id, "callback": found.name}
    )


# -- evidence -----------------------------------------------------------------------------------------------------


def _keep_evidence(app: App, found: HandedOut, history: History, payload: str) -> None:
    """Append what the report proves of the effect that handed its token out, unless that is known to have happened."""
    operation = _operation_of(history, found)
    if operation.state is OperationState.SUCCEEDED or was_reported(operation):
        return
    says = "failed" if tokens.value_in(payload) is None else "done"
    evidence = canonical({"kind": REPORTED, "callback": found.name, "says": says})
    settled = [one.number for one in operation.attempts if one.outcome is Outcome.NOT_APPLIED]
    if operation.attempts and len(settled) == len(operation.attempts):
        # Proved not to have happened, and its token is out: that contradicts itself, and is held.
        run = history.run
        said = Report(run.no, operation.position, settled[-1], Outcome.APPLIED, evidence, run.generation)
        take_in(app.store, said, Contract(operation.effect))
        return

    def decision(history: History, now: int) -> tuple[Sequence[Move], Sequence[Observe], Sequence[Audit]]:
        operation = _operation_of(history, found)
        if was_reported(operation):
            return [], [], []
        entry = Entry(operation, Contract(operation.effect), Owner("", history.run.generation, history.run.state.value))
        seen = entry.observe(Observation(REPORTED, None, evidence, now, current=False))
        if operation.state is not OperationState.UNKNOWN or history.run.state in FINAL_RUN_STATES:
            return [], [seen], []
        # Whoever asks about it now does not know this yet: the run is taken from them, and asked about anew.
        moves = [entry.move(OperationEvent.LOSE, now), *disown(history, now), *at_once(history.run, now)]
        same = audit.summary(history.run, operation)
        told = audit.row(
            history, verb=SENDER, by=SENDER, reason="the effect is unknown, and its job reports", now=now, before=same,
            after=same, step=operation.step, item=operation.item,
        )  # fmt: skip
        return moves, [seen], [told]

    app.store.decide(history.run.no, decision)
