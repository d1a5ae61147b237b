"""The arguments of a step are one JSON object by parameter name; what cannot be declared so is refused at once.

What single values survive is tested in test_values.
"""

import functools
import inspect
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from fencepost.core.errors import DeclarationError, Misuse, ValueRefused
from fencepost.core.identity import digest_text
from fencepost.effects.values import MIB, ArgumentsDoor, result_door


class Line(BaseModel):
    id: int
    amount: Decimal


class Request(BaseModel):
    lines: list[Line]


async def create(call: object, request: Request) -> Line:
    raise NotImplementedError


async def refund(call: object, order: int, amount: Decimal, *, reason: str = "none", raw: bytes = b"\xff") -> None:
    raise NotImplementedError


def odd(call, /, copy: int, _: str, model_config: int = 1, *, self: bool, json: float = 0.5) -> "list[Line]":
    raise NotImplementedError


def nothing(call: object) -> None:
    raise NotImplementedError


REQUEST = Request(lines=[Line(id=number, amount=Decimal("1.10")) for number in range(4)])


def test_one_argument_is_an_object_with_one_key():
    door = ArgumentsDoor(create)
    text = door.encode((REQUEST,), {})
    assert json.loads(text).keys() == {"request"}
    assert door.decode(text) == ((REQUEST,), {})
    assert door.encode((), {"request": REQUEST}) == text
    assert door.carry((REQUEST,), {}) == (text, (REQUEST,), {})


def test_positional_and_keyword_arguments_and_defaults_give_one_text():
    door = ArgumentsDoor(refund)
    text = door.encode((7, Decimal("100.00")), {})
    assert text == '{"amount":"100.00","order":7,"raw":"_w==","reason":"none"}'
    assert door.encode((7,), {"amount": Decimal("100.00"), "reason": "none"}) == text
    assert door.encode((), {"raw": b"\xff", "amount": Decimal("100.00"), "order": 7}) == text
    assert door.decode(text) == ((7, Decimal("100.00")), {"reason": "none", "raw": b"\xff"})


def test_what_is_decoded_can_be_passed_after_the_call():
    for function, args, kwargs in [(odd, (1, "x"), {"self": True}), (refund, (1, Decimal(2)), {}), (nothing, (), {})]:
        door = ArgumentsDoor(function)
        positional, named = door.decode(door.encode(args, kwargs))
        bound = inspect.signature(function).bind(None, *positional, **named)
        expected = inspect.signature(function).bind(None, *args, **kwargs)
        expected.apply_defaults()
        assert bound.arguments == expected.arguments


@given(st.integers(), st.decimals(allow_nan=False, allow_infinity=False), st.text(), st.binary())
def test_arguments_come_back_or_are_refused(order: int, amount: Decimal, reason: str, raw: bytes):
    door = ArgumentsDoor(refund)
    args, kwargs = door.decode(door.encode((order, amount), {"reason": reason, "raw": raw}))
    assert (args, kwargs) == ((order, amount), {"reason": reason, "raw": raw})
    assert str(args[1]) == str(amount)


def test_a_body_cannot_reach_what_the_caller_holds():
    _, (copy,), _ = ArgumentsDoor(create).carry((REQUEST,), {})
    assert copy is not REQUEST
    assert copy.lines[0] is not REQUEST.lines[0]


# An agent that plans a refund again may write the amount otherwise: each is another request or none, never the same
# operation with another body.
@pytest.mark.parametrize("amount", [100, 100.0, "100.00"])
def test_an_amount_of_another_type_is_refused(amount: object):
    with pytest.raises(ValueRefused) as refusal:
        ArgumentsDoor(refund).encode((7, amount), {})
    assert refusal.value.ids == {"path": "amount", "step": "refund"}


def test_an_amount_written_otherwise_has_another_fingerprint():
    door = ArgumentsDoor(refund)
    texts = [door.encode((7, Decimal(amount)), {}) for amount in ("100", "100.00", "1E+2")]
    assert len({digest_text(text.encode()) for text in texts}) == 3
    assert door.encode((), {"amount": Decimal(100), "order": 7}) == texts[0]


