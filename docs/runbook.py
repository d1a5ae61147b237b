"""The runbook as a table: each reason for which a run is held, what it means, what to look at, and which verbs apply.

`generate` writes a page for each row; a test compares the reasons with those that the code can give. Which verbs apply
to a run as it is says `fencepost show`, which asks `runtime.verbs`.
"""

from typing import NamedTuple

from fencepost.core.recovery import HoldReason
from fencepost.effects.deliberate import FORMAT_BUDGET_SPENT
from fencepost.effects.perform import BUDGET_SPENT, RESULT_MISSING
from fencepost.runtime.leftovers import NO_SUCH_EFFECT

RESULT_REFUSED = "result refused"


class Page(NamedTuple):
    """One reason. `verbs` are pairs of a command and when to use it; `avoid` says how it comes less often."""

    reason: str
    means: str
    look_at: str
    verbs: tuple[tuple[str, str], ...]
    avoid: str

    @property
    def file(self) -> str:
        """The name of its page."""
        words = "".join(letter if letter.isalnum() else " " for letter in self.reason).lower().split()
        return "-".join(words) + ".md"


HAPPENED = (
    "settle RUN STEP --happened --result JSON --reference ID --reason TEXT --app MODULE:APP",
    "you saw it at the target. `--result` is what the step returns; without it the run is held again, result missing",
)
DID_NOT_HAPPEN = (
    "settle RUN STEP --did-not-happen --reason TEXT --app MODULE:APP",
    "you looked after the span and it is not there; it is then sent within its budget. Refused before the span is over",
)
PUT_RIGHT = (
    "settle RUN STEP --conflict --happened --result JSON --reason TEXT --app MODULE:APP",
    "the target was put right by hand, and the effect stands there once. A resume never helps: the flag stays",
)
NOTHING_STANDS = (
    "settle RUN STEP --conflict --did-not-happen --reason TEXT --app MODULE:APP",
    "the target was put right by hand, and nothing of the effect is left there. Refused where it is proved applied",
)
ASK_AGAIN = ("reconcile RUN --reason TEXT", "the target can be asked again, or the configuration is as it was")
GIVE_UP = (
    "terminate RUN --reason TEXT",
    "the run should end as it is; its effects stand, and the unknown stays in it. `reopen` takes that back",
)
CANCEL = ("cancel RUN --reason TEXT", "nothing new should begin")
COMPENSATE = ("compensate RUN --reason TEXT", "what happened so far should be made acceptable, the last first")
NEW_CODE = (
    "resume RUN --reason TEXT",
    "the code that the run began with is deployed again, or the fault in it is mended without moving a step",
)
MIGRATE = (
    "migrate RUN --to 2 --dry-run --app MODULE:APP",
    "version 2 of the workflow tells the same story so far; with `--reason` in place of `--dry-run` it moves the run",
)
BODY = "move it into a step: `@read`, `@compute` or `@effect`"

