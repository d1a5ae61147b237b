"""What a receiver answers: the handler's result, as it is kept and given again, or a problem of the key's own.

Problems are JSON documents of the kind that RFC 9457 describes, with the statuses of the IETF's draft on the
Idempotency-Key header: 400 for a key that is missing, 422 for one that came with another request, 409 for one whose
first request has no answer yet. Which of them is due is decided by `desk`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

REPLAYED = ("idempotent-replayed", "true")
"""The header that marks a result given again."""


@dataclass(frozen=True)
class Answer:
    """A whole response. `body` is None where it was too large to be kept; header names are in lower case."""

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = b""

    @classmethod
    def json(cls, status: int, value: Any, headers: Iterable[tuple[str, str]] = ()) -> Answer:
        """An answer whose body is this value as JSON. Raises `TypeError` for what is none."""
        body = json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
        return cls(status, (("content-type", "application/json"), *headers), body)

    @property
    def reason(self) -> str:
        """The status with its phrase, such as "201 Created"."""
        try:
            return f"{self.status} {HTTPStatus(self.status).phrase}"
        except ValueError:
            return f"{self.status} Other"

    @property
    def sent_headers(self) -> list[tuple[str, str]]:
        """The headers with the length of the body."""
        kept = [(name, value) for name, value in self.headers if name != "content-length"]
        return [*kept, ("content-length", str(len(self.body or b"")))]

    def replayed(self) -> Answer:
        """The same answer for a duplicate, which can tell that it is one."""
        if self.body is None:
            return too_large(self.status)
        return Answer(self.status, (*self.headers, REPLAYED), self.body)


def problem(status: int, title: str, detail: str, *, retry_after: int | None = None) -> Answer:
    """An answer that says what is wrong; `retry_after` in seconds asks the sender to come back."""
    text = json.dumps({"title": title, "status": status, "detail": detail}).encode()
    more = (("retry-after", str(retry_after)),) if retry_after is not None else ()
    return Answer(status, (("content-type", "application/problem+json"), *more), text)


def missing_key(header: str) -> Answer:
    """The sender gave no key, or one that cannot be."""
    return problem(
        400, "A key is needed", f"send one {header} header of 1 to 255 printable characters, another for each operation"
    )


def too_long(limit: int) -> Answer:
    """The request's body is larger than this endpoint takes."""
    return problem(413, "The body is too large", f"at most {limit} bytes; nothing was done")


def another_request() -> Answer:
    """The key belongs to another request."""
    detail = "nothing was done; take a new key for a new operation, or send the same bytes"
    return problem(422, "This key came with another request", detail)


def in_progress(retry_after: int) -> Answer:
    """The first request under this key has no answer yet."""
    return problem(
        409, "The first request under this key is in progress", "send it again later", retry_after=retry_after
    )


def unknown() -> Answer:
    """What the first request did is not known: a sender must ask or wait for a person, not send again."""
    # Without Retry-After, and without the words by which a sender takes a 409 for one that passes.
    return problem(
        409,
        "What became of the first request under this key is not known",
        "it broke off; it is not run again before somebody has found out what it did",
    )


def too_large(status: int) -> Answer:
    """The first request was answered, and its answer is not kept."""
    return problem(
        409, "Answered before", f"the first request was answered with {status}; the body was too large to be kept"
    )


def not_committed() -> Answer:
    """A handler gave an answer whose transaction is not there."""
    return problem(
        500, "The answer was not committed", "the handler ended without committing the transaction of its receipt"
    )


def unavailable() -> Answer:
    """The receipts cannot be read or written."""
    detail = "what became of this request is told to whoever sends it again"
    return problem(503, "Receipts cannot be written", detail, retry_after=1)
