"""The pages' texts in each language, from one table, and which language a browser asks for.

`texts.toml` has them, by key, with {placeholders}. What comes out of the ledger, and an error's own sentence, is shown
as it is. Laying them out is the templates'.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

LANGUAGES = ("en", "ja")
"""The first is spoken where a browser asks for none of them."""


@cache
def table() -> Mapping[str, Mapping[str, str]]:
    """Every text by its key, in each language."""
    return tomllib.loads(files("fencepost.console").joinpath("texts.toml").read_text("utf-8"))


class Texts(NamedTuple):
    """The texts in one language."""

    language: str

    def __call__(self, key: str, /, **values: Any) -> str:
        """The text under a key, with its placeholders filled in. A key that is not in the table is an error."""
        return table()[key][self.language].format_map(values)

    def has(self, key: str) -> bool:
        """Whether there is such a text."""
        return key in table()

    def state(self, kind: str, state: str) -> str:
        """A state's name, such as of a "run" that is "held"."""
        return self(f"{kind}.{state.replace(' ', '-')}")

    def means(self, kind: str, state: str) -> str:
        """What a state means."""
        return self(f"{kind}.{state.replace(' ', '-')}.means")


def language_for(accept: str | None) -> str:
    """The language of ours that an Accept-Language header prefers."""
    wanted: list[tuple[float, int, str]] = []
    for place, part in enumerate((accept or "")[:1_000].split(",")):
        tag, _, rest = part.partition(";")
        language = tag.strip().lower().partition("-")[0]
        weight = _weight(rest)
        if language in LANGUAGES and weight > 0:
            wanted.append((-weight, place, language))
    return min(wanted)[2] if wanted else LANGUAGES[0]


def _weight(rest: str) -> float:
    name, _, value = rest.strip().partition("=")
    if name.strip() != "q":
        return 1.0
    try:
        found = float(value)
    except ValueError:
        return 0.0
    return found if 0 <= found <= 1 else 0.0
