"""The errors of Fencepost, in four branches by who must act, and what is told beside them.

`Misuse`: you called it wrong, change the call. `NotOwner`: somebody else owns this now, stop. `Ambiguous`: the
outside may or may not have done it, ask before sending again. `StoreUnavailable`: our own ledger cannot be written,
nothing was sent. Told are how a run ended (`RunEnded`), and what a step's body says of the outside (`StepError`).

This file only names errors. Which error proves what is decided in `classify`; what happens next in `recovery`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta


class FencepostError(Exception):
    """The base of all errors of this package.

    `message` says what is wrong, `hint` what to do next, `ids` which run, step, key or lease it is about.
    """

    def __init__(self, message: str, *, hint: str = "", ids: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.ids: dict[str, str] = dict(ids or {})

    def __str__(self) -> str:
        # What the message names already, since it is another error's text, is not named twice.
        unsaid = (one for name, value in self.ids.items() if not _is_named(one := f"{name}={value}", self.message))
        about = ", ".join(unsaid)
        parts = [self.message, f"[{about}]" if about else "", self.hint and f"({self.hint})"]
        return " ".join(part for part in parts if part)


def _is_named(what: str, message: str) -> bool:
    return f"{what}," in message or f"{what}]" in message


# -- you called it wrong ------------------------------------------------------------------------------------------


class Misuse(FencepostError):
    """The call, the declaration or the workflow's code is wrong; nothing was sent and nothing is lost."""


class DeclarationError(Misuse):
    """A step, an effect's contract or a workflow is declared in a way that cannot be kept."""


class ValueRefused(Misuse):
    """A value cannot be stored and read back equal in value and type, or is larger than the limit."""


class RunInputMismatch(Misuse):
    """A run with this id exists already and was started with another input or workflow, or for another principal."""


class ChildRefused(Misuse):
    """The id that a workflow gives a child belongs to another run already, or nobody here knows its workflow."""


class NotThere(Misuse):
    """Nothing here has this name or number; `ids` say of what kind it would be."""


class RunNotFound(NotThere):
    """No run has this id in this namespace."""


class VerbRefused(Misuse):
    """An operator's verb does not apply to the state in which it found the run or operation."""


class ChangedSince(VerbRefused):
    """The row has changed since whoever decides about it has seen it."""


class NotPermitted(VerbRefused):
    """Whoever asks lacks the role that it needs, or is not the one for whom the command line speaks."""


class SecondPersonNeeded(VerbRefused):
    """The verb takes two persons here: it is kept as a proposal, whose number `ids` gives; nothing else happened."""


class HistoryMismatch(Misuse):
    """The workflow's code asks for something else than its recorded history holds."""


class MovesRefused(Misuse):
    """The ledger refuses again and again what a run's own worker writes: its rows were changed by other hands."""


class WorkersLost(Misuse):
    """One worker after the other was lost with a run in work, and nothing of it was answered in between."""


class TimeoutIgnored(Misuse):
    """A body that sends nothing goes on although its time is over and it was cancelled; nobody waits for it."""


class CallbackRefused(Misuse):
    """A report with a callback's token was not taken; `refusal` is "unknown", "over", "used" or "misfit".

    Nothing else tells a token that nobody has given out from one that is wrong by a character.
    """

    def __init__(
        self, message: str, *, refusal: str = "unknown", hint: str = "", ids: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message, hint=hint, ids=ids)
        self.refusal = refusal


class JobUnknown(Misuse):
    """A job would be handed over again whose fate is not known: it may still be at work, or have ended."""


class RepeatedEffect(Misuse):
    """An effect was met twice in one run without an item, or with the same item and other parameters."""


class ForeignAwait(Misuse):
    """A workflow awaited something that is not a step, wait or group of the run."""


class InputOutputInWorkflow(Misuse):
    """A workflow's body read or wrote something itself; only steps may."""


class ForeignDatabase(Misuse):
    """The file is not a Fencepost ledger, or a newer Fencepost wrote it."""


# -- you no longer own this ---------------------------------------------------------------------------------------


class NotOwner(FencepostError):
    """Another generation owns the run; what this worker saw is kept as evidence, what it wanted is not done."""


class LeaseLost(NotOwner):
    """This process's lease is expired or too near its end to start a send."""


class DeadlinePassed(NotOwner):
    """The attempt's send deadline passed before its first byte left; nothing was sent."""


class CancelAccepted(NotOwner):
    """The run of this body was cancelled: nothing more of it is sent."""


class FenceRefused(NotOwner):
    """The target knows a higher token for this resource: somebody newer writes there, and this write did nothing."""


class AlreadyAnswered(NotOwner):
    """The key of a request that was received has an answer already, or belongs to another request."""


# -- the outside is ambiguous -------------------------------------------------------------------------------------


class Ambiguous(FencepostError):
    """Whether an effect happened is not known, or what is known contradicts itself."""


class RunHeld(Ambiguous):
    """The run waits for a person; `ids` and `hint` say for what and which verbs apply."""


class InProgress(Ambiguous):
    """Another owner is performing this operation now; ask again later."""


# -- our store is unavailable -------------------------------------------------------------------------------------


class StoreUnavailable(FencepostError):
    """The ledger cannot be read or written; whatever was not acknowledged was not sent either."""


class StoreBusy(StoreUnavailable):
    """Another process held the ledger's write lock for longer than the configured patience."""


