"""Lays a run's story out for a person: the run, its steps with attempts and evidence, signals and audit.

Works on the document of `story` alone, so that the screen and `--json` never disagree. Every text from outside passes
`printable`; long payloads are cut here, and whole in `--json`. What may be done about the run is in `offers`.
"""

from __future__ import annotations

from collections.abc import Iterator

from fencepost.console.cancelled import layers
from fencepost.console.printable import compact, printable, short_key
from fencepost.console.story import Document

_WIDTH = 12
_CLOCK = slice(11, 23)  # the time of day of an ISO instant, to the millisecond


def timeline(story: Document) -> Iterator[str]:
    """The lines of the screen."""
    yield from _head(story["run"])
    yield from _listed("waits for", story["waits_for"])
    yield from _children(story["children"])
    yield from layers(story["cancellation"])
    yield ""
    yield "steps" if story["steps"] else "no step has begun"
    for step in story["steps"]:
        yield from _operation(step) if step["kind"] == "effect" else _step(step)
    yield from _compensation(story["compensation"])
    yield from _signals(story["signals"])
    yield from _audit(story["audit"])


def _children(children: list[Document]) -> Iterator[str]:
    if not children:
        return
    yield ""
    yield "children"
    for child in children:
        where = "detached" if child["attached_at"] is None else f"at {printable(child['attached_at'])}"
        why = f" ({printable(child['hold'].get('reason'))})" if isinstance(child["hold"], dict) else ""
        what = f"{printable(child['workflow'])} {child['workflow_version']}"
        yield f"  {printable(child['id'])}  {what}, {where}  {child['state']}: {child['label']}{why}"


def _field(name: str, value: object, indent: int = 2) -> str:
    return f"{' ' * indent}{name:<{_WIDTH}}{value}"


def _listed(name: str, values: list[str]) -> Iterator[str]:
    for position, value in enumerate(values):
        yield _field(name if position == 0 else "", printable(value))


def _head(run: Document) -> Iterator[str]:
    yield f"run {printable(run['id'])}"
    yield _field("workflow", f"{printable(run['workflow'])}, version {run['workflow_version']}")
    if run["carried"] is False:
        yield _field("NO WORKER", "none that is alive carries this version: start one, or migrate the run")
    if run["turn"]:
        yield _field("turn", f"{run['turn']} (`--turn N` shows an earlier one, from 0 on)")
    if run["parent"]:
        yield _field("child of", printable(run["parent"]))
    yield _field("state", f"{run['state']}: {run['label']}")
    yield from _hold(run["hold"], run["held_at"])
    if run["cancel"]:
        cancel = run["cancel"]
        yield _field("cancel", f"asked by {printable(cancel.get('who'))}: {printable(cancel.get('why'))}")
    yield _field("owner", f"{_owner(run['owner'])}; generation {run['generation']}, version {run['version']}")
    if run["progress"]:
        yield _field("progress", f"{compact(run['progress']['value'])} ({run['progress']['at']})")
    if run["on_behalf_of"]:
        yield _field("acts for", printable(run["on_behalf_of"]))
    if run["resource"]:
        yield _field("in line for", printable(run["resource"]))
    yield _field("began", run["created_at"])
    yield _field("changed" if run["ended_at"] is None else "ended", run["ended_at"] or run["changed_at"])
    yield _field("input", compact(run["input"]))
    if run["result"] is not None:
        yield _field("result", compact(run["result"]))
    if run["error"]:
        yield _field("error", _error(run["error"]))


def _hold(hold: Document | None, where: str | None) -> Iterator[str]:
    if not isinstance(hold, dict):
        return
    yield _field("held for", f"{printable(hold.get('reason'))} (at {printable(where)})")
    if hold.get("detail"):
        yield _field("", compact(hold["detail"]))


def _owner(owner: Document | None) -> str:
    if owner is None:
        return "nobody"
    lease = printable(owner["lease"])
    if owner["pid"] is None:
        return f"a worker that is gone (lease {lease})"
    until = f", {owner['lease_state']}, expires {owner['lease_expires_at']}"
    return f"pid {owner['pid']} on {printable(owner['host'])} (lease {lease}{until})"


def _error(error: Document) -> str:
    return printable(f"{error['class']}: {error['message']}" if error["class"] else error["message"])


def _item(item: str | None) -> str:
    return "" if item is None else f", item {printable(item)}"


def _begin(step: Document) -> str:
    clock = (step["began_at"] or "")[_CLOCK]
    return f"  {clock}  {printable(step['position'])}  ({step['kind']})  {step['state']}: {step['label']}"


