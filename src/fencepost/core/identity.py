"""What makes two requests, two operations or two runs the same one.

Two requests are the same when their canonical JSON is the same text: keys sorted by code point, no spaces, no ASCII
escapes, integers in full, floats by their shortest repr. An operation is found by its key, a SHA-256 over the key
scheme and the length-delimited parts of its position; a stored key is used for ever and never computed again, so a
new scheme gets a new number. Nothing here depends on locale, hash seed, dict order, time zone or interpreter version.

Numbers are compared as written: `100`, `100.0` and `"100.00"` are three different requests. Text is compared by code
point: nothing is case-folded or normalised.

This file does not turn Python values into JSON data; `effects.values` does, by their declared types.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from fencepost.core.errors import Misuse, ValueRefused

KEY_SCHEME = 1
"""By which of `KEY_SCHEMES` new keys are made; stored beside each key, raised when the computation changes."""

DEPTH_MAX = 100
"""Lists and objects inside each other; below every reader's own limit, so that what is written can be read."""

INTEGER_BITS_MAX = 14_284
"""Integers of up to 4,300 decimal digits: the default bound of Python and of pydantic for reading one."""

NAME_CHARACTERS_MAX = 256

# No check for cycles here: a cycle is deeper than DEPTH_MAX, and the check costs a dict for each call.
_ENCODER = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False, check_circular=False
)
# `JSONEncoder.encode` builds this C object anew for each call, which costs more than the encoding.
_SORT_KEYS_SKIP_KEYS_ALLOW_NAN = (True, False, False)
_make_encoder: Callable[..., Any] | None = getattr(json.encoder, "c_make_encoder", None)
_chunks = _make_encoder and _make_encoder(
    None, _ENCODER.default, json.encoder.encode_basestring, None, ":", ",", *_SORT_KEYS_SKIP_KEYS_ALLOW_NAN
)


def _encode(data: Any) -> str:
    if _chunks is None or type(data) is str:
        return _ENCODER.encode(data)
    return "".join(_chunks(data, 0))


Part = str | int
"""One step of a path into a value: a name or key, or an index."""


# -- canonical JSON -----------------------------------------------------------------------------------------------


def canonical(data: Any, *, where: str = "value") -> str:
    """The one text of `data`, which holds only dict (text keys), list, str, int, float, bool and None.

    Subclasses are refused too, since a reader would get the base class back: a tuple is not a list.

    Raises:
        ValueRefused: for anything else, NaN and infinities, lone surrogates, integers of more than 4,300 digits and
            more than 100 levels; `ids["path"]` is the offending place, starting with `where`.
    """
    _check(data, where, (), 0)
    return _encode(data)


def canonical_of_plain(data: Any, *, where: str = "value") -> str:
    """`canonical` for data known to hold only plain JSON types and text keys, such as a serializer's output.

    Skips the walk over every node unless the text shows that something must be refused.

    Raises:
        ValueRefused: as `canonical` does, except that types and keys are taken on trust.
    """
    try:
        text = _encode(data)
    except (ValueError, TypeError, RecursionError) as error:
        _check(data, where, (), 0)
        # Nothing is wrong with the value itself: this interpreter was started with a smaller bound on digits.
        raise ValueRefused(f"{where}: cannot be written as JSON: {error}", ids={"path": where}) from error
    if not text.isascii() and not _is_unicode(text):
        _check(data, where, (), 0)
    if len(text) > DEPTH_MAX and text.count("[") + text.count("{") > DEPTH_MAX and _is_too_deep(data):
        _check(data, where, (), 0)
    return text


def digest_text(text: bytes) -> str:
    """SHA-256 of `text` as 64 lower-case hexadecimal digits."""
    return hashlib.sha256(text).hexdigest()


def fingerprint(data: Any, *, where: str = "value") -> str:
    """SHA-256 of the canonical JSON of `data`, in hexadecimal; equal to `digest_text(canonical(data).encode())`.

    Raises:
        ValueRefused: as `canonical` does.
    """
    return digest_text(canonical(data, where=where).encode())


def path_text(where: str, parts: Iterable[Part]) -> str:
    """A path as it is shown: `request.lines[3].amount`; a key that is no identifier appears as `["the key"]`."""
    shown = [where]
    for part in parts:
        if isinstance(part, int):
            shown.append(f"[{part}]")
        elif part.isidentifier():
            shown.append(f".{part}")
        else:
            shown.append(f"[{json.dumps(part[:80])}]")
    return "".join(shown).removeprefix(".")


def _check(data: Any, where: str, parts: tuple[Part, ...], depth: int) -> None:
    kind = type(data)
    if kind is str:
        if not data.isascii() and not _is_unicode(data):
            _refuse(where, parts, "text holds a lone surrogate", "decode it with the right encoding, or pass bytes")
    elif kind is int:
        if data.bit_length() > INTEGER_BITS_MAX:
            _refuse(where, parts, "an integer of more than 4,300 digits", "pass it as hexadecimal text")
    elif kind is float:
        if not math.isfinite(data):
            _refuse(where, parts, f"{data} has no place in JSON", "use None, or a text that says what it means")
    elif kind is dict or kind is list:
        _check_inside(data, where, parts, depth)
    elif data is not None and kind is not bool:
        hint = "pass a list" if isinstance(data, tuple) else "declare its type, or turn it into plain JSON data first"
        _refuse(where, parts, f"{kind.__qualname__} is no plain JSON data", hint)


