"""What an endpoint promises about keys, declared once: whose they are, for how long, and what is done when one breaks.

Checked when it is declared; what follows from it is decided in `desk`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from datetime import timedelta

from fencepost.core.duration import HOUR, microseconds, spelled
from fencepost.core.errors import DeclarationError
from fencepost.receiving.answer import Answer
from fencepost.receiving.request import Request

MEBIBYTE = 1024 * 1024

WRITES = ("POST", "PATCH")
"""Methods that are guarded by default: the others can be repeated by what they mean."""

ABOUT_THE_MOMENT = (401, 403, 429)
"""Statuses that say nothing of the request: with these nothing was done, and the next time may go otherwise."""

REPLAYED_HEADERS = ("content-type", "content-encoding", "content-language", "location", "link", "etag")
"""Headers that belong to a result. Cookies, dates and ids of requests belong to one response."""


class NotDone:
    """What a look-up answers when it is certain that the request was not carried out: `return NotDone()`."""


Learnt = Answer | NotDone | None

LookUp = Callable[[Request], Learnt | Awaitable[Learnt]]
"""Finds out what became of a request: the answer it must get, that nothing was done, or None: it cannot tell."""


class Terms:
    """The terms of an endpoint.

    Args:
        caller: whose key it is: one caller's key says nothing about another's. From what was authenticated, such as an
            account; not from a secret that changes.
        window: for how long a sender may rely on a key, as it writes into its own contract.
        kept: for how long a key is kept; longer than `window`, which a sender measures from its first attempt.
        within: how long after it began nothing of a request can be at work any more. One without an answer is then
            unknown; only from then on is a look-up's `NotDone` believed. Longer than your server lets a handler run.
        atomic: handlers write their own rows and the receipt in one transaction, with `receipt`.
        look_up: finds out what an unknown request did. Without one, a person settles it.
        header: carries the key.
        required: whether a request without a key is refused with 400; else it is passed on unguarded.
        methods: are guarded; others are passed on.
        releases: statuses with which nothing was done, so that the same request may run again.
        replays: headers that are kept with a result.
        body_max: bytes of a request's body; more is refused with 413.
        answer_max: bytes of a result that are kept; of a larger one the status is.
        retry_after: seconds after which a duplicate of a request in progress is asked to come back.

    Raises:
        DeclarationError: a key would be forgotten while its sender still relies on it, or a bound makes no sense.
    """

    def __init__(
        self,
        *,
        caller: Callable[[Request], str],
        window: str | timedelta = "24h",
        kept: str | timedelta | None = None,
        within: str | timedelta = "5m",
        atomic: bool = False,
        look_up: LookUp | None = None,
        header: str = "Idempotency-Key",
        required: bool = True,
        methods: Collection[str] = WRITES,
        releases: Collection[int] = ABOUT_THE_MOMENT,
        replays: Collection[str] = REPLAYED_HEADERS,
        body_max: int = MEBIBYTE,
        answer_max: int = MEBIBYTE,
        retry_after: int = 1,
    ) -> None:
        self.caller = caller
        self.window = microseconds(window, what="window")
        self.kept = self.window + HOUR if kept is None else microseconds(kept, what="kept")
        self.within = microseconds(within, what="within")
        self.atomic = atomic
        self.look_up = look_up
        self.header = header
        self.required = required
        self.methods = frozenset(method.upper() for method in methods)
        self.releases = frozenset(releases)
        self.replays = frozenset(name.lower() for name in replays)
        self.body_max = body_max
        self.answer_max = answer_max
        self.retry_after = retry_after
        self._check()

    def _check(self) -> None:
        if self.kept <= self.window:
            raise DeclarationError(
                f"keys are kept for {spelled(self.kept)}, and senders rely on them for {spelled(self.window)}",
                hint="keep them longer: the sender's window begins with its first attempt, and clocks differ",
            )
        if self.atomic and self.look_up is not None:
            raise DeclarationError(
                "an atomic endpoint has nothing to look up",
                hint="what its transaction did not commit did not happen; leave look_up= out",
            )
        if min(self.body_max, self.answer_max) < 0 or self.retry_after < 1 or self.within < 1:
            raise DeclarationError("a limit below zero, or no time at all", hint="see the arguments of Terms")

    def kept_answer(self, answer: Answer) -> Answer:
        """The answer as it is kept: the headers that belong to it, and its body unless that is too large."""
        headers = tuple(pair for pair in answer.headers if pair[0] in self.replays)
        is_small = answer.body is not None and len(answer.body) <= self.answer_max
        return Answer(answer.status, headers, answer.body if is_small else None)

    def proves_nothing_done(self, status: int) -> bool:
        """Whether a handler that answers so has done nothing."""
        return status in self.releases
