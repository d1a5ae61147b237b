"""What a person does to a run: one tiny command for each verb, calling the runtime's function of the same name.

The guards, the audit and the refusals are theirs (`runtime.verbs`); a button elsewhere calls the same functions. Here
a command line becomes their arguments. Verbs that need an effect's code say so by asking for `--app`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fencepost.cli import terminal
from fencepost.cli.exits import Exit, Usage
from fencepost.cli.options import (
    AppOption,
    AsJson,
    By,
    Db,
    IfVersion,
    Item,
    Namespace,
    Reason,
    RunId,
    SignalId,
    Step,
    json_value,
    somebody,
)
from fencepost.console.printable import printable

if TYPE_CHECKING:
    from fencepost.core.records import Run
    from fencepost.store.api import Store

SignalName = Annotated[str, typer.Argument(metavar="NAME", help="The name that the run waits for.")]
SignalValue = Annotated[str, typer.Argument(metavar="[JSON]", help="Its value, or @file.")]
ToVersion = Annotated[int, typer.Option("--to", min=1, metavar="VERSION", help="The version to pin it to.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only replay its history against that version's code.")]
WhyIfAny = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; kept in the audit.")]
WhyIfNotDry = Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why; kept in the audit.")]
Happened = Annotated[
    bool | None, typer.Option("--happened/--did-not-happen", help="What became of the effect; one must be said.")
]
Conflict = Annotated[
    bool,
    typer.Option("--conflict", help="What contradicted itself was put right at the target: take the flag down."),
]
OneStep = Annotated[str | None, typer.Argument(metavar="[STEP]", help="Only this effect's step.")]
Decision = Annotated[
    str | None, typer.Argument(metavar="[STEP]", help="The model step, as `show` has it; if the run has several.")
]
DecideOver = Annotated[
    bool, typer.Option("--override", help="Although effects that came after the decision stand; they stay.")
]
ResultValue = Annotated[str | None, typer.Option("--result", metavar="JSON|@FILE", help="Its result, if it happened.")]
Reference = Annotated[str | None, typer.Option("--reference", metavar="ID", help="The remote id, if it happened.")]
Turn = Annotated[
    int | None,
    typer.Option("--turn", min=0, metavar="NUMBER", help="With --conflict: of a run that has continued, whose turn's."),
]
Override = Annotated[
    bool,
    typer.Option(
        "--override",
        help="Did not happen, although a request may still land: the guarantee of this effect is lost. "
        "Happened, although no reference is known: nothing can be found or compensated by it.",
    ),
]


def signal(
    run: RunId,
    name: SignalName,
    value: SignalValue = "null",
    *,
    id: SignalId = None,
    reason: WhyIfAny = "",
    by: By = None,
    app: AppOption = None,
    db: Db = None,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> Exit:
    """Send a signal to a run, by hand.

    It is kept until its wait comes, applied once, or refused with a reason; either way it leaves an audit row.

    With --json: `run`, `signal` (its id), `name`, `state`.
    """
    import asyncio

    from fencepost.cli.target import app_for, opened

    given, sender = json_value(value, what="the signal's value"), somebody(by)
    with opened(app_for(app, db, namespace, with_code=False)) as ledger:
        kept = asyncio.run(ledger.signal(run, name, given, id=id, by=sender, reason=reason))
    if as_json:
        terminal.document({"run": run, "signal": kept.id, "name": kept.name, "state": kept.state.value})
    else:
        terminal.say(f"signal {printable(kept.name)} ({printable(kept.id)}) is {kept.state} for run {printable(run)}")
    return Exit.DONE


def cancel(
    run: RunId, *, reason: Reason, by: By = None, if_version: IfVersion = None, app: AppOption = None, db: Db = None,
    namespace: Namespace = None, as_json: AsJson = False,
) -> Exit:  # fmt: skip
    """Stop what has not begun. What was sent is settled first; then the run is cancelled.

    Its attached children are cancelled with it; detached ones are named, and go on. `show` tells how far it has come.

    With --json: as for the other verbs, and `detached` (the ids of the children that go on).
    """
    from fencepost.cli.target import app_for

    found = app_for(app, db, namespace, with_code=False)
    arguments = {"by": somebody(by), "reason": reason, "version": if_version}
    return _act("cancel", found, run, arguments, as_json=as_json, also=_detached)


def terminate(
    run: RunId, *, reason: Reason, by: By = None, if_version: IfVersion = None, app: AppOption = None, db: Db = None,
    namespace: Namespace = None, as_json: AsJson = False,
) -> Exit:  # fmt: skip
    """End a run at once, whatever it is doing. Its effects stand."""
    return _plain("terminate", run, reason, by, if_version, where=(app, db, namespace), as_json=as_json)


def compensate(
    run: RunId, step: OneStep = None, *, reason: Reason, item: Item = None, by: By = None, if_version: IfVersion = None,
    app: AppOption = None, db: Db = None, namespace: Namespace = None, as_json: AsJson = False,
) -> Exit:  # fmt: skip
    """Have a worker compensate a run's effects, the last first; or that of one step, and nothing else.

    Those that failed before are tried again. With --app, whoever may start none of them is refused at once. One step is
    refused while what rests on it stands; what the run ends as says whether anything does then.
    """
    if step is None and item is not None:
        raise Usage("--item needs a STEP", hint="name the step, or leave --item out for the whole run")
    of_step = {} if step is None else {"step": step, "item": item}
    verb = "compensate" if step is None else "compensate step"
    where = (app, db, namespace)
    return _with_code_if_named(verb, run, reason, by, if_version, where=where, as_json=as_json, also=of_step)


def resume(
    run: RunId, *, reason: Reason, by: By = None, if_version: IfVersion = None, app: AppOption = None, db: Db = None,
    namespace: Namespace = None, as_json: AsJson = False,
) -> Exit:  # fmt: skip
    """Let a held or failed run go on. A failed one may need --app: its last step is asked again."""
    return _with_code_if_named("resume", run, reason, by, if_version, where=(app, db, namespace), as_json=as_json)


def reconcile(
    run: RunId, step: OneStep = None, *, reason: Reason, item: Item = None, by: By = None, if_version: IfVersion = None,
    app: AppOption = None, db: Db = None, namespace: Namespace = None, as_json: AsJson = False,
) -> Exit:  # fmt: skip
    """Have a run's unknown effects asked about now, or that of one step; a worker does it."""
    from fencepost.cli.target import app_for

    found = app_for(app, db, namespace, with_code=False)
    arguments = {"step": step, "item": item, "by": somebody(by), "reason": reason, "version": if_version}
    return _act("reconcile", found, run, arguments, as_json=as_json)