def _check_inside(data: dict[Any, Any] | list[Any], where: str, parts: tuple[Part, ...], depth: int) -> None:
    if depth >= DEPTH_MAX:
        hint = "flatten it, or pass a reference to where it is kept"
        _refuse(where, parts[:8], f"nested deeper than {DEPTH_MAX} levels below this place", hint)
    if isinstance(data, list):
        for index, inner in enumerate(data):
            _check(inner, where, (*parts, index), depth + 1)
        return
    for key, inner in data.items():
        if type(key) is not str:
            _refuse(where, parts, f"a key is {type(key).__qualname__}, not text", "turn its keys into text")
        if not _is_unicode(key):
            _refuse(where, parts, "a key holds a lone surrogate", "decode it with the right encoding")
        _check(inner, where, (*parts, key), depth + 1)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_too_deep(data: Any) -> bool:
    # Level by level, since only containers are of interest; `_check` then names the place.
    level = [data]
    for _ in range(DEPTH_MAX):
        level = [
            inner
            for container in level
            for inner in (container.values() if type(container) is dict else container)
            if type(inner) is dict or type(inner) is list
        ]
        if not level:
            return False
    return True


def _refuse(where: str, parts: tuple[Part, ...], problem: str, hint: str) -> NoReturn:
    path = path_text(where, parts)
    raise ValueRefused(f"{path}: {problem}", hint=hint, ids={"path": path})


_TEXT_OR_NONE = (str, type(None))

# -- operations, runs and names -----------------------------------------------------------------------------------


def operation_key(
    namespace: str, run_id: str, step: str, item: str | None, contract_version: int, *, turn: int = 0
) -> str:
    """The key of one logical effect under key scheme 1, as 64 lower-case hexadecimal digits.

    Every part is preceded by its length in characters, so that no two lists of parts give the same text; `item=None`
    (the effect occurs once in its run) differs from every text. `turn` tells the turns of a run that continues apart;
    the first has none. Never put into it: a branch, an attempt, a clock, a worker, a secret that rotates, a model's
    call id.

    Raises:
        Misuse: for a part that `check_run_id` or `check_name` has not returned: no plain text, or no Unicode text.
    """
    # A text enum would be written as its value by one interpreter and as its name by another.
    if not (type(namespace) is type(run_id) is type(step) is str and type(item) in _TEXT_OR_NONE) or (
        type(contract_version) is not int
    ):
        raise Misuse("a part of an operation key is no plain text", hint="pass names through check_name first")
    which = "-" if item is None else f"{len(item)}:{item}"
    text = (
        f"fencepost operation key 1;{len(namespace)}:{namespace},{len(run_id)}:{run_id},"
        f"{len(step)}:{step},{which},{contract_version}"
    )
    if turn:
        text += f",turn {turn:d}"
    try:
        return hashlib.sha256(text.encode()).hexdigest()
    except UnicodeEncodeError as error:
        hint = "pass names through check_name first"
        raise Misuse("a part of an operation key holds a lone surrogate", hint=hint) from error


KEY_SCHEMES: dict[int, Callable[..., str]] = {1: operation_key}
"""Every scheme that a release has made keys by. A stored key is sent as it is; only `check` makes one anew, by its own
scheme, so that a scheme stays here for as long as a ledger may hold a key of it."""


def check_run_id(text: str) -> str:
    """`text` itself if it can be a run's id: 1 to 256 printable characters without spaces at either end.

    Raises:
        Misuse: otherwise, saying which character is wrong and where.
    """
    hint = 'take it from the business event, such as "invoice:tenant-42:inv-1847"'
    return _check_text(text, "run id", hint)


def check_name(text: str, *, what: str = "name") -> str:
    """`text` itself if it can name a `what` (a step, workflow, item, signal): same form as a run id.

    Raises:
        Misuse: otherwise, saying which character is wrong and where.
    """
    return _check_text(text, what, "take a short printable name; turn numbers into text with str()")


def _check_text(text: str, what: str, hint: str) -> str:
    if not isinstance(text, str):
        raise Misuse(f"the {what} is {type(text).__qualname__}, not text", hint=hint)
    if not text:
        raise Misuse(f"the {what} is missing or empty", hint=hint)
    if len(text) > NAME_CHARACTERS_MAX:
        too_long = f"the {what} has {len(text)} characters, more than {NAME_CHARACTERS_MAX}"
        raise Misuse(too_long, hint="keep what identifies it, or use a digest of the rest", ids={what: text[:40] + "…"})
    # Control characters break logs, invisible and bidirectional ones make two different ids look alike.
    if not text.isprintable():
        for index, character in enumerate(text):
            if character.isprintable():
                continue
            shown = text.encode("ascii", "backslashreplace").decode()
            raise Misuse(f"the {what} holds U+{ord(character):04X} at {index}: {shown}", hint=hint)
    if text != text.strip():
        raise Misuse(f"the {what} starts or ends with a space: {text!r}", hint=hint)
    return str.__str__(text)  # the text itself also for a text enum, whose str() is its name
