"""What each kind of move does to a run, or why it must do nothing: the oracle's own rules, written from the protocol.

A rule changes the facts that it is given or raises `Refused`; the `oracle` hands it a copy, and has compared the
generation before.
"""

from collections.abc import Callable
from typing import Any

FINAL_RUN = {
    "succeeded", "failed", "cancelled", "terminated", "compensated", "partly compensated", "compensation failed",
    "continued",
}  # fmt: skip
FINAL_OPERATION = {"succeeded", "failed", "cancelled"}
OWNABLE = {"running", "cancelling", "compensating"}
WAKEABLE = {"ready", "running", "waiting", "cancelling", "compensating"}

Facts = dict[str, Any]


class Refused(Exception):
    """A move that must change nothing; `why` is illegal, duplicate, or evidence (a state lacks what proves it)."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


def require(condition: bool, why: str = "illegal") -> None:
    if not condition:
        raise Refused(why)


def kept(new: Any, old: Any) -> Any:
    """What is not given stays."""
    return old if new is None else new


def changed(operation: Facts, now: int, generation: int, **changes: Any) -> None:
    operation.update(changes, generation=generation, version=operation["version"] + 1, changed_at=now)


def awaited(book: Facts) -> bool:
    """Whether a kept signal is there for a wait that is open."""
    names = {s["name"] for s in book["steps"].values() if s["kind"] == "wait" and s["state"] == "open"}
    return any(s["state"] == "kept" and s["name"] in names for s in book["signals"].values())


def prove_operation(facts: Facts) -> None:
    """Nothing was sent without a counted, timed dispatch, and a failure says why."""
    require(facts["state"] not in ("dispatched", "unknown", "succeeded") or facts["count"] > 0, "evidence")
    require((facts["count"] == 0) == (facts["first_dispatched_at"] is None), "evidence")
    require(facts["state"] != "failed" or facts["error"] is not None, "evidence")
    require(facts["approval"] is None or facts["count"] > 0, "evidence")


def used_once(book: Facts, place: tuple[str, str], approval: str | None) -> None:
    """No two operations of a run have used one approval."""
    others = (facts["approval"] for other, facts in book["operations"].items() if other != place)
    require(approval is None or approval not in others, "duplicate")


def new_operation(book: Facts, move: Any, keys: dict[str, Any]) -> None:
    require(book["state"] == move.run_state)
    place = (move.step, move.item)
    copied = [
        "step",
        "item",
        "effect",
        "contract_version",
        "key",
        "key_scheme",
        "scope",
        "request",
        "fingerprint",
        "policy",
        "compensates",
        "approval",
        "state",
        "error",
        "not_before",
        "generation",
    ]
    facts = {name: getattr(move, name) for name in copied}
    facts["first_dispatched_at"] = move.dispatched_at
    facts.update(run=book["no"], count=move.attempts, conflict=False, lookups=0, version=0)
    facts.update(reference=None, result=None, delivered=None, delivered_at=None)
    facts.update(budget_from=move.at, reserved_at=move.at, changed_at=move.at)
    prove_operation(facts)
    if move.attempts:
        require(None not in (move.lease, move.send_by, move.span_ends_at), "evidence")
    require(place not in book["operations"] and move.key not in keys, "duplicate")
    used_once(book, place, move.approval)
    book["operations"][place] = facts
    keys[move.key] = (book["no"], *place)
    if move.attempts:
        begin(book, move, 1, move.dispatched_at)


def begin(book: Facts, move: Any, number: int, at: int) -> None:
    """An attempt is unresolved from the moment it may be sent."""
    copied = ["send_by", "span_ends_at", "lease", "generation", "token"]
    facts = {name: getattr(move, name) for name in copied}
    facts.update(number=number, dispatched_at=at, outcome="unresolved", evidence=None, sends=None, settled_at=None)
    book["attempts"][move.step, move.item, number] = facts


def new_attempt(book: Facts, move: Any, keys: dict[str, Any]) -> None:
    operation = book["operations"].get((move.step, move.item))
    require(operation is not None and operation["state"] == "dispatched" and operation["count"] == move.number)
    place = (move.step, move.item, move.number)
    require(move.number > 1 and None not in (move.lease, move.send_by, move.span_ends_at), "evidence")
    require(place not in book["attempts"], "duplicate")
    begin(book, move, move.number, move.dispatched_at)


def move_operation(book: Facts, move: Any, keys: dict[str, Any]) -> None:
    operation = book["operations"].get((move.step, move.item))
    require(operation is not None and operation["state"] == move.expected)
    for name in ("result", "error", "reference", "delivered"):
        operation[name] = kept(getattr(move, name), operation[name])
    if move.to == "succeeded":
        operation["error"] = None
    if move.event == "retry":
        operation["budget_from"] = move.at
    if move.delivered is not None:
        operation["delivered_at"] = move.at
    # Late evidence may have raised the flag behind its owner's back: nobody lowers it by not knowing of it.
    raised = operation["conflict"] or bool(move.conflict)
    operation["conflict"] = raised and move.event != "settle conflict"
    operation["lookups"] = max(operation["lookups"], move.lookups)
    operation["not_before"] = move.not_before
    changed(operation, move.at, move.generation, state=move.to)
    prove_operation(operation)


def dispatch_operation(book: Facts, move: Any, keys: dict[str, Any]) -> None:
    operation = book["operations"].get((move.step, move.item))
    require(operation is not None and operation["state"] == move.expected and book["state"] == move.run_state)
    require(operation["count"] + 1 == move.number)
    used_once(book, (move.step, move.item), move.approval)
    operation["approval"] = kept(move.approval, operation["approval"])
    changed(operation, move.at, move.generation, state="dispatched", count=move.number, not_before=None)
    if move.number == 1:
        require(None not in (move.lease, move.send_by, move.span_ends_at), "evidence")
        operation["first_dispatched_at"] = move.at
        begin(book, move, 1, move.at)


def succeed(book: Facts, move: Any, keys: dict[str, Any]) -> None:
    operation = book["operations"].get((move.step, move.item))
    require(operation is not None and operation["state"] == "dispatched" and operation["count"] == 1)
    attempt = book["attempts"][move.step, move.item, 1]
    require(attempt["outcome"] == "unresolved")
    attempt.update(outcome="applied", evidence=move.evidence, settled_at=move.at)
    attempt["sends"] = kept(move.sends, attempt["sends"])
    operation.update(result=move.result, error=None, not_before=None)
    for name in ("reference", "delivered"):
        operation[name] = kept(getattr(move, name), operation[name])
    if move.delivered is not None:
        operation["delivered_at"] = move.at
    changed(operation, move.at, move.generation, state="succeeded")


def settle_attempt(book: Facts, move: Any, keys: dict[str, Any]) -> None:
    attempt = book["attempts"].get((move.step, move.item, move.number))
    require(attempt is not None and attempt["outcome"] == move.expected)
    settled_at = None if move.to == "unresolved" else move.at
    attempt.update(outcome=move.to, evidence=move.evidence, settled_at=settled_at)
    attempt["sends"] = kept(move.sends, attempt["sends"])


def settle_later(book: Facts, move: Any, keys: dict[str, Any]) -> None:
    require(move.number > 1)  # the first one stands in the operation's own row
    settle_attempt(book, move, keys)


def deliver_operation(book: Facts, move: Any, keys: dict[str, Any]) -> None:
    operation = book["operations"].get((move.step, move.item))
    require(operation is not None and operation["state"] in FINAL_OPERATION)
    operation.update(delivered=move.delivered, delivered_at=move.at, version=operation["version"] + 1)


def prove_step(facts: Facts) -> None:
    require((facts["state"] == "open") == (facts["closed_at"] is None), "evidence")
    require(facts["state"] != "failed" or facts["error"] is not None, "evidence")


def open_step(book: Facts, move: Any, keys: dict[str, Any]) -> None:
    facts = {name: value for name, value in move._asdict().items() if name not in ("run", "generation", "at")}
    facts |= {"opened_at": move.at, "beaten_at": None, "progress": None}
    prove_step(facts)
    require(move.position not in book["steps"], "duplicate")
    book["steps"][move.position] = facts


def move_step(book: Facts, move: Any, keys: dict[str, Any]) -> None:
    step = book["steps"].get(move.position)
    require(step is not None and step["state"] == move.expected)
    for name in ("detail", "result", "error", "delivered", "due_at"):
        step[name] = kept(getattr(move, name), step[name])
    if move.to == "done":
        step["error"] = None
    step["closed_at"] = None if move.to == "open" else kept(step["closed_at"], move.at)
    step["state"] = move.to
    prove_step(step)


def move_signal(book: Facts, move: Any, keys: dict[str, Any]) -> None:
    signal = book["signals"].get(move.id)
    require(signal is not None and signal["state"] == move.expected)
    require(move.to != "applied" or move.position is not None, "evidence")
    require(move.to != "refused" or move.reason is not None, "evidence")
    signal.update(state=move.to, reason=move.reason, position=move.position, closed_at=move.at)


def start_child(book: Facts, move: Any, keys: dict[str, Any]) -> None:
    """The ledger's other runs are the oracle's matter; here only what its own run has to do with it."""
    require(move.id not in book["ids"], "duplicate")
    book["ids"].add(move.id)
    book["began"].append(move)


def pin_run(book: Facts, move: Any, keys: dict[str, Any]) -> None:
    require(book["state"] == move.expected and book["workflow_version"] == move.workflow_version)
    book["workflow_version"] = move.pinned


def next_turn(book: Facts, move: Any, keys: dict[str, Any]) -> None:
    require(book["state"] == "continued")
    place = (book["id"], book["turn"] + 1)
    require(place not in book["turns"], "duplicate")
    book["turns"].add(place)
    book["began"].append(move)


def given_up_woken(book: Facts, move: Any) -> bool:
    """Whether a child has ended while the run was owned, which looks at it as soon as it waits."""
    return book["woken"] and move.to in ("waiting", "cancelling", "compensating")


def move_run(book: Facts, move: Any, keys: dict[str, Any]) -> None:
    require(book["state"] == move.expected)
    wake_at = move.wake_at
    if move.to == "ready":
        wake_at = kept(wake_at, move.at)
    takes_signals = move.to in ("waiting", "cancelling") or (move.to == "compensating" and move.wake_at is None)
    if not move.keep_lease and takes_signals and awaited(book):
        wake_at = move.at
    if not move.keep_lease:
        wake_at = move.at if given_up_woken(book, move) else wake_at
        book["woken"] = False
    for name in ("result", "error", "cancel"):
        book[name] = kept(getattr(move, name), book[name])
    if move.ended_at is not None and book["ended_at"] is None and move.to != "continued":
        book["wakes"] = book["parent_step"] is not None
        for signal in book["signals"].values():
            if signal["state"] == "kept":
                signal.update(state="refused", reason="the run has ended", closed_at=move.ended_at)
    if move.to == "succeeded":
        book["error"] = None
    book.update(state=move.to, hold=move.hold, delivered=move.delivered, wake_at=wake_at)
    book.update(lease=book["lease"] if move.keep_lease else None, changed_at=move.at, ended_at=move.ended_at)
    book.update(generation=book["generation"] + move.raise_generation, version=book["version"] + 1)
    if move.raise_generation:
        book["takeovers"] = 0
    prove_run(book)


def prove_run(book: Facts) -> None:
    """Each state of a run has what it needs: an owner, a hold, an end, a result, an error, a cancel request."""
    state = book["state"]
    require(state != "running" or book["lease"] is not None, "evidence")
    require(book["lease"] is None or state in OWNABLE, "evidence")
    require(state != "ready" or book["wake_at"] is not None, "evidence")
    require(book["wake_at"] is None or state in WAKEABLE, "evidence")
    require((state == "held") == (book["hold"] is not None), "evidence")
    require((state in FINAL_RUN) == (book["ended_at"] is not None), "evidence")
    require(state != "succeeded" or book["result"] is not None, "evidence")
    require(state != "failed" or book["error"] is not None, "evidence")
    require(state != "continued" or book["resource"] is None, "evidence")
    require(state not in ("cancelling", "cancelled") or book["cancel"] is not None, "evidence")


RULES: dict[str, Callable[[Facts, Any, dict[str, Any]], None]] = {
    "NewOperation": new_operation,
    "NewAttempt": new_attempt,
    "MoveOperation": move_operation,
    "DispatchOperation": dispatch_operation,
    "Succeed": succeed,
    "SettleFirst": settle_attempt,
    "SettleAttempt": settle_later,
    "DeliverOperation": deliver_operation,
    "OpenStep": open_step,
    "MoveStep": move_step,
    "MoveSignal": move_signal,
    "StartChild": start_child,
    "PinRun": pin_run,
    "MoveRun": move_run,
    "NextTurn": next_turn,
}
