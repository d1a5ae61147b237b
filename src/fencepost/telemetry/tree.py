"""Lays the trace of a run out as a tree of lines, each with its time since the run began and how long it took.

Lines may hold text from outside, such as run ids; whoever prints them makes them safe. What is in a trace is decided in
`core.trace`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from fencepost.core.duration import SECOND
from fencepost.core.trace import Trace, TraceSpan

_SHOWN = {
    "item": "item",
    "turn": "turn",
    "generation": "generation",
    "lease": "lease",
    "sends": "sends",
    "child.run.id": "run",
}
"""What of a span's attributes stands on its line, and how it is called there."""

_WHOLE = frozenset({"effect", "compensation"})
"""Kinds of spans on whose lines the operation's key stands; those below have the same."""


def tree(trace: Trace) -> Iterator[str]:
    """The lines: the trace's id, then each span below the one that it is in."""
    yield f"trace {trace.id} of run {trace.run_id}"
    below: dict[str | None, list[TraceSpan]] = defaultdict(list)
    there = {one.id for one in trace.spans}
    for one in sorted(trace.spans, key=lambda span: span.began_at):
        below[one.parent if one.parent in there else None].append(one)
    roots = below[None]
    began = roots[0].began_at if roots else 0
    stack = [(one, "", "", "") for one in reversed(roots)]
    while stack:
        span, mark, edge, margin = stack.pop()
        yield f"{_after(span.began_at - began)}  {_lasted(span)}  {mark}{edge}{_said(span)}"
        inner = below[span.id]
        for place in range(len(inner) - 1, -1, -1):
            is_last = place == len(inner) - 1
            stack.append((inner[place], margin, "└─ " if is_last else "├─ ", margin + ("   " if is_last else "│  ")))


def _after(microseconds: int) -> str:
    return f"{microseconds / SECOND:>+10.3f}s"


def _lasted(span: TraceSpan) -> str:
    if span.ended_at is None:
        return f"{'open':>9}"
    lasts = span.ended_at - span.began_at
    return f"{lasts / SECOND:>8.3f}s" if lasts else " " * 9


def _said(span: TraceSpan) -> str:
    shown = [f"key {span.attributes['operation.key']}"] if span.kind in _WHOLE else []
    shown += [f"{name} {span.attributes[one]}" for one, name in _SHOWN.items() if one in span.attributes]
    return "  ".join([f"{span.name}: {span.says}", *shown])
