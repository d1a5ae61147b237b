"""The audit row of a verb: who, when, which verb, why, and what it changed; refusals too.

Rows are chained by hash when they are stored. What a verb does is in `verbs`.
"""

from __future__ import annotations

from fencepost.core.identity import canonical
from fencepost.core.proposals import Proposal
from fencepost.core.records import Audit, History, Operation, Run, Signal

SIGNAL = "signal"
NOBODY = "a sender without a name"


def summary(
    run: Run, operation: Operation | None = None, *, override: bool = False, seconded: Proposal | None = None,
    anew: str | None = None,
) -> str:  # fmt: skip
    """What an audit row says of the state before or after: the run's and, where one is meant, the operation's.

    `override`: the law was set aside by name, and what the contract guarantees no longer holds. `seconded`: what
    another person had proposed, and this one has confirmed. `anew`: where a decision stands that is made anew.
    """
    said: dict[str, object] = {"run": run.state.value, "generation": run.generation, "pinned": run.workflow_version}
    if operation is not None:
        said["operation"] = operation.state.value
        said["attempts"] = [attempt.outcome.value for attempt in operation.attempts]
        said["reference"] = operation.reference
        if operation.conflict:
            said["conflict"] = True
    if anew is not None:
        said["decided at"] = anew
    if override:
        said["guarantee"] = "lost by override"
    if seconded is not None:
        said["proposal"] = seconded.no
        said["proposed by"] = seconded.proposed_by
    return canonical(said)


def row(
    history: History, *, verb: str, by: str, reason: str, now: int, before: str, after: str, step: str | None = None,
    item: str | None = None, outcome: str = "done",
) -> Audit:  # fmt: skip
    """One audit row of a verb on a run, or on one operation of it."""
    return Audit(
        at=now,
        actor=by,
        verb=verb,
        run_id=history.run.id,
        outcome=outcome,
        reason=reason,
        before=before,
        after=after,
        namespace=history.run.namespace,
        step=step,
        item=item,
    )


def of_refusal(namespace: str, verb: str, about: str, *, by: str, why: str, now: int, step: str | None = None) -> Audit:
    """The audit row of what was refused before there was anything to look at; `about` stands for the run."""
    return Audit(now, by, verb, about, "refused", why, "{}", "{}", namespace, step)


def of_signal(
    history: History, signal: Signal, reason: str, now: int, *, verb: str = SIGNAL, outcome: str = "refused"
) -> Audit:  # fmt: skip
    """The audit row of a signal: what became of it, and why; the wait's name stands for the step."""
    same = summary(history.run)
    told = reason.replace("\0", "\\0")  # a person's comment may hold what PostgreSQL's text cannot
    return row(
        history, verb=verb, by=signal.sender or NOBODY, reason=told, now=now, before=same, after=same,
        step=signal.name, outcome=outcome,
    )  # fmt: skip
