"""Carries out one verb of a person: reads the run under the write lock, lets the verb decide, and writes the audit row.

The person's role is asked for, the row version that they saw compared, who and why are required, and a refusal leaves
its row as well; a verb that takes two persons becomes a proposal. What each verb changes is `verbs`; what a row says is
`audit`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from fencepost.core.errors import ChangedSince, Misuse, VerbRefused
from fencepost.core.permissions import Permissions, case_for_two
from fencepost.core.proposals import Closing, Proposal
from fencepost.core.records import Audit, History, Operation, Run
from fencepost.core.standin import PURGED, told_by
from fencepost.core.states import RunState
from fencepost.effects.entry import Entry, Owner
from fencepost.runtime import audit
from fencepost.runtime.permits import Asked, require, require_a_word
from fencepost.runtime.proposing import propose
from fencepost.runtime.tracing import told
from fencepost.store.moves import Move, MoveRun, Observe, PinRun

if TYPE_CHECKING:
    from fencepost.effects.declare import Effect
    from fencepost.runtime.workflow import Workflow
    from fencepost.store.api import Store


class Desk(Asked, Protocol):
    """What a verb needs of an app: the ledger, who may do what, and the code of its effects for their contracts."""

    @property
    def workflows(self) -> Mapping[tuple[str, int], Workflow[..., Any]]:
        """The workflows that the app knows, by name and version."""

    @property
    def seconded(self) -> Proposal | None:
        """What another person has proposed, and this one carries out."""


@dataclass(slots=True)
class Deed:
    """What a verb changes: moves and observations, decided over the history it found; `also`: rows on other runs.

    `step` is the position that it is about, where that is no operation's, and `anew` where it stands from now on.
    """

    moves: list[Move]
    observations: list[Observe] = field(default_factory=list)
    also: list[Audit] = field(default_factory=list)
    step: str | None = None
    anew: str | None = None


class _TakesTwo(Exception):
    """Ends a decision that applies and takes two persons: `why`, and the run as it was found."""

    def __init__(self, why: str, history: History) -> None:
        super().__init__(why)
        self.why = why
        self.history = history


@told
def perform(
    app: Desk,
    run: Run,
    /,
    verb: str,
    *,
    by: str,
    reason: str,
    version: int | None,
    deed: Callable[[History, int], Deed],
    operation: tuple[str, str | None] | None = None,
    override: bool = False,
    asked: Mapping[str, Any] | None = None,
    guard: Callable[[Store, Run], None] | None = None,
) -> History:
    """Carry out one verb with its audit row; a refusal is audited as such, and so is an override of the law.

    Whoever lacks the verb's role is refused. Where two persons are needed, it is kept as a proposal instead, which
    `SecondPersonNeeded` tells; `asked` are the verb's own arguments, to be repeated by the second one. `guard` looks
    at other runs first, and raises where the verb may not be done.
    """
    store, seconded = app.store, app.seconded
    policy: Permissions | None = None
    below: list[Operation] = []

    def decision(history: History, now: int) -> Any:
        if version is not None and version != history.run.version:
            raise ChangedSince(
                "the run has changed since you looked at it", hint="look again, then decide", ids={"run": run.id}
            )
        if told_by(history.run.input, PURGED) is not None:
            raise VerbRefused(
                "the run was purged: what it did is not known any more",
                hint="nothing leads it; start another run",
                ids={"run": run.id},
            )
        target = None if operation is None else operation_in(history, *operation)
        before = audit.summary(history.run, target)
        two = (
            policy
            and not seconded
            and case_for_two(policy, verb, history, override=override, below=below, about=target)
        )
        done = deed(history, now)
        if two:  # it applies, so that somebody may well be asked to confirm it
            raise _TakesTwo(two, history)
        after_run = after_moves(history.run, done.moves)
        after = audit.summary(after_run, target, override=override, seconded=seconded, anew=done.anew)
        step, item = operation or (done.step, None)
        written = audit.row(
            history, verb=verb, by=by, reason=reason, now=now, before=before, after=after, step=step, item=item
        )
        return done.moves, done.observations, [written, *done.also]

    try:
        require_a_word(verb, by, reason, ids={"run": run.id})
        policy = require(app, verb, by)
        if verb == "compensate" and policy is not None and policy.compensating_above is not None:
            below = _reached_below(store, run)
        if guard is not None:
            guard(store, run)
        return store.decide(run.no, decision, confirms=None if seconded is None else Closing(seconded.no, by))
    except _TakesTwo as two:
        assert policy is not None, "it says that two are needed"
        where = {} if operation is None else {"step": operation[0], "item": operation[1]}
        arguments = where | dict(asked or {})
        raise propose(
            store, two.history, verb, why=two.why, arguments=arguments, by=by, reason=reason,
            lasts=policy.proposal_lasts,
        ) from None  # fmt: skip
    except Misuse as refused:
        history = store.load(run.no)
        step, item = operation or (None, None)
        same = audit.summary(history.run)
        store.audit(
            audit.row(
                history, verb=verb, by=by, reason=f"{reason} (refused: {refused.message})", now=store.now(),
                before=same, after=same, step=step, item=item, outcome="refused",
            )
        )  # fmt: skip
        raise


def _reached_below(store: Store, run: Run) -> list[Operation]:
    """The operations of a run's earlier turns and of its attached children, and of theirs: what goes back with it."""
    found: list[Operation] = []
    runs = [run]
    for one in runs:
        for history in store.load_all([one.no, *store.turns_with_effects(one)]):
            runs += [child for child in history.children if child.parent_step is not None]
            found += history.operations if history.run.no != run.no else []
    return found


def operation_in(history: History, step: str, item: str | None) -> Operation:
    """The operation that a verb is about. Raises `Misuse` where the run has none of this name."""
    found = next((one for one in history.operations if one.step == step and one.item == item), None)
    if found is None:
        known = ", ".join(one.position for one in history.operations) or "none"
        which = "" if item is None else f" with item {item!r}"
        raise Misuse(f"the run has no operation {step!r}{which}", hint=f"it has: {known}")
    return found


def in_turn(store: Store, run: Run, turn: int) -> Run:
    """That turn of a run. Raises `Misuse` where it has had no such turn."""
    found = run if turn == run.turn else store.turn(run.namespace, run.id, turn)
    if found is None:
        raise Misuse(
            f"the run has no turn {turn}", hint=f"it has turns 0 to {run.turn}; leave it out for the last one",
            ids={"run": run.id},
        )  # fmt: skip
    return found


def effect_of(app: Desk, operation: Operation) -> Effect[..., Any]:
    """The declared effect of an operation, found among the app's workflows."""
    for declared in app.workflows.values():
        for effect in declared.effects:
            if effect.name == operation.effect:
                return effect
    raise Misuse(
        f"no workflow of this app refers to an effect named {operation.effect!r}",
        hint="run the verb with the module and app that the run's workflow is in",
    )


def entry_of(app: Desk, history: History, operation: Operation) -> Entry:
    """The operation's entry, under nobody's lease. Raises `Misuse` where the app does not know its effect."""
    owner = Owner("", history.run.generation, history.run.state.value)
    return Entry(operation, effect_of(app, operation).contract, owner)


def after_moves(run: Run, moves: Sequence[Move]) -> Run:
    """The run as it is after those of these moves that are its own: its state, its generation and its version."""
    for move in moves:
        if move.run != run.no:
            continue
        if isinstance(move, PinRun):
            run = replace(run, workflow_version=move.pinned)
        elif isinstance(move, MoveRun):
            run = replace(run, state=RunState(move.to), generation=run.generation + move.raise_generation)
    return run
