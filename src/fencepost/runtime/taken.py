"""What a wait takes, written into its row, so that a sender whose code knows the type hears at once of a misfit.

Only what is certain is refused here: the type is found in this process, has the form that it had where the wait was
opened, and does not read the value. Everything else is kept, and judged by the worker when it delivers (`positions`).
"""

from __future__ import annotations

import json
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from fencepost.core.approval import digest_waited_for, misfit
from fencepost.core.callback import value_in
from fencepost.core.errors import ValueRefused, VerbRefused
from fencepost.core.identity import canonical, digest_text
from fencepost.core.states import SignalState, StepState
from fencepost.effects.values import Door

if TYPE_CHECKING:
    from fencepost.core.records import History, Signal, Step


def described(kind: Any) -> str | None:
    """Where the type is found and a digest of its form, as one text; None for what has no name of its own."""
    try:
        return _described(kind)
    except TypeError:  # what an annotation holds need not be hashable
        return None


@cache
def _described(kind: Any) -> str | None:
    if not isinstance(kind, type) or "<" in kind.__qualname__:
        return None
    try:
        form = canonical(TypeAdapter(kind).json_schema())
    except Exception:  # noqa: BLE001 - a type's own schema may raise anything; then nothing is said of it
        return None
    return f"{kind.__module__}:{kind.__qualname__}:{digest_text(form.encode())}"


def require_fit(history: History, signal: Signal, *, by_type: bool) -> None:
    """Raise `VerbRefused` for a signal of a type that none of the waits which are open for it can take.

    One that came before is not judged again, and one that stands behind another may be for a later wait; not so an
    approval, which names its call. `by_type`: the sender's app knows the workflow, so that types can be compared; an
    approval is judged without any code.
    """
    waits = [one for one in history.steps if _is_open_for(one, signal.name)]
    are_approvals = all(digest_waited_for(one) for one in waits)
    kept = [one for one in history.signals if one.name == signal.name and one.state is SignalState.KEPT]
    if not waits or (kept and not are_approvals) or any(one.id == signal.id for one in history.signals):
        return
    misfits = [_misfit(wait, signal, by_type=by_type) for wait in waits]
    if all(misfits):
        raise VerbRefused(
            f"signal {signal.name!r} is refused: {misfits[0]}",
            hint="nothing was kept; send it again in the form that the wait takes",
            ids={"run": history.run.id, "signal": signal.id},
        )


def reads_itself(kind: type[Any], payload: str) -> bool:
    """Whether a type can read what was written of a value of it."""
    try:
        Door(kind, where="signal").decode(payload)
    except ValueRefused:
        return False
    return True


def _is_open_for(step: Step, name: str) -> bool:
    return step.kind == "wait" and step.name == name and step.state is StepState.OPEN


def _misfit(wait: Step, signal: Signal, *, by_type: bool) -> str | None:
    """Why the wait cannot take it; None if it can, or nobody here can tell."""
    digest = digest_waited_for(wait)
    if digest is not None:
        return misfit(digest, signal)
    detail = json.loads(wait.detail or "{}")
    payload = signal.payload
    if "job" in detail:
        try:
            value = value_in(signal.payload)
        except ValueRefused as error:
            return f"{error.message}: {error.hint}"
        if value is None:
            return None
        payload = value
    takes = detail.get("takes") if by_type else None
    kind = _found(takes) if isinstance(takes, str) else None
    if kind is None or described(kind) != takes:
        return None
    try:
        Door(kind, where=f"signal {signal.name}").decode(payload)
    except ValueRefused as error:
        return error.message
    return None


def _found(takes: str) -> Any:
    """The type of that name, where this process has loaded it already."""
    module, name, _ = takes.split(":", 2)
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found
