"""Which part of a refused value is to blame, and how it is described to the person who must change it.

Runs only when something is refused, so it may be slow, but it must not raise: the value can be anything, also something
whose own methods fail. Texts and bytes are described by type and length, since they may be secrets.
It decides nothing; `values` refuses, `sameness` compares.
"""

from __future__ import annotations

import inspect
import typing
from numbers import Number
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import to_jsonable_python

from fencepost.core.identity import Part, canonical_of_plain

ABSENT = inspect.Parameter.empty
"""What `at` returns for a path that leads to nothing."""

_SHOWN_BITS_MAX = 256
_SHOWN_CHARACTERS_MAX = 120
_SHOWN_BY_REPR = frozenset({"datetime", "decimal"})


def unwritable(value: Any) -> tuple[tuple[Part, ...], Any]:
    """The path of the innermost part of `value` that cannot be written as JSON by itself, and that part."""
    parts: list[Part] = []
    seen: set[int] = set()
    while id(value) not in seen:  # a value may hold itself
        seen.add(id(value))
        inner = next(((part, child) for part, child in _children(value) if not _is_writable(child)), None)
        if inner is None:
            break
        part, value = inner
        parts.append(part)
    return tuple(parts), value


def largest(plain: Any) -> tuple[Part, ...]:
    """The path of the innermost part that makes up at least half of a plain JSON value's text."""
    parts: list[Part] = []
    whole = len(canonical_of_plain(plain))
    while sized := [(len(canonical_of_plain(child)), part, child) for part, child in _children(plain)]:
        size, part, plain = max(sized, key=lambda entry: entry[0])
        if size * 2 < whole:
            break
        parts.append(part)
    return tuple(parts)


def at(value: Any, path: tuple[Part, ...]) -> Any:
    """What `value` holds at `path`, or `ABSENT`."""
    for part in path:
        found = next((child for name, child in _children(value) if name == part), ABSENT)
        if found is ABSENT and isinstance(part, str):
            found = getattr(value, part, ABSENT)
        value = found
    return value


def declared_at(annotation: Any, path: tuple[Part, ...]) -> Any:
    """The annotation at `path` inside of one, through the fields of classes; `ABSENT` where it cannot be told."""
    for part in path:
        fields = typing.get_type_hints(annotation) if isinstance(annotation, type) else {}
        annotation = fields.get(str(part), ABSENT)
    return annotation


def is_of_another_type(value: Any, annotation: Any) -> bool:
    """Whether `value` is surely none of the declared type, which is a class or a form of one such as `list[int]`."""
    kind = typing.get_origin(annotation) or annotation
    if value is ABSENT or annotation is ABSENT or not isinstance(kind, type) or typing.is_typeddict(kind):
        return False
    try:
        return not isinstance(value, kind)
    except TypeError:  # a protocol, which cannot be asked
        return False


def a_value(value: Any) -> str:
    """The type of `value` with its article."""
    kind = type(value).__qualname__
    return "None" if value is None else f"{'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}"


def described(value: Any) -> str:
    """Type and size of `value`, with its repr if it is a number, a time or the like."""
    kind = type(value).__qualname__
    if value is ABSENT:
        return "nothing"
    if isinstance(value, int) and value.bit_length() > _SHOWN_BITS_MAX:
        return f"{kind} of {value.bit_length()} bits"
    if value is None or type(value).__module__ in _SHOWN_BY_REPR:
        return f"{value!r:.{_SHOWN_CHARACTERS_MAX}}"
    if isinstance(value, Number):
        return f"{kind} {value!r:.{_SHOWN_CHARACTERS_MAX}}"
    if isinstance(value, str | bytes | bytearray | list | tuple | dict | set | frozenset):
        return f"{kind} of length {len(value)}"
    return kind


def first_problem(error: Exception) -> tuple[tuple[Part, ...], str]:
    """The path and message of the first thing that `error` complains about; the message repeats no data."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        return tuple(part for part in first["loc"] if part != "[key]"), first["msg"]
    return (), one_line(error)


def one_line(error: Exception) -> str:
    """Class and first line of `error`, bounded."""
    lines = str(error).splitlines()
    return f"{type(error).__name__}: {lines[0][:200] if lines else ''}"


def name_of(annotation: Any) -> str:
    """An annotation as it is written."""
    return annotation.__qualname__ if isinstance(annotation, type) else str(annotation)


def _is_writable(value: Any) -> bool:
    try:
        to_jsonable_python(value)
    except Exception:  # noqa: BLE001 - whatever its own serializers raise
        return False
    return True


def _children(value: Any) -> list[tuple[Part, Any]]:
    if isinstance(value, dict):
        return [(key if isinstance(key, str | int) else repr(key), child) for key, child in value.items()]
    if isinstance(value, list | tuple):
        return list(enumerate(value))
    if isinstance(value, BaseModel) or hasattr(type(value), "__dataclass_fields__"):
        return list(getattr(value, "__dict__", {}).items())
    return []