def test_the_path_starts_with_the_parameter():
    bad = Request(lines=[*REQUEST.lines[:3], Line.model_construct(id=3, amount=1.5)])
    with pytest.raises(ValueRefused) as refusal:
        ArgumentsDoor(create).encode((bad,), {})
    assert refusal.value.ids == {"path": "request.lines[3].amount", "step": "create"}
    assert refusal.value.message.startswith("request.lines[3].amount: is float 1.5")


def test_an_oversized_argument_is_named():
    with pytest.raises(ValueRefused) as refusal:
        ArgumentsDoor(refund).encode((7, Decimal(1)), {"reason": "x" * 2 * MIB})
    assert refusal.value.ids["path"] == "reason"
    assert refusal.value.ids["limit"] == str(MIB)
    assert ArgumentsDoor(refund, limit=3 * MIB).encode((7, Decimal(1)), {"reason": "x" * 2 * MIB})


@pytest.mark.parametrize(("args", "kwargs"), [((), {}), ((1, 2, 3), {}), ((1,), {"order": 2}), ((1, 2), {"ordr": 1})])
def test_arguments_that_do_not_fit_the_signature_are_refused(args: tuple[Any, ...], kwargs: dict[str, Any]):
    with pytest.raises(Misuse, match="refund: ") as refusal:
        ArgumentsDoor(refund).encode(args, kwargs)
    assert "refund(order: int" in refusal.value.hint


@pytest.mark.parametrize(
    "text", ['{"order": 7}', '{"order": 7, "amount": "1", "reason": "", "raw": "", "more": 1}', "7"]
)
def test_a_text_that_is_no_request_of_this_step_is_refused(text: str):
    with pytest.raises(ValueRefused):
        ArgumentsDoor(refund).decode(text)


def test_a_wrapped_function_is_read_by_its_own_signature():
    @functools.wraps(create)
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    assert ArgumentsDoor(wrapper).encode((REQUEST,), {})


# -- declarations -------------------------------------------------------------------------------------------------


def no_parameter() -> None: ...
def only_by_name(*, call: object) -> None: ...
def any_number(call: object, *lines: int) -> None: ...
def any_name(call: object, **lines: int) -> None: ...
def unannotated(call: object, request) -> None: ...
def unknown(call: object, request: "Nowhere") -> None: ...  # noqa: F821 - that it is unknown is the case
def no_result(call: object, request: int): ...


DECLARED_WRONG = {
    no_parameter: "no first parameter",
    only_by_name: "no first parameter",
    any_number: r"\*lines",
    any_name: r"\*\*lines",
    unannotated: "'request' of unannotated has no annotation",
    unknown: "Nowhere",
}


@pytest.mark.parametrize("function", DECLARED_WRONG, ids=lambda function: function.__name__)
def test_a_declaration_that_cannot_be_stored_is_refused(function: Callable[..., Any]):
    with pytest.raises(DeclarationError, match=DECLARED_WRONG[function]) as refusal:
        ArgumentsDoor(function)
    assert refusal.value.hint


def test_a_missing_result_type_is_refused():
    with pytest.raises(DeclarationError, match="no_result declares no result type"):
        result_door(no_result)


def test_the_result_door_carries_what_is_declared():
    assert result_door(nothing).encode(None) == "null"
    assert result_door(nothing).decode("null") is None
    assert result_door(odd).decode('[{"id":1,"amount":"2"}]') == [Line(id=1, amount=Decimal(2))]
    with pytest.raises(ValueRefused) as refusal:
        result_door(create).encode(None)
    assert refusal.value.ids["path"].startswith("result")


def test_an_argument_of_another_type_is_named_beside_the_declared_one():
    def ships(call: object, request: Request, counts: list[int]) -> None: ...

    door = ArgumentsDoor(ships)
    for request, counts, said in [
        ("x", [1], "request: is a str; Request is declared"),
        (None, [1], "request: is None; Request is declared"),
        (Request.model_construct(lines=7), [1], f"request.lines: is an int; {list[Line]} is declared"),
        (REQUEST, 3, "counts: is an int; list[int] is declared"),
    ]:
        with pytest.raises(ValueRefused) as refused:
            door.encode((request, counts), {})
        assert refused.value.message == said
