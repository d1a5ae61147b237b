"""What a person's approval is, which exact call it allows, and why it does not allow one when it is used.

    wait ── open, with the digest of one call ── a person's answer names that digest ──▶ approval ──▶ one dispatch

An answer that names another call is no answer to the wait. An approval is used once, by the dispatch of that very call,
and whoever gave it and whoever the run acts for must have the right to it then. Asking for the rights, and sending, is
`runtime`'s part; which wait an answer is for is decided in `waits`.

Durations are whole microseconds; instants in an `Approval` are datetimes in UTC.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Literal

from fencepost.core.duration import SECOND, spelled
from fencepost.core.identity import canonical, digest_text
from fencepost.core.records import Signal, Step

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SHOWN = 12
"""So many characters of a digest are enough to tell two apart in a sentence."""


@dataclass(frozen=True, slots=True)
class Approval:
    """A person's answer to one exact call, as the ledger recorded it.

    `by` is who sent it, `at` when, `digest` names the call (`call_digest`), and `id` is that of its signal.
    """

    approved: bool
    by: str
    at: datetime
    digest: str
    comment: str = ""
    id: str = ""


Role = Literal["approver", "principal"]


@dataclass(frozen=True, slots=True)
class Right:
    """What an `authorise` read is asked when an approval is used: may `who` have this done, now?

    `who` is the approver or the run's principal, as `role` says. `request` is the canonical JSON object of the call's
    arguments by name.
    """

    who: str
    role: Role
    run: str
    step: str
    item: str | None
    request: str
    approval: Approval


class Refusal(StrEnum):
    """Why an approval does not allow a call; nothing was sent."""

    NOT_OF_THIS_RUN = "not an approval of this run"
    DENIED = "denied"
    USED = "used already"
    OTHER_CALL = "other call"
    EXPIRED = "expired"
    APPROVER = "right lost by approver"
    PRINCIPAL = "right lost by principal"


LOST: dict[Role, Refusal] = {"approver": Refusal.APPROVER, "principal": Refusal.PRINCIPAL}


def call_digest(run: str, step: str, item: str | None, version: int, fingerprint: str, *, turn: int = 0) -> str:
    """The name of one exact call: SHA-256 over run id, step name, item, contract version and the request's digest.

    `turn` tells the turns of a run that continues apart, as in the call's key; the first has none.
    """
    named = [run, step, item, version, fingerprint]
    return digest_text(canonical([*named, turn] if turn else named).encode())


# -- answers ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Answer:
    """What the value of an approval's signal says; who sent it, and when, is the signal's own."""

    approved: bool
    digest: str
    comment: str = ""

    @property
    def verb(self) -> str:
        """What whoever gives it does, as `core.permissions` calls it."""
        return "approve" if self.approved else "deny"

    def as_text(self) -> str:
        """The canonical JSON of the signal's value."""
        return canonical({"approved": self.approved, "comment": self.comment, "digest": self.digest})


_FORM = '{"approved": true or false, "digest": "of the call", "comment": "..."}'


def answer_in(payload: str) -> Answer | None:
    """The answer in a signal's value; None if it is none."""
    said = json.loads(payload)
    if not isinstance(said, dict) or not said.keys() <= {"approved", "comment", "digest"}:
        return None
    approved, digest, comment = said.get("approved"), said.get("digest"), said.get("comment", "")
    if not (isinstance(approved, bool) and isinstance(digest, str) and isinstance(comment, str)):
        return None
    return Answer(approved, digest, comment)


def digest_waited_for(step: Step) -> str | None:
    """The digest of the call that a wait's answer allows; None for a wait that is not for an approval."""
    found = json.loads(step.detail or "{}").get("allows") if step.kind == "wait" else None
    return found if isinstance(found, str) else None


def misfit(digest: str, signal: Signal) -> str | None:
    """Why a signal is no answer to a wait for an approval of that call; None if it is one."""
    answer = answer_in(signal.payload)
    if answer is None:
        return f"an approval is waited for, and its value must be {_FORM}"
    if not signal.sender.strip():
        return "an approval is waited for, and nobody is named who gives it"
    if answer.digest != digest:
        return f"{Refusal.OTHER_CALL}: it names {answer.digest[:_SHOWN]}, what waits is {digest[:_SHOWN]}"
    return None


def approval_of(signal: Signal) -> Approval:
    """The approval that a fitting signal is."""
    answer = answer_in(signal.payload)
    assert answer is not None, "what does not fit is refused before"
    at = EPOCH + timedelta(microseconds=signal.sent_at)
    return Approval(answer.approved, signal.sender, at, answer.digest, answer.comment, signal.id)


# -- use ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Use:
    """An approval that is about to be used: what the ledger holds of it, and what is to be sent.

    `wait` is the position of the wait that it closed, None if no wait of the run was; `used_by` the other operation
    that has used it; `begun_with` the wait of the approval that an earlier attempt of this one has used; `digest` that
    of the call which would be sent; `valid_for` how long after it was given it holds.
    """

    approval: Approval
    wait: str | None
    used_by: str | None
    begun_with: str | None
    digest: str
    valid_for: int | None = None


def refusal(use: Use, now: int) -> tuple[Refusal, str] | None:
    """Why the approval does not allow the call at `now` (store clock), in a word and a sentence; None: it may.

    Whether the persons still have their rights is asked besides.
    """
    approval = use.approval
    if use.wait is None:
        return Refusal.NOT_OF_THIS_RUN, "no wait of this run was answered by it"
    if not approval.approved:
        return Refusal.DENIED, f"{approval.by} has denied it" + (f": {approval.comment}" if approval.comment else "")
    if use.used_by is not None:
        return Refusal.USED, f"{use.used_by} has used it, and an approval is used once"
    if use.begun_with not in (None, use.wait):
        return Refusal.OTHER_CALL, f"the operation was begun with the approval of {use.begun_with}"
    if approval.digest != use.digest:
        return Refusal.OTHER_CALL, f"it allows {approval.digest[:_SHOWN]}, and this is {use.digest[:_SHOWN]}"
    held = now - (approval.at - EPOCH) // timedelta(microseconds=1)
    if use.valid_for is not None and held > use.valid_for:
        age = spelled(held // SECOND * SECOND)
        return Refusal.EXPIRED, f"it was given {age} ago, and holds for {spelled(use.valid_for)}"
    return None


def persons(approval: Approval, principal: str | None) -> list[tuple[Role, str]]:
    """Whose rights are asked for: the approver's, and the principal's where the run acts for one."""
    found: list[tuple[Role, str]] = [("approver", approval.by)]
    return found if principal is None else [*found, ("principal", principal)]


def lost(role: Role, who: str) -> tuple[Refusal, str]:
    """The refusal for somebody who has no right to the call any more."""
    return LOST[role], f"{who} may not have this done any more"
