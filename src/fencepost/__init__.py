"""Fencepost: durable execution that never guesses whether a side effect happened.

This module only names what users import; every name is defined in the room it comes from.
"""

from fencepost.core.approval import Approval, Right
from fencepost.core.breaker import Breaker
from fencepost.core.cancellation import Cancellation
from fencepost.core.contract import Retry
from fencepost.core.errors import (
    AlreadyAnswered,
    Ambiguous,
    ApprovalRefused,
    CallbackRefused,
    CancelAccepted,
    Cancelled,
    ChangedSince,
    ChildFailed,
    ChildRefused,
    CompensationIncomplete,
    DeadlinePassed,
    DeclarationError,
    ErrorRecord,
    FencepostError,
    FenceRefused,
    ForeignAwait,
    ForeignDatabase,
    HeartbeatLost,
    HistoryMismatch,
    InProgress,
    InputOutputInWorkflow,
    JobFailed,
    JobLost,
    JobUnknown,
    KeyUnavailable,
    LeaseLost,
    LedgerWentBack,
    Malformed,
    Misuse,
    NotOwner,
    NotPermitted,
    NotSent,
    NotThere,
    Permanent,
    RateLimited,
    RepeatedEffect,
    RunCancelled,
    RunEnded,
    RunFailed,
    RunHeld,
    RunInputMismatch,
    RunNotFound,
    RunTerminated,
    SecondPersonNeeded,
    StepError,
    StepFailed,
    StoreBusy,
    StoreFailed,
    StoreUnavailable,
    Transient,
    Unresolved,
    ValueRefused,
    VerbRefused,
    WaitExpired,
)
from fencepost.core.permissions import Above, Permissions
from fencepost.core.queue import Queue, Rate
from fencepost.core.states import RunState
from fencepost.effects.answers import Absent, Conflicting, Found, Inconclusive
from fencepost.effects.call import Call, SyncCall
from fencepost.effects.compensation import Compensation
from fencepost.effects.declare import Bound, Effect, Step, compute, effect, read
from fencepost.effects.endpoint import Endpoint
from fencepost.effects.http import Http, Reply, SyncHttp
from fencepost.effects.model import model
from fencepost.effects.outside import Target
from fencepost.effects.policy import Allowed, Refused
from fencepost.effects.promises import Fenced, KeyArgument, KeyHeader, Stands
from fencepost.effects.question import Answerer, MalformedAnswer, Question
from fencepost.effects.repeaters import Layer
from fencepost.effects.rules import Rule, RuleBased
from fencepost.effects.secret import Redacted, Secret
from fencepost.effects.transport import DoorOptions
from fencepost.runtime.app import App
from fencepost.runtime.bulk import Selection
from fencepost.runtime.ends import EndedRun
from fencepost.runtime.handle import Handle
from fencepost.runtime.ledger import Ledger
from fencepost.runtime.rehearsal import Rehearsal
from fencepost.runtime.report import CompensatedEffect, CompensationReport
from fencepost.runtime.retention import Purged, Retention
from fencepost.runtime.run import Run
from fencepost.runtime.schedule import Schedule
from fencepost.runtime.worker import Worker
from fencepost.runtime.workflow import Workflow, workflow
from fencepost.store.aes_gcm import AesGcm
from fencepost.store.chain import Anchor
from fencepost.store.sealed import Codec

__version__ = "0.1.0"

__all__ = [
    "Above",
    "Absent",
    "AesGcm",
    "Allowed",
    "AlreadyAnswered",
    "Ambiguous",
    "Anchor",
    "Answerer",
    "App",
    "Approval",
    "ApprovalRefused",
    "Bound",
    "Breaker",
    "Call",
    "CallbackRefused",
    "CancelAccepted",
    "Cancellation",
    "Cancelled",
    "ChangedSince",
    "ChildFailed",
    "ChildRefused",
    "Codec",
    "CompensatedEffect",
    "Compensation",
    "CompensationIncomplete",
    "CompensationReport",
    "Conflicting",
    "DeadlinePassed",
    "DeclarationError",
    "DoorOptions",
    "Effect",
    "EndedRun",
    "Endpoint",
    "ErrorRecord",
    "FenceRefused",
    "Fenced",
    "FencepostError",
    "ForeignAwait",
    "ForeignDatabase",
    "Found",
    "Handle",
    "HeartbeatLost",
    "HistoryMismatch",
    "Http",
    "InProgress",
    "Inconclusive",
    "InputOutputInWorkflow",
    "JobFailed",
    "JobLost",
    "JobUnknown",
    "KeyArgument",
    "KeyHeader",
    "KeyUnavailable",
    "Layer",
    "LeaseLost",
    "Ledger",
    "LedgerWentBack",
    "Malformed",
    "MalformedAnswer",
    "Misuse",
    "NotOwner",
    "NotPermitted",
    "NotSent",
    "NotThere",
    "Permanent",
    "Permissions",
    "Purged",
    "Question",
    "Queue",
    "Rate",
    "RateLimited",
    "Redacted",
    "Refused",
    "Rehearsal",
    "RepeatedEffect",
    "Reply",
    "Retention",
    "Retry",
    "Right",
    "Rule",
    "RuleBased",
    "Run",
    "RunCancelled",
    "RunEnded",
    "RunFailed",
    "RunHeld",
    "RunInputMismatch",
    "RunNotFound",
    "RunState",
    "RunTerminated",
    "Schedule",
    "SecondPersonNeeded",
    "Secret",
    "Selection",
    "Stands",
    "Step",
    "StepError",
    "StepFailed",
    "StoreBusy",
    "StoreFailed",
    "StoreUnavailable",
    "SyncCall",
    "SyncHttp",
    "Target",
    "Transient",
    "Unresolved",
    "ValueRefused",
    "VerbRefused",
    "WaitExpired",
    "Worker",
    "Workflow",
    "__version__",
    "compute",
    "effect",
    "model",
    "read",
    "workflow",
]
