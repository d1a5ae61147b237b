"""Canonical JSON is one text for one value, keys do not run into each other, and nothing depends on the machine.

The values of the scheme itself are fixed in test_identity_vectors.
"""

import json
import math
import random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fencepost.core.errors import Misuse, ValueRefused
from fencepost.core.identity import (
    DEPTH_MAX,
    canonical,
    canonical_of_plain,
    check_name,
    check_run_id,
    digest_text,
    fingerprint,
    operation_key,
    path_text,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
PLAIN = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXT, inner, max_size=5))


def shuffled(data: object, chance: random.Random) -> object:
    if isinstance(data, dict):
        entries = [(key, shuffled(inner, chance)) for key, inner in data.items()]
        chance.shuffle(entries)
        return dict(entries)
    return [shuffled(inner, chance) for inner in data] if isinstance(data, list) else data


@given(PLAIN)
def test_the_canonical_text_reads_back_as_the_same_value(data: object):
    text = canonical(data)
    assert json.loads(text) == data
    assert canonical(json.loads(text)) == text


@given(PLAIN, st.randoms(use_true_random=False))
def test_the_order_of_keys_does_not_matter(data: object, chance: random.Random):
    other = shuffled(data, chance)
    assert canonical(other) == canonical(data)
    assert fingerprint(other) == fingerprint(data)


@given(PLAIN, PLAIN)
def test_different_values_have_different_texts(one: object, other: object):
    assume(json.dumps(one, sort_keys=True) != json.dumps(other, sort_keys=True))  # 1, 1.0 and True differ here too
    assert canonical(one) != canonical(other)


@given(PLAIN)
def test_the_short_way_writes_the_same_text(data: object):
    assert canonical_of_plain(data) == canonical(data)
    assert fingerprint(data) == digest_text(canonical_of_plain(data).encode())


def test_numbers_are_different_if_written_differently():
    amounts = [100, 100.0, "100", "100.00", -0.0, 0.0, 0, True, 1]
    assert len({fingerprint(amount) for amount in amounts}) == len(amounts)


class Name(str):
    __slots__ = ()


CYCLE: list[object] = []
CYCLE.append(CYCLE)

REFUSED = [
    ({"lines": [0, 0, 0, {"amount": math.nan}]}, "request.lines[3].amount"),
    ([math.inf], "request[0]"),
    ({"a": [-math.inf]}, "request.a[0]"),
    ({"a b": ["\ud800"]}, 'request["a b"][0]'),
    ({"a": {"\udfff": 1}}, "request.a"),
    ({"a": 10**5000}, "request.a"),
]
REFUSED_BY_TYPE = [
    ({"a": {5: 1}}, "request.a"),
    ({"a": {True: 1}}, "request.a"),
    ({"a": {None: 1}}, "request.a"),
    ({Name("a"): 1}, "request"),
    ({"a": Name("x")}, "request.a"),
    ({"a": (1,)}, "request.a"),
    ({"a": b""}, "request.a"),
    ({"a": object()}, "request.a"),
]


@pytest.mark.parametrize(("data", "path"), REFUSED + REFUSED_BY_TYPE)
def test_what_is_no_plain_json_is_refused_with_its_path(data: object, path: str):
    with pytest.raises(ValueRefused) as refusal:
        canonical(data, where="request")
    assert refusal.value.ids["path"] == path
    assert path in str(refusal.value)


@pytest.mark.parametrize(("data", "path"), REFUSED)
def test_the_short_way_refuses_bad_values_too(data: object, path: str):
    with pytest.raises(ValueRefused) as refusal:
        canonical_of_plain(data, where="request")
    assert refusal.value.ids["path"] == path


def nested(levels: int) -> list[object]:
    data: list[object] = []
    for _ in range(levels - 1):
        data = [data]
    return data


@pytest.mark.parametrize("write", [canonical, canonical_of_plain])
def test_depth_is_bounded(write):
    assert write(nested(DEPTH_MAX)) == "[" * DEPTH_MAX + "]" * DEPTH_MAX
    assert write([[]] * (2 * DEPTH_MAX)).count("[]") == 2 * DEPTH_MAX
    for data in (nested(DEPTH_MAX + 1), nested(100_000), CYCLE):
        with pytest.raises(ValueRefused, match="nested deeper than 100 levels"):
            write(data)


