"""The address at which a provider's signed events come in, as signals for the runs that wait for them.

Signed as Standard Webhooks has it (https://www.standardwebhooks.com, read 2026-11): of the headers `webhook-id`,
`webhook-timestamp` and `webhook-signature`, one `v1` of the last must be the HMAC-SHA256 of `id.timestamp.body`. An
event whose time is too far off is refused; one that comes again has the id of before, and counts once. Waiting runs are
found by their id, or by what their wait is named after; what becomes of a signal is the runtime's matter.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from fencepost.core.duration import SECOND, microseconds
from fencepost.core.errors import DeclarationError, FencepostError, RunNotFound, ValueRefused, VerbRefused
from fencepost.receiving import answer as answers
from fencepost.receiving.answer import Answer
from fencepost.receiving.endpoint import RETRY_AFTER, Deed, Endpoint, Taking
from fencepost.receiving.request import Request
from fencepost.receiving.terms import MEBIBYTE

_PREFIX = "whsec_"
_VERSION = "v1,"
_KEY_BYTES_MIN = 16
_ID_CHARACTERS_MAX = 200


@dataclass(frozen=True)
class Event:
    """A signal that an event is: the name of the wait, the value for it, and the run.

    Without a `run` it is for whichever run waits under that name; so name the wait after what the event is about, as
    `run.wait(f"paid {charge.id}", Paid)` does. An event that comes before its wait is kept only if it names its run;
    the others are asked to come again.
    """

    name: str
    value: Any
    run: str | None = None


class WebhookEndpoint(Endpoint):
    """The address for a provider's events: mount `WebhookEndpoint(...).asgi` or `.wsgi`.

    Args:
        app: whose runs wait.
        secrets: the endpoint's signing secrets, `whsec_...`; several while they are changed.
        route: which signal an event is, from its JSON; None: it is of no interest, and is acknowledged.
        source: tells the ids of this provider from those of another one; the signal's sender.
        tolerance: how far an event's time may be off.
        body_max: bytes of an event; more is refused with 413.
        now: seconds since the epoch, for tests.

    Raises:
        DeclarationError: there is no secret, or one is no base64 of at least 16 bytes.
    """

    def __init__(
        self,
        app: Taking,
        *,
        secrets: str | Iterable[str],
        route: Callable[[Any], Event | None],
        source: str = "webhook",
        tolerance: str | timedelta = "5m",
        body_max: int = MEBIBYTE,
        now: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(app, body_max=body_max)
        self._keys = [_key(secret) for secret in ((secrets,) if isinstance(secrets, str) else secrets)]
        if not self._keys:
            raise DeclarationError("a webhook's endpoint has no secret", hint='pass secrets="whsec_..."')
        self._route = route
        self._source = source
        self._tolerance = microseconds(tolerance, what="tolerance") / SECOND
        self._now = now

    def begin(self, request: Request) -> Deed | Answer:
        """Which signal the event is."""
        id = request.headers.get("webhook-id", "")
        why = self._misfit(request, id)
        if why is not None:
            return answers.problem(401, "Not signed by the sender", why)
        try:
            event = self._route(json.loads(request.body))
        except ValueError as error:
            return answers.problem(400, "Not the JSON that is asked for", str(error))
        if event is None:
            return Answer(204)
        more = {"id": f"{self._source}:{id}", "sender": self._source}
        if event.run is None:
            return Deed("event", (event.name, event.value), more, _kept)
        return Deed("signal", (event.run, event.name, event.value), more, _kept)

    def refusal(self, error: FencepostError) -> Answer | None:
        """What is answered to an event that no run took: to come again while one may still wait for it."""
        if isinstance(error, RunNotFound):
            return answers.problem(503, "Nobody waits for it yet", "send it again", retry_after=RETRY_AFTER)
        if isinstance(error, VerbRefused):
            # It is audited, and would be refused again: to come back helps nobody.
            return Answer.json(202, {"state": "refused", "reason": error.message})
        if isinstance(error, ValueRefused):
            return answers.problem(422, "Not a value that can be kept", error.message)
        return None

    def _misfit(self, request: Request, id: str) -> str | None:
        """Why the request is not the provider's, or not of now; None: it is."""
        at = request.headers.get("webhook-timestamp", "")
        given = request.headers.get("webhook-signature", "")
        if not (0 < len(id) <= _ID_CHARACTERS_MAX and id.isprintable() and at.isascii() and at.isdigit() and given):
            return "webhook-id, webhook-timestamp and webhook-signature are needed"
        signed = b".".join((id.encode(), at.encode(), request.body))
        wanted = [hmac.new(key, signed, hashlib.sha256).digest() for key in self._keys]
        found = [_signature(one) for one in given.split(" ") if one.startswith(_VERSION)]
        # Every pair is compared, so that the time says nothing of which was near.
        if not sum(hmac.compare_digest(one, other) for one in wanted for other in found):
            return "no signature is that of this body under a secret of this endpoint"
        if abs(self._now() - int(at)) > self._tolerance:
            return "its time is too far off"
        return None


def _key(secret: str) -> bytes:
    try:
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except binascii.Error as error:
        raise DeclarationError("a webhook's secret is no base64", hint="pass it as the provider shows it") from error
    if len(key) < _KEY_BYTES_MIN:
        raise DeclarationError("a webhook's secret is too short", hint=f"{_KEY_BYTES_MIN} bytes at least")
    return key


def _signature(text: str) -> bytes:
    try:
        return base64.b64decode(text.removeprefix(_VERSION), validate=True)
    except binascii.Error:
        return b""


def _kept(signal: Any) -> Answer:
    return Answer.json(202, {"state": signal.state.value})
