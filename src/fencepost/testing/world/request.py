"""What reaches a service of the outside world and what it answers, the same for HTTP and for mail.

A *request* is as it came, an *arrival* is a request once it is counted. Plain values; `service` makes and answers them,
`conduct` decides their order around a fault.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pydantic import JsonValue
from pydantic_core import from_json

from fencepost.testing.world.catalog import ELSEWHERE, Collection
from fencepost.testing.world.faults import Target

Value = dict[str, JsonValue]
"""An object of a collection, as JSON."""


class Refusal(Exception):
    """The service says no; it becomes a reply and a counted line, never an error of the process."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


class Request(NamedTuple):
    """A whole request: header names in lower case, the query's pairs in order, the body as bytes."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...]
    headers: Mapping[str, str]
    body: bytes

    def value(self) -> Value:
        """Return the body as a JSON object (none at all is an empty one); raises `Refusal` with 400."""
        try:
            parsed = from_json(self.body or b"{}", allow_inf_nan=False)
            str(parsed).encode()  # half a surrogate pair is legal JSON and no legal text
        except ValueError as error:
            raise Refusal(400, "bad_request", f"the body is not JSON: {error}") from error
        if not isinstance(parsed, dict):
            raise Refusal(400, "bad_request", "the body is not a JSON object")
        return parsed


class Reply(NamedTuple):
    """What the service answers: a status, a text (JSON, or a line of SMTP) and headers beyond the usual ones."""

    status: int
    text: str
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Arrival:
    """A counted request: where it leads (`collection` None: nowhere), its key and slot, which one of its kind it is.

    `digest` is SHA-256 of the body in hex. `slot` is where its result is remembered: None where no key is honoured.
    """

    request: Request
    collection: Collection | None
    id: str | None
    action: str
    key: str | None
    slot: str | None
    digest: str
    subject: str
    ordinal: int

    @property
    def name(self) -> str:
        """The collection under which it is counted."""
        return self.collection.name if self.collection else ELSEWHERE

    @property
    def target(self) -> Target:
        """What faults can match."""
        text = self.request.body.decode("utf-8", "replace")
        request = self.request
        return Target(request.method, self.name, request.path, self.key or "", text, self.subject, self.ordinal)


def as_text(value: object) -> str:
    """Return a value as the JSON text that goes into a reply."""
    return json.dumps(value, ensure_ascii=False)


def error_text(code: str, message: str) -> str:
    """Return the JSON text of an error, as all services of the world write it."""
    return as_text({"error": {"code": code, "message": message}})
