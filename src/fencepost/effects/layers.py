"""Every layer under a step that still retries by itself, multiplied out: how often one operation may be sent.

Looked for in what the step and the app name as `clients=`, and in what the step's code mentions. Fencepost is the one
layer that should retry (law 6), so each other one is said before anything runs. Which clients repeat is `repeaters`;
whether that is a warning or a refusal is the app's choice.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from fencepost.core.errors import DeclarationError
from fencepost.effects.declare import Effect, Step
from fencepost.effects.mentions import mentioned
from fencepost.effects.repeaters import Layer, layers_in

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Stack:
    """A step's own attempts and the layers that repeat beneath them. None: without end."""

    step: str
    attempts: int | None
    layers: tuple[Layer, ...]

    @property
    def sends(self) -> int | None:
        """How often one operation may be sent, at most."""
        product = 1
        for each in (self.attempts, *(layer.sends for layer in self.layers)):
            if each is None:
                return None
            product *= each
        return product

    @property
    def repeats(self) -> bool:
        """Whether a layer is known to repeat; if not, there are but some that cannot be read."""
        return not all(layer.cannot_be_read for layer in self.layers)

    def __str__(self) -> str:
        """The multiplication: `5 attempts × 3 (openai.OpenAI) = 15 sends per operation at most`."""
        factors = [f"{_number(self.attempts)} attempts"]
        for layer in self.layers:
            only = f", {layer.only}" if layer.only else ""
            factors.append(f"{_number(layer.sends)} ({layer.name}{only})")
        return f"{' × '.join(factors)} = {_number(self.sends)} sends per operation at most"

    @property
    def off(self) -> str:
        """How to switch the layers off."""
        return "; ".join(dict.fromkeys(f"{layer.name}: {layer.off}" for layer in self.layers))


def stacks_of(steps: Iterable[Step[..., Any]], around: Iterable[Any] = ()) -> list[Stack]:
    """The stacks of these steps, each step once, in which another layer than Fencepost retries."""
    each = {id(step): step for step in steps}
    found = [stack_of(step, around) for step in each.values()]
    return [stack for stack in found if stack.layers]


def say_layers(stacks: list[Stack], *, strict: bool) -> None:
    """Warn of layers that retry, or refuse them. What is under a step cannot all be seen, so a refusal is asked for.

    A client that cannot be read is a warning to a strict app too: it may well send once.

    Raises:
        DeclarationError: there is one, and `strict` asks for none.
    """
    unread = [stack for stack in stacks if not stack.repeats]
    if unread:
        _log.warning("a second layer may retry: %s; %s", *_said(unread))
    repeating = [stack for stack in stacks if stack.repeats]
    if not repeating:
        return
    said, off = _said(repeating)
    if strict:
        raise DeclarationError(f"a second layer retries: {said}", hint=f"switch it off: {off}")
    _log.warning("a second layer retries: %s; switch it off: %s", said, off)


def _said(stacks: list[Stack]) -> tuple[str, str]:
    told = "; ".join(f"{stack.step}: {stack}" for stack in stacks)
    return told, "; ".join(dict.fromkeys(stack.off for stack in stacks))


def stack_of(step: Step[..., Any], around: Iterable[Any] = ()) -> Stack:
    """The stack of one step; `around`: clients through which each effect sends without naming them."""
    named = (*around, *step.declared.clients) if isinstance(step, Effect) else ()
    seen: dict[int, Any] = {}
    for client in (*named, *_met(step.function)):
        seen.setdefault(id(client), client)
    layers = [layer for client in seen.values() for layer in layers_in(client)]
    return Stack(step.name, step.retry.attempts, tuple(dict.fromkeys(layers)))


def _met(body: Any) -> Iterator[Any]:
    """The body with what surrounds it, and whatever its code mentions, through plain functions of the same package."""
    package = getattr(body, "__module__", "").partition(".")[0]
    walked: set[int] = set()
    waiting = [body]
    while waiting:
        value = waiting.pop()
        if id(value) in walked:
            continue
        walked.add(id(value))
        yield value
        inner = _innermost(value)
        if inner is not None and inner.__module__.partition(".")[0] == package:
            waiting += mentioned(inner)


def _innermost(value: Any) -> FunctionType | None:
    """The function inside of its decorators; None for what is no function."""
    seen: set[int] = set()
    while isinstance(value, FunctionType) and hasattr(value, "__wrapped__") and id(value) not in seen:
        seen.add(id(value))
        value = value.__wrapped__
    return value if isinstance(value, FunctionType) else None


def _number(count: int | None) -> str:
    return "no end of" if count is None else str(count)
