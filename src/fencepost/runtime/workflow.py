"""The `workflow` decorator: an async function that orders steps becomes a declared, versioned workflow.

A `Workflow` knows its typed doors (one input, one result) and which effects its code refers to, so that contracts can
be checked before anything runs. Driving it is `execution`; the language that its body speaks is `run`.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from types import FunctionType
from typing import Any, Concatenate, Generic, Literal, ParamSpec, TypeVar

from fencepost.core.errors import DeclarationError
from fencepost.core.identity import check_name, digest_text
from fencepost.core.position import FORWARD, INSTEAD, is_of_turn
from fencepost.effects.compensation import Compensation
from fencepost.effects.declare import Effect, Step
from fencepost.effects.fitting import check_run, in_parentheses
from fencepost.effects.mentions import mentioned
from fencepost.effects.values import VALUE_MAX, ArgumentsDoor, Door, result_door
from fencepost.runtime.run import Run

COMPENSATION = "compensate "
"""How the step names of compensating operations begin; no step of a user may be taken for one."""

OnFailure = Literal["stand", "compensate"]

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)


class Workflow(Generic[P, R_co]):
    """A declared workflow: its function, name, version, and the doors of its arguments and result."""

    on_failure: OnFailure = "stand"
    """What becomes of a run's effects when its code raises."""

    queue: str | None = None
    """The queue of its runs, if they are not started in another."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None,
        version: int,
        on_failure: OnFailure = "stand",
        queue: str | None = None,
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
        self.on_failure = on_failure
        self.queue = queue
        self.arguments = ArgumentsDoor(function, limit=VALUE_MAX)
        check_run(function, Run)
        self.results: Door = result_door(function, limit=VALUE_MAX)
        self.steps = self.steps_with(_steps_of(function))
        self.__doc__ = function.__doc__
        self.__module__ = function.__module__
        _check_names(self)

    @staticmethod
    def steps_with(steps: list[Step[..., Any]]) -> tuple[Step[..., Any], ...]:
        """The steps, and the compensations and other ways that they name."""
        found: dict[int, Step[..., Any]] = {}
        for step in steps:
            _add(step, found)
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

    def __init__(self, name: str | None, version: int, on_failure: OnFailure, queue: str | None) -> None:
        self._name = name
        self._version = version
        self._on_failure: OnFailure = on_failure
        self._queue = queue

    def __call__(self, function: Callable[Concatenate[Run, P], Awaitable[R_co]], /) -> Workflow[P, R_co]:
        """The workflow of this function."""
        return Workflow(
            function, name=self._name, version=self._version, on_failure=self._on_failure, queue=self._queue
        )


@in_parentheses
def workflow(
    *, version: int = 1, name: str | None = None, on_failure: OnFailure = "stand", queue: str | None = None
) -> WorkflowDecorator:
    """Declare a workflow: `@workflow(version=1)` over `async def name(run: Run, ...) -> R`.

    Args:
        version: of its code; a run is pinned to the one that it began under.
        name: of the workflow, if not the function's.
        on_failure: what becomes of a run's effects when its own code raises. "stand": nothing, until somebody decides;
            "compensate": they are compensated, as `run.compensate` would do it, and the run ends with its error. A
            budget that is spent raises nothing: the run is held, its effects stand, and a person decides.
        queue: under whose limits its runs are worked on, children and scheduled ones too, unless started in another.

    Raises:
        DeclarationError: for a function that is not async, lacks annotations, or whose steps share a name.
    """
    if on_failure not in ("stand", "compensate"):
        raise DeclarationError(
            f"on_failure={on_failure!r} of a workflow is not known", hint='write "stand" or "compensate"'
        )
    return WorkflowDecorator(name, version, on_failure, queue)


# -- which steps a workflow refers to -------------------------------------------------------------------------------


def _steps_of(function: Callable[..., Any]) -> list[Step[..., Any]]:
    found: dict[int, Step[..., Any]] = {}
    seen: set[int] = set()
    _walk(function, found, seen)
    return list(found.values())


def _add(step: Step[..., Any], found: dict[int, Step[..., Any]]) -> None:
    """The step, and behind it what it names."""
    if id(step) in found:
        return
    found[id(step)] = step
    if isinstance(step, Effect):
        terms = step.declared.compensate
        named = (terms.effect if isinstance(terms, Compensation) else None, step.declared.forward)
        for one in named:
            if one is not None:
                _add(one, found)


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
        taken = next((prefix for prefix in (COMPENSATION, FORWARD, INSTEAD) if step.name.startswith(prefix)), None)
        if taken is not None:
            raise DeclarationError(
                f"the name of step {step.name!r} begins with {taken!r}, as those of recovering effects do",
                hint="give it another name=",
            )
        if is_of_turn(step.name):
            raise DeclarationError(
                f"the name of step {step.name!r} is that of an earlier turn's effect", hint="give it another name="
            )
        other = by_name.setdefault(step.name, step)
        if other is not step:
            raise DeclarationError(
                f"workflow {declared.name} refers to two steps named {step.name!r}",
                hint="give one of them another name=; a step is found again by its name",
            )
