"""The documents of what is listed, one for each row: the same for `--json` on the command line and for the HTTP API.

Keys are stable: new ones may come, none changes its meaning. Instants are ISO 8601 in UTC. A run with its steps is
`story`'s matter; which rows there are is the store's.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from fencepost.console.printable import instant
from fencepost.core.states import label

if TYPE_CHECKING:
    from fencepost.core.records import Run

Document = dict[str, Any]


def run_row(run: Run) -> Document:
    """A run as lists show it."""
    return {
        "id": run.id,
        "workflow": run.workflow,
        "workflow_version": run.workflow_version,
        "state": run.state.value,
        "label": label(run.state),
        "generation": run.generation,
        "version": run.version,
        "created_at": instant(run.created_at),
        "changed_at": instant(run.changed_at),
        "ended_at": instant(run.ended_at),
        "wake_at": instant(run.wake_at),
        "hold": None if run.hold is None else json.loads(run.hold),
        "turn": run.turn,
        "parent": run.parent is not None,
    }
