"""What the driver refuses, in words: each error that makes a run held, with where it is and what to do next.

Only the wording and the two comparisons that it rests on are here. When something is refused, and that nothing gets
out of the run then, is decided in `driver`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fencepost.core.asks import Ask, Completion, Ending, Recorded, StepAsk
from fencepost.core.errors import ForeignAwait, HistoryMismatch, Misuse, RepeatedEffect

Ids = Mapping[str, str]

PIN = "deploy the code that this run began with; changed code goes under a new workflow version, for new runs"


class UnreadableValue(Misuse):
    """A stored result does not have the form that the code declares for it now."""


class CancelIgnored(Misuse):
    """A workflow's branch goes on asking for steps, however often it is told that it is cancelled."""


def unexpected(completion: Completion, ids: Ids, ending: Ending | None) -> HistoryMismatch:
    """An answer is recorded at a position for which the code does not wait."""
    state = "does not wait for it" if ending is None else f"has ended ({type(ending).__name__})"
    return HistoryMismatch(
        f"the history has an answer at {completion.position}, but the code {state}: a step is gone, renamed or moved",
        hint=PIN,
        ids=ids,
    )


def changed(ask: Ask, recorded: Recorded, ids: Ids) -> HistoryMismatch:
    """The code asks for something else than is recorded at its position."""
    if (recorded.kind, recorded.name) != (ask.kind, ask.name):
        what = f"a {recorded.kind} {recorded.name!r} is recorded, the code asks for a {ask.kind} {ask.name!r}"
    elif recorded.fingerprint != ask.fingerprint:
        what = f"the {ask.kind} {ask.name!r} is recorded with other parameters than the code asks for now"
    else:
        what = f"the {ask.kind} {ask.name!r} is recorded under version {recorded.version}, the code has {ask.version}"
    return HistoryMismatch(what, hint=PIN, ids=ids)


def decided_otherwise(ask: Ask, ids: Ids) -> RepeatedEffect:
    """A new decision asks for an effect that an earlier one has led to, with another request under the same key."""
    return RepeatedEffect(
        f"after the new decision the code asks for {ask.name!r} with another request than it was intended with before",
        hint="one operation is one request under one key: decide anew once more, or start another run instead",
        ids=ids,
    )


def forgotten(unasked: Mapping[str, Recorded], ids: Ids) -> HistoryMismatch:
    """Steps are recorded for which the code does not ask."""
    first = ", ".join(sorted(unasked)[:5])
    return HistoryMismatch(
        f"{len(unasked)} recorded step(s) are no longer asked for by the code: {first}", hint=PIN, ids=ids
    )


def is_same_effect(first: Ask, again: Ask) -> bool:
    """Whether an effect met again may share the operation of the first."""
    assert isinstance(first, StepAsk)
    assert isinstance(again, StepAsk)
    if again.item is None:
        return False
    return first.fingerprint == again.fingerprint and first.version == again.version


def repeated(first: Ask, again: Ask, ids: Ids) -> RepeatedEffect:
    """An effect is met again, and it is not certain that the same one is meant."""
    assert isinstance(again, StepAsk)
    if again.item is None:
        return RepeatedEffect(
            f"the effect {again.name!r} is asked for twice in one run, without an item",
            hint="say which one is meant: run.do(..., item=line.id); the same item is the same effect",
            ids=ids,
        )
    difference = "parameters" if first.fingerprint != again.fingerprint else "contract version"
    return RepeatedEffect(
        f"the effect {again.name!r} is asked for again for item {again.item!r}, with another {difference}",
        hint="one item is one effect with one request; use another item for another request",
        ids=ids,
    )


def unreadable(ask: Ask, error: Exception, ids: Ids) -> UnreadableValue:
    """A stored value was refused by the type that the code declares for it."""
    refusal = UnreadableValue(
        f"the stored result of the {ask.kind} {ask.name!r} cannot be read: {type(error).__name__}: {error}",
        hint="make the declared type accept what is stored, or settle the step with a value that it accepts",
        ids=ids,
    )
    refusal.__cause__ = error
    return refusal


def foreign(awaited: Any, ids: Ids) -> ForeignAwait:
    """Something was awaited that only an event loop could answer, or another run."""
    return ForeignAwait(
        f"a workflow awaited a {type(awaited).__name__}, which is not a step, wait or group of this run",
        hint="put I/O and timers into a step, and use run.sleep, run.gather and run.race",
        ids=ids,
    )


def never_ends(ids: Ids) -> CancelIgnored:
    """A cancelled branch swallows each cancel exception and asks again."""
    return CancelIgnored(
        "a cancelled branch of the workflow catches each cancel exception and asks for the next step",
        hint="let Cancelled through: catch Exception, not BaseException, around run.do and run.wait",
        ids=ids,
    )


def bad_item(item: object, name: str, ids: Ids) -> Misuse:
    """An item must be a text, so that its position is the same in each process."""
    return Misuse(
        f"the item of {name!r} is {item!r}, which is not a text of at least one character",
        hint="pass the business id that tells repetitions apart, as a str",
        ids=ids,
    )


def empty_race(ids: Ids) -> Misuse:
    """Nothing can win a race of nobody."""
    return Misuse("a race has no branches, so nothing can win it", hint="pass at least one awaitable", ids=ids)


def where(driven: Any) -> str:
    """File and line at which the code of a workflow stands, leaving out Fencepost's own frames."""
    found = ""
    while driven is not None:
        frame = getattr(driven, "cr_frame", None) or getattr(driven, "gi_frame", None)
        if frame is None:
            break
        if not frame.f_globals.get("__name__", "").startswith(("fencepost.core.", "fencepost.runtime.")):
            found = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        driven = getattr(driven, "cr_await", None) or getattr(driven, "gi_yieldfrom", None)
    return found