def reopen(
    run: RunId, *, reason: Reason, by: By = None, if_version: IfVersion = None, app: AppOption = None, db: Db = None,
    namespace: Namespace = None, as_json: AsJson = False,
) -> Exit:  # fmt: skip
    """Let a run that was terminated, was cancelled or has succeeded go on from where it ended.

    What it has answers for is not asked again. Refused while evidence contradicts itself.
    """
    return _plain("reopen", run, reason, by, if_version, where=(app, db, namespace), as_json=as_json)


def retry(
    run: RunId, step: Step, *, reason: Reason, item: Item = None, by: By = None, if_version: IfVersion = None,
    app: AppOption = None, db: Db = None, namespace: Namespace = None, as_json: AsJson = False,
) -> Exit:  # fmt: skip
    """Give an operation that failed for good a new budget. Needs --app."""
    found = _app_with_code("retry", app, db, namespace)
    arguments = {"step": step, "item": item, "by": somebody(by), "reason": reason, "version": if_version}
    return _act("retry", found, run, arguments, as_json=as_json)


def forward(
    run: RunId, step: Step, *, reason: Reason, item: Item = None, by: By = None, if_version: IfVersion = None,
    app: AppOption = None, db: Db = None, namespace: Namespace = None, as_json: AsJson = False,
) -> Exit:  # fmt: skip
    """Have a failed step's work done the other way that its effect declares. Needs --app.

    Its run goes on with that answer. Refused once the run has begun to go back.
    """
    found = _app_with_code("forward", app, db, namespace)
    arguments = {"step": step, "item": item, "by": somebody(by), "reason": reason, "version": if_version}
    return _act("forward", found, run, arguments, as_json=as_json)


