"""What a reply proves that a client library turned into an error: its status, its pause, a conflict that is none yet.

Every reader of a library's errors is given a `Judge` and asks it. What a status proves is `core.classify`; which
library's errors are recognised, and how each shows its reply, is in `classifiers`, `http_errors` and `sdk_errors`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import FrameType
from typing import NamedTuple

from fencepost.core.classify import Reading, read_status
from fencepost.core.contract import Contract
from fencepost.core.duration import MILLISECOND
from fencepost.core.retry import retry_after
from fencepost.core.states import Outcome

NOTHING_LEFT = Reading(Outcome.NOT_APPLIED, retryable=True)
NOT_ALLOWED_TO_LEAVE = Reading(Outcome.NOT_APPLIED, retryable=False)
UNRESOLVED = Reading(Outcome.UNRESOLVED, retryable=True)

BODY_READ_MAX = 500
"""So much of a reply's body is searched for the word that says what kind of conflict it is."""

_REFUSALS_FROM = 400
_IN_PROGRESS = re.compile(rb"in[_ -]?progress|in[_ -]?use|outstanding|being processed", re.IGNORECASE)
_MILLISECONDS = re.compile(r"\d{1,12}(?:\.\d+)?", re.ASCII)


class Judge(NamedTuple):
    """What reading a reply needs beside the reply: `now` in microseconds since the epoch."""

    contract: Contract
    now: int

    def reply(self, status: int, headers: Mapping[str, str], body: bytes = b"", *, alone: bool = True) -> Reading:
        """What a reply proves. `alone`: nothing else was sent on the way to it, no retry and no redirect.

        A refusal that is not alone says nothing of what went before; the pause that it asks for is kept.
        """
        if status < _REFUSALS_FROM:
            return UNRESOLVED
        lower = {str(name).lower(): str(value) for name, value in headers.items()}
        wait = _pause(lower, now=self.now)
        found = read_status(self.contract, status, retry_after=wait, in_progress=is_in_progress(lower, body))
        if is_replayed(lower):
            found = replace(found, replayed=True)
        return found if alone else in_doubt(found)


def in_doubt(found: Reading) -> Reading:
    """What is left of a reading that stands beside a send of which nothing is known: its pause, and no proof."""
    return replace(found, outcome=Outcome.UNRESOLVED, retryable=True)


def is_in_progress(headers: Mapping[str, str], body: bytes) -> bool:
    """Whether a 409 says that this very request is being worked on, and not that something else is in conflict.

    There is no standard for it: a Retry-After asks to come back, and providers name it in the body (Stripe's
    `idempotency_key_in_use`; the draft standard of the Idempotency-Key header calls the request outstanding).
    """
    return "retry-after" in headers or _IN_PROGRESS.search(body[:BODY_READ_MAX]) is not None


def is_replayed(headers: Mapping[str, str]) -> bool:
    """Whether the provider says that this is its stored answer to an earlier request under the key."""
    return headers.get("idempotent-replayed", "").lower() == "true"


def _pause(headers: Mapping[str, str], *, now: int) -> int | None:
    """The pause that a reply asks for, in microseconds; OpenAI says it in milliseconds too, which is finer."""
    fine = headers.get("retry-after-ms", "").strip()
    if _MILLISECONDS.fullmatch(fine):
        return round(float(fine) * MILLISECOND)
    return retry_after(headers.get("retry-after"), now=now, date=headers.get("date"))


def frames(error: BaseException) -> Iterator[tuple[str, FrameType]]:
    """The functions that the error passed, outermost first, as "module.function" with their frames."""
    trace = error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        yield f"{frame.f_globals.get('__name__', '')}.{frame.f_code.co_name}", frame
        trace = trace.tb_next


def passed(error: BaseException, where: str) -> FrameType | None:
    """The last frame of the function "module.function" that the error passed; None if it passed none."""
    return next((frame for place, frame in reversed([*frames(error)]) if place == where), None)
