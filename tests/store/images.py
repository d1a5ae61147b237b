"""A recorded disk: every write, sync, cut and delete of the real SQLite, and what a power cut could leave of them.

`Tape` is a file layer for SQLite (an APSW VFS over the system's own); the store reaches it through its `connect` seam.
`images` replays a tape event by event and draws what may be on the disk if the power fails right then: of each file
the content at its last sync, and of what came later each write kept, dropped or cut short, each by itself.

Left out: directory entries (a file exists from its creation on, and a delete is final at once), writes that reach the
disk partly beyond their own bytes (SQLite's "powersafe overwrite"), a sync that lies, and blocks that rot. The -shm
file is not recorded: it is rebuilt after every crash. What must survive is `crash`'s matter.
"""

import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from fencepost.store.connection import SqliteError

Fault = Callable[[str, str], None]
_names = itertools.count()


class Event(NamedTuple):
    """One thing that was done to a file, or a fact that was acknowledged ("told")."""

    kind: str  # write, cut, sync, delete, told
    file: str
    offset: int = 0
    data: bytes = b""
    fact: Any = None


class Tape(apsw.VFS):
    """Records what SQLite does to its files. `fault`, when set, is called first and may raise an `apsw.Error`."""

    def __init__(self) -> None:
        self.name = f"tape-{next(_names)}"
        self.events: list[Event] = []
        self.fault: Fault | None = None
        super().__init__(self.name, base="")

    def record(self, event: Event) -> None:
        if self.fault is not None:
            self.fault(event.kind, event.file)
        self.events.append(event)

    def tell(self, fact: Any) -> None:
        """From now on somebody knows `fact`, so that no power cut may take it away."""
        self.events.append(Event("told", "", fact=fact))

    def xOpen(self, name: Any, flags: list[int]) -> "TapedFile":  # noqa: N802 - SQLite's name
        return TapedFile(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802 - SQLite's name
        self.record(Event("delete", Path(filename).name))
        super().xDelete(filename, syncdir)

    def connect(self, path: str) -> "TapedConnection":
        """What `open_store(..., connect=...)` takes."""
        return TapedConnection(path, self.name)


class TapedFile(apsw.VFSFile):
    """One open file; what it reads, locks and maps goes to the system's own layer untouched."""

    def __init__(self, tape: Tape, name: Any, flags: list[int]) -> None:
        self._tape = tape
        self._name = Path(name.filename() if isinstance(name, apsw.URIFilename) else name or "temporary").name
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - SQLite's name
        self._tape.record(Event("write", self._name, offset, bytes(data)))
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802 - SQLite's name
        self._tape.record(Event("cut", self._name, newsize))
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:  # noqa: N802 - SQLite's name
        self._tape.record(Event("sync", self._name))
        super().xSync(flags)


class TapedConnection:
    """APSW behind the store's seam; see `fencepost.store.connection.Connection`."""

    def __init__(self, path: str, vfs: str) -> None:
        try:
            self._inner = apsw.Connection(path, vfs=vfs)
        except apsw.Error as error:
            raise told(error) from error
        self._closed = False

    def execute(self, statement: str, parameters: Sequence[Any] = (), /) -> list[tuple[Any, ...]]:
        try:
            return list(self._inner.execute(statement, parameters))
        except apsw.Error as error:
            raise told(error) from error

    def change(self, statement: str, parameters: Sequence[Any] = (), /) -> int:
        return self.change_many(statement, [parameters])

    def change_many(self, statement: str, rows: Iterable[Sequence[Any]], /) -> int:
        try:
            before = self._inner.total_changes()
            self._inner.executemany(statement, rows)
            return self._inner.total_changes() - before
        except apsw.Error as error:
            raise told(error) from error

    @property
    def in_transaction(self) -> bool:
        return not self._closed and self._inner.in_transaction

    def interrupt(self) -> None:
        self._inner.interrupt()

    def close(self) -> None:
        self._closed = True
        # APSW reports what its own file layer met while closing; SQLite, and the standard library, do not.
        with suppress(apsw.Error):
            self._inner.close()


class SmallLog(TapedConnection):
    """Checkpoints after a few pages, so that a short workload passes through many; all else as the product asks."""

    def execute(self, statement: str, parameters: Sequence[Any] = (), /) -> list[tuple[Any, ...]]:
        if statement.startswith("PRAGMA wal_autocheckpoint"):
            statement = "PRAGMA wal_autocheckpoint = 40"
        return super().execute(statement, parameters)


def told(error: apsw.Error) -> SqliteError:
    return SqliteError(getattr(error, "extendedresult", 1) or 1, str(error))


@dataclass
class DiskFile:
    """A file as the disk may hold it: what was synced, and what came since, in order."""

    synced: bytearray = field(default_factory=bytearray)
    since: list[Event] = field(default_factory=list)

    def sync(self) -> None:
        self.synced = self.after(self.since)
        self.since = []

    def after(self, events: Iterable[Event]) -> bytearray:
        content = bytearray(self.synced)
        for event in events:
            if event.kind == "cut":
                del content[event.offset :]
                content.extend(bytes(event.offset - len(content)))
                continue
            content.extend(bytes(max(0, event.offset - len(content))))
            content[event.offset : event.offset + len(event.data)] = event.data
        return content


Disk = dict[str, DiskFile]
Image = dict[str, bytes]
Fate = Callable[[list[Event]], list[Event]]


def images(events: Sequence[Event], draw: random.Random, per_event: int) -> Iterator[tuple[int, Image]]:
    """After each event: nothing that was not synced, all of it, and drawn subsets with some writes cut short.

    Yields (how many events had happened, content by file name), each image once.
    """
    disk: Disk = {}
    known: set[int] = set()
    for happened, event in enumerate(events, 1):
        apply(disk, event)
        for fate in [drop, keep, *[anything(draw) for _ in range(per_event - 2)]]:
            image = image_of(disk, fate)
            mark = hash(tuple(sorted(image.items())))
            # The same bytes are looked at again only when more was promised meanwhile.
            if mark not in known or event.kind == "told":
                known.add(mark)
                yield happened, image


def last_image(events: Sequence[Event], fate: Fate) -> Image:
    """What is on the disk after all events, when `fate` befalls whatever was not synced."""
    disk: Disk = {}
    for event in events:
        apply(disk, event)
    return image_of(disk, fate)


def image_of(disk: Disk, fate: Fate) -> Image:
    return {name: bytes(file.after(fate(file.since))) for name, file in disk.items()}


def apply(disk: Disk, event: Event) -> None:
    if event.kind == "delete":
        disk.pop(event.file, None)
    elif event.kind == "sync":
        disk.setdefault(event.file, DiskFile()).sync()
    elif event.kind in ("write", "cut"):
        disk.setdefault(event.file, DiskFile()).since.append(event)


def write_image(image: Image, folder: Path) -> None:
    """Leave exactly this image in `folder`."""
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for name, content in image.items():
        (folder / name).write_bytes(content)


def drop(since: list[Event]) -> list[Event]:
    return []


def keep(since: list[Event]) -> list[Event]:
    return since


def anything(draw: random.Random) -> Fate:
    """Each write by itself: kept, dropped, or cut short."""

    def fate(since: list[Event]) -> list[Event]:
        left = []
        for event in since:
            chance = draw.random()
            if chance < 0.5:
                left.append(event)
            elif chance < 0.75 and event.kind == "write":
                left.append(event._replace(data=event.data[: draw.randrange(len(event.data) + 1)]))
        return left

    return fate