def redecide(
    run: RunId, step: Decision = None, *, reason: Reason, override: DecideOver = False, by: By = None,
    if_version: IfVersion = None, app: AppOption = None, db: Db = None, namespace: Namespace = None,
    as_json: AsJson = False,
) -> Exit:  # fmt: skip
    """Have a decision of a run's model made anew, where the stored one was wrong.

    The old answers stay as they are, and effects are not sent again. Refused while effects that came after it stand.
    """
    from fencepost.cli.target import app_for

    found = app_for(app, db, namespace, with_code=False)
    arguments = {"step": step, "override": override, "by": somebody(by), "reason": reason, "version": if_version}
    return _act("redecide", found, run, arguments, as_json=as_json)


def migrate(
    run: RunId, *, to: ToVersion, dry_run: DryRun = False, reason: WhyIfNotDry = None, by: By = None,
    if_version: IfVersion = None, app: AppOption = None, db: Db = None, namespace: Namespace = None,
    as_json: AsJson = False,
) -> Exit:  # fmt: skip
    """Pin a run to another version of its workflow. Needs --app.

    Its history is replayed against that version's code first, and the first difference refuses it. With --dry-run that
    is all, and nothing is changed.

    With --dry-run and --json: `run`, `from`, `to`, `fits`, `difference` (or null), `refused` (why it would be all the
    same, or null), `delivered` (answers replayed) and `waits_for`. Exit 3 if it does not fit, or would be refused.
    """
    found = _app_with_code("migrate", app, db, namespace)
    if not dry_run:
        if not (reason or "").strip():
            raise Usage("migrate needs a reason", hint="give --reason TEXT, or --dry-run to see whether it fits")
        arguments = {"to": to, "by": somebody(by), "reason": reason, "version": if_version}
        return _act("migrate", found, run, arguments, as_json=as_json)
    return _rehearse(found, run, to, as_json=as_json)


def _rehearse(app: Any, run_id: str, to: int, *, as_json: bool) -> Exit:
    from fencepost.cli.target import opened, run_of
    from fencepost.console.documents import rehearsed_document
    from fencepost.runtime.migrating import rehearsed

    with opened(app):
        found = run_of(app, run_id)
        came = rehearsed(app, found, to=to)
    told = rehearsed_document(found, to, came)
    difference, refused = told["difference"], told["refused"]
    if as_json:
        terminal.document(told)
    elif difference is not None:
        terminal.say(f"run {printable(found.id)} does not fit version {to}: {printable(difference, limit=None)}")
    else:
        waits = ", ".join(map(printable, came.waits_for)) or "nothing"
        terminal.say(
            f"run {printable(found.id)} fits version {to}: {came.delivered} answers replayed, waits for {waits}"
        )
    if refused is not None and not as_json:
        terminal.say(f"it would be refused: {printable(refused, limit=None)}")
    return Exit.DONE if came.fits and refused is None else Exit.FINDINGS


def settle(
    run: RunId, step: Step, *, happened: Happened = None, conflict: Conflict = False, turn: Turn = None, reason: Reason,
    item: Item = None, result: ResultValue = None, reference: Reference = None, override: Override = False,
    by: By = None, if_version: IfVersion = None, app: AppOption = None, db: Db = None, namespace: Namespace = None,
    as_json: AsJson = False,
) -> Exit:  # fmt: skip
    """Say whether an unknown effect happened; or, with --conflict, what stands now that it was put right.

    The reason is kept as evidence, and the run goes on by itself. "Did not happen" is believed only when no request can
    still land. Needs --app.
    """
    import json

    from fencepost.core.recovery import BY_ONE_CLOCK

    if happened is None:
        raise Usage("say --happened or --did-not-happen", hint="look at the target first; neither is assumed")
    if not happened and (result is not None or reference is not None):
        raise Usage("--result and --reference belong to what happened", hint="leave them out, or say --happened")
    if turn is not None and not conflict:
        raise Usage("--turn goes with --conflict", hint="what an earlier turn has sent is known, or contradicts itself")
    text = None if result is None else json.dumps(json_value(result, what="--result"))
    found = _app_with_code("settle", app, db, namespace)
    arguments = {
        "step": step, "item": item, "happened": happened, "result": text, "reference": reference, "override": override,
        "by": somebody(by), "reason": reason, "version": if_version, "turn": turn,
    }  # fmt: skip
    code = _act("settle_conflict" if conflict else "settle", found, run, arguments, as_json=as_json)
    if happened and result is None and not conflict:
        terminal.remark(
            "no --result given: if the effect cannot load it by its reference, the run will be held again, "
            "result missing"
        )
    if not happened and not override:
        terminal.remark(f"{printable(step)} is taken not to have happened; {BY_ONE_CLOCK}")
    if override and not happened:
        terminal.remark(
            f"the guarantee of {printable(step)} is lost: a request that is still on its way may land after this"
        )
    return code


