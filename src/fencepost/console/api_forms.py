"""What the HTTP API takes: the form of each body, and of the texts in it.

Names that are not in a form are refused, and so are characters that break logs or make one text look like another. What
a value means, and whether a run takes it, is decided where it is used.
"""

from __future__ import annotations

import unicodedata
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

REASON_CHARACTERS_MAX = 4_000
NAME_CHARACTERS_MAX = 512
NUMBER_MAX = 2**63 - 1

_LINES = frozenset("\n\t")
# Format characters hide or reorder what is read; of them the joiners are parts of words in several scripts.
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_JOINERS = frozenset("\u200c\u200d")


def readable(text: str) -> str:
    """`text` itself, if it shows what it is. Raises ValueError for control and format characters."""
    for index, character in enumerate(text):
        if unicodedata.category(character) in _UNSAFE and character not in _LINES | _JOINERS:
            raise ValueError(f"U+{ord(character):04X} at {index} is not taken")
    return text


def said(text: str) -> str:
    """`readable`, and more than blanks."""
    if not text.strip():
        raise ValueError("it says nothing")
    return readable(text)


Name = Annotated[str, StringConstraints(min_length=1, max_length=NAME_CHARACTERS_MAX), AfterValidator(said)]
Reason = Annotated[str, StringConstraints(min_length=1, max_length=REASON_CHARACTERS_MAX), AfterValidator(said)]
Text = Annotated[str, StringConstraints(max_length=REASON_CHARACTERS_MAX), AfterValidator(readable)]
Number = Annotated[int, Field(ge=0, le=NUMBER_MAX)]


class Form(BaseModel):
    """A body: an object with these names, and no others."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Start(Form):
    """A run to be started: which workflow, under which id, with which input."""

    workflow: Name = Field(examples=["approve_invoice"])
    version: Annotated[int, Field(ge=1, le=NUMBER_MAX)] | None = Field(
        default=None, description="Of the workflow; the newest if not given.", examples=[1]
    )
    id: Name = Field(
        description="From the business event. The same id with the same input is the same run.",
        examples=["invoice:tenant-42:inv-1847"],
    )
    input: dict[str, Any] = Field(
        default={}, description="The workflow's arguments by name.", examples=[{"invoice": {"id": "inv-1847"}}]
    )
    on_behalf_of: Name | None = Field(default=None, description="For whom the run acts.", examples=["tenant-42"])


class Signal(Form):
    """A signal to a run, by hand."""

    name: Name = Field(description="What the run waits for.", examples=["decision"])
    value: Any = Field(default=None, description="Any JSON value.", examples=[{"approved": True}])
    id: Name | None = Field(default=None, description="The event's own id: it counts once.", examples=["evt-1"])
    reason: Text = Field(default="", description="Kept in the audit.", examples=["the mail got lost"])


class Because(Form):
    """A verb that needs nothing more than why."""

    reason: Reason = Field(description="Kept in the audit.", examples=["the customer has withdrawn"])
