"""What the world has seen of one run: requests, objects, keys and bodies, each by the step that they are for.

Read from the world's files, so nothing that a killed process believed can enter. Which numbers are right is said by
the tests.
"""

import json
from collections import Counter
from dataclasses import dataclass, field

from fencepost.core.records import History, Operation
from fencepost.testing.world import WorldFiles
from fencepost.testing.world.lines import Arrived, Committed, Write

SERVICES = ("tasks", "books")
COLLECTIONS = ("tasks", "entries", "payments", "reversals", "refunds")
UNDOING = ("reversals", "refunds")
"""Collections whose objects undo others; a task is undone by its state."""


@dataclass
class End:
    """How a run ended, in the ledger and at the world; counts are by the name behind the run's ("first")."""

    state: str
    requests: Counter
    objects: Counter
    keys: dict[str, int]
    bodies: dict[str, int]
    held: list[str]
    history: History
    undone: list[str] = field(default_factory=list)
    """Names in the order in which their compensations were committed."""


def count(files: WorldFiles, history: History, held: list[str]) -> End:
    """What the world has seen of a run."""
    run_id = history.run.id
    requests: Counter = Counter()
    keys: dict[str, set] = {}
    bodies: dict[str, set] = {}
    arrived = [line for service in SERVICES for line in files.lines(service) if isinstance(line, Arrived)]
    for line in arrived:
        if line.method == "GET" or f'"{run_id}/' not in (line.body or ""):
            continue
        name = _what(json.loads(line.body)["name"], run_id, undo=bool(line.action))
        requests[name] += 1
        keys.setdefault(name, set()).add(line.key)
        bodies.setdefault(name, set()).add(line.digest)
    objects, undone = _objects(files, run_id)
    return End(
        history.run.state.value, requests, objects, {name: len(seen) for name, seen in keys.items()},
        {name: len(seen) for name, seen in bodies.items()}, list(held), history, undone,
    )  # fmt: skip


def _objects(files: WorldFiles, run_id: str) -> tuple[Counter, list[str]]:
    """What was made and undone for a run, each counted, and the undone ones in their order."""
    objects: Counter = Counter()
    undone: list[tuple[int, str]] = []
    for at, write in _writes(files):
        name, state = write.value.get("name", ""), write.value.get("state")
        # A payment or entry that was undone is written once more beside the object that undoes it.
        if not name.startswith(f"{run_id}/") or state in ("refunded", "reversed"):
            continue
        is_undo = write.collection in UNDOING or state == "cancelled"
        what = _what(name, run_id, undo=is_undo)
        objects[what] += 1
        if is_undo:
            undone.append((at, what))
    return objects, [name for _, name in sorted(undone)]


def _writes(files: WorldFiles) -> list[tuple[int, Write]]:
    """Every object made or changed, with its time."""
    commits = [line for service in SERVICES for line in files.lines(service) if isinstance(line, Committed)]
    return [(line.at, write) for line in commits for write in line.writes]


def made(files: WorldFiles, operation: Operation) -> str | None:
    """The id of what an operation made at the world, if it made something."""
    name = json.loads(operation.request)["order"]["name"]
    is_undo = operation.compensates is not None
    for collection in COLLECTIONS:
        for one in files.objects(collection):
            undoes = collection in UNDOING or one.get("state") == "cancelled"
            if one.get("name") == name and undoes == is_undo:
                return one["id"]
    return None


def _what(name: str, run_id: str, *, undo: bool) -> str:
    step = name.removeprefix(f"{run_id}/")
    return f"undo {step}" if undo else step
