"""Moves with defaults: a test names only what it is about. What a store makes of them is in `conformance`."""

from typing import Any

from fencepost.core.records import Audit, Lease, Run, Signal
from fencepost.core.states import LeaseState, SignalState
from fencepost.store.api import Group, NewRun
from fencepost.store.moves import (
    DeliverOperation,
    DispatchOperation,
    Move,
    MoveOperation,
    MoveRun,
    MoveSignal,
    MoveStep,
    NewAttempt,
    NewOperation,
    NextTurn,
    Observe,
    OpenStep,
    PinRun,
    SettleAttempt,
    SettleFirst,
    StartChild,
    Succeed,
)

NOW = 1_700_000_000_000_000
SECOND = 1_000_000
WORKFLOWS = [("approve", 1)]


def lease(name: str = "lease-1", *, at: int = NOW, ttl: int = 10 * SECOND) -> Lease:
    return Lease(name, "host", "boot", 42, 7, LeaseState.LIVE, at, at, at + ttl)


def new_run(name: str = "run-1", **changes: Any) -> NewRun:
    plain = NewRun("default", name, "approve", 1, "user-7", '{"n":1}', "print", None, None, NOW, NOW)
    return plain._replace(**changes)


def new_operation(run: Run, step: str = "pay", **changes: Any) -> NewOperation:
    item = changes.get("item", "")
    reserved = changes.get("state") == "reserved"
    plain = NewOperation(
        run.no, run.generation, run.state.value, step, item, "pay", 1, f"key:{run.no}:{step}:{item}", 1, "acct", "{}",
        "print", None, None, "reserved" if reserved else "dispatched", 0 if reserved else 1, None, None, NOW,
        *[None, None, None, None, None] if reserved else [None, "lease-1", NOW, NOW + SECOND, NOW + 2 * SECOND],
    )  # fmt: skip
    return plain._replace(**changes)


def new_attempt(run: Run, step: str = "pay", number: int = 2, **changes: Any) -> NewAttempt:
    plain = NewAttempt(run.no, run.generation, step, "", number, None, "lease-1", NOW, NOW + SECOND, NOW + 2 * SECOND)
    return plain._replace(**changes)


def move_operation(run: Run, event: str, expected: str, to: str, step: str = "pay", **changes: Any) -> MoveOperation:
    plain = MoveOperation(
        run.no, run.generation, step, "", expected, event, to, '"done"' if to == "succeeded" else None,
        '{"class_name":"Refused"}' if to == "failed" else None, None, None, None, 0, 0, NOW,
    )  # fmt: skip
    return plain._replace(**changes)


def applied(run: Run, step: str = "pay", **changes: Any) -> MoveOperation:
    return move_operation(run, "apply", "dispatched", "succeeded", step, **changes)


def succeed(run: Run, step: str = "pay", **changes: Any) -> Succeed:
    plain = Succeed(run.no, run.generation, step, "", '{"kind":"reply"}', 1, '"done"', None, None, NOW)
    return plain._replace(**changes)


def dispatch_again(run: Run, expected: str, number: int, step: str = "pay", **changes: Any) -> DispatchOperation:
    plain = DispatchOperation(
        run.no, run.generation, run.state.value, step, "", expected, number, NOW, None, "lease-1", NOW + SECOND,
        NOW + 2 * SECOND,
    )  # fmt: skip
    return plain._replace(**changes)


def settle(
    run: Run, to: str = "applied", step: str = "pay", number: int = 1, **changes: Any
) -> SettleFirst | SettleAttempt:
    proof = ("unresolved", to, to, '{"kind":"reply"}', 1, NOW)
    if number == 1:
        return SettleFirst(run.no, run.generation, step, "", *proof)._replace(**changes)
    return SettleAttempt(run.no, run.generation, step, "", number, *proof)._replace(**changes)


def deliver(run: Run, delivered: int, step: str = "pay") -> DeliverOperation:
    return DeliverOperation(run.no, run.generation, step, "", delivered, NOW)


def open_step(run: Run, position: str = "wait:0", kind: str = "wait", **changes: Any) -> OpenStep:
    plain = OpenStep(
        run.no, run.generation, position, kind, "decision", "print", 1, "open", "{}", None, None, None, None, None, NOW,
        None,
    )  # fmt: skip
    return plain._replace(**changes)


def move_step(run: Run, event: str, expected: str, to: str, position: str = "wait:0", **changes: Any) -> MoveStep:
    error = '{"class_name":"WaitExpired"}' if to == "failed" else None
    plain = MoveStep(run.no, run.generation, position, expected, event, to, None, None, error, None, None, NOW)
    return plain._replace(**changes)


def move_signal(run: Run, to: str = "applied", name: str = "signal-1", **changes: Any) -> MoveSignal:
    event, reason, position = ("apply", None, "wait:0") if to == "applied" else ("refuse", "not waiting", None)
    return MoveSignal(run.no, run.generation, name, "kept", event, to, reason, position, NOW)._replace(**changes)


_FINAL = {
    "succeeded", "failed", "cancelled", "terminated", "compensated", "partly compensated", "compensation failed",
    "continued",
}  # fmt: skip


def move_run(run: Run, event: str, to: str, **changes: Any) -> MoveRun:
    owned = run.lease is not None and to in ("running", "cancelling", "compensating")
    plain = MoveRun(
        run.no, run.generation, run.state.value, event, to, int(owned), 0, None,
        '{"reason":"unknown"}' if to == "held" else None,
        '"result"' if to == "succeeded" else None,
        '{"class_name":"Bug"}' if to == "failed" else None,
        '{"who":"anna"}' if to in ("cancelling", "cancelled") else None,
        run.delivered, NOW, NOW if to in _FINAL else None,
    )  # fmt: skip
    return plain._replace(**changes)


def start_child(run: Run, name: str = "child-1", **changes: Any) -> StartChild:
    plain = StartChild(run.no, run.generation, name, "approve", 1, '{"n":2}', "print", "/sub", NOW)
    return plain._replace(**changes)


def next_turn(run: Run, **changes: Any) -> NextTurn:
    return NextTurn(run.no, run.generation, '{"n":3}', None, NOW)._replace(**changes)


def pin_run(run: Run, pinned: int = 2, **changes: Any) -> PinRun:
    return PinRun(run.no, run.generation, run.state.value, run.workflow_version, pinned)._replace(**changes)


def seen(run: Run, step: str = "pay", **changes: Any) -> Observe:
    plain = Observe(run.no, step, "", 1, "reply", "applied", '{"status":201}', "lease-1", run.generation, 1, None, NOW)
    return plain._replace(**changes)


def signal(name: str = "signal-1", wait: str = "decision", **changes: Any) -> Signal:
    plain: dict[str, Any] = {
        "id": name, "name": wait, "payload": '{"ok":true}', "state": SignalState.KEPT, "sent_at": NOW,
        "sender": "anna", "fingerprint": "print",
    }  # fmt: skip
    return Signal(**{**plain, **changes})


def audit(verb: str = "resume", **changes: Any) -> Audit:
    plain: dict[str, Any] = {
        "at": NOW, "actor": "anna", "verb": verb, "run_id": "run-1", "outcome": "done", "reason": "fixed",
        "before": "{}", "after": "{}",
    }  # fmt: skip
    return Audit(**{**plain, **changes})


def group(run: Run, *moves: Move, seen: list[Observe] | None = None, if_refused: list[Observe] | None = None) -> Group:
    return Group(run.no, run.generation, list(moves), seen or [], if_refused or [])
