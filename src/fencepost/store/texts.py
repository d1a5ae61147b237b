"""Which fields of moves and records hold somebody's data, and how the two are called: the one list of what is guarded.

A *value* is what a workflow or its outside handed in; a *note* is what the engine wrote about it, of which a few parts,
such as a reason code, say nothing of anybody and are what screens and queries go by. A field that is in no list here
stays as it is: ids, names, states, keys, references, numbers and times. What is done with the texts is `passage`'s.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fencepost.core.bulk import Bulk, BulkRun
from fencepost.core.containment import Containment
from fencepost.core.identity import canonical
from fencepost.core.proposals import Proposal
from fencepost.core.records import Attempt, Audit, Observation, Operation, Run, Signal, Step
from fencepost.core.schedule import Definition
from fencepost.store.api import NewRun
from fencepost.store.moves import (
    KeepPiece,
    Move,
    MoveOperation,
    MoveRun,
    MoveSignal,
    MoveStep,
    NewOperation,
    NextTurn,
    Observe,
    OpenStep,
    SettleAttempt,
    SettleFirst,
    StartChild,
    Succeed,
)

CLEAR: dict[str, frozenset[str]] = {
    "run.hold": frozenset({"reason", "step", "item", "key", "reference", "attempts", "state", "forward"}),
    "run.error": frozenset({"class", "steps", "otherwise"}),
    "run.cancel": frozenset({"who", "at"}),
    "step.detail": frozenset({
        "many", "within", "valid_for", "authorise", "child", "detached", "attempts", "failures", "format_failures",
        "spent", "budget_from", "by", "at", "heartbeat", "until", "job", "from", "override",
        "effects",
    }),
    "step.error": frozenset({"class"}),
    "operation.policy": frozenset({"verdict"}),
    "operation.error": frozenset({"class"}),
    "evidence": frozenset({
        "kind", "says", "count", "lost_from", "restored_at", "status", "sends", "reference", "by", "name", "digest",
        "after", "how", "position", "asked_at", "thread",
    }),
}  # fmt: skip
"""What of a note anybody may read who can read the ledger: codes, names, numbers and times at its top."""


NOTHING: frozenset[str] = frozenset()

_NO_WORDS = frozenset({"digest", "allows", "takes", "fingerprint", "version"})
"""What of a note is compared and never read: it holds no words from which anything could be scrubbed."""


class Field(NamedTuple):
    """A field that holds data, and the name under which it is bound to its place: a note if it is no value.

    A fingerprint or a name is neither: it is compared as a whole, so that it is sealed and not scrubbed.
    """

    name: str
    column: str
    is_value: bool = False
    is_note: bool = True


def _value(name: str, column: str) -> Field:
    return Field(name, column, is_value=True, is_note=False)


def _compared(name: str, column: str) -> Field:
    return Field(name, column, is_note=False)


_EVIDENCE = Field("evidence", "evidence")
_RUN_RESULT, _RUN_INPUT, _RUN_PRINT = (
    _value("result", "run.result"),
    _value("input", "run.input"),
    _compared("fingerprint", "run.fingerprint"),
)
_PRINCIPAL = _compared("principal", "principal")
_OF_RUN = (Field("hold", "run.hold"), Field("error", "run.error"), Field("cancel", "run.cancel"), _RUN_RESULT)
_OF_STEP = (
    _value("result", "step.result"), Field("detail", "step.detail"), Field("error", "step.error"),
)  # fmt: skip
_ASKED_OF_STEP = (_value("request", "step.request"), _compared("fingerprint", "step.fingerprint"))
_RESULT, _ERROR = _value("result", "operation.result"), Field("error", "operation.error")
_ASKED = (
    _value("request", "operation.request"), _compared("fingerprint", "operation.fingerprint"),
    Field("policy", "operation.policy"),
)  # fmt: skip
_REASON = Field("reason", "signal.reason")

WHY_REFUSED = Field("says", "bulk_run.says")

HEARD = Field("progress", "step.progress")
"""What a job says of itself: written by the name of the wait, whose position only the ledger knows."""

FIELDS: dict[type[Any], tuple[Field, ...]] = {
    NewRun: (_RUN_INPUT, _RUN_PRINT, _PRINCIPAL),
    StartChild: (_RUN_INPUT, _RUN_PRINT),
    NextTurn: (_RUN_INPUT,),
    MoveRun: _OF_RUN,
    NewOperation: (*_ASKED, _ERROR),
    MoveOperation: (_RESULT, _ERROR),
    Succeed: (_RESULT, _EVIDENCE),
    SettleFirst: (_EVIDENCE,),
    SettleAttempt: (_EVIDENCE,),
    OpenStep: (*_ASKED_OF_STEP, *_OF_STEP),
    MoveStep: _OF_STEP,
    MoveSignal: (_REASON,),
    Observe: (_EVIDENCE,),
    Run: (_RUN_INPUT, _RUN_PRINT, _PRINCIPAL, *_OF_RUN),
    Step: (*_ASKED_OF_STEP, *_OF_STEP),
    Operation: (*_ASKED, _RESULT, _ERROR),
    Attempt: (_EVIDENCE,),
    Observation: (_EVIDENCE,),
    Signal: (_value("payload", "signal.payload"), _compared("fingerprint", "signal.fingerprint"), _REASON),
    Audit: (Field("reason", "audit.reason"),),
    Proposal: (Field("arguments", "proposal.arguments"), Field("reason", "proposal.reason")),
    Containment: (Field("reason", "containment.reason"),),
    Bulk: (Field("arguments", "bulk.arguments"), Field("reason", "bulk.reason")),
    BulkRun: (WHY_REFUSED,),
    Definition: (_value("input", "schedule.input"), _compared("fingerprint", "schedule.fingerprint"), _PRINCIPAL),
}
"""By the kind of move or record."""


def _length(names: Sequence[str], kind: type[Any]) -> Callable[[Any], int]:
    places = [list(kind.__annotations__).index(name) for name in names]
    if len(places) == 1:
        only = places[0]
        return lambda one: len(one[only] or "")
    return lambda one: max(len(one[at] or "") for at in places)


LENGTHS: dict[type[Any], Callable[[Any], int]] = {
    kind: _length([field.name for field in fields if field.is_value], kind)
    for kind, fields in FIELDS.items()
    if issubclass(kind, tuple) and any(field.is_value for field in fields)
}
"""How many characters the longest value of a move has, by the kinds that hold values."""

_ITEM: Callable[[Any], str] = lambda one: f"{one.step} {one.item or ''}"  # noqa: E731 - one of three alike

PLACE: dict[type[Any], Callable[[Any], str]] = {
    **dict.fromkeys((NewOperation, MoveOperation, Succeed, SettleFirst, SettleAttempt, Observe, Operation), _ITEM),
    **dict.fromkeys((OpenStep, MoveStep, Step), lambda one: str(one.position)),
    **dict.fromkeys((MoveSignal, Signal), lambda one: str(one.id)),
}
"""What tells a row from others of its run: a kind that is not here has one row a run."""


def place_of(one: Any) -> str:
    """What tells the row of a move or record from others of its run."""
    tells = PLACE.get(type(one))
    return "" if tells is None else tells(one)


def owner_of(move: Move | Observe, run_id: str) -> str:
    """The id of the run whose row a move writes: a child's is its own."""
    return move.id if isinstance(move, StartChild) else move.run_id if isinstance(move, KeepPiece) else run_id


def scrubbed(note: str, scrub: Callable[[str], str], *, spared: frozenset[str]) -> str:
    """A note with every text inside of it scrubbed, except under the names at its top that are `spared`."""
    try:
        said = json.loads(note)
    except ValueError:
        return scrub(note)  # plain words, such as a person's reason
    if not isinstance(said, dict):
        return scrub(note)
    kept = {name: value if name in spared | _NO_WORDS else _scrubbed(value, scrub) for name, value in said.items()}
    return note if kept == said else canonical(kept)


def _scrubbed(value: Any, scrub: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, list):
        return [_scrubbed(one, scrub) for one in value]
    if isinstance(value, dict):
        return {scrub(name): one if name in _NO_WORDS else _scrubbed(one, scrub) for name, one in value.items()}
    return value
