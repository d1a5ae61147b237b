"""What a person is called for: each alert with what it measures in the ledger, from when on it fires, and what to do.

Pure, one table. Measuring is `runtime.alerting`; `fencepost alerts`, `fencepost doctor` and the runbook's pages are
made from this table. Why a single run is held, and what may be done about it, has pages of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from fencepost.core.duration import DAY, HOUR, MINUTE, SECOND, microseconds, spelled
from fencepost.core.errors import DeclarationError


class Severity(StrEnum):
    """Who is called: a page wakes somebody, a ticket waits for the morning."""

    PAGE = "page"
    TICKET = "ticket"


class Unit(StrEnum):
    """What an alert's value is: microseconds, or a number of things."""

    TIME = "time"
    COUNT = "count"


class Alert(NamedTuple):
    """One alert: it fires when what it `measures` is above its threshold. `verbs`: a command, and when it helps."""

    severity: Severity
    unit: Unit
    threshold: int
    measures: str
    means: str
    look_at: str
    verbs: tuple[tuple[str, str], ...]
    avoid: str


_PAGE, _TICKET, _TIME, _COUNT = Severity.PAGE, Severity.TICKET, Unit.TIME, Unit.COUNT
_SHOW = ("show RUN", "what is known of a run, why it is held, and which verbs apply")
_HELD = ("runs --state held", "every run that waits for a person")
_WORKER = ("worker MODULE:APP", "another worker is needed")

SINCE = HOUR
"""What is counted over a time is counted over this one."""

