"""What the HTTP API takes: the form of each body, and of the texts in it.

Names that are not in a form are refused, and so are characters that break logs or make one text look like another. What
a value means, and whether a run takes it, is decided where it is used.
"""

from __future__ import annotations

import unicodedata
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from fencepost.core.duration import DAY, microseconds
from fencepost.core.errors import DeclarationError

REASON_CHARACTERS_MAX = 4_000
NAME_CHARACTERS_MAX = 512
NUMBER_MAX = 2**63 - 1
DURATION_MAX = 36_500 * DAY

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


def lasting(text: str) -> str:
    """`text` itself, if it is a duration that ends some day. Raises ValueError otherwise."""
    try:
        length = microseconds(text)
    except DeclarationError as error:
        raise ValueError(error.hint) from error
    if length > DURATION_MAX:
        raise ValueError("that is more than a hundred years")
    return text


# For whoever makes texts from the schema: what both of the functions above take, and a little less.
_BLANK = r"\u0020\u00A0\u1680\u2000-\u200A\u202F\u205F\u3000"
_HIDDEN = r"\u0000-\u001F\u007F-\u009F\u00AD\u061C\u180E\u200B-\u200F\u2028-\u202E\u2060-\u206F\uFEFF\uFFF9-\uFFFB"
_WORDS = f"[^{_BLANK}{_HIDDEN}]"
SAYS = Field(json_schema_extra={"pattern": f"^{_WORDS}+( {_WORDS}+)*$"})
MAY_SAY = Field(json_schema_extra={"pattern": f"^({_WORDS}+( {_WORDS}+)*)?$"})

Name = Annotated[str, StringConstraints(min_length=1, max_length=NAME_CHARACTERS_MAX), AfterValidator(said), SAYS]
Reason = Annotated[str, StringConstraints(min_length=1, max_length=REASON_CHARACTERS_MAX), AfterValidator(said), SAYS]
Text = Annotated[str, StringConstraints(max_length=REASON_CHARACTERS_MAX), AfterValidator(readable), MAY_SAY]
Lasts = Annotated[
    str,
    StringConstraints(max_length=40),
    AfterValidator(lasting),
    Field(json_schema_extra={"pattern": "^[1-9][0-9]{0,3}[smhd]$"}),
]
"""A duration such as "90s", "1h30m" or "7d"."""
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
    queue: Name | None = Field(default=None, description="One of the app's queues; the workflow's own if not given.")
    queue_key: Name | None = Field(default=None, description="What the queue's `per_key` limit counts together.")
    priority: Annotated[int, Field(ge=-NUMBER_MAX, le=NUMBER_MAX)] = Field(
        default=0, description="Of those due in the queue, the highest comes first."
    )
    delay: Lasts | None = Field(
        default=None, description="It does not begin before this time is over.", examples=["5m"]
    )
    dedup: Name | None = Field(
        default=None, description="While a run with this id has not ended in the queue, it is returned instead."
    )


class Signal(Form):
    """A signal to a run, by hand."""

    name: Name = Field(description="What the run waits for.", examples=["decision"])
    value: Any = Field(default=None, description="Any JSON value.", examples=[{"approved": True}])
    id: Name | None = Field(default=None, description="The event's own id: it counts once.", examples=["evt-1"])
    reason: Text = Field(default="", description="Kept in the audit.", examples=["the mail got lost"])


class Because(Form):
    """A verb that needs nothing more than why."""

    reason: Reason = Field(description="Kept in the audit.", examples=["the customer has withdrawn"])


class OfStep(Because):
    """A verb on one effect of a run."""

    step: Name = Field(description="The effect's step, as the run shows it.", examples=["book"])
    item: Name | None = Field(default=None, description="The item, if the effect has several.", examples=["line-1"])


class Reconcile(Because):
    """What is unknown is asked about now: all of it, or one effect."""

    step: Name | None = Field(default=None, description="Only this effect's step.", examples=["book"])
    item: Name | None = Field(default=None, description="The item, if the effect has several.")


