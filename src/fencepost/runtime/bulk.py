"""One verb of a person on many runs: which runs are meant, a bounded selection, and what it would do to each.

A run that moved since it was selected, or shown, is refused, and so is one to which the verb does not apply; the others
go on. Doing it is a job of its own, in `bulking`; what a verb does, and when it is refused, is `verbs`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fencepost.core.errors import Misuse, RunNotFound
from fencepost.core.position import effect_position
from fencepost.core.proposals import Proposal
from fencepost.core.records import ASK_AGAIN, Audit, History, Run
from fencepost.core.states import RunState
from fencepost.runtime.deeds import Desk, after_moves
from fencepost.runtime.repertoire import ON_RUNS
from fencepost.store.api import RunFilter
from fencepost.store.moves import Move, MoveOperation, MoveRun, MoveStep, Observe

if TYPE_CHECKING:
    from fencepost.store.api import Decision, Store

IN_BULK: Mapping[str, Callable[..., Run]] = {
    verb: ON_RUNS[verb]
    for verb in (
        "resume",
        "reconcile",
        "retry",
        "cancel",
        "compensate",
        "compensate step",
        "terminate",
        "reopen",
        "migrate",
    )
}
"""The verbs that may be done to many.

Left out is what a person says of one run that they have looked at, since nobody has looked at a hundred: what happened
(`settle`, `settle conflict`), and that a thing is to be done another way, or decided anew (`forward`, `redecide`).
"""

_NEED_A_STEP = ("retry", "compensate step")
_TAKE_A_STEP = (*_NEED_A_STEP, "reconcile")

_PAGE = 200


@dataclass(frozen=True, slots=True)
class Selection:
    """Which runs are meant: in this state, or held for this reason; at most `limit` of them, the newest first.

    Or those that a person was `shown`: their ids, each with the row version that it had, such as a rehearsal gives.
    """

    state: str | None = None
    held_by: str | None = None
    workflow: str | None = None
    prefix: str | None = None
    limit: int = 20
    shown: Mapping[str, int] | None = None

    def check(self) -> None:
        """Raises `Misuse` unless exactly one of state, reason and what was shown is given, and the limit is one."""
        if sum(given is not None for given in (self.state, self.held_by, self.shown)) != 1:
            raise Misuse(
                "which runs are meant?",
                hint="give a state, the reason for which they are held, or those you were shown",
            )
        if self.state is not None and self.state not in set(RunState):
            raise Misuse(f"{self.state!r} is no state of a run", hint=f"one of: {', '.join(RunState)}")
        if not isinstance(self.limit, int) or self.limit < 1:
            raise Misuse(f"at most {self.limit!r} runs", hint="pass a limit from 1 on")


@dataclass(frozen=True, slots=True)
class Each:
    """What became of one run, or would: its state before and after, what moves in it; or why the verb was refused.

    `version` is that of its row before.
    """

    run: str
    before: str
    after: str
    moves: tuple[str, ...] = ()
    refused: str | None = None
    version: int = 0


def select(store: Store, namespace: str, wanted: Selection) -> list[Run]:
    """The runs that are meant, as they are now.

    Raises:
        Misuse: the selection is none.
        RunNotFound: one that was shown is not there.
    """
    wanted.check()
    if wanted.shown is not None:
        return [_as_shown(store, namespace, run, version) for run, version in wanted.shown.items()][: wanted.limit]
    state = RunState.HELD.value if wanted.state is None else wanted.state
    found: list[Run] = []
    after: int | None = None
    while len(found) < wanted.limit:
        page = store.runs(RunFilter(namespace, state, wanted.workflow, wanted.prefix, after, _PAGE))
        found += [run for run in page if wanted.held_by is None or _reason(run) == wanted.held_by]
        if len(page) < _PAGE:
            break
        after = page[-1].no
    return found[: wanted.limit]


def _as_shown(store: Store, namespace: str, run_id: str, version: int) -> Run:
    """The run, under the version that the person saw: if it has another one by now, the verb is refused."""
    found = store.find(namespace, run_id)
    if found is None:
        raise RunNotFound(f"no run has the id {run_id!r}", hint="nothing was done", ids={"run": run_id})
    return replace(found, version=version)


def require_known(verb: str) -> Callable[..., Run]:
    """The verb. Raises `Misuse` for one that may not be done to many."""
    done = IN_BULK.get(verb)
    if done is None:
        raise Misuse(f"{verb!r} is not done to many runs", hint=f"one of: {', '.join(IN_BULK)}")
    return done


def own_arguments(verb: str, *, step: str | None, item: str | None, to: int | None) -> dict[str, str | int | None]:
    """Of these what the verb takes beside who does it, and why.

    Raises:
        Misuse: it needs a step or a version that is not given, or takes none that is.
    """
    if (verb in _NEED_A_STEP and step is None) or (step is not None and verb not in _TAKE_A_STEP):
        raise Misuse(
            f"{verb} takes {'a' if verb in _NEED_A_STEP else 'no'} step",
            hint=f"{' and '.join(_NEED_A_STEP)} are about one step of each run, and reconcile may be",
        )
    if (to is None) is (verb == "migrate"):
        raise Misuse(f"{verb} takes {'a' if verb == 'migrate' else 'no'} version", hint="migrate needs one")
    if to is not None:
        return {"to": to}
    return {"step": step, "item": item} if verb in _TAKE_A_STEP else {}


def rehearse(app: Desk, runs: list[Run], verb: str, **arguments: Any) -> Iterator[Each]:
    """Find out what a verb would do to one run after the other; nothing is changed.

    Raises:
        Misuse: the verb is none that may be done to many.
    """
    done = require_known(verb)
    for run in runs:
        rehearsal = Rehearsal(app)
        try:
            after = done(rehearsal, run, version=run.version, **arguments)
        except RunNotFound:
            raise
        except Misuse as refused:
            yield Each(run.id, run.state.value, run.state.value, refused=refused.message, version=run.version)
        else:
            yield Each(run.id, run.state.value, after.state.value, rehearsal.moves, version=run.version)


class Rehearsal:
    """Stands in for an app while a verb is tried: decides over what the ledger holds, and writes nothing."""

    def __init__(self, app: Desk) -> None:
        self._store = app.store
        self.workflows = app.workflows
        self.namespace = app.namespace
        self.policy = app.policy
        self.login = app.login
        self.seconded = app.seconded
        self.moves: tuple[str, ...] = ()

    @property
    def store(self) -> Any:
        """Itself: of a store, a verb needs what is below."""
        return self

    def load(self, run: int) -> History:
        """See `Store.load`."""
        return self._store.load(run)

    def find(self, namespace: str, run_id: str) -> Run | None:
        """See `Store.find`."""
        return self._store.find(namespace, run_id)

    def load_all(self, runs: Sequence[int]) -> list[History]:
        """See `Store.load_all`."""
        return self._store.load_all(runs)

    def turns_with_effects(self, run: Run) -> list[int]:
        """See `Store.turns_with_effects`."""
        return self._store.turns_with_effects(run)

    def now(self) -> int:
        """See `Store.now`."""
        return self._store.now()

    def audit(self, row: Audit) -> Audit:
        """See `Store.audit`; nothing is written."""
        return row

    def propose(self, new: Proposal, audit: Callable[[Proposal], Audit]) -> Proposal:  # noqa: ARG002 - as below
        """See `Store.propose`; nothing is written."""
        return new

    def decide(self, run: int, decision: Decision, *, confirms: object = None) -> History:  # noqa: ARG002 - none is
        """See `Store.decide`; nothing is written, and the history is returned with the run as it would be."""
        history = self.load(run)
        moves, observations, _ = decision(history, self.now())
        children = {child.no: child.id for child in history.children}
        moved = (_moved(move, children) for move in moves)
        self.moves = (*filter(None, moved), *filter(None, map(_asked, observations)))
        history.run = after_moves(history.run, moves)
        return history


def _moved(move: Move, children: Mapping[int, str]) -> str | None:
    match move:
        case MoveOperation() if move.expected != move.to:
            return f"{effect_position(move.step, move.item or None)}: {move.expected} -> {move.to}"
        case MoveStep() if move.expected != move.to:
            return f"{move.position}: {move.expected} -> {move.to}"
        case MoveRun() if move.run in children:
            return f"child run {children[move.run]}: {move.expected} -> {move.to}"
        case _:
            return None


def _asked(seen: Observe) -> str | None:
    return f"{effect_position(seen.step, seen.item or None)}: asked about again" if seen.kind == ASK_AGAIN else None


def _reason(run: Run) -> str:
    return str(json.loads(run.hold or "{}").get("reason"))
