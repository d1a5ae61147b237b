"""What a verb on a child owes to the runs above it: none that has ended goes on below one that goes back.

A parent that is compensated compensates its attached children with it, and says so of the whole. A child that went on
afterwards would make effects of which nobody takes any back, beside a parent that says that none stands. How a parent
compensates its children is `compensating`; the verbs that ask here are in `verbs` and `forward`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencepost.core.errors import VerbRefused
from fencepost.core.records import History, Run
from fencepost.core.states import COMPENSATED, RunState

if TYPE_CHECKING:
    from fencepost.store.api import Store


def require_no_way_back_above(store: Store, run: Run) -> None:
    """Refuse to let a child that has ended go on while a run above it goes back, or after it has.

    Raises:
        VerbRefused: one does; nothing was changed.
    """
    if run.ended_at is None:
        return  # whoever goes back above waits for its end, and takes its effects back then
    below = run
    while below.parent is not None and below.parent_step is not None:
        parent = store.load(below.parent).run
        above = store.load((store.find(parent.namespace, parent.id) or parent).no)
        if _goes_back(above):
            raise VerbRefused(
                f"run {above.run.id!r}, whose child it is, goes back or has gone back: "
                "what the child did now would stand beside that",
                hint="what is wanted anew is a run of its own, under another id",
                ids={"run": run.id, "parent": above.run.id},
            )
        below = above.run


def _goes_back(history: History) -> bool:
    begun = any(step.kind == "compensate" for step in history.steps)
    return begun or history.run.state in COMPENSATED or history.run.state is RunState.COMPENSATING
