"""Draws moves for random histories: right ones that fit a run as it is, and spoilt ones that miss in one place.

Whether a move is accepted is not decided here; the `oracle` judges each.
"""

import random
from collections.abc import Callable
from typing import Any

from fencepost.core.records import Run
from fencepost.core.states import RunState
from fencepost.store.moves import (
    DeliverOperation,
    DispatchOperation,
    MoveOperation,
    MoveRun,
    MoveSignal,
    MoveStep,
    NewAttempt,
    NewOperation,
    OpenStep,
    PinRun,
    StartChild,
    Succeed,
)
from tests.store import build
from tests.store.oracle_rules import FINAL_OPERATION, Facts

RUN_STATES = {state.value: state for state in RunState}

# From each state an engine or a person leads an operation to these, with the event that says how.
OPERATION = {
    "reserved": [("cancel", "cancelled"), ("refuse", "failed"), ("release", "reserved")],
    "dispatched": [("apply", "succeeded"), ("lose", "unknown"), ("release", "reserved"), ("refuse", "failed")],
    "unknown": [
        *[("apply", "succeeded"), ("release", "reserved"), ("refuse", "failed"), ("lose", "unknown")],
        *[("contradict", "unknown"), ("settle conflict", "unknown")],
    ],
    "succeeded": [("contradict", "succeeded"), ("settle conflict", "succeeded")],
    "failed": [("retry", "reserved"), ("contradict", "failed"), ("settle conflict", "failed")],
    "cancelled": [("contradict", "cancelled"), ("reserve", "reserved"), ("settle conflict", "cancelled")],
}
STEP = {
    "open": [("finish", "done"), ("fail", "failed"), ("cancel", "cancelled"), ("note", "open")],
    "failed": [("resume", "open")],
    "cancelled": [("resume", "open")],
}
RUN = {
    "ready": ["held", "cancelling", "terminated"],
    "running": ["waiting", "ready", "held", "cancelling", "compensating", "succeeded", "failed", "running"],
    "waiting": ["ready", "held", "cancelling", "terminated"],
    "held": ["ready", "cancelling", "compensating", "terminated", "held"],
    "cancelling": ["cancelling", "held", "compensating", "cancelled", "terminated"],
    "compensating": ["compensating", "held", "compensated", "partly compensated", "compensation failed"],
    "failed": ["ready", "compensating", "terminated"],
    "succeeded": ["ready"],
    "cancelled": ["ready"],
    "terminated": ["ready", "compensating"],
}

APPROVALS = ("wait:ok", "wait:fine")
"""Few, so that two operations of a run often want the same."""

Maker = Callable[[random.Random, Run, Facts, str], Any]


def places(book: Facts, *states: str) -> list[tuple[str, str]]:
    return [place for place, facts in book["operations"].items() if not states or facts["state"] in states]


def new_operation(draw: random.Random, run: Run, book: Facts, name: str) -> NewOperation:
    state = draw.choice(("reserved", "dispatched"))
    approval = draw.choice((None, None, *APPROVALS)) if state == "dispatched" else None
    return build.new_operation(run, name, item=draw.choice(("", "", "line-1")), state=state, approval=approval)


def new_attempt(draw: random.Random, run: Run, book: Facts, name: str) -> NewAttempt | None:
    bare = [
        (place, facts["count"]) for place, facts in book["operations"].items()
        if facts["state"] == "dispatched" and facts["count"] > 1 and (*place, facts["count"]) not in book["attempts"]
    ]  # fmt: skip
    if not bare:
        return None
    (step, item), number = draw.choice(bare)
    return build.new_attempt(run, step, number, item=item, token=draw.choice((None, 7)), lease=run.lease or "nobody")


def move_operation(draw: random.Random, run: Run, book: Facts, name: str) -> MoveOperation | None:
    if not places(book):
        return None
    step, item = draw.choice(places(book))
    expected = book["operations"][step, item]["state"]
    event, to = draw.choice(OPERATION[expected])
    move = build.move_operation(run, event, expected, to, step, item=item, conflict=int(event == "contradict"))
    given = {"reference": name, "not_before": build.NOW, "lookups": 1, "delivered": run.delivered + 1}
    return move._replace(**{field: value for field, value in given.items() if draw.random() < 0.3})


def dispatch_operation(draw: random.Random, run: Run, book: Facts, name: str) -> DispatchOperation | None:
    if not places(book, "reserved", "unknown"):
        return None
    step, item = draw.choice(places(book, "reserved", "unknown"))
    facts = book["operations"][step, item]
    approval = draw.choice((None, None, *APPROVALS))
    return build.dispatch_again(run, facts["state"], facts["count"] + 1, step, item=item, approval=approval)


def succeed(draw: random.Random, run: Run, book: Facts, name: str) -> Succeed | None:
    found = [place for place in places(book, "dispatched") if book["operations"][place]["count"] == 1]
    if draw.random() < 0.4:
        found = places(
            book, "unknown", "reserved", "failed"
        )  # it names no state that could be spoilt: its own is always the same
    if not found:
        return None
    step, item = draw.choice(found)
    sends, delivered = draw.choice((None, 1, 2)), draw.choice((None, run.delivered + 1))
    return build.succeed(run, step, item=item, sends=sends, delivered=delivered, reference=draw.choice((None, name)))


def settle_first(draw: random.Random, run: Run, book: Facts, name: str) -> Any:
    return _settle(draw, run, book, [place for place in book["attempts"] if place[2] == 1])


def settle_attempt(draw: random.Random, run: Run, book: Facts, name: str) -> Any:
    return _settle(draw, run, book, [place for place in book["attempts"] if place[2] > 1])


