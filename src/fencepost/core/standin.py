"""What stands in a row where a value's own text does not: a note of where it is, or that it is there no more.

A stand-in is a JSON object that begins with a brace and a space. Canonical JSON has no spaces, so no value that anybody
hands in can be taken for one. Three kinds exist: `apart` (a value too large for its row, kept in pieces under its
digest), `encrypted` (under the key that it names) and `purged` (removed after its time). What reads and writes them is
`store.apart`, `store.sealed` and `store.purging`; this file knows only their form.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from fencepost.core.identity import canonical, digest_text

APART: Final = "apart"
ENCRYPTED: Final = "encrypted"
PURGED: Final = "purged"

_MARK = "{ "
_KINDS = (APART, ENCRYPTED, PURGED)


def stand_in(kind: str, about: Any, clear: Mapping[str, Any] | None = None) -> str:
    """The text that stands for a value: its kind, what says more about it, and what of it may be read by anybody."""
    assert kind in _KINDS, kind
    said = canonical({kind: about})[1:-1]
    return f"{_MARK}{said},{canonical(dict(clear))[1:]}" if clear else f"{_MARK}{said}}}"


def clear_of(text: str) -> dict[str, Any]:
    """What a stand-in leaves in the clear of its value."""
    return {name: value for name, value in json.loads(text).items() if name not in _KINDS}


def told_by(text: str | None, kind: str) -> Any:
    """What a stand-in of this kind says about its value; None for another kind, and for a value's own text."""
    if text is None or not text.startswith(f'{_MARK}"{kind}":'):
        return None
    return json.loads(text)[kind]


def is_stand_in(text: str | None) -> bool:
    """Whether the value's own text is not here."""
    return text is not None and any(told_by(text, kind) is not None for kind in _KINDS)


def digest_of(text: str) -> str | None:
    """The digest of a value's own text, also of one that is kept apart; None where it cannot be told from here."""
    apart = told_by(text, APART)
    if apart is not None:
        return str(apart["digest"])
    return None if is_stand_in(text) else digest_text(text.encode())


def agree(fingerprint: str, text: str) -> bool:
    """Whether a fingerprint is that of a value's text, as far as both can be read here."""
    digest = None if is_stand_in(fingerprint) else digest_of(text)
    return digest is None or digest == fingerprint


def missing(text: str | None) -> str | None:
    """Why a value cannot be read here, in words; None for one that can."""
    key = told_by(text, ENCRYPTED)
    if key is not None:
        return f"encrypted by key {key['key']}"
    if told_by(text, PURGED) is not None:
        return "purged"
    apart = told_by(text, APART)
    return None if apart is None else f"{apart['size']} bytes, kept apart"
