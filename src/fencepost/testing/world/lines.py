"""The file behind each service of the outside world: one JSON line for each thing that happened, synced at once.

Since a line is on the disk before its reply is sent, killing anybody at any moment loses no count. What belongs
together (an object and the key under which it is remembered) is one line, so it is there whole or not at all. A service
that starts again folds its file (`service`); counting needs the file alone (`counts`). This module decides nothing.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter

KEPT_BODY_BYTES = 16 * 1024
"""Bodies of requests are kept as text up to this size; of longer ones only size and digest are."""


class _Line(BaseModel):
    """`at`: microseconds of the service's own clock; `wall`: microseconds since the Unix epoch that really passed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    at: int
    wall: int
    collection: str


class Arrived(_Line):
    """A whole request reached the service. `subject` is what its ordinal counts, `digest` SHA-256 of the raw body."""

    event: Literal["request"] = "request"
    method: str
    path: str
    action: str = ""
    key: str | None = None
    subject: str
    digest: str
    size: int
    body: str | None = None


class Broken(_Line):
    """A request began and broke off, or was dropped, before it was whole."""

    event: Literal["broken"] = "broken"


class Stored(BaseModel):
    """A result remembered under a key: the slot (endpoint, scope, key), the body it belongs to and the reply."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    slot: str
    digest: str
    status: int
    text: str


class Write(BaseModel):
    """One object made, changed or overwritten, as it is afterwards.

    `identity` is None where the object does not say which business object it is; `stale`: it overwrites a newer one.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    collection: str
    id: str
    value: dict[str, JsonValue]
    identity: str | None = None
    overwrites: bool = False
    stale: bool = False


class Committed(_Line):
    """The effect: every object it made or changed and, under an honoured key, the result to replay."""

    event: Literal["commit"] = "commit"
    writes: tuple[Write, ...]
    stored: Stored | None = None


class Refused(_Line):
    """A reply that says no; `stored` when it will be replayed under its key."""

    event: Literal["refusal"] = "refusal"
    status: int
    code: str
    stored: Stored | None = None


class Replayed(_Line):
    """The stored result of a key was given again."""

    event: Literal["replay"] = "replay"
    key: str
    status: int


class Struck(_Line):
    """A fault struck a request."""

    event: Literal["fault"] = "fault"
    label: str
    do: str
    when: str


class Hidden(_Line):
    """A look-up missed these objects, because they were too new for it."""

    event: Literal["hidden"] = "hidden"
    ids: tuple[str, ...]


class ClockMoved(_Line):
    """The service's clock now runs this many microseconds ahead of the real one."""

    event: Literal["clock"] = "clock"
    offset: int


Line = Arrived | Broken | Committed | Refused | Replayed | Struck | Hidden | ClockMoved
_ANY_LINE: TypeAdapter[Line] = TypeAdapter(Annotated[Line, Field(discriminator="event")])


def file_of(folder: Path, service: str) -> Path:
    """Return the path of a service's file."""
    return folder / f"{service}.jsonl"


def read(path: Path) -> Iterator[Line]:
    """Yield the complete lines of a file, none if there is no file. A torn last line, never answered, is left out.

    Raises `pydantic.ValidationError` on a complete line that is not one of ours.
    """
    if not path.exists():
        return
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield _ANY_LINE.validate_json(line)


class LineFile:
    """Appends lines to one file, which stays open as long as the process lives."""

    def __init__(self, path: Path) -> None:
        """Open for appending, after cutting off a torn last line that a killed predecessor left."""
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._size = path.read_bytes().rfind(b"\n") + 1
        os.ftruncate(self._descriptor, self._size)
        os.fsync(self._descriptor)

    def append(self, line: Line) -> None:
        """Write and sync one line; raises `OSError`, and leaves no piece of the line, when the disk refuses."""
        text = line.model_dump_json().encode() + b"\n"
        rest = memoryview(text)
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
            os.fsync(self._descriptor)
        except OSError:
            os.ftruncate(self._descriptor, self._size)
            raise
        self._size += len(text)