class StoreFailed(StoreUnavailable):
    """A sync or commit failed: what it wrote may or may not be on disk, so this process stops dispatching."""


class KeyUnavailable(StoreUnavailable):
    """The ledger holds what is encrypted by a key that is not here, or is another one than sealed it."""


class LedgerWentBack(StoreUnavailable):
    """The ledger is older than what this process has seen in it: it was restored, and nobody has said so yet."""


# -- how a run ended ----------------------------------------------------------------------------------------------


class RunEnded(FencepostError):
    """Base of what `handle.result()` raises for a run that did not succeed."""


class RunFailed(RunEnded):
    """The workflow's own code raised; its effects stand."""


class RunCancelled(RunEnded):
    """The run was cancelled and every one of its operations is known."""


class RunTerminated(RunEnded):
    """A person ended the run."""


class CompensationIncomplete(RunEnded):
    """At least one compensation failed or could not be tried; the report says which."""


class WaitExpired(FencepostError):
    """A wait's time ran out before its signal came."""


class HeartbeatLost(FencepostError):
    """An outside job has not been heard of for longer than its heartbeat: what became of it is not known.

    It must be asked about before it is handed over again; a report that comes late is kept for the next wait.
    """


class JobFailed(FencepostError):
    """An outside job reported that it has failed; the message is its own."""


class JobLost(FencepostError):
    """An outside job was asked about after it had fallen silent, and is not there: it may be handed over again."""


class ApprovalRefused(FencepostError):
    """An approval did not allow the effect that was to use it; nothing was sent.

    `refusal` says why in the words of `core.approval.Refusal`, such as "right lost by approver".
    """

    def __init__(
        self, message: str, *, refusal: str = "", hint: str = "", ids: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message, hint=hint, ids=ids)
        self.refusal = refusal


# -- what a step's body says of the outside -----------------------------------------------------------------------


class StepError(FencepostError):
    """Base of what a body or a client's classifier says of one attempt."""


class Transient(StepError):
    """Worth trying again; by itself no proof that nothing happened."""


class RateLimited(StepError):
    """The target asked to wait for `retry_after` (None: it did not say); by itself no proof of anything.

    Raises TypeError for a `retry_after` that is no timedelta: a bare number would not say of what.
    """

    def __init__(
        self,
        message: str,
        *,
        retry_after: timedelta | None = None,
        hint: str = "",
        ids: Mapping[str, str] | None = None,
    ) -> None:
        if not isinstance(retry_after, timedelta | None):
            raise TypeError(f"retry_after is {retry_after!r}: write a timedelta, such as timedelta(seconds=30)")
        super().__init__(message, hint=hint, ids=ids)
        self.retry_after = retry_after

    @property
    def pause(self) -> int | None:
        """`retry_after` in microseconds."""
        return None if self.retry_after is None else self.retry_after // timedelta(microseconds=1)


class Permanent(StepError):
    """Trying again cannot help: bad input, not authorised, policy, unsupported."""


class Unresolved(StepError):
    """The attempt may or may not have been applied."""


class Malformed(StepError):
    """A model's output does not have the declared form."""


class NotSent(StepError):
    """Raised by a body before it sent anything: its statement that this attempt was not applied."""


@dataclass(frozen=True, slots=True)
class ErrorRecord:
    """An error as it is stored: names and text, never the object.

    `class_name` is the qualified name, `message` its text, `traceback` the formatted frames; all bounded in length.
    """

    class_name: str
    message: str
    traceback: str = ""

    @property
    def said(self) -> str:
        """Name and text for people, the class without its module."""
        return f"{self.class_name.rpartition('.')[2]}: {self.message}"

    def as_text(self) -> str:
        """JSON text for the ledger."""
        return json.dumps({"class": self.class_name, "message": self.message, "traceback": self.traceback})

    @classmethod
    def of(cls, kind: type[BaseException], message: str) -> ErrorRecord:
        """The record of an error that nobody raised."""
        name = kind.__qualname__
        return cls(name if kind.__module__ == "builtins" else f"{kind.__module__}.{name}", message)

    @classmethod
    def from_text(cls, text: str) -> ErrorRecord:
        """The record of a stored text; of one that is encrypted by a key that is not here, or purged, what is left."""
        fields = json.loads(text)
        message = fields.get("message", "its text cannot be read here")
        return cls(fields.get("class", "an error"), message, fields.get("traceback", ""))


class StepFailed(FencepostError):
    """The one exception that a workflow sees for a step that failed for good.

    `record` names the original class, message and traceback; `others` are the errors of sibling branches of a gather.
    """

    def __init__(self, record: ErrorRecord, *, ids: Mapping[str, str] | None = None) -> None:
        super().__init__(record.said, ids=ids)
        self.record = record
        self.others: tuple[BaseException, ...] = ()


class ChildFailed(StepFailed):
    """An attached child run ended without a result; `child` is its id, `record` what it ended with."""

    def __init__(self, record: ErrorRecord, *, child: str, ids: Mapping[str, str] | None = None) -> None:
        super().__init__(record, ids={**(ids or {}), "child": child})
        self.message = f"child run {child!r}: {self.message}"
        self.child = child


class Cancelled(BaseException):
    """Arrives in a workflow at a recorded position when its run, or its branch of a race, is cancelled."""
