"""What a person may ask of an app: the verbs, what waits for a second person, containing, the audit, alerts, a check.

Each method finds the run and calls the function that decides, on a thread; those are in `verbs`, `confirming`,
`containing`, `alerting` and `checking`. `app` inherits them, and with it `app.sync` and whatever stands on an app.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from fencepost.core import alerts
from fencepost.core.errors import Misuse
from fencepost.core.permissions import Permissions
from fencepost.core.proposals import Proposal
from fencepost.core.records import Audit, Run
from fencepost.core.states import FINAL_RUN_STATES
from fencepost.runtime import bulking, confirming, containing, migrating, verbs
from fencepost.runtime import retention as retaining
from fencepost.runtime.alerting import Measurement, readings
from fencepost.runtime.bulk import Each, Selection, rehearse, select
from fencepost.runtime.checking import Checked, check, verify_audit
from fencepost.runtime.deeds import in_turn
from fencepost.runtime.permits import no_such_run, run_for
from fencepost.runtime.rehearsal import Rehearsal
from fencepost.runtime.repertoire import name_of
from fencepost.runtime.retention import Purged, Retention
from fencepost.runtime.signalling import audit_what_ends_have_refused
from fencepost.store.chain import Anchor, Verdict
from fencepost.store.governing import AuditFilter

if TYPE_CHECKING:
    from fencepost.core.bulk import Bulk
    from fencepost.core.containment import Containment
    from fencepost.runtime.workflow import Workflow
    from fencepost.store.api import Store


R = TypeVar("R")


def require_limit(limit: int, of_what: str) -> None:
    """Refuse a page of no size. Raises `Misuse`."""
    if not isinstance(limit, int) or limit < 1:
        raise Misuse(f"a page of {limit!r} {of_what}", hint="pass a limit from 1 on")


class Operators(ABC):
    """The part of an app that people use."""

    namespace: str
    workflows: dict[tuple[str, int], Workflow[..., Any]]
    permissions: Permissions | None
    login: str | None
    seconded: Proposal | None = None
    """What another person has proposed: nothing, where somebody begins."""

    @property
    @abstractmethod
    def store(self) -> Store:
        """The opened ledger's store."""

    async def _find(self, run_id: str) -> Run:
        """The run with this id. Raises `RunNotFound`."""
        run = await asyncio.to_thread(self.store.find, self.namespace, run_id)
        if run is None:
            raise no_such_run(run_id)
        return run

    @abstractmethod
    def _wake(self) -> None:
        """Let the workers of this process look what is due."""

    # -- verbs --------------------------------------------------------------------------------------------------------

    async def cancel(self, run_id: str, *, by: str, reason: str, version: int | None = None) -> Run:
        """Ask a run to stop: nothing new begins, what was sent is settled, then it is cancelled.

        Here and below, `by` and `reason` go into the audit row, and `version` is the row version that the person saw:
        the verb is refused if the run has changed since.

        Raises:
            VerbRefused: it does not apply to the run as it is; nothing was changed, and the refusal is audited.
            NotPermitted: `by` lacks the role that it needs.
            SecondPersonNeeded: it takes two here, and is kept as a proposal for somebody else to `confirm`.
            RunNotFound: no run has this id.
        """
        return await self._verb(verbs.cancel, run_id, by=by, reason=reason, version=version)

    async def resume(self, run_id: str, *, by: str, reason: str, version: int | None = None) -> Run:
        """Let a held or failed run go on; see `cancel` for the arguments."""
        return await self._verb(verbs.resume, run_id, by=by, reason=reason, version=version)

    async def retry(
        self, run_id: str, step: str, *, by: str, reason: str, item: str | None = None, version: int | None = None
    ) -> Run:
        """Give an operation that failed for good a new budget, and let its run go on; see `cancel`."""
        return await self._verb(verbs.retry, run_id, step=step, item=item, by=by, reason=reason, version=version)

    async def settle(
        self,
        run_id: str,
        step: str,
        *,
        happened: bool,
        by: str,
        reason: str,
        item: str | None = None,
        result: str | None = None,
        reference: str | None = None,
        override: bool = False,
        version: int | None = None,
    ) -> Run:
        """Say of an unknown operation whether it happened; `reason` is the evidence. See `cancel`.

        Args:
            run_id: of the run.
            step: of the operation, as `fencepost show` names it.
            happened: what is known now.
            by: who says so.
            reason: how they know.
            item: of the operation, where it has one.
            result: the step's result as JSON, if it happened.
            reference: the remote object's id, if it happened.
            override: believe "did not happen" before the span is over; the guarantee is lost.
            version: the row version that the person saw.
        """
        return await self._verb(
            verbs.settle, run_id, step=step, item=item, happened=happened, by=by, reason=reason, result=result,
            reference=reference, override=override, version=version,
        )  # fmt: skip

    async def settle_conflict(
        self,
        run_id: str,
        step: str,
        *,
        happened: bool,
        by: str,
        reason: str,
        item: str | None = None,
        result: str | None = None,
        reference: str | None = None,
        override: bool = False,
        version: int | None = None,
        turn: int | None = None,
    ) -> Run:
        """Say that what contradicted itself was put right at the target; arguments as `settle`.

        `happened`: the effect stands there, once; otherwise nothing of it does. `turn`: of a run that has continued,
        whose effect it is; the last turn's by default.
        """
        return await self._verb(
            verbs.settle_conflict, run_id, step=step, item=item, happened=happened, by=by, reason=reason, result=result,
            reference=reference, override=override, version=version, turn=turn,
        )  # fmt: skip

    async def reconcile(
        self, run_id: str, step: str | None = None, *, by: str, reason: str, item: str | None = None,
        version: int | None = None,
    ) -> Run:  # fmt: skip
        """Have a run's unknown operations, or that of one step, asked about now; see `cancel`.

        A run that somebody owns is taken from its owner.
        """
        return await self._verb(verbs.reconcile, run_id, step=step, item=item, by=by, reason=reason, version=version)

    async def compensate(
        self, run_id: str, *, by: str, reason: str, version: int | None = None, roles: Collection[str] | None = None
    ) -> Run:
        """Compensate the effects of a run that is held, failed or ended; see `cancel`.

        `roles` are those of whoever asks, by default what the permissions give them: an effect may say who may start
        its compensation.
        """
        theirs = None if roles is None else frozenset(roles)
        return await self._verb(verbs.compensate, run_id, by=by, reason=reason, version=version, roles=theirs)

    async def compensate_step(
        self, run_id: str, step: str, *, by: str, reason: str, item: str | None = None, version: int | None = None,
        roles: Collection[str] | None = None,
    ) -> Run:  # fmt: skip
        """Compensate one effect of a run that is held, failed or ended, and nothing else of it; see `compensate`.

        The run ends by what stands then; another step, or the rest, may be compensated after it. Refused while what was
        done `after` the effect stands, or may.
        """
        theirs = None if roles is None else frozenset(roles)
        return await self._verb(
            verbs.compensate_step, run_id, step=step, item=item, by=by, reason=reason, version=version, roles=theirs
        )

    async def forward(
        self, run_id: str, step: str, *, by: str, reason: str, item: str | None = None, version: int | None = None
    ) -> Run:
        """Have a failed step's work done the other way that its effect declares; see `cancel`.

        Its run, held or failed, goes on with that answer. Refused once the run has begun to go back.
        """
        return await self._verb(verbs.forward, run_id, step=step, item=item, by=by, reason=reason, version=version)

    async def redecide(
        self, run_id: str, step: str | None = None, *, by: str, reason: str, override: bool = False,
        version: int | None = None,
    ) -> Run:  # fmt: skip
        """Have a decision of a run's model made anew, where the stored one was wrong; see `cancel`.

        The old answers stay as they are. The model is asked again at a position of its own, and the workflow goes on
        from there; effects keep their positions and keys, so that nothing is sent twice.

        Args:
            run_id: of the run, which nobody is at work on: it waits, is held, has failed or has succeeded.
            step: the decision's position, as `fencepost show` has it, or its step's name; may be left out where the
                run has only one.
            by: who asks for it.
            reason: what was wrong with the decision.
            override: also where effects that came after it stand; those stay, and are the person's to make good.
            version: the row version that the person saw.
        """
        return await self._verb(
            verbs.redecide, run_id, step=step, by=by, reason=reason, override=override, version=version
        )

    async def migrate(self, run_id: str, *, to: int, by: str, reason: str, version: int | None = None) -> Run:
        """Pin a run to another version of its workflow, if that code tells the same story so far; see `cancel`."""
        return await self._verb(migrating.migrate, run_id, to=to, by=by, reason=reason, version=version)

    async def rehearse(self, run_id: str, *, to: int) -> Rehearsal:
        """Replay a run's history against another version of its workflow, and change nothing."""
        return await asyncio.to_thread(migrating.rehearsed, self, await self._find(run_id), to=to)

    async def terminate(self, run_id: str, *, by: str, reason: str, version: int | None = None) -> Run:
        """End a run at once; its effects stand. See `cancel`."""
        return await self._verb(verbs.terminate, run_id, by=by, reason=reason, version=version)

    async def reopen(self, run_id: str, *, by: str, reason: str, version: int | None = None) -> Run:
        """Let a run that was terminated, was cancelled or has succeeded go on from where it ended; see `cancel`.

        Refused while evidence of it contradicts itself.
        """
        return await self._verb(verbs.reopen, run_id, by=by, reason=reason, version=version)

    async def confirm(self, proposal: int, *, by: str, reason: str) -> Run:
        """Carry out what another person proposed, on the run as that person saw it; see `cancel`.

        Raises:
            VerbRefused: it is one's own, closed, over, or the run has changed since.
            NotPermitted: one of the two lacks the verb's role.
        """
        return await self._done(confirming.confirm, proposal, by=by, reason=reason)

    async def decline(self, proposal: int, *, by: str, reason: str) -> Proposal:
        """Close a proposal, one's own or another's, without carrying it out."""
        return await asyncio.to_thread(confirming.decline, self, proposal, by=by, reason=reason)

    async def proposals(self, *, every: bool = False, limit: int = 50) -> list[Proposal]:
        """What waits for a second person, newest first; `every`: also what was confirmed, declined or is over."""
        return await asyncio.to_thread(self.store.proposals, self.namespace, every=every, limit=limit)

    def policy(self) -> Permissions | None:
        """Who may do what in the namespace: what its workers have declared, or else what this app has; blocking.

        None: nobody has said it, and everybody may do everything.
        """
        text = self.store.policy(self.namespace)
        return self.permissions if text is None else Permissions.from_text(text)

    async def _verb(self, verb: Callable[..., Run], run_id: str, *, turn: int | None = None, **arguments: Any) -> Run:
        who = {"by": arguments["by"], "reason": arguments["reason"]}
        run = await asyncio.to_thread(run_for, self, run_id, name_of(verb), **who)
        if turn is not None:
            run = await asyncio.to_thread(in_turn, self.store, run, turn)
        return await self._done(verb, run, **arguments)

    async def _done(self, verb: Callable[..., Run], *args: Any, **arguments: Any) -> Run:
        done = await asyncio.to_thread(verb, self, *args, **arguments)
        if done.state in FINAL_RUN_STATES:
            await asyncio.to_thread(audit_what_ends_have_refused, self.store)
        self._wake()
        return done

    async def bulk(self, verb: str, wanted: Selection, *, dry_run: bool = False, **arguments: Any) -> list[Each]:
        """Do one verb to many runs, each by itself; with `dry_run`, only say what it would do to each.

        It is a job, which `bulks` lists: anybody may pause it, and after a pause, a kill or a cancel of this call
        `resume_bulk` goes on with it. No run is done twice.

        Args:
            verb: resume, reconcile, retry, cancel, compensate, terminate, reopen or migrate.
            wanted: which runs, and how many at most.
            dry_run: change nothing.
            **arguments: the verb's own: `by`, `reason`, and where it takes them `step` and `item`, or `to`.

        Raises:
            Misuse: the selection or the verb is none. What is refused of a single run is told with it.
            VerbRefused: the same is a job already, which is paused.
        """
        if dry_run:
            runs = await asyncio.to_thread(select, self.store, self.namespace, wanted)
            return await self._each(rehearse(self, runs, verb, **arguments))
        bulk = await asyncio.to_thread(bulking.begin, self, verb, wanted, **arguments)
        return [] if bulk is None else await self._each(bulking.carry_out(self, bulk, by=arguments["by"]))

    async def bulks(self, *, every: bool = False, limit: int = 50) -> list[Bulk]:
        """The jobs on many runs that are open, newest first; `every`: also those that are done."""
        require_limit(limit, "jobs")
        return await asyncio.to_thread(self.store.bulks, self.namespace, every=every, limit=limit)

    async def pause_bulk(self, no: int, *, by: str, reason: str) -> Bulk:
        """Let nobody go on with a job on many runs; whoever is at it stops after the run that is being done.

        Raises:
            VerbRefused: it is done.
            NotPermitted: `by` lacks the role that it needs.
        """
        return await asyncio.to_thread(bulking.pause, self, no, by=by, reason=reason)

    async def resume_bulk(self, no: int, *, by: str, reason: str) -> list[Each]:
        """Go on with a job that was paused, or whose process was killed; what became of the runs that were left."""
        bulk = await asyncio.to_thread(bulking.resume, self, no, by=by, reason=reason)
        return await self._each(bulking.carry_out(self, bulk, by=by))

    async def _each(self, doing: Iterator[Each]) -> list[Each]:
        done = list[Each]()
        while (one := await _finished(asyncio.to_thread(next, doing, None))) is not None:
            done.append(one)
            self._wake()
        return done

    # -- containing ---------------------------------------------------------------------------------------------------

    async def contain(self, kind: str, name: str, *, by: str, reason: str) -> Containment:
        """Let no new effect be sent toward something, by any worker, until it is released; look-ups go on.

        Runs that meet it wait, and spend no budget. What is contained already stays as it is.

        Args:
            kind: "target", "resource", "tenant" (a principal, or what stands before its first slash) or "workflow".
            name: of the target, resource, tenant or workflow.
            by: who does it.
            reason: why; every run that waits shows it.

        Raises:
            Misuse: there is no such kind, or the name, who or why is missing.
        """
        return await self._contained(containing.contain, kind, name, by=by, reason=reason)

    async def release(self, kind: str, name: str, *, by: str, reason: str) -> Containment | None:
        """Contain something no more: the runs that wait for it go on. None: it was not contained. See `contain`."""
        return await self._contained(containing.release, kind, name, by=by, reason=reason)

    async def contained(self) -> list[Containment]:
        """Everything that is contained, by people and by breakers, the oldest first."""
        return await asyncio.to_thread(self.store.contained, self.namespace)

    async def _contained(self, verb: Callable[..., R], kind: str, name: str, *, by: str, reason: str) -> R:
        done = await asyncio.to_thread(verb, self, kind, name, by=by, reason=reason)
        self._wake()
        return done

    # -- looking over the ledger --------------------------------------------------------------------------------------

    async def audit(
        self, *, run: str | None = None, verb: str | None = None, actor: str | None = None, outcome: str | None = None,
        before: int | None = None, limit: int = 50,
    ) -> list[Audit]:  # fmt: skip
        """A page of audit rows, newest first; `before` is the number of the last row of the page before.

        Args:
            run: only what was done to the run with this id.
            verb: only this verb.
            actor: only what they did.
            outcome: "done" or "refused".
            before: a row's number.
            limit: rows on a page, from 1 on.

        Raises:
            Misuse: the limit is no number from 1 on.
        """
        require_limit(limit, "rows")
        wanted = AuditFilter(self.namespace, run, verb, actor, outcome, before, limit)
        return await asyncio.to_thread(self.store.list_audits, wanted)

    async def verify_audit(self, anchor: Anchor | None = None) -> Verdict:
        """Whether the audit's chain is as it was written; with an anchor, also whether its end is.

        The chain runs through all namespaces of the ledger.
        """
        return await asyncio.to_thread(verify_audit, self.store, anchor)

    async def alerts(self, thresholds: Mapping[str, str] | None = None) -> list[Measurement]:
        """Every alert as it is now, the most urgent first; `thresholds` such as {"queue age": "30s"}.

        Raises:
            DeclarationError: there is no such alert, or the threshold is none of its unit.
        """
        own = alerts.thresholds(thresholds or {})
        return await asyncio.to_thread(readings, self.store, self.namespace, thresholds=own)

    async def purge(
        self, retention: Retention, *, by: str, reason: str, dry_run: bool = False, batch: int = 200
    ) -> Purged:
        """Remove what runs hold that ended longer ago than `retention` keeps them; their rows and ids stay.

        Passed over is what anything still needs: an operation that is unknown or contradicts itself, a compensation
        that has not succeeded, a refused signal that is not audited yet, a child or parent that is not over or not
        purged. Each `batch` of runs is one transaction, with an audit row that counts them.

        Raises:
            Misuse: nobody says who does it and why, or a batch is no number from 1 on.
            NotPermitted: they lack the verb's role.
            StoreUnavailable: the ledger cannot be written; batches that were done stay done.
        """
        return await asyncio.to_thread(
            retaining.purge, self, retention, by=by, reason=reason, dry_run=dry_run, batch=batch
        )

    async def check(self) -> Checked:
        """Look for contradictions in everything that the ledger holds, in all its namespaces. Reads only."""
        return await asyncio.to_thread(check, self.store)


async def _finished(begun: Coroutine[Any, Any, R]) -> R:
    """What comes of it; cancelled, it is waited for all the same, so that nothing goes on behind the caller's back."""
    task = asyncio.ensure_future(begun)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
