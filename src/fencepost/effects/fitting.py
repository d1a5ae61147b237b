"""Refuses a declaration whose functions do not fit how they will be called, at the line that declares them.

A body is called with `Call` or `SyncCall`, a look-up with the effect's own arguments, a compensation with those, the
result and the reference. A mistake there would show only when it is needed: after a crash, with an effect unknown.
Which types can be stored is for `values` to say, and what a contract lacks for `core.guarantee`.
"""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

from fencepost.core.errors import DeclarationError
from fencepost.effects.culprit import name_of
from fencepost.effects.values import ArgumentsDoor, Door, hints_of

P = ParamSpec("P")
D = TypeVar("D")


def in_parentheses(decorator: Callable[P, D]) -> Callable[P, D]:
    """The decorator's factory, refusing `@effect` where `@effect(...)` is meant."""
    name = getattr(decorator, "__name__", "")

    @functools.wraps(decorator)
    def checked(*args: P.args, **kwargs: P.kwargs) -> D:
        if args and callable(args[0]):
            raise DeclarationError(f"@{name} stands without parentheses", hint=f"write @{name}(...)")
        return decorator(*args, **kwargs)

    return checked


def check_call(body: Callable[..., Any]) -> None:
    """Refuse a step's body whose first parameter is not the call that it will get.

    Raises:
        DeclarationError: it is neither `call: Call` of an `async def` nor `call: SyncCall` of a plain `def`.
    """
    from fencepost.effects.call import Call, SyncCall

    is_async = inspect.iscoroutinefunction(body)
    right, wrong = (Call, SyncCall) if is_async else (SyncCall, Call)
    first, annotation = _first(body)
    if _allows(annotation, right):
        return
    what = f"{'async def' if is_async else 'def'} {body.__name__}"
    if _allows(annotation, wrong):
        other = "async def" if wrong is Call else "a plain def"
        hint = f"write `{first}: {right.__name__}`; {wrong.__name__} is what {other} gets"
        raise DeclarationError(f"`{what}` takes a {wrong.__name__}", hint=hint)
    raise DeclarationError(
        f"the first parameter of `{what}` is `{_written(first, annotation)}`",
        hint=f"a step's first parameter is `call: {right.__name__}`; its arguments follow",
    )


def check_run(function: Callable[..., Any], run: type) -> None:
    """Refuse a workflow whose first parameter is not annotated with `run`, the class `Run`."""
    first, annotation = _first(function)
    if not _allows(annotation, run):
        raise DeclarationError(
            f"the first parameter of workflow {function.__name__} is `{_written(first, annotation)}`",
            hint="a workflow's first parameter is `run: Run`; its arguments follow",
        )


def check_fits(
    role: str, function: Callable[..., Any], effect: str, *, given: Sequence[str], by_name: Sequence[str] = ()
) -> None:
    """Refuse a function that cannot be called with `call`, these positional and these named arguments.

    `role` is how the effect declares it (`reconcile`, `load`).
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # written in C; it is found out when it is called
        return
    shape = ", ".join(["call", *given, *(f"{name}={name}" for name in by_name)])
    try:
        bound = signature.bind("call", *given, **{name: name for name in by_name})
    except TypeError as error:
        raise DeclarationError(
            f"{role}={_named(function)} does not fit {effect}: {error}", hint=f"it is called as ({shape})"
        ) from None
    _check_order(role, function, effect, given, bound)
    _check_face(role, function)


def check_cancel(cancel: Callable[..., Any], effect: str, arguments: ArgumentsDoor, *, atomic: bool) -> None:
    """Refuse a function that is to ask a target to stop and cannot be called for it. Raises `DeclarationError`."""
    if atomic:
        raise DeclarationError(
            f"{effect} is atomic: nothing of it is on its way that could be cancelled", hint="leave cancel= out"
        )
    given = (*arguments.by_position, "reference")
    check_fits("cancel", cancel, effect, given=given, by_name=arguments.by_name)


def check_other_way(
    other: str, effect: str, *, arguments: tuple[ArgumentsDoor, ArgumentsDoor], results: tuple[Door, Door]
) -> None:
    """Refuse another way that would be no answer to the same question: each door is given with the effect's own.

    Raises `DeclarationError`.
    """
    its, asked = ([(one.name, one.kind) for one in door.signature.parameters.values()] for door in arguments)
    if its != asked or results[0].annotation != results[1].annotation:
        raise DeclarationError(
            f"forward={other} does not do the same as {effect}",
            hint="it takes the same arguments, under the same names, and returns the same type",
        )


def check_compensation(undo: str, signature: inspect.Signature, effect: str, *, given: Sequence[str]) -> None:
    """Refuse a compensating effect that does not take the effect's arguments, its result and its reference."""
    try:
        signature.bind(*given, "result", "reference")
    except TypeError as error:
        shape = ", ".join(["call", *given, "result", "reference"])
        raise DeclarationError(
            f"compensate={undo} does not fit {effect}: {error}",
            hint=f"its body takes ({shape}); result is None where it is not known",
        ) from None


def _check_order(
    role: str, function: Callable[..., Any], effect: str, given: Sequence[str], bound: inspect.BoundArguments
) -> None:
    """The same names in another order: each argument would be taken for another."""
    taken = [name for name in bound.arguments if name in given]
    if set(taken) == set(given) and taken != list(given):
        raise DeclarationError(
            f"{role}={_named(function)} takes the arguments of {effect} in another order",
            hint=f"they are passed by position: ({', '.join(['call', *given])})",
        )


def _check_face(role: str, function: Callable[..., Any]) -> None:
    from fencepost.effects.call import Call, SyncCall

    try:
        first, annotation = _first(function)
    except DeclarationError:  # its annotations need not be readable: nothing of it is stored by its type
        return
    right, wrong = (Call, SyncCall) if inspect.iscoroutinefunction(function) else (SyncCall, Call)
    if _allows(annotation, wrong) and not _allows(annotation, right):
        raise DeclarationError(
            f"{role}={_named(function)} takes a {wrong.__name__}",
            hint=f"write `{first}: {right.__name__}`, or {'def' if wrong is SyncCall else 'async def'}",
        )


def _first(function: Callable[..., Any]) -> tuple[str, Any]:
    """Name and annotation of the first parameter; `inspect.Parameter.empty` where it has none."""
    hints = hints_of(function)
    name = next(iter(inspect.signature(function).parameters))
    return name, hints.get(name, inspect.Parameter.empty)


def _allows(annotation: Any, kind: type) -> bool:
    if typing.get_origin(annotation) is typing.Annotated:
        annotation = typing.get_args(annotation)[0]
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return any(_allows(one, kind) for one in typing.get_args(annotation))
    return annotation is kind


def _written(name: str, annotation: Any) -> str:
    return name if annotation is inspect.Parameter.empty else f"{name}: {name_of(annotation)}"


def _named(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)