def _settle(draw: random.Random, run: Run, book: Facts, found: list[tuple[str, str, int]]) -> Any:
    if not found:
        return None
    step, item, number = draw.choice(found)
    to = draw.choice(("applied", "not applied", "unresolved"))
    sends = draw.choice((None, 1, 2))
    expected = book["attempts"][step, item, number]["outcome"]
    return build.settle(run, to, step, number, item=item, expected=expected, sends=sends)


def deliver_operation(draw: random.Random, run: Run, book: Facts, name: str) -> DeliverOperation | None:
    if not places(book, *FINAL_OPERATION):
        return None
    step, item = draw.choice(places(book, *FINAL_OPERATION))
    return build.deliver(run, run.delivered + 1, step)._replace(item=item)


def open_step(draw: random.Random, run: Run, book: Facts, name: str) -> OpenStep:
    kind = draw.choice(("wait", "wait", "sleep", "read", "child", "cancel"))
    wait = draw.choice(("decision", "other"))
    detail = draw.choice((None, '{"many":true}'))
    move = build.open_step(run, name, kind, name=wait, detail=detail, due_at=draw.choice((None, build.NOW)))
    return move._replace(state="done", closed_at=build.NOW, result="1") if draw.random() < 0.2 else move


def move_step(draw: random.Random, run: Run, book: Facts, name: str) -> MoveStep | None:
    found = [position for position, facts in book["steps"].items() if facts["state"] in STEP]
    if not found:
        return None
    position = draw.choice(found)
    expected = book["steps"][position]["state"]
    event, to = draw.choice(STEP[expected])
    detail, delivered = draw.choice((None, '{"many":false}')), draw.choice((None, 3))
    return build.move_step(run, event, expected, to, position, detail=detail, delivered=delivered)


def move_signal(draw: random.Random, run: Run, book: Facts, name: str) -> MoveSignal | None:
    waiting = [found for found, facts in book["signals"].items() if facts["state"] == "kept"]
    return build.move_signal(run, draw.choice(("applied", "refused")), draw.choice(waiting)) if waiting else None


def move_run(draw: random.Random, run: Run, book: Facts, name: str) -> MoveRun | None:
    if run.state.value not in RUN:
        return None
    to = draw.choice(RUN[run.state.value])
    changes: dict[str, Any] = {"raise_generation": draw.choice((0, 0, 1)), "delivered": run.delivered + 1}
    if to in ("waiting", "cancelling", "compensating", "ready") and draw.random() < 0.5:
        changes |= {"wake_at": build.NOW + draw.choice((0, 30)) * build.SECOND, "keep_lease": 0}
    return build.move_run(run, "move", to, **changes)


def start_child(draw: random.Random, run: Run, book: Facts, name: str) -> StartChild:
    return build.start_child(run, f"child-{name}", parent_step=draw.choice((None, *book["steps"])))


def pin_run(draw: random.Random, run: Run, book: Facts, name: str) -> PinRun:
    return build.pin_run(run, 1)  # to the version that every claimer knows


RIGHT: dict[str, Maker] = {
    "NewOperation": new_operation,
    "NewAttempt": new_attempt,
    "MoveOperation": move_operation,
    "DispatchOperation": dispatch_operation,
    "Succeed": succeed,
    "SettleFirst": settle_first,
    "SettleAttempt": settle_attempt,
    "DeliverOperation": deliver_operation,
    "OpenStep": open_step,
    "MoveStep": move_step,
    "MoveSignal": move_signal,
    "StartChild": start_child,
    "PinRun": pin_run,
    "MoveRun": move_run,
}

_WRONG: dict[str, list[Any]] = {
    "expected": ["reserved", "unknown", "succeeded", "open", "done", "applied", "kept", "running", "held"],
    "run_state": ["running", "held", "cancelling"],
    "step": ["nowhere"],
    "position": ["nowhere"],
    "number": [1, 2, 9],
    "attempts": [0, 1],
    "lease": [None],
    "send_by": [None],
    "result": [None],
    "error": [None],
    "hold": [None, '{"reason":"x"}'],
    "ended_at": [None, build.NOW],
    "keep_lease": [0, 1],
    "wake_at": [build.NOW],
    "generation": [0, 99],
    "closed_at": [build.NOW],
    "approval": [*APPROVALS],
}


def spoilt(draw: random.Random, move: Any, taken: list[str]) -> Any:
    """The same move with one field that may be wrong; `taken` are keys of other operations."""
    wrong = {**_WRONG, "key": taken} if taken else _WRONG
    name = draw.choice([field for field in move._fields if field in wrong])
    return move._replace(**{name: draw.choice(wrong[name])})


OTHER_STATES: dict[str, tuple[str, list[str]]] = {
    "NewOperation": ("run_state", ["ready", "running", "held", "cancelling"]),
    "MoveOperation": ("expected", ["reserved", "dispatched", "unknown", "failed"]),
    "DispatchOperation": ("expected", ["reserved", "unknown"]),
    "SettleFirst": ("expected", ["unresolved", "applied", "not applied"]),
    "SettleAttempt": ("expected", ["unresolved", "applied", "not applied"]),
    "MoveStep": ("expected", ["open", "failed"]),
    "MoveSignal": ("expected", ["kept", "applied"]),
    "MoveRun": ("expected", ["ready", "running", "waiting", "held"]),
    "PinRun": ("expected", ["ready", "running", "waiting", "held"]),
}


def from_another_state(draw: random.Random, move: Any) -> Any:
    """The same move, expecting a state in which its row is not."""
    if type(move).__name__ not in OTHER_STATES:
        return move
    name, states = OTHER_STATES[type(move).__name__]
    return move._replace(**{name: draw.choice([state for state in states if state != getattr(move, name)])})
