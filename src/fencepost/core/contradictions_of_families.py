"""What no parent, child or turn says if every rule was kept: each contradiction a named function.

A child is looked at beside its parent, and a turn beside the one before it, as they stand at one moment. Pure, as
`contradictions`, which has the records that these look at and the rules on a run by itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from fencepost.core.contradictions import ORDERLY_ENDS, Found, Ledgerwide, RunRule, Whole
from fencepost.core.states import RunState, StepState

_MOVES_AGAIN = ("resume", "reopen", "compensate", "compensate step")
"""The verbs after which a run goes on that had ended, whatever its parent was told of it."""


def lacking_its_parent(whole: Whole, _: Ledgerwide) -> Iterator[Found]:
    """The run that a run was started by is there."""
    run = whole.history.run
    if run.parent is not None and (whole.kin is None or whole.kin.parent is None):
        yield "run", f"its parent, run number {run.parent}, is not there"


def waited_for_at_no_position(whole: Whole, _: Ledgerwide) -> Iterator[Found]:
    """An attached child is waited for at a position of its parent's that is there for a child."""
    run, kin = whole.history.run, whole.kin
    if kin is None or kin.is_parent_purged:
        return
    if run.parent_step is not None and kin.parent is not None and kin.waits is None:
        yield "run", f"its parent has no position {run.parent_step!r} that waits for a child"


def outliving_its_parent(whole: Whole, _: Ledgerwide) -> Iterator[Found]:
    """A run ends by itself only when its attached children have ended; a person alone moves one of them again."""
    run, kin = whole.history.run, whole.kin
    if kin is not None and kin.parent in ORDERLY_ENDS and _is_on_its_first_way(whole):
        yield "run", f"it is {run.state}, and its parent is {kin.parent}"


def answered_before_its_end(whole: Whole, _: Ledgerwide) -> Iterator[Found]:
    """A parent is told how its child ended only when it has."""
    run, kin = whole.history.run, whole.kin
    if kin is not None and kin.waits in (StepState.DONE, StepState.FAILED) and _is_on_its_first_way(whole):
        yield "run", f"it is {run.state}, and its parent's {run.parent_step} is {kin.waits}"


def turn_out_of_its_place(whole: Whole, _: Ledgerwide) -> Iterator[Found]:
    """Each turn of a run is there once, behind one that has continued; and what has continued has a next one."""
    run, kin = whole.history.run, whole.kin
    if kin is None:
        return
    if kin.same_turn > 1:
        yield f"turn {run.turn}", f"{kin.same_turn} rows are this turn of the run"
    if run.turn > 0 and kin.turn_before is not RunState.CONTINUED:
        yield f"turn {run.turn}", f"the turn before it is {kin.turn_before or 'not there'}"
    if run.state is RunState.CONTINUED and not kin.has_next_turn:
        yield f"turn {run.turn}", "it has continued, and its next turn is not there"


def _is_on_its_first_way(whole: Whole) -> bool:
    """Whether an attached run has never ended."""
    run = whole.history.run
    moved = any(whole.verbs.get(verb) for verb in _MOVES_AGAIN)
    return run.parent_step is not None and run.ended_at is None and not moved


ON_FAMILIES: tuple[RunRule, ...] = (
    lacking_its_parent,
    waited_for_at_no_position,
    outliving_its_parent,
    answered_before_its_end,
    turn_out_of_its_place,
)
