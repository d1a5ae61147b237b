"""What the code that runs just now is about: which run, and which attempt of which step; for whoever writes a log line.

Set by whoever lives a run and before each body; the context of a task goes along to what it calls, also on threads.
Putting it on lines is `telemetry.logs`.
"""

from __future__ import annotations

from contextvars import Context, ContextVar, copy_context
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fencepost.core.records import Run
    from fencepost.effects.attempting import Attempting

RUN: ContextVar[Run | None] = ContextVar("fencepost_run", default=None)
ATTEMPTING: ContextVar[Attempting | None] = ContextVar("fencepost_attempting", default=None)


def about(run: Run) -> Context:
    """A context for a task that lives this run, and no other."""
    context = copy_context()
    context.run(RUN.set, run)
    context.run(ATTEMPTING.set, None)
    return context
