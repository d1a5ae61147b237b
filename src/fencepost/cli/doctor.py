"""Looks at a ledger and its surroundings and says what is wrong before it hurts: the command `doctor`.

Each check is one small function that answers ok, warning or problem with what to do. It changes nothing, sends nothing
and asks no model. A ledger that cannot be opened is itself a finding; mending is the operator's part.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Generator, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fencepost.cli import terminal
from fencepost.cli.exits import Exit
from fencepost.cli.options import AsJson, Db, Namespace
from fencepost.console.printable import counted, instant, printable
from fencepost.core.alerts import ALERTS
from fencepost.core.duration import SECOND, spelled
from fencepost.core.errors import FencepostError

if TYPE_CHECKING:
    from fencepost.runtime.app import App
    from fencepost.store.api import Store

FREE_BYTES_MIN = 256 * 1024 * 1024
"""Less free space than this is a warning."""

ALERTED = [name for name in ALERTS if name != "clock"]
"""The alerts that are checked as such; the clock is said in the words of whoever has to set it."""

OK, WARNING, PROBLEM = "ok", "warning", "problem"

Target = Annotated[
    str | None,
    typer.Argument(metavar="[MODULE:APP]", envvar="FENCEPOST_APP", help="The app: module:name, or file.py:name."),
]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at: `verdict` is ok, warning or problem; `hint` says what to do about it."""

    name: str
    verdict: str
    says: str
    hint: str = ""


def doctor(app: Target = None, *, db: Db = None, namespace: Namespace = None, as_json: AsJson = False) -> Exit:
    """Check a ledger and what surrounds it.

    Looks at the file or server, platform, who may do what, clock, leases, every alert, contracts, layers that retry,
    and the model.

    Exit 3 if there is a problem; a warning alone is no reason.
    With --json: `checks` (`name`, `verdict`, `says`, `hint`) and `problems` (how many).
    """
    from fencepost.cli.target import app_for

    found = list(checks(app_for(app, db, namespace), has_code=app is not None))
    problems = sum(check.verdict == PROBLEM for check in found)
    if as_json:
        terminal.document({"checks": [asdict(check) for check in found], "problems": problems})
    else:
        rows = [(check.verdict, check.name, check.says, check.hint) for check in found]
        terminal.table(("", "check", "found", "what to do"), rows)
    return Exit.FINDINGS if problems else Exit.DONE


def checks(app: App, *, has_code: bool) -> Iterator[Check]:
    """Every check, in order; those that need an open ledger are left out when it cannot be opened."""
    from fencepost.store.open import open_store

    yield _deadline()
    if has_code:
        yield from _contracts(app)
        yield from _layers(app)
        yield _model(app)
    try:
        version = yield from _place(app.url)
        if version is None:
            return
        store = open_store(app.url)
    except FencepostError as error:
        yield Check("ledger", PROBLEM, error.message, error.hint)
        return
    try:
        yield from _settings(app.url)
        yield from _rows(store, app.namespace)
    except FencepostError as error:
        yield Check("ledger", PROBLEM, error.message, error.hint)
    finally:
        store.close()


def _place(url: str) -> Generator[Check, None, int | None]:
    """What can be said before the ledger is opened; returns the number of its schema, None where there is none."""
    from fencepost.store.open import name_of, path_of, schema_at
    from fencepost.store.postgres_url import is_postgres

    if not is_postgres(url) and (path := Path(path_of(url))).exists():
        yield _permissions(path)
        yield _space(path)
    version = schema_at(url)
    if version:
        yield _schema(version)
        return version
    said = f"there is no ledger at {name_of(url)}" if version is None else f"{name_of(url)} is empty, and no ledger"
    yield Check("ledger", WARNING, said, "the first start or worker makes it one")
    return None


def _settings(url: str) -> Iterator[Check]:
    from fencepost.store.postgres_url import is_postgres

    if is_postgres(url):
        from fencepost.cli.doctor_server import settings

        yield from settings(url)
    else:
        yield Check("durability", OK, "journal_mode=wal and synchronous=FULL were set and read back")


# -- without a ledger -------------------------------------------------------------------------------------------------


def _deadline() -> Check:
    from fencepost.effects.deadline import deadline_assumption

    assumed = deadline_assumption()
    if assumed is None:
        return Check("deadline", OK, "this kernel ends a process at its send deadline, even one that is stopped")
    return Check("deadline", WARNING, assumed, "contracts list it; Linux enforces it")


def _contracts(app: App) -> Iterator[Check]:
    found = app.blanks()
    for blank in found:
        yield Check("contract", PROBLEM, f"{blank.effect}: {blank.kind}", blank.mend)
    if not found:
        yield Check("contract", OK, f"{counted(len(app.workflows), 'workflow')} without a blank")


def _layers(app: App) -> Iterator[Check]:
    found = app.stacks()
    for stack in found:
        verdict = PROBLEM if app.strict and stack.repeats else WARNING
        yield Check("retries", verdict, f"{stack.step}: {stack}", stack.off)
    if not found:
        yield Check("retries", OK, "no second layer, as far as can be seen")


