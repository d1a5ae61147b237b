"""Secrets by name, texts that are never stored, and values that are refused or replaced wherever they turn up."""

import base64
import json
from collections.abc import Iterator
from typing import Annotated, Any
from urllib.parse import quote

import pytest
from pydantic import BaseModel, Field, SecretStr

from fencepost.core.errors import DeclarationError, Misuse, ValueRefused
from fencepost.effects.failures import error_record, for_a_log
from fencepost.effects.hidden import Hidden, hidden
from fencepost.effects.secret import REDACTED, Redacted, Secret, revealed
from fencepost.effects.values import ArgumentsDoor, Door

VALUE = 'pass"word/äöü\n77'


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = vars(hidden).copy()
    vars(hidden).update(vars(Hidden()))
    yield
    vars(hidden).clear()
    vars(hidden).update(before)


class Customer(BaseModel):
    name: str
    iban: Annotated[str | None, Redacted] = None
    others: list[Annotated[str, Field(max_length=4), Redacted]] = []


def send(call: Any, customer: Customer, token: Secret[str]) -> None: ...


def test_a_secret_is_stored_as_its_name_and_comes_back_equal():
    door = Door(Secret[str], where="request")
    text, copy = door.carry(Secret("stripe-key"))
    assert text == '{"secret":"stripe-key"}'
    assert copy == Secret("stripe-key") == door.decode(text)


@pytest.mark.parametrize("text", ["a value with spaces", "", "x" * 129, "sk_live\n", 7])
def test_what_is_no_name_is_refused_without_being_repeated(text):
    with pytest.raises(Misuse) as refused:
        Secret(text)
    assert not text or str(text) not in str(refused.value)


def test_no_form_of_a_secret_holds_its_value():
    secret = Secret[str]("stripe-key")
    revealed({"stripe-key": VALUE}, secret, step="pay")
    assert all(VALUE not in form(secret) for form in (repr, str, lambda one: json.dumps(repr(one))))


def test_a_secret_of_pydantic_is_refused_as_a_value():
    with pytest.raises(ValueRefused):
        Door(SecretStr, where="request").encode(SecretStr("hunter2hunter2"))


@pytest.mark.parametrize(
    ("provider", "why"),
    [(None, "no secrets"), ({}, "no secret 'k'"), ({}.__getitem__, "no secret 'k'"), ({"k": "short"}, "8 characters")],
)
def test_a_secret_that_cannot_be_revealed_is_named(provider, why):
    with pytest.raises(Misuse, match=why):
        revealed(provider, "k", step="pay")


def test_a_revealed_value_is_refused_wherever_it_is_handed_in():
    door = Door(dict[str, str], where="result")
    assert door.encode({"echo": VALUE})
    revealed({"k": VALUE}, "k", step="pay")
    with pytest.raises(ValueRefused, match="it holds the value of secret 'k'") as refused:
        door.encode({"echo": f"you sent {VALUE}"})
    assert VALUE not in str(refused.value)


@pytest.mark.parametrize(
    "form",
    [str, repr, json.dumps, quote, lambda one: base64.b64encode(one.encode()).decode(), lambda one: [one] * 2],
    ids=["plain", "repr", "json", "url", "base64", "list"],
)
def test_an_errors_message_and_frames_lose_it_in_every_form(form):
    revealed({"k": VALUE}, "k", step="pay")
    with pytest.raises(RuntimeError) as raised:
        raise RuntimeError(f"refused: {form(VALUE)}")
    record = error_record(raised.value)
    assert "[secret k]" in record.message
    for written in (record.as_text(), for_a_log(raised.value)):
        assert form(VALUE) not in written if isinstance(form(VALUE), str) else "77" not in written


def test_of_a_secret_that_is_cut_nothing_is_left():
    revealed({"k": "z" * 6_000}, "k", step="pay")
    assert "zz" not in error_record(RuntimeError("z" * 6_000)).as_text()


def test_what_an_app_redacts_is_gone_and_a_redactor_that_fails_leaves_nothing():
    digits = {"redact": lambda text: text.replace("4111", "…")}
    hidden.redact_with(digits["redact"])
    assert error_record(ValueError("card 4111")).message == "card …"
    hidden.redact_no_more(digits["redact"])
    hidden.redact_with(lambda text: text[10**6])
    assert error_record(ValueError("card 4111")).message == "[not redacted, so left out: IndexError]"


def test_a_marked_text_of_a_result_is_replaced_for_everybody():
    door = Door(Customer, where="result")
    text, copy = door.carry(Customer(name="ann", iban="DE89", others=["abcd"]))
    assert json.loads(text) == {"name": "ann", "iban": REDACTED, "others": [REDACTED]}
    assert copy == Customer(name="ann", iban=REDACTED, others=[REDACTED]) == door.decode(text)
    assert door.decode(door.encode(Customer(name="ann"))).iban is None


def test_a_marked_text_of_an_argument_is_refused_with_its_path():
    door = ArgumentsDoor(send)
    with pytest.raises(ValueRefused) as refused:
        door.encode((Customer(name="ann", iban="DE89"), Secret("k")), {})
    assert refused.value.ids["path"] == "customer.iban"
    assert "DE89" not in str(refused.value)
    assert door.encode((Customer(name="ann", iban=REDACTED), Secret("k")), {})


def test_nothing_else_of_a_marked_model_may_change():
    class Loose(Customer):
        when: Any = None

    from datetime import date

    with pytest.raises(ValueRefused, match="when"):
        Door(Loose, where="result").encode(Loose(name="a", iban="DE89", when=date(2026, 1, 1)))


def test_only_a_text_can_be_marked():
    with pytest.raises(DeclarationError, match="no text"):
        Door(Annotated[int, Redacted], where="result")
