"""Secrets by name, and fields that are never stored: what a declaration says so that a value stays out of the ledger.

`Secret[str]` is the name of a secret: it may be an argument, is stored as that name, and is revealed by `call.secret`
in a step's body, from the app's `secrets=`. `Annotated[str, Redacted]` is a field of a result that is replaced before
it is stored, for everybody, the workflow that runs just now included. What was revealed is kept out of texts by
`hidden`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from pydantic import GetCoreSchemaHandler
from pydantic_core import core_schema as schemas

from fencepost.core.errors import DeclarationError, Misuse
from fencepost.effects.hidden import VALUE_CHARACTERS_MIN, hidden

T = TypeVar("T")

Provider = Mapping[str, str] | Callable[[str], str]
"""The values of secrets by their names; a function raises `KeyError` for one that it does not know."""

REDACTED = "[redacted]"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,127}")


class Secret(Generic[T]):
    """The name of a secret, never its value: `Secret[str]` is a parameter's type, `Secret("stripe-key")` its argument.

    The ledger holds `{"secret": "stripe-key"}`; what that is, the app's `secrets=` says when `call.secret` asks for it.

    Raises:
        Misuse: that is no name: 1 to 128 letters, digits, `.`, `_`, `/` and `-`. Most likely it is the value.
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or _NAME.fullmatch(name) is None:
            raise Misuse(  # without the text, which may be the value
                "a Secret is made of its name, and this is none",
                hint='write Secret("stripe-key"), and give the value to App(secrets={"stripe-key": ...})',
            )
        self.name = name

    def __repr__(self) -> str:
        return f"Secret({self.name!r})"

    def __eq__(self, other: object) -> bool:
        return type(other) is Secret and other.name == self.name

    def __hash__(self) -> int:
        return hash((Secret, self.name))

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> schemas.CoreSchema:
        """As JSON it is an object with its name."""
        named = schemas.no_info_after_validator_function(
            lambda found: cls(found["secret"]),
            schemas.typed_dict_schema(
                {"secret": schemas.typed_dict_field(schemas.str_schema())}, extra_behavior="forbid", total=True
            ),
        )
        return schemas.json_or_python_schema(
            json_schema=named,
            python_schema=schemas.union_schema([schemas.is_instance_schema(cls), named]),
            serialization=schemas.plain_serializer_function_ser_schema(lambda secret: {"secret": secret.name}),
        )


class Redacted:
    """Marks a text that is never stored: `iban: Annotated[str, Redacted]` in what a step, model or workflow returns.

    It stands last, behind what else is said of the text: `Annotated[str, Field(max_length=34), Redacted]`.

    Whoever reads the result, the workflow that just asked for it included, gets `"[redacted]"`. An argument with such a
    text in it is refused: a step that is resumed would send the mark. Pass a `Secret`, or the reference to it.
    """

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> schemas.CoreSchema:
        """The schema of the text, which is written as a mark."""
        schema = handler(source)
        inner = schema["schema"] if schema["type"] == "nullable" else schema
        if inner["type"] != "str":
            raise DeclarationError(
                f"Redacted marks {source!r}, which is no text",
                hint="mark each text: `Annotated[str, Redacted]` or `Annotated[str | None, Redacted]`",
            )
        return schemas.no_info_wrap_validator_function(
            lambda value, validate: (
                value if value == REDACTED else validate(value)
            ),  # the mark keeps no rule of the text
            schema,
            serialization=schemas.plain_serializer_function_ser_schema(written_as_mark, info_arg=True),
        )


def written_as_mark(value: str | None, info: Any) -> str | None:
    """How a redacted text is written; `context={"reveal": True}` writes it as it is, to compare what comes back."""
    return value if value is None or (info.context or {}).get("reveal") else REDACTED


def revealed(provider: Provider | None, wanted: Secret[str] | str, *, step: str) -> str:
    """The value of a secret, hidden from every text from now on.

    Raises:
        Misuse: the app has no such secret, or its value is shorter than 8 characters, which cannot be told from others.
    """
    name = (wanted if isinstance(wanted, Secret) else Secret[str](wanted)).name
    ids = {"secret": name, "step": step}
    if provider is None:
        raise Misuse("the app has no secrets", hint='pass App(secrets={"name": value}), or a function', ids=ids)
    try:
        value = provider(name) if callable(provider) else provider[name]
    except KeyError:
        raise Misuse(f"the app has no secret {name!r}", hint="name it in App(secrets=...)", ids=ids) from None
    if not isinstance(value, str) or len(value) < VALUE_CHARACTERS_MIN:
        raise Misuse(
            f"the value of secret {name!r} is no text of {VALUE_CHARACTERS_MIN} characters or more",
            hint="a shorter one would be found in texts that have nothing to do with it",
            ids=ids,
        )
    hidden.know(value, name)
    return value


_CREDENTIALS = frozenset({"authorization", "proxy-authorization", "cookie", "x-api-key", "api-key"})


def hide_credentials(headers: Mapping[str, str]) -> None:
    """Hide what a target's headers say to identify us, also without the scheme before it."""
    for name, value in headers.items():
        if name.lower() in _CREDENTIALS:
            hidden.know(value, f"in header {name}")
            hidden.know(value.rpartition(" ")[2], f"in header {name}")
