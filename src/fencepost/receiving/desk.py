"""Decides what becomes of a request with a key: run it, answer it as before, refuse it, or ask what it did.

    found = desk.admit(request)            an Answer, or what is to be done first: `Run` it, or `Ask` about it
    answer = desk.conclude(run, answer)    once the handler has answered; None where it broke off

Nothing is told to a sender before what it rests on is durable: a request's own row before its handler begins, its
result before it is sent. Nothing here reads a connection or calls a handler; `asgi` and `wsgi` do, with the same steps.
"""

from __future__ import annotations

import logging
import secrets
from dataclasses import dataclass, field

from fencepost.core.errors import Misuse, StoreUnavailable
from fencepost.core.states import ReceiptState
from fencepost.receiving import answer as answers
from fencepost.receiving.answer import Answer
from fencepost.receiving.receipts import Key, Known, Receipts
from fencepost.receiving.request import Request
from fencepost.receiving.terms import Learnt, NotDone, Terms

LOG = logging.getLogger("fencepost.receiving")

_KEY_CHARACTERS_MAX = 255
_LOOKS_MAX = 3
"""So often a key is looked at again, when it changes between two statements."""


@dataclass
class Run:
    """A request that is to be run now; `owner` is the name under which its result is kept."""

    key: Key
    request: Request
    owner: str = field(default_factory=lambda: secrets.token_hex(16))
    refusal: Answer | None = None
    """Why its transaction wrote nothing, where the handler's own found out."""
    kept: Answer | None = None
    """What its transaction holds, if it is committed."""


@dataclass
class Ask:
    """A request of which it is not known what it did: the look-up is to be asked."""

    run: Run
    known: Known


class Desk:
    """One endpoint's decisions."""

    def __init__(self, receipts: Receipts, terms: Terms) -> None:
        self.receipts = receipts
        self.terms = terms

    # -- before the handler -------------------------------------------------------------------------------------------

    def is_guarded(self, method: str) -> bool:
        """Whether requests of this method are looked at."""
        return method.upper() in self.terms.methods

    def key_of(self, given: list[str]) -> str | Answer | None:
        """The key that the headers of a request give; None: there is none, and none is needed."""
        if not given and not self.terms.required:
            return None
        key = given[0].strip() if len(given) == 1 else ""
        if not 0 < len(key) <= _KEY_CHARACTERS_MAX or not (key.isascii() and key.isprintable()):
            return answers.missing_key(self.terms.header)
        return key

    def admit(self, request: Request, key: str) -> Answer | Run | Ask:
        """What is to be done with a request."""
        try:
            return self._admit(Run(Key(self._caller(request), key), request))
        except StoreUnavailable:
            LOG.exception("receipts at %s", self.receipts.name)
            return answers.unavailable()

    def _caller(self, request: Request) -> str:
        caller = self.terms.caller(request)
        if not isinstance(caller, str):
            raise Misuse(f"caller= gave {caller!r}", hint="return whose key it is, as text")
        return caller

    def _admit(self, run: Run) -> Answer | Run | Ask:
        for _ in range(_LOOKS_MAX):
            found = self.receipts.find(run.key)
            is_same = found is None or found.fingerprint == run.request.fingerprint
            if found is not None and not (found.state is ReceiptState.FREE and is_same):
                return self._duplicate(run, found)
            if self.terms.atomic or self.receipts.begin(run.key, run.request, self.terms, run.owner):
                return run
        return answers.in_progress(self.terms.retry_after)  # somebody else was quicker, again and again

    def _duplicate(self, run: Run, found: Known) -> Answer | Ask:
        if found.fingerprint != run.request.fingerprint:
            return answers.another_request()
        if found.answer is not None:
            return found.answer.replayed()
        if found.state is ReceiptState.IN_PROGRESS and not found.is_overdue:
            return answers.in_progress(self.terms.retry_after)
        if self.terms.look_up is None:
            return answers.unknown()
        if not self.receipts.ask(run.key, found.owner, run.owner, self.terms):
            return answers.in_progress(self.terms.retry_after)
        return Ask(run, found)

    # -- a look-up ----------------------------------------------------------------------------------------------------

    def learn(self, asked: Ask, says: Learnt) -> Answer | Run:
        """What follows from the look-up's word; None: it cannot tell, or has failed."""
        run = asked.run
        try:
            if isinstance(says, Answer):
                self.receipts.answer(run.key, run.owner, says, self.terms)
                return self._as_kept(run)
            is_not_done = isinstance(says, NotDone)
            if is_not_done and asked.known.begun_at + self.terms.within <= asked.known.now:
                return run if self.receipts.begin_again(run.key, run.owner, self.terms) else self._as_kept(run)
            self.receipts.lose(run.key, run.owner)
        except StoreUnavailable:
            LOG.exception("receipts at %s", self.receipts.name)
            return answers.unavailable()
        # Not done so far; but what began so recently may be at work yet.
        return answers.in_progress(self.terms.retry_after) if is_not_done else answers.unknown()

    # -- after the handler --------------------------------------------------------------------------------------------

    def conclude(self, run: Run, answer: Answer | None) -> Answer | None:
        """What the sender is told, now that the handler has answered; None as it has broken off, and is to raise."""
        try:
            return self._conclude_atomic(run, answer) if self.terms.atomic else self._conclude(run, answer)
        except StoreUnavailable:
            LOG.exception("receipts at %s", self.receipts.name)
            return answers.unavailable()

    def _conclude(self, run: Run, answer: Answer | None) -> Answer | None:
        if answer is None or answer.status >= 500:  # noqa: PLR2004 - a server's own failure, by definition of HTTP
            self.receipts.lose(run.key, run.owner)
        elif self.terms.proves_nothing_done(answer.status):
            self.receipts.release(run.key, run.owner, self.terms)
        elif not self.receipts.answer(run.key, run.owner, answer, self.terms):
            # It took longer than `within`, and somebody else has asked what became of it: theirs is the first result.
            return self._as_kept(run)
        return answer

    def _conclude_atomic(self, run: Run, answer: Answer | None) -> Answer | None:
        if run.kept is not None:
            found = self.receipts.find(run.key)
            if found is not None and found.owner == run.owner:
                return run.kept
        if run.refusal is not None:
            return run.refusal
        # An answer that nobody has committed would be a lie; one without a receipt is the handler's own affair.
        return answers.not_committed() if run.kept is not None and answer is not None else answer

    def _as_kept(self, run: Run) -> Answer:
        found = self.receipts.find(run.key)
        if found is None or found.answer is None:
            return answers.in_progress(self.terms.retry_after)
        return found.answer.replayed()
