"""One value of each kind that storage is known to lose, and a child process that reads them back.

`python -m tests.effects.shapes` reads {name: text} from standard input and answers for each kind, as JSON, where the
value read there differs from the one made there (null: nowhere), and the fingerprint of the one made there.
What is refused instead is listed in test_values.
"""

import json
import sys
from collections import OrderedDict, defaultdict, deque
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag, IntEnum, StrEnum
from pathlib import PurePosixPath
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeVar
from uuid import UUID

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, PrivateAttr, computed_field

from fencepost.core.identity import digest_text, fingerprint, operation_key
from fencepost.effects.values import ArgumentsDoor, Door, same


class Colour(Enum):
    RED = 1
    GREEN = "green"


class Level(IntEnum):
    LOW = 1


class Unit(StrEnum):
    PIECE = "piece"


class Right(Flag):
    READ = 1
    WRITE = 2


class Line(BaseModel):
    id: int
    amount: Decimal
    colour: Colour = Colour.RED


class Invoice(BaseModel):
    number: str = Field(alias="invoiceNumber", default="")
    tags: set[str] = set()
    lines: list[Line] = []
    due: datetime | None = None
    other: int = Field(default=0, validation_alias=AliasChoices("autre", "andere"), serialization_alias="anders")

    @computed_field
    @property
    def total(self) -> Decimal:
        return sum((line.amount for line in self.lines), Decimal(0))


class Blob(BaseModel):
    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64", extra="allow", frozen=True)
    data: bytes


class Awkward(BaseModel):
    """Its fields are named like the parts of pydantic's own schemas."""

    type: frozenset[str]
    default: frozenset[str] = frozenset("abcdef")
    config: frozenset[str] = frozenset("abcdef")
    metadata: frozenset[str] = frozenset("abcdef")
    members: frozenset[str] = frozenset("abcdef")
    expected: frozenset[str] = frozenset("abcdef")
    fields: frozenset[str] = frozenset("abcdef")
    choices: frozenset[str] = frozenset("abcdef")
    serialization: frozenset[str] = frozenset("abcdef")


class Cat(BaseModel):
    type: Literal["default"] = "default"
    names: set[str]


class Dog(BaseModel):
    type: Literal["type"] = "type"
    names: set[str]


class Tree(BaseModel):
    name: str
    kinds: frozenset[Unit | Literal["x", "y"]] = frozenset()
    inner: list["Tree"] = []


T = TypeVar("T")


class Page(BaseModel, Generic[T]):
    entries: tuple[T, ...]
    _cursor: str = PrivateAttr(default="")


@dataclass
class Doubled:
    single: int
    double: int = field(init=False)

    def __post_init__(self) -> None:
        self.double = self.single * 2


@dataclass(frozen=True, slots=True)
class Slotted:
    at: datetime
    colour: Colour


class Pair(NamedTuple):
    left: int
    right: str


BERLIN_SUMMER = timezone(timedelta(hours=2))
HARD_TEXT = "Ünï 注文 \U0001f600 \x00 \x7f \u2028 e\u0301"