def test_integers_of_any_usual_size_are_written_in_full():
    assert canonical([2**63, -(2**64), 10**4299]) == f"[{2**63},{-(2**64)},1{'0' * 4299}]"


def test_text_is_written_as_it_is():
    assert (
        canonical({"ключ": "Ünï\n\x00\x7f\u2028", "a": "\U0001f600"}) == '{"a":"😀","ключ":"Ünï\\n\\u0000\x7f\u2028"}'
    )


# -- operation keys -----------------------------------------------------------------------------------------------

PARTS = st.tuples(TEXT, TEXT, TEXT, st.none() | TEXT, st.integers(0, 10**6))
NEAR = st.text("1:,-;0a", max_size=6)  # what the form itself consists of
NEAR_PARTS = st.tuples(NEAR, NEAR, NEAR, st.none() | NEAR, st.integers(0, 20))


@given(PARTS | NEAR_PARTS, PARTS | NEAR_PARTS)
def test_no_two_positions_share_a_key(one, other):
    assert (operation_key(*one) == operation_key(*other)) == (one == other)


@given(NEAR, st.data())
def test_moving_a_boundary_between_parts_changes_the_key(text: str, data):
    first, second = (data.draw(st.integers(0, len(text))) for _ in range(2))
    assume(first != second)
    keys = {operation_key("n", text[:cut], text[cut:], None, 1) for cut in (first, second)}
    assert len(keys) == 2


def test_no_item_differs_from_every_item():
    keys = {operation_key("n", "r", "s", item, 1) for item in (None, "", "-", "0:", "None")}
    assert len(keys) == 5


def test_a_part_that_is_no_plain_text_is_refused():
    for parts in [("n", "r", "s", 5, 1), ("n", "r", Name("s"), None, 1), ("n", "r", "s", None, True)]:
        with pytest.raises(Misuse):
            operation_key(*parts)
    with pytest.raises(Misuse, match="surrogate"):
        operation_key("n", "r", "s", "\ud800", 1)


# -- run ids and names --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("good", ["a", "invoice:tenant-42:inv-1847", "Rechnung 7/3 für Ünal", "注文 7", "x" * 256])
def test_a_printable_id_is_taken_as_it_is(good: str):
    assert check_run_id(good) == good
    assert check_name(good, what="item") == good


BAD = {
    "": "empty",
    "x" * 257: "257 characters",
    " a": "space",
    "a ": "space",
    "a\tb": r"U\+0009 at 1",
    "a\nb": r"U\+000A",
    "a\x00b": r"U\+0000",
    "a\x1fb": r"U\+001F",
    "a\u202eb": r"U\+202E",
    "a\u200bb": r"U\+200B",
    "a\u00a0": r"U\+00A0",
    "a\u2028b": r"U\+2028",
    "a\ud800": r"U\+D800",
}


@pytest.mark.parametrize("bad", BAD, ids=ascii)
def test_another_id_is_refused_with_the_reason(bad: str):
    with pytest.raises(Misuse, match=BAD[bad]) as refusal:
        check_run_id(bad)
    assert refusal.value.hint
    str(refusal.value).encode()


@pytest.mark.parametrize("bad", [None, 5, b"a", ["a"]])
def test_an_id_that_is_no_text_is_refused(bad: object):
    with pytest.raises(Misuse, match="not text"):
        check_run_id(bad)
    with pytest.raises(Misuse, match="the item is"):
        check_name(bad, what="item")


def test_a_name_of_a_text_subclass_becomes_plain_text():
    assert type(check_name(Name("a"))) is str


@pytest.mark.parametrize(
    ("where", "parts", "shown"),
    [
        ("request", ["lines", 3, "amount"], "request.lines[3].amount"),
        ("", ["request", "a b"], 'request["a b"]'),
        ("result", [], "result"),
        ("result", [0, "x" * 200], f"result[0].{'x' * 200}"),
    ],
)
def test_paths_are_shown_as_they_are_written_in_code(where: str, parts: list[str | int], shown: str):
    assert path_text(where, parts) == shown
