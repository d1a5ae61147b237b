"""Whether two values are the same in value and type, all the way down; if not, where they first differ.

Stricter than `==`, for which 1, 1.0 and True are equal, as are Decimal("100") and Decimal("100.00"), a text and a text
enum, an ordered dict and a dict. It runs on every step, so flat models take the short way through `_models`.
It changes nothing and encodes nothing; `values` refuses what does not come back the same.

Three things are no part of a value here: a dict's order, the spelled name of a fixed UTC offset ("UTC+01:00" or
"+01:00"), and which fields of a pydantic model were given rather than defaulted.
"""

from __future__ import annotations

import dataclasses
import functools
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any
from uuid import UUID

from pydantic import BaseModel
from pydantic_core import TzInfo

from fencepost.core.identity import Part, path_text

# For these, equal type and `==` settle it.
_PLAIN = frozenset({str, int, bool, type(None), bytes, date, timedelta, UUID})
_NOTHING = object()

Difference = list[Part]
"""Where two values differ, innermost step first, so that each level appends its own; None if they are the same."""


def same(a: Any, b: Any, *, where: str = "value") -> str | None:
    """None if `a` and `b` are equal in value and type; else the path of the first difference, starting with `where`."""
    parts = difference(a, b)
    return None if parts is None else path_text(where, reversed(parts))


def difference(a: Any, b: Any) -> Difference | None:
    """As `same`, with the path as steps, innermost first."""
    kind = type(a)
    if kind is not type(b):
        return []
    if kind in _PLAIN:
        return None if a == b else []
    if issubclass(kind, BaseModel):
        return _models(a, b)
    compare = _COMPARE.get(kind)
    if compare is not None:
        return compare(a, b)
    if dataclasses.is_dataclass(kind):
        return _dataclasses(a, b)
    return _others(a, b)


def _models(a: BaseModel, b: BaseModel) -> Difference | None:
    mine, theirs = a.__dict__, b.__dict__
    if not _are_flat_and_same(mine, theirs) and (parts := _fields(a, mine, theirs)) is not None:
        return parts
    extra, private = a.__pydantic_extra__, a.__pydantic_private__
    if not (extra or private or b.__pydantic_extra__ or b.__pydantic_private__):
        return None
    parts = difference(extra or {}, b.__pydantic_extra__ or {})
    return parts if parts is not None else difference(private or {}, b.__pydantic_private__ or {})


def _are_flat_and_same(mine: dict[str, Any], theirs: dict[str, Any]) -> bool:
    """Whether both hold only plain values, and the same; no code of a user runs in here, so it is tried first."""
    kinds = list(map(type, mine.values()))
    return _PLAIN.issuperset(kinds) and kinds == list(map(type, theirs.values())) and mine == theirs


def _fields(a: BaseModel, mine: dict[str, Any], theirs: dict[str, Any]) -> Difference | None:
    for name, value in mine.items():
        other = theirs.get(name, _NOTHING)
        if (kind := type(value)) is type(other) and kind in _PLAIN:
            if value != other:
                return [name]
        elif other is _NOTHING and name not in type(a).__pydantic_fields__:
            continue  # a cached property, computed again when it is asked for
        elif (parts := difference(value, other)) is not None:
            return [*parts, name]
    if len(theirs) > len(mine) and (added := theirs.keys() - mine.keys()):
        return [min(added)]
    return None


def _dataclasses(a: Any, b: Any) -> Difference | None:
    names = [field.name for field in dataclasses.fields(a)]
    for name in names:
        parts = difference(getattr(a, name, _NOTHING), getattr(b, name, _NOTHING))
        if parts is not None:
            return [*parts, name]
    return _attributes(a, b, without=frozenset(names))


def _attributes(a: Any, b: Any, *, without: frozenset[str] = frozenset()) -> Difference | None:
    # What somebody set on the object beside its declared fields; only a cached property may be computed again.
    mine, theirs = getattr(a, "__dict__", {}), getattr(b, "__dict__", {})
    for name in sorted((mine.keys() | theirs.keys()) - without):
        if isinstance(getattr(type(a), name, None), functools.cached_property):
            continue
        parts = difference(mine.get(name, _NOTHING), theirs.get(name, _NOTHING))
        if parts is not None:
            return [*parts, name]
    return None


