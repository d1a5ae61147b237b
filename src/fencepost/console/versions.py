"""The version that a caller has seen, in the words of HTTP: an ETag on what is shown, If-Match on what is done to it.

The ETag of a run is its turn and its row's version. What is compared at last is the row, in the verb's own transaction
(`runtime.deeds`): here a request only says which version it means.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated

from fastapi import Header

from fencepost.core.errors import ChangedSince, Misuse
from fencepost.core.records import Run

ANY = "*"

IfMatch = Annotated[
    str | None,
    Header(
        description="The ETag of what the caller saw; `*` for whatever is there now.",
        examples=['"0-7"'],
        max_length=100,
    ),
]

_NUMBER = re.compile(r'"(?P<version>\d{1,18})"')
_OF_RUN = re.compile(r'"(?P<turn>\d{1,18})-(?P<version>\d{1,18})"')


class VersionNeeded(Misuse):
    """A verb came without the version that its caller has seen."""


def etag_of(run: Run) -> str:
    """What tells this row of a run from every other one that it has been, or will be."""
    return f'"{run.turn}-{run.version}"'


def version_meant(if_match: str | None, run: Run) -> int | None:
    """The row version that the verb compares; None: whatever it is.

    Raises:
        VersionNeeded: none is named.
        ChangedSince: it is none that this turn of the run could have.
    """
    if if_match is None:
        raise VersionNeeded("If-Match is missing", hint="send the run's ETag as you saw it", ids={"run": run.id})
    if if_match.strip() == ANY:
        return None
    found = _OF_RUN.fullmatch(if_match.strip())
    if found is None or int(found["turn"]) != run.turn:
        raise ChangedSince(
            "the run has changed since you looked at it", hint="look again, then decide", ids={"run": run.id}
        )
    return int(found["version"])


def number_meant(if_match: str | None, ids: Mapping[str, str]) -> int | None:
    """The row version that a verb on something else compares, whose `version` in quotes is its ETag; None: any.

    Raises:
        VersionNeeded: none is named.
        ChangedSince: it is none that it could have.
    """
    if if_match is None:
        raise VersionNeeded("If-Match is missing", hint='send its version as you saw it, such as "3"', ids=ids)
    if if_match.strip() == ANY:
        return None
    found = _NUMBER.fullmatch(if_match.strip())
    if found is None:
        raise ChangedSince("it has no such version", hint="look again, then decide", ids=ids)
    return int(found["version"])