# -- shared -----------------------------------------------------------------------------------------------------------


def _plain(
    verb: str, run: str, reason: str, by: str | None, version: int | None, *,
    where: tuple[str | None, str | None, str | None], as_json: bool,
) -> Exit:  # fmt: skip
    """A verb that needs nobody's code."""
    from fencepost.cli.target import app_for

    found = app_for(*where, with_code=False)
    return _act(verb, found, run, {"by": somebody(by), "reason": reason, "version": version}, as_json=as_json)


def _with_code_if_named(
    verb: str, run: str, reason: str, by: str | None, version: int | None, *,
    where: tuple[str | None, str | None, str | None], as_json: bool, also: dict[str, Any] | None = None,
) -> Exit:  # fmt: skip
    """A verb that needs the code of some effects, and for most runs of none; `also` are its own arguments."""
    from fencepost.cli.target import app_for

    found = app_for(*where, with_code=where[0] is not None)
    arguments = {"by": somebody(by), "reason": reason, "version": version} | (also or {})
    return _act(verb, found, run, arguments, as_json=as_json)


def _app_with_code(verb: str, app: str | None, db: str | None, namespace: str | None) -> Any:
    from fencepost.cli.target import app_for

    if app is None:
        raise Usage(
            f"{verb} needs the code of the effect", hint="give --app MODULE:APP, or set FENCEPOST_APP; --db may stay"
        )
    return app_for(app, db, namespace)


def _detached(store: Store, run: Run) -> dict[str, Any]:
    """The children that a cancel of their parent leaves alone, and that have not ended."""
    children = [child for child in store.children(run.no) if child.parent_step is None and child.ended_at is None]
    return {"detached": [child.id for child in children]}


def _act(
    name: str, app: Any, run_id: str, arguments: dict[str, Any], *, as_json: bool,
    also: Callable[[Store, Run], dict[str, Any]] | None = None,
) -> Exit:  # fmt: skip
    """Call the verb and say what the run is now. With --json: `run`, `verb`, `before`, `state`, and versions.

    `arguments`: the verb's own, and `turn` where it is about another than the run's last. `also`: what else is to be
    said of the run, each a list of names.
    """
    from fencepost.cli.target import opened
    from fencepost.runtime.deeds import in_turn
    from fencepost.runtime.permits import run_for
    from fencepost.runtime.repertoire import ON_RUNS

    said, turn = name.replace("_", " "), arguments.pop("turn", None)
    with opened(app):
        before = run_for(app, run_id, said, by=arguments["by"], reason=arguments["reason"])
        if turn is not None:
            before = in_turn(app.store, before, turn)
        after = ON_RUNS[said](app, before, **arguments)
        beside = {} if also is None else also(app.store, after)
    if as_json:
        terminal.document(
            {
                "run": after.id,
                "verb": said,
                "before": before.state.value,
                "state": after.state.value,
                "generation": after.generation,
                "version": after.version,
                **beside,
            }
        )
    else:
        terminal.say(f"{said}: run {printable(after.id)} was {before.state}, is {after.state}")
        for what, names in beside.items():
            terminal.say(*(f"  {what}, goes on: {printable(one)}" for one in names))
    return Exit.DONE