def _step(step: Document) -> Iterator[str]:
    yield _begin(step)
    if step["due_at"]:
        yield _field("due", step["due_at"], 6)
    for name, key in (("request", "request"), ("result", "result"), ("detail", "detail")):
        if step[key] is not None:
            yield _field(name, compact(step[key]), 6)
    if step["error"]:
        yield _field("last error", _error(step["error"]), 6)


def _operation(operation: Document) -> Iterator[str]:
    yield _begin(operation)
    if operation["conflict"]:
        yield _field("CONFLICT", "what is known of this effect contradicts itself", 6)
    yield _field("intends", f"{printable(operation['effect'])} {compact(operation['request'])}", 6)
    scope = f", scope {printable(operation['scope'])}" if operation["scope"] else ""
    yield _field("key", f"{short_key(operation['key'])}{scope}, contract version {operation['version']}", 6)
    for name in ("compensates", "approval", "reference"):
        if operation[name] is not None:
            yield _field(name, printable(operation[name]), 6)
    if operation["after"]:
        yield _field("after", printable(", ".join(operation["after"])), 6)
    if operation["policy"]:
        yield _field("policy", compact(operation["policy"]), 6)
    yield from (line for attempt in operation["attempts"] for line in _attempt(attempt))
    yield from map(_observation, operation["observations"])
    yield from _outcome(operation)


def _outcome(operation: Document) -> Iterator[str]:
    if operation["lookups"]:
        yield _field("look-ups", operation["lookups"], 6)
    if operation["result"] is not None:
        yield _field("result", compact(operation["result"]), 6)
    if operation["error"]:
        yield _field("last error", _error(operation["error"]), 6)
    if operation["not_before"] and operation["state"] in ("reserved", "unknown"):
        yield _field("not before", operation["not_before"], 6)


def _attempt(attempt: Document) -> Iterator[str]:
    clock = attempt["dispatched_at"][_CLOCK]
    said = f"{clock}  {attempt['outcome']}: {attempt['label']}{_sends(attempt)}"
    yield _field(f"attempt {attempt['number']}", said, 6)
    by = f"by {_owner(attempt['owner'])}, generation {(attempt['owner'] or {}).get('generation')}"
    yield _field("", f"{by}; every trace over by {attempt['span_ends_at']}", 6)
    if attempt["evidence"] is not None:
        yield _field("", f"evidence {compact(attempt['evidence'])}", 6)


def _sends(attempt: Document) -> str:
    """How often the attempt was sent; it may be once, so more is somebody else's retry."""
    sends = attempt["sends"]
    if sends is None:
        return "" if attempt["settled_at"] is None else ", sends not countable"
    return f", {sends} sent{': a second layer retries' if sends > 1 else ''}"


def _observation(seen: Document) -> str:
    says = f": {seen['says']}" if seen["says"] else ""
    stale = "" if seen["by_current_owner"] or seen["owner"] is None else " (seen by a former owner)"
    what = f"{seen['seen_at'][_CLOCK]}  {printable(seen['kind'])}{says}{stale}  {compact(seen['evidence'])}"
    return _field("seen", what, 6)


def _compensation(report: Document | None) -> Iterator[str]:
    if report is None:
        return
    yield ""
    yield f"compensation: {printable(report.get('reason', ''))}"
    for one in report.get("effects", []):
        error = f": {compact(one['error'])}" if one.get("error") else ""
        reference = f" ({printable(one['reference'])})" if one.get("reference") else ""
        yield f"  {printable(one.get('effect'))}{reference}  {printable(one.get('outcome'))}{error}"


def _signals(signals: list[Document]) -> Iterator[str]:
    if not signals:
        return
    yield ""
    yield "signals"
    for one in signals:
        why = f" ({printable(one['reason'])})" if one["reason"] else ""
        sender = f" from {printable(one['sender'])}" if one["sender"] else ""
        name, value = printable(one["name"]), compact(one["value"])
        state = "kept, unclaimed" if one["unclaimed"] else one["state"]
        yield f"  {one['sent_at'][_CLOCK]}  {name} {value}{sender}  {state}: {one['label']}{why}"


def _audit(rows: list[Document]) -> Iterator[str]:
    if not rows:
        return
    yield ""
    yield "audit"
    for row in rows:
        step = f" {printable(row['step'])}{_item(row['item'])}" if row["step"] else ""
        who = printable(row["actor"])
        yield f"  {row['at']}  {who}  {row['verb']}{step}  {row['outcome']}: {printable(row['reason'])}"
        yield f"      {compact(row['before'])} -> {compact(row['after'])}"