ALERTS: Mapping[str, Alert] = {
    "unknown effects": Alert(
        _PAGE, _TIME, HOUR,
        "how long ago the oldest effect of which nobody knows whether it happened was first dispatched",
        "Something was sent, and neither a look-up, a key nor a person has told since whether it arrived. The run does "
        "nothing new meanwhile.",
        "The run that is named: its look-ups in `show` say why they cannot tell. Then the target itself.",
        (_SHOW, ("reconcile RUN --reason TEXT", "the target can be asked again"),
         ("settle RUN STEP --happened --result JSON --reason TEXT --app MODULE:APP", "you saw it at the target")),
        "Declare a look-up beside the key, and a `settle` that is as long as the target really needs.",
    ),
    "conflicts": Alert(
        _PAGE, _COUNT, 0,
        "effects whose evidence contradicts itself, also of runs that have ended",
        "An effect was applied more than once, or one that was proved absent is there: a promise was not kept.",
        "Every attempt and observation of the step in `show`, then the objects at the target.",
        (_SHOW, ("settle RUN STEP --conflict --happened --reason TEXT --app MODULE:APP", "the target was put right")),
        "Find out which promise it was before the next run does the same.",
    ),
    "held runs": Alert(
        _TICKET, _COUNT, 0,
        "runs that are held, by reason",
        "Each of these runs has stopped, and goes on only when a person has decided.",
        "The reasons: many runs held for the same one have the same cause. Each reason has a page here.",
        (_HELD, _SHOW, ("bulk resume --held-by REASON --dry-run --reason TEXT", "the cause is gone for all of them")),
        "See the page of the reason.",
    ),
    "compensation failed": Alert(
        _PAGE, _COUNT, 0,
        "runs whose compensation has failed, or has succeeded in part",
        "What a run did stands at least in part, though somebody or something wanted it made acceptable.",
        "The compensation in `show`: which effects stand, and why theirs failed.",
        (_SHOW, ("compensate RUN --reason TEXT --app MODULE:APP", "the cause is gone: what failed is tried again")),
        "Give compensations a budget that outlasts the target's outages.",
    ),
    "workers lost": Alert(
        _PAGE, _TIME, MINUTE,
        "how long ago the lease of a worker that still owns runs should have been renewed or taken over",
        "A worker is gone, and no other one of the same app is there to take its runs over.",
        "The worker's host and pid in `doctor`: is the process there? Is any worker running?",
        (("doctor MODULE:APP", "which leases there are"), _WORKER),
        "Run at least two workers, or one under a supervisor that starts it again.",
    ),
    "lease losses": Alert(
        _TICKET, _COUNT, 2,
        "leases that ran out in the last hour, instead of being given back",
        "Workers were killed, stood still or could not write for longer than their lease; others took their runs over.",
        "Why: memory, a step that blocks the loop, a slow disk, a virtual machine that was paused.",
        (("doctor MODULE:APP", "which leases there are"),),
        "Let workers end by SIGTERM, and give blocking code a plain `def` step, which runs on a thread.",
    ),
    "stale writes": Alert(
        _TICKET, _COUNT, 10,
        "reports in the last hour of workers that did not own the run any more: their writes were refused",
        "Workers come back after they were believed dead. Nothing was done on their word; what they saw is kept.",
        "The observations in `show` that are not current: which worker, and how late.",
        (_SHOW, ("doctor MODULE:APP", "which leases there are")),
        "As for lease losses; a longer lease lets a slow worker keep its runs.",
    ),
    "journal latency": Alert(
        _PAGE, _TIME, SECOND,
        "how long an empty write transaction takes on the ledger just now",
        "Every step waits at least as long before it is sent, and again for its result.",
        "The disk, the server, and who keeps the write lock: a long transaction, a backup, a copy.",
        (("doctor", "how far the server is, and what it waits for"),),
        "Keep the ledger on a local disk, or near its server, and other long transactions out of its database.",
    ),
    "queue age": Alert(
        _PAGE, _TIME, 5 * MINUTE,
        "how long the run that has waited longest for a worker could have begun or gone on",
        "Nobody takes runs whose time has come: no worker runs, all are full, or none carries the version.",
        "Whether workers live, how many runs they may have (`--runs-max`), and *versions* below.",
        (("runs --state ready", "what waits"), _WORKER),
        "Size the workers for the peak, and watch this number instead of their load.",
    ),
    "open breakers": Alert(
        _PAGE, _TIME, 5 * MINUTE,
        "how long ago the oldest breaker opened that is open now",
        "A target refuses a credential, or fails again and again, and so did each run that was let through to see. The "
        "runs behind it wait, and spend nothing.",
        "Why, in `contained`: an expired key and a target that is down have different owners.",
        (("contained", "what is shut, since when, and why"),
         ("release credential NAME --reason TEXT", "the key was renewed: nobody needs to wait for the next try")),
        "Renew keys before they run out, and give a target that limits its callers a queue with a rate.",
    ),
    "containments": Alert(
        _TICKET, _TIME, DAY,
        "how long ago somebody contained what has been contained longest",
        "Nothing new is sent toward it, and the runs that meet it wait for as long. The windows of their keys go on: "
        "what may have happened can need a person by the time it is released.",
        "Who contained it, and why; then whether that is still so.",
        (("contained", "what is contained, by whom, and why"),
         ("release target NAME --reason TEXT", "the reason is gone: the runs behind it go on by themselves")),
        "Write into the reason who mends it and until when, such as a ticket.",
    ),
    "versions": Alert(
        _PAGE, _COUNT, 0,
        "runs pinned to a version of their workflow that no live worker carries",
        "They would never go on: the code with which they began is not deployed any more.",
        "Which workflow and version; `doctor` names one run of each.",
        (("migrate RUN --to 2 --dry-run --app MODULE:APP", "newer code tells the same story so far"), _WORKER),
        "Keep a version's code until its last run has ended; `runs` shows which have not.",
    ),
    "schedules": Alert(
        _PAGE, _TIME, 5 * MINUTE,
        "how late the latest schedule is that should have started a run",
        "An instant has passed and no run was started for it: no live worker declares it, or all stand still.",
        "`schedule`: is it orphaned? Does a worker live whose app declares it?",
        (("schedule", "each schedule's state, next and last instant"),
         ("schedule fire SCHEDULE --reason TEXT", "a run is wanted now")),
        "Remove schedules that are meant to be gone: `schedule remove`.",
    ),
    "proposals": Alert(
        _TICKET, _TIME, HOUR,
        "how long the oldest proposal has waited for a second person",
        "Somebody asked for a verb that takes two, and nobody has confirmed or declined it.",
        "What was proposed, by whom and why. It expires by itself.",
        (("proposals", "what waits"), ("confirm PROPOSAL --reason TEXT --app MODULE:APP", "you have looked, and agree"),
         ("decline PROPOSAL --reason TEXT", "it should not be done")),
        "Tell the second person when you propose.",
    ),
    "audit": Alert(
        _PAGE, _COUNT, 0,
        "breaks in the chain of audit rows: the first one is found",
        "A row was changed, taken out, put in or moved by somebody who wrote to the database by themselves.",
        "The row that is named, the rows beside it, and who may write to the database.",
        (("audit verify --anchor FILE", "what was done to which row"), ("audit", "the rows themselves")),
        "Let only Fencepost's own user write to the ledger, and keep an anchor elsewhere.",
    ),
    "lost time": Alert(
        _TICKET, _TIME, 0,
        "how long ago the ledger was restored, while nobody has closed the time that was lost with it",
        "Each first send is looked for first, since it may have been made in the time that the ledger has forgotten.",
        "What the targets hold from the lost time, and whether anything of it can still turn up.",
        (("restored --close --reason TEXT", "nothing more turns up from the lost time"),),
        "Close it once the targets were compared; until then every first send costs a look-up.",
    ),
    "clock": Alert(
        _PAGE, _TIME, SECOND,
        "how far the ledger's clock is behind a time that the ledger holds",
        "The clock was set back, or another server with an earlier clock has taken over: leases and waits are late.",
        "The time service of the machine, or of the server.",
        (("doctor", "the clock, and the latest time that is stored"),),
        "Let the time service slew the clock, and never step it back.",
    ),
}  # fmt: skip
"""Every alert by its name, the most urgent first."""


def thresholds(given: Mapping[str, str]) -> dict[str, int]:
    """Thresholds as a person writes them ("10m", "3"), by the names of their alerts.

    Raises:
        DeclarationError: there is no such alert, or the threshold is none of its unit.
    """
    found: dict[str, int] = {}
    for name, text in given.items():
        alert = ALERTS.get(name)
        if alert is None:
            raise DeclarationError(f"there is no alert {name!r}", hint=f"one of: {', '.join(ALERTS)}")
        if alert.unit is Unit.TIME:
            found[name] = microseconds(text, what=f"the threshold of {name}")
        elif text.isdecimal():
            found[name] = int(text)
        else:
            raise DeclarationError(f"the threshold of {name} is {text!r}, not a number", hint="such as 3")
    return found


def measured(unit: Unit, value: int) -> str:
    """A value as a person reads it."""
    if unit is Unit.COUNT:
        return f"{value:,}"
    return spelled(value // SECOND * SECOND if value >= 10 * SECOND else value // 1000 * 1000)
