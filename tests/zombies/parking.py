"""Where the runs of a victim stand, each at the point of its cell, until the word comes; and a file that tells of it.

Each cell stands once: whoever performs it after that passes. What is done to the process meanwhile is in `faults`.
"""

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.zombies.cells import CELLS

What = Literal["stands", "woke", "moved", "stale", "illegal", "duplicate"]
"""It has come to its point; it goes on; and the ledger's answers to what it wanted to write."""

_POINTS = {"http:connect": 3, "http:last byte out": 4}


@dataclass(frozen=True)
class Note:
    """What became of one cell's run in its first owner."""

    cell: str
    what: What
    at: int


class Notes:
    """A file of notes, appended by one process and read by another."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def add(self, cell: str, what: What) -> None:
        """Append a note; one write, so that two threads do not mix theirs."""
        line = json.dumps({"cell": cell, "what": what, "at": time.monotonic_ns()})
        with self.file.open("ab", buffering=0) as file:
            file.write(f"{line}\n".encode())

    def read(self) -> list[Note]:
        """Every note so far, in order."""
        if not self.file.exists():
            return []
        return [Note(**json.loads(line)) for line in self.file.read_text("utf-8").splitlines()]

    def having(self, what: What) -> set[str]:
        """The cells of which this was noted."""
        return {note.cell for note in self.read() if note.what == what}

    def answers_after_waking(self) -> Iterator[Note]:
        """What the ledger answered to a cell's run after it went on."""
        woke: set[str] = set()
        for note in self.read():
            if note.what == "woke":
                woke.add(note.cell)
            elif note.what != "stands" and note.cell in woke:
                yield note


class Parking:
    """Lets threads stand at their points; one per process. Without `notes` everybody passes."""

    def __init__(self, notes: Notes | None) -> None:
        self.notes = notes
        self._word = threading.Event()
        self._left = {(cell.id, cell.point) for cell in CELLS} if notes is not None else set()
        self._here = threading.local()

    def give_word(self) -> None:
        """Let everybody go on."""
        self._word.set()

    def stand(self, cell: str, point: int) -> None:
        """Stand here until the word is given, if this is the cell's point and it has not stood yet."""
        self._here.cell = cell
        if (cell, point) not in self._left:
            return
        self._left.discard((cell, point))
        assert self.notes is not None, "without notes nobody stands"
        self.notes.add(cell, "stands")
        self._word.wait()
        self.notes.add(cell, "woke")

    def probe(self, point: str) -> None:
        """A fault point of a send, reached by the thread of the cell that stood, or could have, before it."""
        if point in _POINTS:
            self.stand(getattr(self._here, "cell", ""), _POINTS[point])


def pid_is_stopped(pid: int) -> bool:
    """Whether the kernel has stopped every thread of a process."""
    return all(_state(task / "stat") == "T" for task in Path(f"/proc/{pid}/task").iterdir())


def _state(stat: Path) -> str:
    return stat.read_text("ascii").rpartition(")")[2].split()[0]
