"""The `workflow` decorator: an async function that orders steps becomes a declared, versioned workflow.

A `Workflow` knows its typed doors (one input, one result) and which effects its code refers to, so that contracts can
be checked before anything runs. Driving it is `execution`; the language that its body speaks is `run`.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from types import FunctionType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from fencepost.core.errors import DeclarationError
from fencepost.core.identity import check_name, digest_text
from fencepost.effects.declare import Effect, Step
from fencepost.effects.fitting import check_run, in_parentheses
from fencepost.effects.mentions import mentioned
from fencepost.effects.values import ArgumentsDoor, Door, result_door
from fencepost.runtime.run import Run

COMPENSATION = "compensate "
"""How the step names of compensating operations begin; no step of a user may be taken for one."""

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)


class Workflow(Generic[P, R_co]):
    """A declared workflow: its function, name, version, and the doors of its arguments and result."""

    queue: str | None = None
    """The queue of its runs, if they are not started in another."""

    def __init__(
        self, function: Callable[..., Any], *, name: str | None, version: int, queue: str | None = None
    ) -> None:
        if not inspect.iscoroutinefunction(function):
            raise DeclarationError(
                f"workflow {function.__name__} is not an async function",
                hint="write `async def`; only steps may be plain",
            )
        if version < 1:
            raise DeclarationError(f"workflow {function.__name__} has version {version}", hint="versions start at 1")
        self.function = function
        self.name = check_name(name or function.__name__, what="workflow name")
        self.version = version
        self.queue = queue
        self.arguments = ArgumentsDoor(function)
        check_run(function, Run)
        self.results: Door = result_door(function)
        self.steps = self.steps_with(_steps_of(function))
        self.__doc__ = function.__doc__
        self.__module__ = function.__module__
        _check_names(self)

    @staticmethod
    def steps_with(steps: list[Step[..., Any]]) -> tuple[Step[..., Any], ...]:
        """The steps, and the compensations that they name."""
        found = {id(step): step for step in steps}
        for step in steps:
            _add_compensations(step, found)
        return tuple(found.values())

    def __repr__(self) -> str:
        return f"<workflow {self.name} version {self.version}>"

    def encode(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, str]:
        """The canonical text of a run's input, and its fingerprint."""
        text = self.arguments.encode(args, kwargs)
        return text, digest_text(text.encode())

    def start(self, run: Any, stored: str) -> Any:
        """The workflow's coroutine for a stored input."""
        args, kwargs = self.arguments.decode(stored)
        return self.function(run, *args, **kwargs)

    @property
    def effects(self) -> list[Effect[..., Any]]:
        """The effects that its code refers to, compensations included, each once."""
        return [step for step in self.steps if isinstance(step, Effect)]


class WorkflowDecorator:
    """Turns an async function into a workflow."""

    def __init__(self, name: str | None, version: int, queue: str | None) -> None:
        self._name = name
        self._version = version
        self._queue = queue

    def __call__(self, function: Callable[Concatenate[Run, P], Awaitable[R_co]], /) -> Workflow[P, R_co]:
        """The workflow of this function."""
        return Workflow(function, name=self._name, version=self._version, queue=self._queue)


@in_parentheses
def workflow(*, version: int = 1, name: str | None = None, queue: str | None = None) -> WorkflowDecorator:
    """Declare a workflow: `@workflow(version=1)` over `async def name(run: Run, ...) -> R`.

    Its runs are worked on under the limits of `queue`, children and scheduled ones too, unless started in another.

    Raises:
        DeclarationError: for a function that is not async, lacks annotations, or whose steps share a name.
    """
    return WorkflowDecorator(name, version, queue)


# -- which steps a workflow refers to -------------------------------------------------------------------------------


def _steps_of(function: Callable[..., Any]) -> list[Step[..., Any]]:
    found: dict[int, Step[..., Any]] = {}
    seen: set[int] = set()
    _walk(function, found, seen)
    return list(found.values())


def _add_compensations(step: Step[..., Any], found: dict[int, Step[..., Any]]) -> None:
    while isinstance(step, Effect) and isinstance(step.declared.compensate, Effect):
        step = step.declared.compensate
        found.setdefault(id(step), step)


def _walk(function: Callable[..., Any], found: dict[int, Step[..., Any]], seen: set[int]) -> None:
    """Follow the names that the code uses through globals, closures and plain functions of the same package."""
    if id(function) in seen or not isinstance(function, FunctionType):
        return
    seen.add(id(function))
    package = function.__module__.partition(".")[0]
    for value in mentioned(function):
        if isinstance(value, Step):
            found.setdefault(id(value), value)
        elif isinstance(value, FunctionType) and value.__module__.partition(".")[0] == package:
            _walk(value, found, seen)


def _check_names(declared: Workflow[..., Any]) -> None:
    by_name: dict[str, Step[..., Any]] = {}
    for step in declared.steps:
        if step.name.startswith(COMPENSATION):
            raise DeclarationError(
                f"the name of step {step.name!r} begins with {COMPENSATION!r}, as those of compensations do",
                hint="give it another name=",
            )
        other = by_name.setdefault(step.name, step)
        if other is not step:
            raise DeclarationError(
                f"workflow {declared.name} refers to two steps named {step.name!r}",
                hint="give one of them another name=; a step is found again by its name",
            )