class Settle(OfStep):
    """What became of an effect. The reason is kept as evidence."""

    happened: bool = Field(description="Whether it happened.", examples=[True])
    result: Any = Field(default=None, description="Its result, if it happened.", examples=[{"id": "ticket-7"}])
    reference: Name | None = Field(default=None, description="The remote object's id, if it happened.")
    override: bool = Field(
        default=False,
        description="Did not happen, although a request may still land: the guarantee of this effect is lost. "
        "Happened, although no reference is known: nothing can be found or compensated by it.",
    )


class SettleConflict(Settle):
    """What stands after a conflict was put right at the target."""

    turn: Number | None = Field(default=None, description="Of a run that has continued, whose turn's effect it is.")


class Redecide(Because):
    """A decision of the run's model is to be made anew. The reason says what was wrong with it."""

    step: Name | None = Field(
        default=None, description="Its position, one of the run's `decisions`; if there is more than one."
    )
    override: bool = Field(
        default=False, description="Although effects that came after it stand: they stay, and are the caller's."
    )


class Migrate(Because):
    """A run is pinned to another version of its workflow, if that code tells the same story so far."""

    to: Annotated[int, Field(ge=1, le=NUMBER_MAX)] = Field(description="The version.", examples=[2])


class Rehearse(Form):
    """A run's history is replayed against another version of its workflow, and nothing is changed."""

    to: Annotated[int, Field(ge=1, le=NUMBER_MAX)] = Field(description="The version.", examples=[2])


class Approve(Form):
    """An answer to the one call that a run waits to be allowed."""

    name: Name = Field(description="Under which the run waits.", examples=["decision"])
    digest: Name = Field(
        description="Of the call that was shown, `allows` of the wait: refused if another call waits.",
        examples=["8f434346648f6b96df89dda901c5176b10a6d83961dd3c1ac88b59b2dc327aa4"],
    )
    approved: bool = Field(description="Whether the call is allowed.", examples=[True])
    comment: Text = Field(default="", description="Kept with the answer and in the audit.")
    id: Name | None = Field(default=None, description="The answer's own id; the same answer counts once in any case.")


BulkVerb = Literal[
    "resume", "reconcile", "retry", "cancel", "compensate", "compensate step", "terminate", "reopen", "migrate"
]
"""As `runtime.bulk.IN_BULK`; a test compares them."""


class Bulk(Because):
    """One verb on many runs: those in a state, held for a reason, or shown by a dry run."""

    verb: BulkVerb = Field(examples=["resume"])
    state: Name | None = Field(default=None, description="Runs in this state.", examples=["held"])
    held_by: Name | None = Field(default=None, description="Runs held for this reason.", examples=["budget spent"])
    shown: dict[Name, Number] | None = Field(
        default=None, description="Runs by id, each with the row version that it must still have."
    )
    workflow: Name | None = Field(default=None, description="Only runs of this workflow.")
    prefix: Name | None = Field(default=None, description="Only runs whose id begins so.")
    step: Name | None = Field(
        default=None, description="Of `retry` and `compensate step`, and where wanted of `reconcile`."
    )
    item: Name | None = Field(default=None, description="The item, if the effect has several.")
    to: Annotated[int, Field(ge=1, le=NUMBER_MAX)] | None = Field(
        default=None, description="The version, of `migrate`."
    )
    limit: Annotated[int, Field(ge=1, le=1_000)] = Field(default=20, description="Runs at most, the newest first.")
    dry_run: bool = Field(default=False, description="Only say what it would do to each.")


class Contain(Because):
    """What nothing new is to be sent toward."""

    kind: Literal["target", "resource", "tenant", "workflow", "credential"] = Field(examples=["target"])
    name: Name = Field(examples=["payments"])


class Purge(Because):
    """What runs hold that ended long ago is to be removed."""

    keep: dict[Name, Lasts] = Field(
        description="How long runs are kept after their end, by state.", examples=[{"succeeded": "90d"}]
    )
    dry_run: bool = Field(default=False, description="Only count.")
