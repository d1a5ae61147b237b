"""The store's verbs about signals: kept or refused as they come, found by the run's owner, and audited when refused.

A signal goes to the run's last turn, under its row's lock, so that of a sender and of an owner who gives the run up one
sees what the other has done. Which signal closes which wait is decided in `core.waits`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields

from fencepost.core.errors import RunNotFound
from fencepost.core.records import History, Run, Signal
from fencepost.core.waits import NOT_WAITING, RUN_ENDED
from fencepost.store import faultpoints, histories, rows
from fencepost.store.api import Audited
from fencepost.store.changes import Signalled
from fencepost.store.statements import Work
from fencepost.store.verbs import Verbs, whole

_FIELDS = tuple(field.name for field in fields(Signal))

_AUDITED_AT_ONCE = 100


class SignalVerbs(Verbs):
    """What both stores do alike with signals."""

    @whole
    def heard_by(self, namespace: str, run_id: str, name: str, id: str = "") -> History | None:
        """See `Store.heard_by`."""
        of_run = {"namespace": namespace, "run_id": run_id, "name": name}
        with self._reading() as reading:
            found, waits, beside = reading.execute_all(
                [
                    ("find_run", {"namespace": namespace, "id": run_id}),
                    ("waits_open_for", of_run),
                    ("signals_beside", {"id": id, **of_run}),
                ]
            )
        if not found:
            return None
        run = rows.run(found[0])
        return History(run, steps=[rows.step(row) for row in waits], signals=[rows.signal(row) for row in beside])

    @whole
    def signal_at_once(self, namespace: str, run_id: str, signal: Signal, *, takes: str | None = None) -> Signal | None:
        """See `Store.signal_at_once`."""
        of_run = {"namespace": namespace, "run_id": run_id}
        values = {name: getattr(signal, name) for name in ("id", "name", "payload", "fingerprint", "sender", "sent_at")}
        with self._writing() as work:
            work.lock("lock_named_run", **of_run)
            work.announce(signalled=(namespace, run_id))
            (found,) = work.commit_with(
                [
                    ("keep_signal_at_once", {"takes": takes, **of_run, **values}),
                    ("wake_run", {"id": signal.id, "now": self.now(), **of_run}),
                ],
                [("find_signal", {"id": signal.id, **of_run})],
            )
        return rows.signal(found[0]) if found else None

    @whole
    def signal(self, namespace: str, run_id: str, signal: Signal, audit: Audited | None = None) -> Signal:
        """See `Store.signal`."""
        with self._writing() as work:
            kept: Signal | None = None
            while kept is None:
                found = work.execute("find_run", namespace=namespace, id=run_id)
                if not found:
                    raise RunNotFound(
                        f"no run has the id {run_id!r}",
                        hint="check the id and the namespace; a signal is only kept for a run that was started",
                        ids={"namespace": namespace, "run": run_id, "signal": signal.id},
                    )
                kept = self._signal(work, rows.run(found[0]), signal, audit)
            return kept

    def _signal(self, work: Work, run: Run, signal: Signal, audit: Audited | None) -> Signal | None:
        """The signal as this turn of its run has it; None: the turn ended before it was locked, so ask the next one."""
        if run.turn:
            earlier = work.execute(
                "earlier_signal", namespace=run.namespace, run_id=run.id, turn=run.turn, id=signal.id
            )
            if earlier:
                return rows.signal(earlier[0])
        now = self.now()
        # Its owner may be giving it up to wait at this moment: one of the two must see what the other has done.
        work.lock("lock_run", run=run.no)
        work.announce(signalled=(run.namespace, run.id))
        of_run = {"namespace": run.namespace, "run_id": run.id, "id": signal.id}
        values = {name: getattr(signal, name) for name in _FIELDS}
        keeping = {"run": run.no, "now": now, "run_ended": RUN_ENDED, "not_waiting": NOT_WAITING, **values}
        kept, _, found = work.execute_all(
            [("keep_signal", keeping), ("wake_run", {"now": now, **of_run}), ("find_signal", of_run)]
        )
        if not found:
            return None
        stored = rows.signal(found[0])
        written = audit(run, stored) if kept and audit is not None else None
        if written is not None:
            self._append(work, written)
        return stored

    @whole
    def claim_signalled(
        self, woken: Signalled, lease: str, workflows: Sequence[tuple[str, int]], *, namespace: str, now: int
    ) -> History | None:
        """See `Store.claim_signalled`."""
        of_run = {"run": woken.run, "generation": woken.generation, "expected": woken.state, "lease": lease, "now": now}
        guard = {"namespace": namespace, "workflows": json.dumps(workflows), **of_run}
        assert woken.generation is not None, "nobody owns it"
        taken_over = {"run": woken.run, "generation": woken.generation + 1, "now": now}
        with self._writing() as work:
            if self.probe is not None:
                states = [row[0] for row in work.execute("operation_states_of", run=woken.run)]
                work.passing(faultpoints.of_claim(woken.state, states))
            found = work.commit_if(
                ("woken_run", guard),
                [
                    ("claim_run", {"takeovers": None, "answers": None, **of_run}),
                    ("take_over_operations", taken_over),
                ],
                histories.tables_of(woken.run),
            )
        return None if found is None else histories.read(woken.run, found)

    @whole
    def audit_left(self, audit: Audited) -> int:
        """See `Store.audit_left`."""
        if not self._read("unaudited_signals", limit=1):
            return 0
        with self._writing() as work:
            work.lock("lock_audit")
            left = work.execute("unaudited_signals", limit=_AUDITED_AT_ONCE)
            for run, *row in left:
                signal = rows.signal(tuple(row))
                written = audit(rows.run(work.execute("load_run", run=run)[0]), signal)
                if written is not None:
                    self._append(work, written)
                work.change("note_audited", run=run, id=signal.id)
            return len(left)

    @whole
    def signalled(self, lease: str) -> list[int]:
        """See `Store.signalled`."""
        return [row[0] for row in self._read("signalled_runs", lease=lease)]