KEPT: dict[str, tuple[Any, Any]] = {
    "none": (None, None),
    "text": (str, HARD_TEXT),
    "integer beyond 64 bits": (int, 2**63),
    "integer of 4,300 digits": (int, 10**4299),
    "any: integer beyond 64 bits": (Any, 2**64),
    "float": (float, 0.1 + 0.2),
    "negative zero": (float, -0.0),
    "large float": (float, 1e300),
    "decimal": (Decimal, Decimal("100.00")),
    "negative zero decimal": (Decimal, Decimal("-0.0")),
    "exponent": (Decimal, Decimal("1E+5")),
    "bytes": (bytes, bytes(range(256))),
    "list of bytes": (list[bytes], [b"\xff\xfe", b"text", b""]),
    "base64 model with extra": (Blob, Blob(data=b"\x00\xff", more=[1, None])),
    "aware datetime": (datetime, datetime(2024, 2, 29, 12, 0, 0, 1, tzinfo=UTC)),
    "datetime with offset": (datetime, datetime(2024, 7, 1, 12, tzinfo=BERLIN_SUMMER)),
    "naive datetime": (datetime, datetime(2024, 10, 27, 2, 30)),  # noqa: DTZ001 - naive on purpose
    "date": (date, date(1, 1, 1)),
    "time": (time, time(23, 59, 59, 999_999)),
    "timedelta": (timedelta, timedelta(days=-3, microseconds=7)),
    "uuid": (UUID, UUID(int=7)),
    "path": (PurePosixPath, PurePosixPath("/a/é")),
    "enum": (Colour, Colour.GREEN),
    "integer enum": (Level, Level.LOW),
    "text enum": (Unit, Unit.PIECE),
    "flag": (Right, Right.READ | Right.WRITE),
    "nested enum": (dict[Unit, list[Level | Colour]], {Unit.PIECE: [Level.LOW, Colour.GREEN]}),
    "tuple": (tuple[int, str], (1, "a")),
    "long tuple": (tuple[int, ...], (1, 2, 3)),
    "named tuple": (Pair, Pair(1, "a")),
    "set": (set[str], {"b", "a", "é", "c", "d", "e", "f"}),
    "set of integers": (set[int], {30, 1, 2, 100}),
    "set of enums": (set[Colour], {Colour.GREEN, Colour.RED}),
    "set of pairs": (frozenset[Pair], frozenset({Pair(2, "a"), Pair(1, "b"), Pair(1, "a")})),
    "integer keys": (dict[int, str], {10: "a", 9: "b"}),
    "date keys": (dict[date, int], {date(2024, 1, 2): 1, date(2024, 1, 1): 2}),
    "boolean keys": (dict[bool, int], {True: 1, False: 0}),
    "decimal keys": (dict[Decimal, int], {Decimal("1.0"): 1}),
    "ordered dict": (OrderedDict[str, int], OrderedDict(a=1, b=2)),
    "deque": (deque[int], deque([3, 1, 2])),
    "defaultdict": (defaultdict[str, list[int]], defaultdict(list, a=[1])),
    "any: plain JSON": (Any, {"a": [1, 1.0, True, None, "x", {"b": {}}]}),
    "union": (int | str | Line, Line(id=1, amount=Decimal(1))),
    "union of text and number": (list[int | str], [1, "1"]),
    "annotated": (Annotated[int, Field(gt=0)], 5),
    "model": (
        Invoice,
        Invoice(
            invoiceNumber="7/3",
            tags={"x", "y", "z", "u", "v", "w"},
            lines=[Line(id=1, amount=Decimal("1.10"), colour=Colour.GREEN)],
            due=datetime(2024, 1, 1, tzinfo=UTC),
            autre=3,
        ),
    ),
    "awkward names": (Awkward, Awkward(type=frozenset("abcdef"))),
    "tagged union": (
        list[Annotated[Cat | Dog, Field(discriminator="type")]],
        [Cat(names=set("abcdef")), Dog(names=set("abcdef"))],
    ),
    "recursive model": (
        Tree,
        Tree(name="a", inner=[Tree(name="b", kinds=frozenset({Unit.PIECE, "x", "y"})), Tree(name="c")]),
    ),
    "generic model": (Page[Line], Page[Line](entries=(Line(id=1, amount=Decimal("0.00")),))),
    "dataclass with a computed field": (Doubled, Doubled(4)),
    "slotted dataclass": (Slotted, Slotted(at=datetime(2024, 1, 1, tzinfo=UTC), colour=Colour.RED)),
    "dict of lists of models": (dict[str, list[Line]], {"b": [Line(id=1, amount=Decimal(2))], "a": []}),
}


async def submit(call: object, invoice: Invoice, *, tags: frozenset[str], note: bytes = b"\xff") -> None:
    """A step of several arguments, whose fingerprint must be the same everywhere."""


def answers(texts: dict[str, str]) -> dict[str, list[str | None]]:
    """For each kind: where the value of its text differs from the value made here, and the latter's fingerprint."""
    found: dict[str, list[str | None]] = {}
    for name, (annotation, value) in KEPT.items():
        door = Door(annotation, where=name)
        found[name] = [same(door.decode(texts[name]), value, where=name), digest_text(door.encode(value).encode())]
    arguments = ArgumentsDoor(submit).encode((KEPT["model"][1],), {"tags": frozenset("abcdefgh")})
    found["arguments"] = [None, digest_text(arguments.encode())]
    found["key"] = [None, operation_key("n", "Rechnung-Ü", "pay", HARD_TEXT, 1)]
    found["plain"] = [None, fingerprint({"é": [0.1, 1e22, -0.0, 2**70], "a": None, "Z": "ß"})]
    return found


if __name__ == "__main__":
    json.dump(answers(json.load(sys.stdin)), sys.stdout)
