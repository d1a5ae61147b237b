"""What an effect rests on, as a workflow says it: `run.do(ship(order), after=[reserve, (charge, line.id)])`.

Here the names are checked and become what is kept with the operation, since a person compensates from the ledger alone.
In which order that is done is decided in `core.compensation`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from fencepost.core.errors import Misuse
from fencepost.core.identity import canonical, check_name
from fencepost.core.records import RESTS_ON, Observation
from fencepost.effects.declare import Bound, Effect

if TYPE_CHECKING:
    from fencepost.effects.entry import Entry
    from fencepost.store.moves import Observe

RestsOn = Effect[..., Any] | tuple[Effect[..., Any], str]
"""An effect, which stands for whatever the run does by it, or an effect and an item."""


def named(bound: Bound[Any], after: Iterable[RestsOn]) -> tuple[tuple[str, str | None], ...]:
    """The steps and items that `after` names. Raises `Misuse` for what is no effect, or for a step that is none."""
    if not isinstance(bound.step, Effect):
        raise Misuse(f"{bound.step.name} is no effect: nothing of it is compensated", hint="leave after= out")
    found: list[tuple[str, str | None]] = []
    for one in (after,) if isinstance(after, Effect) else after:
        effect, item = one if isinstance(one, tuple) else (one, None)
        if not isinstance(effect, Effect):
            raise Misuse(
                f"after= of {bound.step.name} names {effect!r}, which is no effect",
                hint="give effects as they are declared, without arguments: after=[reserve, (charge, item)]",
            )
        found.append((effect.name, None if item is None else check_name(item, what="item")))
    return tuple(found)


def keep(entry: Entry, bound: Bound[Any], now: int) -> list[Observe]:
    """Write down beside a new operation what it rests on."""
    entry.operation.after = bound.after
    evidence = canonical({"kind": RESTS_ON, "after": [list(one) for one in bound.after]})
    return [entry.observe(Observation(RESTS_ON, None, evidence, now))]