def _model(app: App) -> Check:
    from fencepost.effects.model import ModelStep, configured

    asks = any(isinstance(step, ModelStep) for declared in app.workflows.values() for step in declared.steps)
    source = configured(app.outside.model, os.environ)
    if source is not None:
        return Check("model", OK, f"{source.provenance}; not asked now")
    if not asks:
        return Check("model", OK, "none configured, and no workflow asks one")
    return Check(
        "model", PROBLEM, "a workflow asks a model, and none is configured",
        "set FENCEPOST_MODEL_URL and FENCEPOST_MODEL, or pass App(model=...)",
    )  # fmt: skip


# -- the file ---------------------------------------------------------------------------------------------------------


def _permissions(path: Path) -> Check:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        return Check("permissions", PROBLEM, f"{path} cannot be looked at: {error.strerror}", "check its folder")
    usable = os.access(path, os.R_OK | os.W_OK) and os.access(path.absolute().parent, os.W_OK | os.X_OK)
    if not usable:
        return Check("permissions", PROBLEM, f"{mode:04o}", "this user must be able to write the file and its folder")
    if mode & stat.S_IWOTH:
        return Check("permissions", WARNING, f"{mode:04o}: everybody may change the ledger", f"chmod o-w {path}")
    return Check("permissions", OK, f"{mode:04o}, readable and writable")


def _space(path: Path) -> Check:
    try:
        free = shutil.disk_usage(path.absolute().parent).free
    except OSError as error:
        return Check("space", PROBLEM, f"the file system cannot be asked: {error.strerror}", "check the disk")
    megabytes = f"{free // 1_000_000} MB free"
    if free < FREE_BYTES_MIN:
        return Check("space", WARNING, megabytes, "a full disk stops every worker; nothing is lost then")
    return Check("space", OK, megabytes)


def _schema(version: int) -> Check:
    from fencepost.store import queries

    newest = len(queries.migrations("sqlite"))
    if version < newest:
        return Check("schema", OK, f"number {version}; opening it now brings it to {newest}")
    return Check("schema", OK, f"number {version}, the newest that this version knows")


# -- the rows ---------------------------------------------------------------------------------------------------------


def _rows(store: Store, namespace: str) -> Iterator[Check]:
    yield _permissions_of(store, namespace)
    yield _clock(store)
    yield _leases(store)
    yield from _alerts(store, namespace)


def _permissions_of(store: Store, namespace: str) -> Check:
    """Who may do what here; without a word of the code, everybody everything."""
    from fencepost.cli.options import login
    from fencepost.core.permissions import Permissions

    text, name = store.policy(namespace), printable(login())
    if text is None:
        return Check(
            "roles", OK, f"none declared: whoever can write to this ledger has every role; you are {name}",
            "App(permissions=...), once several people work here",
        )  # fmt: skip
    policy = Permissions.from_text(text)
    roles = ", ".join(sorted(policy.of(login()))) or "no role"
    two = f"; two for {', '.join(sorted(policy.two_persons))}" if policy.two_persons else ""
    return Check("roles", OK, f"declared for {len(policy.roles)}{two}; you are {name}: {roles}")


def _clock(store: Store) -> Check:
    now, latest = store.now(), store.latest()
    if latest > now + SECOND:
        behind = spelled((latest - now) // SECOND * SECOND)
        return Check(
            "clock", PROBLEM, f"this clock is {behind} behind a time that the ledger holds ({instant(latest)})",
            "set the clock right; leases and waits are late until then, windows are kept",
        )  # fmt: skip
    return Check("clock", OK, f"{instant(now)}, not behind the ledger")


def _leases(store: Store) -> Check:
    found, now = store.leases(), store.now()
    overdue = [lease for lease in found if lease.state == "live" and lease.expires_at < now]
    live = [lease for lease in found if lease.state == "live" and lease.expires_at >= now]
    over = len(found) - len(live) - len(overdue)
    said = f"{len(live)} live, {len(overdue)} overdue, {over} over that still own runs"
    if overdue or over:
        pids = ", ".join(f"pid {lease.pid} on {printable(lease.host)}" for lease in (*overdue, *found)[:5])
        return Check("leases", WARNING, f"{said}: {pids}", "any worker of the same app takes their runs over")
    return Check("leases", OK, said if live else "no worker is running")


def _alerts(store: Store, namespace: str) -> Iterator[Check]:
    """What somebody would be called for: a page is a problem, a ticket a warning."""
    from fencepost.core.alerts import Severity
    from fencepost.runtime.alerting import readings

    for one in readings(store, namespace, names=ALERTED):
        verdict = PROBLEM if one.alert.severity is Severity.PAGE else WARNING
        said = ": ".join(filter(None, (one.shown, printable(one.says)))) if one.value else "none"
        hint = f"{one.alert.look_at} Then: fencepost {one.alert.verbs[0][0]}"
        yield Check(one.name, verdict, said, hint) if one.fires else Check(one.name, OK, said)
