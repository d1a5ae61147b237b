"""A value comes back equal in value and type, or it is refused when it is saved, with its path; nothing in between.

What is kept is listed in `shapes`, and read there by another process under other settings.
"""

import datetime as dt
import json
import math
import os
import subprocess
import sys
import threading
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any, ForwardRef
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, PrivateAttr, SecretStr, field_validator
from typing_extensions import TypedDict  # the one that pydantic reads before Python 3.12

from fencepost.core.errors import DeclarationError, ValueRefused
from fencepost.core.identity import DEPTH_MAX, canonical, digest_text
from fencepost.effects.values import MIB, Door, same
from tests.effects import shapes
from tests.effects.shapes import KEPT, Blob, Colour, Doubled, Invoice, Level, Line, Pair, Slotted, Unit


@pytest.mark.parametrize("name", KEPT)
def test_it_comes_back_equal_in_value_and_type(name: str):
    annotation, value = KEPT[name]
    door = Door(annotation, where="result")
    text, copy = door.carry(value)
    back = door.decode(text)
    assert back == value
    assert type(back) is type(value)
    assert same(value, back) is None
    assert same(value, copy) is None
    assert canonical(json.loads(text)) == text
    assert door.encode(back) == text


SETTINGS = [
    {"LC_ALL": "C", "PYTHONHASHSEED": "0", "TZ": "UTC"},
    {"LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "1", "TZ": "Asia/Kathmandu"},
    {"LC_ALL": "POSIX", "PYTHONHASHSEED": "2", "TZ": "America/St_Johns", "PYTHONUTF8": "1"},
    {"LC_ALL": "C", "PYTHONHASHSEED": "31337", "TZ": "Pacific/Chatham", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
]


def test_a_new_process_reads_the_same_values_and_computes_the_same_identities():
    texts = {name: Door(annotation, where=name).encode(value) for name, (annotation, value) in KEPT.items()}
    here = shapes.answers(texts)
    assert {name: where for name, (where, _) in here.items() if where} == {}
    for settings in SETTINGS:
        child = subprocess.run(
            [sys.executable, "-m", "tests.effects.shapes"],
            input=json.dumps(texts),
            env=os.environ | settings | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert child.returncode == 0, child.stderr
        assert json.loads(child.stdout) == here, settings


# -- what is refused ----------------------------------------------------------------------------------------------


class Text(str):
    __slots__ = ()


class SubLine(Line):
    secret: str = "x"


class Basket(BaseModel):
    lines: list[Line] = []
    any: Any = None
    rate: float = 0.0
    name: str = ""
    raw: bytes = b""
    count: int = 0
    hidden: str = Field(default="", exclude=True)
    key: SecretStr = SecretStr("")
    _cache: list[int] = PrivateAttr(default_factory=list)

    def with_cache(self, *numbers: int) -> "Basket":
        self._cache.extend(numbers)
        return self


class Trimmed(BaseModel):
    name: str

    @field_validator("name")
    @classmethod
    def trimmed(cls, name: str) -> str:
        return name.strip()


class Options(TypedDict, total=False):
    size: int


class Bare:
    pass


@dataclass
class Counted:
    start: int
    now: int = field(init=False, default=0)


def doubled(single: int, double: int) -> Doubled:
    value = Doubled(single)
    value.double = double
    return value


def annotated(value: Any) -> Any:
    value.note = "set beside its fields"
    return value


UTC_NOON = dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)
DEEP: list[Any] = []
for _ in range(DEPTH_MAX):
    DEEP = [DEEP]
CYCLE: list[Any] = []
CYCLE.append(CYCLE)
COUNTED = Counted(1)
COUNTED.now = 5

REFUSED: dict[str, tuple[Any, Any, str]] = {
    "nan": (float, math.nan, "request"),
    "infinity in a model": (Basket, Basket(rate=math.inf), "request.rate"),
    "nan under any": (Basket, Basket(any=[1, {"a": math.nan}]), "request.any[1].a"),
    "decimal nan": (list[Decimal], [Decimal(1), Decimal("NaN")], "request[1]"),
    "lone surrogate": (Basket, Basket.model_construct(name="\ud800"), "request.name"),
    "lone surrogate in a key": (dict[str, int], {"\ud800": 1}, 'request["\\ud800"]'),
    "bytes that are no utf-8, in a model": (Basket, Basket(raw=b"\xff"), "request.raw"),
    "bytes under any": (Any, {"a": [b"text"]}, "request.a[0]"),
    "datetime under any": (Basket, Basket(any={"at": UTC_NOON}), "request.any.at"),
    "decimal under any": (Any, [Decimal(1)], "request[0]"),
    "set under any": (Any, {1, 2}, "request"),
    "tuple under any": (Basket, Basket(any=(1, 2)), "request.any"),
    "model under any": (Basket, Basket(any=Line(id=1, amount=Decimal(1))), "request.any"),
    "enum under any": (Any, [Colour.RED], "request[0]"),
    "integer keys under any": (Any, {"a": {1: 2}}, "request.a[1]"),
    "object under any": (Any, {"a": [object()]}, "request.a[0]"),
    "text subclass": (Basket, Basket.model_construct(name=Text("x")), "request.name"),
    "text enum as text": (list[str], ["a", Unit.PIECE], "request[1]"),
    "integer enum as integer": (int, Level.LOW, "request"),
    "boolean as integer": (int, True, "request"),
    "integer as float": (list[float], [1.0, 1], "request[1]"),
    "integer as decimal": (Decimal, 100, "request"),
    "text as decimal": (Decimal, "100.00", "request"),
    "list as tuple": (tuple[int, ...], [1], "request"),
    "tuple as list": (dict[str, list[int]], {"a": (1,)}, "request.a"),
    "dict as model": (Line, {"id": 1, "amount": "1"}, "request"),
    "subclass of a model": (
        list[Line],
        [Line(id=1, amount=Decimal(1)), SubLine(id=1, amount=Decimal(1))],
        "request[1]",
    ),
    "field of a wrong type": (Line, Line.model_construct(id="5", amount=Decimal(1), colour=Colour.RED), "request.id"),
    "field left out": (Line, Line.model_construct(id=5), "request.amount"),
    "field that a validator changes": (Trimmed, Trimmed.model_construct(name=" a "), "request.name"),
    "excluded field": (Basket, Basket(hidden="x"), "request.hidden"),
    "secret": (Basket, Basket(key=SecretStr("hunter2")), "request.key"),
    "private attribute": (Basket, Basket().with_cache(1), "request._cache"),
    "computed field changed by hand": (Doubled, doubled(4, 9), "request.double"),
    "field without init changed": (Counted, COUNTED, "request.now"),
    "attribute beside a dataclass's fields": (Doubled, annotated(Doubled(4)), "request.note"),
    "named zone": (dt.datetime, dt.datetime(2024, 7, 1, tzinfo=ZoneInfo("Europe/Berlin")), "request"),
    "zone with a name of its own": (dt.datetime, UTC_NOON.replace(tzinfo=dt.timezone(dt.timedelta(0), "X")), "request"),
    "offset with seconds": (dt.datetime, UTC_NOON.replace(tzinfo=dt.timezone(dt.timedelta(seconds=61))), "request"),
    "fold": (list[dt.datetime], [dt.datetime(2024, 10, 27, 2, 30, fold=1)], "request[0]"),  # noqa: DTZ001 - naive on purpose
    "keys that become equal": (dict[int | str, int], {1: 1, "1": 2}, "request[1]"),
    "pair keys": (dict[tuple[int, int], int], {(1, 2): 3}, 'request["1,2"]'),
    "key of a mixed enum": (dict[Colour, int], {Colour.RED: 3}, 'request["1"]'),
    "key missing from a typed dict": (Options, {"size": 1, "colour": "x"}, "request.colour"),
    "order of an ordered dict": (OrderedDict[str, int], OrderedDict(b=1, a=2), "request"),
    "length of a deque": (deque[int], deque([1], maxlen=3), "request"),
    "default of a defaultdict": (defaultdict[str, int], defaultdict(lambda: 7, a=1), "request"),
    "generator": (list[int], (number for number in range(3)), "request"),
    "too deep": (Any, DEEP, "request" + "[0]" * 8),
    "cycle": (Any, CYCLE, "request[0]"),
    "integer of 5,000 digits": (dict[str, int], {"a": 10**5000}, "request.a"),
    "something else": (list[Line], [Bare()], "request[0].id"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_it_is_refused_with_its_path(name: str):
    annotation, value, path = REFUSED[name]
    with pytest.raises(ValueRefused) as refusal:
        Door(annotation, where="request").encode(value)
    assert refusal.value.ids["path"] == path
    assert path in refusal.value.message
    assert refusal.value.hint
    assert "hunter2" not in str(refusal.value)
    str(refusal.value).encode()


def test_a_refusal_says_what_it_was_and_what_to_do():
    value = [Line.model_construct(id=1, amount=1.5, colour=Colour.RED)]
    with pytest.raises(ValueRefused) as refusal:
        Door(list[Line], where="request").encode(value)
    assert refusal.value.message == "request[0].amount: is float 1.5 and would come back as Decimal('1.5')"
    assert refusal.value.hint == "pass a value of the declared type, or declare the type that it has"


def test_a_type_whose_own_methods_fail_is_refused():
    class Fails(BaseModel):
        n: int

        @field_validator("n")
        @classmethod
        def fails(cls, n: int) -> int:
            raise KeyError(n)

    with pytest.raises(ValueRefused, match="KeyError"):
        Door(Fails, where="request").encode(Fails.model_construct(n=1))


# -- size ---------------------------------------------------------------------------------------------------------


def test_an_oversized_value_is_refused_with_path_size_and_limit():
    value = Basket(name="x" * 10, any={"small": 1, "pages": ["y" * 100, "z" * (3 * MIB)]})
    with pytest.raises(ValueRefused) as refusal:
        Door(Basket, where="request").encode(value)
    ids = refusal.value.ids
    assert ids["path"] == "request.any.pages[1]"
    assert int(ids["size"]) > 3 * MIB
    assert ids["limit"] == str(MIB)
    assert ids["size"] in refusal.value.message


def test_the_limit_counts_bytes_and_is_inclusive():
    door = Door(str, where="result", limit=8)
    assert door.encode("ééé") == '"ééé"'
    with pytest.raises(ValueRefused) as refusal:
        door.encode("éééa")
    assert refusal.value.ids == {"path": "result", "size": "9", "limit": "8"}


def test_of_many_small_parts_the_whole_is_named():
    with pytest.raises(ValueRefused) as refusal:
        Door(list[int], where="result", limit=100).encode(list(range(1000)))
    assert refusal.value.ids["path"] == "result"


# -- identity -----------------------------------------------------------------------------------------------------


def fingerprint_of(annotation: Any, value: Any) -> str:
    return digest_text(Door(annotation, where="request").encode(value).encode())


def test_the_fingerprint_does_not_depend_on_the_order_of_fields_or_keys():
    class Turned(BaseModel):
        colour: Colour
        amount: Decimal
        id: int

    line = Line(id=1, amount=Decimal("1.0"), colour=Colour.RED)
    turned = Turned(colour=Colour.RED, amount=Decimal("1.0"), id=1)
    assert fingerprint_of(Line, line) == fingerprint_of(Turned, turned)
    assert fingerprint_of(dict[str, int], {"a": 1, "b": 2}) == fingerprint_of(dict[str, int], {"b": 2, "a": 1})


def test_an_amount_written_otherwise_is_another_request():
    amounts = [Decimal(100), Decimal("100.0"), Decimal("100.00"), Decimal("1E+2")]
    assert len({fingerprint_of(Decimal, amount) for amount in amounts}) == 4
    assert fingerprint_of(Any, 100) != fingerprint_of(Any, "100.00") != fingerprint_of(Any, 100.0)


# -- texts from outside -------------------------------------------------------------------------------------------


def test_a_text_from_outside_may_use_names_or_aliases():
    door = Door(Invoice, where="input")
    assert door.decode('{"invoiceNumber": "7", "autre": 3}') == door.decode('{"number": "7", "other": 3}')


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('{"lines": [{"id": 1, "amount": "1"}, {"id": "x", "amount": "1"}]}', "input.lines[1].id"),
        ("{", "input"),
        ("[]", "input"),
        ('"\ud800"', "input"),
        ("[" * 10_000, "input"),
    ],
)
def test_a_text_of_another_form_is_refused_with_its_path(text: str, path: str):
    with pytest.raises(ValueRefused) as refusal:
        Door(Invoice, where="input").decode(text)
    assert refusal.value.ids["path"] == path


# -- declarations -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("annotation", [Bare, threading.Lock, list[ForwardRef("Nowhere")], dict[str, Bare]])
def test_a_type_that_cannot_be_stored_is_refused_at_declaration(annotation: Any):
    with pytest.raises(DeclarationError, match="cannot be stored"):
        Door(annotation, where="result")


def test_an_annotation_that_cannot_be_hashed_is_accepted():
    assert Door(Annotated[int, {"a": "dict"}], where="result").encode(5) == "5"


# -- sameness -----------------------------------------------------------------------------------------------------

DIFFERENT = [
    (1, True, "value"),
    (1, 1.0, "value"),
    (0.0, -0.0, "value"),
    (math.nan, math.nan, "value"),
    (Decimal("1.0"), Decimal("1.00"), "value"),
    ([1, [2, 3]], [1, [2, 4]], "value[1][1]"),
    ([1], [1, 2], "value"),
    ({1: "a"}, {True: "a"}, "value[1]"),
    ({"a": 1}, {"a": 1, "b": 2}, "value"),
    ({1}, {True}, "value"),
    ({1.0}, {1}, "value"),
    (Pair(1, "a"), (1, "a"), "value"),
    (Text("a"), "a", "value"),
    (Counter(a=0), Counter(), "value.a"),
    (Slotted(UTC_NOON, Colour.RED), Slotted(UTC_NOON, Colour.GREEN), "value.colour"),
    (Blob(data=b"", a=1), Blob(data=b"", a=True), "value.a"),
    (Blob(data=b""), Blob(data=b"", a=1), "value"),
    (Line(id=1, amount=Decimal(1)), SubLine(id=1, amount=Decimal(1)), "value"),
    (object(), object(), "value"),
]


@pytest.mark.parametrize(("one", "other", "path"), DIFFERENT)
def test_what_differs_in_value_or_type_is_not_the_same(one: Any, other: Any, path: str):
    assert same(one, other) == path
    assert same(other, one) is not None


LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.decimals(allow_nan=False)
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner, inner)
)


@given(VALUES, VALUES)
def test_two_values_are_the_same_just_when_their_repr_is(one: Any, other: Any):
    def unordered(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: unordered(inner) for key, inner in sorted(value.items(), key=lambda entry: repr(entry[0]))}
        return type(value)(map(unordered, value)) if isinstance(value, list | tuple) else value

    assert same(one, one) is None
    assert (same(one, other) is None) == (repr(unordered(one)) == repr(unordered(other)))


@given(VALUES)
def test_under_any_a_value_is_kept_or_refused(value: Any):
    door = Door(Any, where="value")
    try:
        text = door.encode(value)
    except ValueRefused as refusal:
        assert refusal.ids["path"].startswith("value")  # noqa: PT017 - both endings are right, each has its rule
    else:
        assert same(value, door.decode(text)) is None
