"""Schedules on the command line: what there is, and one tiny command for each verb of a person.

The guards, the audit and the refusals are those of `runtime.schedules`; none needs an app's code. A schedule is
declared in code and written into the ledger by a worker, never here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from fencepost.cli import terminal
from fencepost.cli.exits import Exit
from fencepost.cli.options import AppOption, AsJson, By, Db, Namespace, Reason, somebody
from fencepost.console.documents import schedule_row, schedule_state
from fencepost.console.printable import counted, instant, printable

if TYPE_CHECKING:
    from fencepost.core.schedule import Plan
    from fencepost.runtime.app import App

IfVersion = Annotated[
    int | None,
    typer.Option("--if-version", metavar="N", help="Only if it still has this version, as `schedule --json` has it."),
]
ScheduleName = Annotated[str, typer.Argument(metavar="SCHEDULE", help="The schedule's name.")]


def schedule(
    context: typer.Context, *, app: AppOption = None, db: Db = None, namespace: Namespace = None,
    as_json: AsJson = False,
) -> Exit:  # fmt: skip
    """List schedules, those that no code declares any more included.

    State: `active`; `paused`; `orphaned` (no live worker declares it, so that it starts nothing); `no worker`, while
    none lives at all.

    With --json: `schedules` (`name`, `formerly`, `workflow`, `workflow_version`, `cron`, `zone`, `overlap`, `catch_up`,
    `catch_up_within`, `state`, `workers`, `next_at`, `waits`, `last_at`, `last_run`, `last_run_state`, `passed`,
    `note`, `version`).
    """
    from fencepost.cli.target import app_for, opened

    if context.invoked_subcommand is not None:
        return Exit.DONE
    with opened(app_for(app, db, namespace, with_code=False)) as ledger:
        found = ledger.store.schedules(ledger.namespace)
        works = _works(ledger)
    if as_json:
        terminal.document({"schedules": [schedule_row(plan, works=works) for plan in found]})
        return Exit.DONE
    if not found:
        terminal.remark("no schedules")
        return Exit.DONE
    terminal.table(
        ("schedule", "times", "state", "next", "last", "policy", "note"),
        [
            (
                plan.name, " ".join(plan.definition.times), schedule_state(plan, works=works), _next(plan), _last(plan),
                _policy(plan), _note(plan),
            )
            for plan in found
        ],
    )  # fmt: skip
    return Exit.DONE


def pause(
    name: ScheduleName, *, reason: Reason, by: By = None, if_version: IfVersion = None, app: AppOption = None,
    db: Db = None, namespace: Namespace = None, as_json: AsJson = False,
) -> Exit:  # fmt: skip
    """Let a schedule start nothing until it is resumed. Runs that were started go on."""
    return _act("pause", name, reason, by, if_version, where=(app, db, namespace), as_json=as_json)


def resume(
    name: ScheduleName, *, reason: Reason, by: By = None, if_version: IfVersion = None, app: AppOption = None,
    db: Db = None, namespace: Namespace = None, as_json: AsJson = False,
) -> Exit:  # fmt: skip
    """Let a paused schedule go on from now on. What passed in the pause is not caught up."""
    return _act("resume", name, reason, by, if_version, where=(app, db, namespace), as_json=as_json)


def fire(
    name: ScheduleName, *, reason: Reason, by: By = None, if_version: IfVersion = None, app: AppOption = None,
    db: Db = None, namespace: Namespace = None, as_json: AsJson = False,
) -> Exit:  # fmt: skip
    """Start a run of a schedule now, also of a paused or orphaned one. Its timetable stays as it is."""
    return _act("fire", name, reason, by, if_version, where=(app, db, namespace), as_json=as_json)


def remove(
    name: ScheduleName, *, reason: Reason, by: By = None, if_version: IfVersion = None, app: AppOption = None,
    db: Db = None, namespace: Namespace = None, as_json: AsJson = False,
) -> Exit:  # fmt: skip
    """Remove a schedule that no live worker declares. Its runs stay."""
    return _act("remove", name, reason, by, if_version, where=(app, db, namespace), as_json=as_json)


# -- shared -----------------------------------------------------------------------------------------------------------


def _act(
    verb: str, name: str, reason: str, by: str | None, version: int | None, *,
    where: tuple[str | None, str | None, str | None], as_json: bool,
) -> Exit:  # fmt: skip
    """Call the verb and say what the schedule is now. With --json: `verb`, and `schedule` as `schedule` lists it."""
    from fencepost.cli.target import app_for, opened
    from fencepost.runtime import schedules as verbs

    done: Callable[..., Plan | None] = getattr(verbs, verb)
    with opened(app_for(*where, with_code=False)) as ledger:
        plan = done(ledger, name, by=somebody(by), reason=reason, version=version)
        works = _works(ledger)
    if as_json:
        terminal.document({"verb": verb, "schedule": None if plan is None else schedule_row(plan, works=works)})
    elif plan is None:
        terminal.say(f"remove: schedule {printable(name)} is gone; its runs stay")
    elif verb == "fire":
        terminal.say(f"fire: schedule {printable(name)} has started run {printable(plan.last_run_id)}")
    elif verb == "pause":
        terminal.say(f"pause: schedule {printable(name)} starts nothing until it is resumed")
    else:
        terminal.say(f"resume: schedule {printable(name)} goes on; next {_next(plan)}")
    return Exit.DONE


def _works(ledger: App) -> bool:
    """Whether any worker lives."""
    now = ledger.store.now()
    return any(lease.closed_at is None and lease.expires_at > now for lease in ledger.store.leases())


def _in_zone(plan: Plan, at: int) -> str:
    from fencepost.core.errors import DeclarationError
    from fencepost.runtime.firing import timetable

    try:
        return timetable(*plan.definition.times).text(at)
    except DeclarationError:  # a zone that this machine does not know
        return str(instant(at))


def _next(plan: Plan) -> str:
    if plan.paused_at is not None:
        return "after its pause"
    waits = f" (waits for run {plan.last_run_id})" if plan.waits else ""
    return f"{_in_zone(plan, plan.next_at)}{waits}"


def _last(plan: Plan) -> str:
    return "never" if plan.last_at is None else f"{_in_zone(plan, plan.last_at)} {plan.last_run_state}"


def _policy(plan: Plan) -> str:
    from fencepost.core.duration import spelled

    definition = plan.definition
    caught_up = f"catch up {definition.catch_up}"
    within = "" if definition.catch_up == "none" else f" within {spelled(definition.catch_up_within)}"
    return f"overlap {definition.overlap}, {caught_up}{within}"


def _note(plan: Plan) -> str:
    from fencepost.core.schedule import note_of

    note = note_of(plan)
    run = f": run {note['run']} is {note['state']}" if note.get("run") else ""
    match note.get("kind"):
        case "times changed":
            said = f"times changed, they were {note['was']}"
        case "renamed":
            said = f"was named {note['name']}"
        case "waits":
            said = f"waits{run}"
        case "passed":
            said = f"not started: {note['why']}{run}"
        case _:
            return ""
    passed = f" ({counted(plan.passed, 'instant')} so far)" if plan.passed else ""
    return f"{instant(int(note['at']))}: {said}{passed}"