PAGES = (
    Page(
        HoldReason.CONFLICT,
        "Evidence contradicts itself: the effect was applied more than once, a look-up found two, or an "
        "attempt that was proved not applied is found applied.",
        "Each attempt and observation in `show`, then the objects at the target. Decide which one stands and "
        "put the others right at the target, by hand.",
        (PUT_RIGHT, NOTHING_STANDS, GIVE_UP),
        "It means that a promise was not kept: a key compared by nobody, a `settle` too short, a look-up that "
        "finds somebody else's object, or an override. Find out which, before the next run does the same.",
    ),
    Page(
        HoldReason.CANNOT_BE_ASKED,
        'It may have happened, and the contract declares neither a key nor a look-up, only `on_unknown="hold"`.',
        "The target, by whatever the request contains. `show` has the request, word for word.",
        (HAPPENED, DID_NOT_HAPPEN, CANCEL, GIVE_UP),
        "Find a key or a look-up at the target, and declare it: `send_key=` or `reconcile=`.",
    ),
    Page(
        HoldReason.REFUSED,
        "An earlier attempt may have happened. It was sent again under its key, and the target refused that for good, "
        "such as with 401: the refusal says nothing of the earlier one, and the same again would be refused again.",
        "The refusal in `show`; then what it asks for: a credential, a permission, an address.",
        (ASK_AGAIN, HAPPENED, DID_NOT_HAPPEN, CANCEL, GIVE_UP),
        "Renew credentials before they run out, and declare a look-up: then the first question is a reading one.",
    ),
    Page(
        HoldReason.DECLARED,
        'It may have happened, and the contract says `on_unknown="hold"`: it is never sent again, not even '
        "under its key.",
        "The target, by the key, the reference, or what the request contains.",
        (HAPPENED, DID_NOT_HAPPEN, CANCEL, GIVE_UP),
        "Declare a look-up beside the hold: then only what it cannot tell comes to a person.",
    ),
    Page(
        HoldReason.CANNOT_TELL,
        "The look-up answered five times in a row that it cannot tell. An error in a look-up counts as that.",
        "The look-up's answers in `show`: they say why. Most often the target's search is down, or refuses "
        "the credential.",
        (ASK_AGAIN, HAPPENED, DID_NOT_HAPPEN, CANCEL, GIVE_UP),
        "Let the look-up search by the operation's key alone, and say `Inconclusive` only for what really is.",
    ),
    Page(
        HoldReason.KEY_OVER,
        "The key's window is over, or the target replays a stored failure under it; a resend would not be "
        "covered any more.",
        "The target, by the key or the reference. A key's window is counted from the first intent to dispatch.",
        (HAPPENED, DID_NOT_HAPPEN, CANCEL, GIVE_UP),
        "Keep the retry budget well inside the window, and declare a look-up to stand behind the key.",
    ),
    Page(
        HoldReason.SCOPE_CHANGED,
        "Account, credential, endpoint or region are not those under which the operation was reserved. A key "
        "protects nothing there, and an absence there proves nothing.",
        "The scope in `show`, and the target's configuration in this deployment.",
        (ASK_AGAIN, HAPPENED, DID_NOT_HAPPEN, GIVE_UP),
        "Give `Target(scope=...)` the name of the account, so that a new address of the same one changes nothing.",
    ),
    Page(
        HoldReason.BUDGET_SPENT,
        "It may have happened, the attempts are spent, and no look-up is declared.",
        "The target, and why every attempt stayed without an answer.",
        (HAPPENED, DID_NOT_HAPPEN, CANCEL, GIVE_UP),
        "Declare a look-up: it finds out what the last attempt left open.",
    ),
    Page(
        BUDGET_SPENT,
        "An effect is proved not to have happened and has used up its attempts or its time; or a read, a "
        "computation or a model's endpoint has.",
        "The last error in `show`. Is the target well again? Was the budget meant for a longer outage?",
        (
            ("retry RUN STEP --reason TEXT --app MODULE:APP", "an effect: a new budget"),
            (
                "forward RUN STEP --reason TEXT --app MODULE:APP",
                "an effect that declares another way (`show` offers it then): that is done in its place",
            ),
            (
                "resume RUN --reason TEXT",
                "an effect: the workflow gets the error, as one exception. Another step: a new budget",
            ),
            COMPENSATE,
            CANCEL,
            GIVE_UP,
        ),
        "Widen `Retry(attempts=, within=)`, inside the key's window.",
    ),
    Page(
        FORMAT_BUDGET_SPENT,
        "A model answered too often in a form that its step does not declare.",
        "The bad answers, kept in the step's detail unless the step says otherwise; then the prompt.",
        (
            ("resume RUN --reason TEXT", "the prompt, the model or the output type is mended: a new budget"),
            CANCEL,
            COMPENSATE,
            GIVE_UP,
        ),
        "Ask for less: fewer fields, an enum instead of prose, an example of the form.",
    ),
    Page(
        RESULT_MISSING,
        "It happened, and its result is not known or cannot be stored: an unreadable reply, a value that is "
        "too large or of another type, a statement without a result.",
        "The evidence in `show`, and the object at the target.",
        (HAPPENED, COMPENSATE, CANCEL, GIVE_UP),
        "Return from the body only what the workflow needs, in a type that reads back as it was; declare `load=`, "
        "which reads a missing result by its reference.",
    ),
    Page(
        RESULT_REFUSED,
        "The workflow returned a value that is not of its declared type, or cannot be stored.",
        "The message: it names the path in the value. Every effect of the run is done and recorded.",
        (
            ("resume RUN --reason TEXT", "the return statement or the return type is mended; nothing is sent again"),
            GIVE_UP,
        ),
        "Annotate the workflow's result, and return plain values or pydantic models.",
    ),
    Page(
        NO_SUCH_EFFECT,
        "The run has an operation whose effect the workflow's code does not refer to any more, and its "
        "outcome has to be found out first.",
        "Which effect it was, and which version of the code still had it.",
        ((NEW_CODE[0], "code that has the effect is deployed"), GIVE_UP),
        "Keep an effect until every run that used it has ended.",
    ),
    Page(
        "HistoryMismatch",
        "The code asks for something else than the history holds: a step is gone, renamed, moved, or has "
        "other parameters.",
        "The message names both. What changed since the run began? A clock, a random number, a set's order in "
        "the workflow?",
        (NEW_CODE, MIGRATE, COMPENSATE, CANCEL, GIVE_UP),
        "Put changed code under a new workflow version; old runs keep theirs. Or ask `run.patched` where it changed. "
        "Use `run.now`, `run.uuid` and `run.random`.",
    ),
    Page(
        "ChildRefused",
        "The workflow asks for a child run whose id another run has already, or whose workflow nobody here knows.",
        "The run of that id, with `fencepost show`. Is it the child of an earlier turn, of a loop, or somebody else's?",
        (NEW_CODE, COMPENSATE, CANCEL, GIVE_UP),
        "Take a child's id from its own business event, and pass its workflow to `App(workflows=[...])`.",
    ),
    Page(
        "JobUnknown",
        "An outside job fell silent, the workflow was told so, and its code would hand a job of the same effect over "
        "again without having found out what became of the first.",
        "The wait's row in `show`: when the job was heard of last, and what it said. Then the job at the target.",
        (
            (
                "resume RUN --reason TEXT",
                "the code waits for the job again, or asks with `ask=`, before it hands it over anew",
            ),
            COMPENSATE,
            CANCEL,
            GIVE_UP,
        ),
        "Pass `ask=` to the wait: a read that says what became of the job. An effect whose jobs do not replace each "
        "other is `independent=True`.",
    ),
    Page(
        "RepeatedEffect",
        "An effect was met twice in one run without an item, or again with the same item and another request; or a new "
        "decision of a model asks for one that happened, or was intended, with another request, or was compensated.",
        "Whether two effects are meant, or one. The second has not been sent.",
        (NEW_CODE, COMPENSATE, CANCEL, GIVE_UP),
        "Pass `item=`, an id of the business, for everything that is done in a loop.",
    ),
    Page(
        "ForeignAwait",
        "The workflow awaited something that is not of its run: a client, a timer, a task.",
        "The message names it.",
        ((NEW_CODE[0], "the await is moved into a step that comes later than what is recorded"), CANCEL, GIVE_UP),
        f"In a workflow await only what `run` gives; {BODY}.",
    ),
    Page(
        "InputOutputInWorkflow",
        "The workflow's body opened a file, a socket or a process itself.",
        "The message names the call.",
        (NEW_CODE, CANCEL, GIVE_UP),
        f"Only what a step returns is recorded; {BODY}.",
    ),
    Page(
        "UnreadableValue",
        "A stored result does not have the form that the code declares for it now.",
        "The message: the path, and what was stored.",
        ((NEW_CODE[0], "the declared type accepts what is stored"), GIVE_UP),
        "Change result types so that old values still fit: new fields with defaults.",
    ),
    Page(
        "CancelIgnored",
        "A branch of the workflow catches each cancel exception and goes on asking for steps.",
        "An `except BaseException` or a bare `except` around `run.do` or `run.wait`.",
        (NEW_CODE, GIVE_UP),
        "Catch `Exception`; let `Cancelled` through.",
    ),
    Page(
        "Misuse",
        "The workflow's code used the run in a way that cannot be meant, such as building a step without `run.do`.",
        "The message and its hint.",
        (NEW_CODE, CANCEL, GIVE_UP),
        "Write `await run.do(step(...))`.",
    ),
    Page(
        "PolicyFailed",
        "The policy of an effect raised, or returned no verdict, so nothing of that effect was sent.",
        "The message: it names the policy, and what it raised or returned.",
        (("resume RUN --reason TEXT", "the policy is mended and deployed; it is asked anew"), CANCEL, GIVE_UP),
        "Let a policy be a plain function that returns `Allowed()` or `Refused(why)` whatever it is asked.",
    ),
    Page(
        "AuthoriseFailed",
        "An approval was to be used, and the read that says who may have the call done raised. Nothing was sent, and "
        "the approval is not used.",
        "The message: it names the read, and what it raised. A directory that is away for longer than the read's "
        "budget holds the run as budget spent instead, at a step that begins with `authorise:`.",
        (("resume RUN --reason TEXT", "the read is mended; it is asked anew for both persons"), CANCEL, GIVE_UP),
        "Let the read return `False` for somebody who may not, and raise `Transient` where it cannot tell yet.",
    ),
    Page(
        "ValueRefused",
        "A step was asked for with a value that cannot be stored and read back as it is, or that is too large. "
        "Nothing of that step was sent.",
        "The message: it names the path in the value, and the limit.",
        (NEW_CODE, CANCEL, GIVE_UP),
        "Pass plain values and pydantic models; pass a reference to what is large.",
    ),
    Page(
        "TimeoutIgnored",
        "A read, a computation, a model step or a look-up was cancelled when its time was over, and went on all the "
        "same. Nobody waits for it any more; asked again at once it would go on beside itself.",
        "The body of the step that is named: a bare `except`, or one of BaseException, around an await.",
        (("resume RUN --reason TEXT", "the body is mended and deployed; it is asked again"), CANCEL, GIVE_UP),
        "Catch `Exception`; let `asyncio.CancelledError` through.",
    ),
    Page(
        "MovesRefused",
        "The ledger refused several times in a row what the run's own worker wrote, although nobody else owns it: a "
        "row is there that should not be, or is not as the worker read it. Nothing was sent on it.",
        "The message: it names the rows. `fencepost check` names whatever else does not fit. Was the file edited by "
        "hand, or put together from two copies?",
        (("resume RUN --reason TEXT", "the row is as it was, or the fault is mended"), CANCEL, GIVE_UP),
        "Leave the ledger's tables to Fencepost. If nobody touched them, please report it with the message.",
    ),
    Page(
        "WorkersLost",
        "Three workers in a row ended, or stood still past their lease, with this run in work, and nothing of it was "
        "answered in between. Another one would most likely go the same way.",
        "The step that was in work, and what became of those processes: killed for want of memory, a fault in native "
        "code, a call that never gives its thread back. Whatever was in flight is unknown, and asked about first.",
        (("resume RUN --reason TEXT", "the cause is mended; the count begins anew"), NEW_CODE, CANCEL, GIVE_UP),
        "Bound what a step may take in, and run what can end its process in a process of its own.",
    ),
    Page(
        "Another error's name",
        "An error that no page foresees ended the attempt to go on with this run: a fault of the workflow's code, "
        "of this process, or of Fencepost. Whatever was in flight is unknown, and asked about first.",
        "The message in `show`, and the worker's log, which has the traceback.",
        (NEW_CODE, CANCEL, GIVE_UP),
        "If the traceback ends in Fencepost's own code, please report it with the worker's version.",
    ),
)
"""What concerns effects first, then budgets and results, then faults of the code."""