def _mappings(a: Mapping[Any, Any], b: Mapping[Any, Any]) -> Difference | None:
    twins: dict[Any, Any] | None = None
    for key, value in a.items():
        if key not in b:
            return [_as_part(key)]
        if type(key) is not str:  # 1 and True find each other
            twins = {key: key for key in b} if twins is None else twins
            if difference(key, twins[key]) is not None:
                return [_as_part(key)]
        if (parts := difference(value, b[key])) is not None:
            return [*parts, _as_part(key)]
    return None if len(a) == len(b) else []


def _ordered(a: OrderedDict[Any, Any], b: OrderedDict[Any, Any]) -> Difference | None:
    return _mappings(a, b) if list(a) == list(b) else []


def _defaulting(a: defaultdict[Any, Any], b: defaultdict[Any, Any]) -> Difference | None:
    return _mappings(a, b) if a.default_factory is b.default_factory else []


def _sequences(a: Any, b: Any) -> Difference | None:
    for index, (mine, other) in enumerate(zip(a, b, strict=False)):
        if (parts := difference(mine, other)) is not None:
            return [*parts, index]
    return None if len(a) == len(b) else []


def _deques(a: deque[Any], b: deque[Any]) -> Difference | None:
    return _sequences(a, b) if a.maxlen == b.maxlen else []


def _sets(a: Any, b: Any) -> Difference | None:
    twins = {member: member for member in b}
    found = all(member in twins and difference(member, twins[member]) is None for member in a)
    return None if found and len(a) == len(b) else []


def _floats(a: float, b: float) -> Difference | None:
    # repr tells -0.0 from 0.0.
    return None if a == b and (a != 0.0 or repr(a) == repr(b)) else []


def _decimals(a: Decimal, b: Decimal) -> Difference | None:
    # The total order tells 100 from 100.00.
    return [] if a.compare_total(b) else None


def _times(a: datetime | time, b: datetime | time) -> Difference | None:
    naive = a.replace(tzinfo=None) == b.replace(tzinfo=None)
    return None if naive and a.fold == b.fold and _same_zone(a.tzinfo, b.tzinfo) else []


def _same_zone(a: tzinfo | None, b: tzinfo | None) -> bool:
    # A named zone (Europe/Berlin) knows more than the offset that it had at that instant.
    return a is b or (_is_plain_offset(a) and _is_plain_offset(b) and a == b)


def _is_plain_offset(zone: tzinfo | None) -> bool:
    if type(zone) is timezone:
        offset = zone.utcoffset(None)
        return zone.tzname(None) == timezone(offset).tzname(None)
    return type(zone) is TzInfo


def _others(a: Any, b: Any) -> Difference | None:
    # Subclasses of containers by what they hold; enums, paths, addresses, secrets by their own `==`. Then, for all,
    # what was set on them.
    kind = type(a)
    for base, compare in _CONTAINERS:
        if issubclass(kind, base):
            parts = compare(a, b)
            return _attributes(a, b) if parts is None else parts
    if a is b:
        return None
    try:
        equal = bool(a == b)
    except Exception:  # noqa: BLE001 - what cannot be compared is not known to be the same
        return []
    return _attributes(a, b) if equal else []


_CONTAINERS: list[tuple[type, Callable[[Any, Any], Difference | None]]] = [
    (dict, _mappings),
    (list, _sequences),
    (tuple, _sequences),
    (set, _sets),
    (frozenset, _sets),
]
_COMPARE: dict[type, Callable[[Any, Any], Difference | None]] = {
    dict: _mappings,
    OrderedDict: _ordered,
    defaultdict: _defaulting,
    list: _sequences,
    tuple: _sequences,
    deque: _deques,
    set: _sets,
    frozenset: _sets,
    float: _floats,
    Decimal: _decimals,
    datetime: _times,
    time: _times,
}


def _as_part(key: Any) -> Part:
    return key if type(key) is str or type(key) is int else repr(key)
