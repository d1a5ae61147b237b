"""Starts runs and works on them: the commands `start` and `worker`.

A worker ends in order at the first Ctrl-C or SIGTERM: it begins nothing new, finishes what is in flight and gives
everything back. A second one ends it at once; what it was sending is then unknown, and asked about by whoever takes
over. The work itself is `runtime.worker`.
"""

from __future__ import annotations

import inspect
import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fencepost.cli import terminal
from fencepost.cli.exits import Exit, Usage
from fencepost.cli.logs import Log, log_to_stderr
from fencepost.cli.options import AppArgument, AsJson, Db, Namespace, NewId, json_value
from fencepost.console.printable import compact, counted, printable
from fencepost.store.postgres_url import without_password

if TYPE_CHECKING:
    from fencepost.runtime.app import App
    from fencepost.runtime.worker import Worker
    from fencepost.runtime.workflow import Workflow

LOG = logging.getLogger("fencepost.worker")

_STOP = (signal.SIGINT, signal.SIGTERM)

WorkflowName = Annotated[str, typer.Argument(metavar="WORKFLOW", help="Its name; name@2 for an older version.")]
Input = Annotated[
    str | None,
    typer.Option("--input", metavar="JSON|@FILE", help="The argument; if there are several, an object by their names."),
]
Principal = Annotated[str | None, typer.Option("--on-behalf-of", metavar="NAME", help="For whom the run acts.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait for its result; some worker must be running.")]
Within = Annotated[
    str | None, typer.Option("--within", metavar="DURATION", help="With --wait: how long at most, such as 20s or 5m.")
]
LogForm = Annotated[Log, typer.Option("--log", help="How its log is written, to standard error.")]
Port = Annotated[
    int | None,
    typer.Option("--telemetry", metavar="PORT", min=0, max=65_535, help="Serve /health and /metrics on loopback."),
]
RunsMax = Annotated[int, typer.Option("--runs-max", min=1, help="Runs that it works on at a time.")]


def start(
    app: AppArgument,
    workflow: WorkflowName,
    *,
    id: NewId,
    input: Input = None,
    on_behalf_of: Principal = None,
    wait: Wait = False,
    within: Within = None,
    db: Db = None,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> Exit:
    """Start a run, for a worker to live; the same id and input find it again.

    With --json: `run`, `workflow`, `workflow_version`, `state`, and with --wait `result`.
    """
    import asyncio

    from fencepost.cli.target import app_for

    if within is not None and not wait:
        raise Usage("--within says how long --wait waits", hint="add --wait, or leave --within out")
    _check_duration(within)
    found = app_for(app, db, namespace)
    declared = workflow_named(found, workflow)
    args, kwargs = arguments(declared, None if input is None else json_value(input, what="--input"))

    async def begin() -> Exit:
        async with found:
            handle = await found.start(declared, *args, id=id, on_behalf_of=on_behalf_of, **kwargs)
            if wait:
                try:
                    await handle.result(within=within)
                except TimeoutError:
                    terminal.remark(f"fencepost: not yet: run {printable(id)} is {await handle.state()}")
                    return Exit.NOT_YET
            run = (await found.show(id)).run
        said: dict[str, Any] = {
            "run": run.id,
            "workflow": run.workflow,
            "workflow_version": run.workflow_version,
            "state": run.state.value,
        }
        if wait:
            said["result"] = json_value(run.result or "null", what="the result")
        _tell(said, as_json=as_json)
        return Exit.DONE

    return asyncio.run(begin())


def _tell(said: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        terminal.document(said)
        return
    terminal.say(f"run {printable(said['run'])} is {said['state']}")
    if "result" in said:
        terminal.say(compact(said["result"], limit=None))


def workflow_named(app: App, name: str) -> Workflow[..., Any]:
    """The app's workflow of that name, the newest unless `name@version` says which.

    Raises:
        Usage: the app has none.
    """
    wanted, _, version = name.partition("@")
    of_name = {known[1]: declared for known, declared in app.workflows.items() if known[0] == wanted}
    newest = str(max(of_name, default=0))
    found = next((declared for number, declared in of_name.items() if str(number) == (version or newest)), None)
    if found is None:
        known = ", ".join(sorted(f"{one}@{number}" for one, number in app.workflows)) or "none"
        raise Usage(f"the app has no workflow {name!r}", hint=f"it has: {known}")
    return found


def arguments(declared: Workflow[..., Any], value: Any) -> tuple[list[Any], dict[str, Any]]:
    """What to call the workflow with: one parameter takes the value itself, several an object by parameter name.

    Parameters with defaults may be left out. Raises `Usage` for names that do not fit, `ValueRefused` for values.
    """
    from fencepost.console.inputs import called_with, missing_in

    names = [parameter.name for parameter in list(inspect.signature(declared.function).parameters.values())[1:]]
    given = _by_name(declared, names, value)
    missing = missing_in(declared, given)
    if missing:
        raise Usage(f"workflow {declared.name} needs {', '.join(missing)}", hint="give --input JSON")
    return called_with(declared, given)


def _check_duration(within: str | None) -> None:
    """Raise `Usage` for a time that cannot be read, before anything is started."""
    from fencepost.core.duration import microseconds
    from fencepost.core.errors import DeclarationError

    try:
        microseconds(within or "0s", what="--within")
    except DeclarationError as error:
        raise Usage(error.message, hint='write it as "20s", "15m" or "24h"') from error


def _by_name(declared: Workflow[..., Any], names: list[str], value: Any) -> dict[str, Any]:
    if value is None and len(names) != 1:
        return {}
    if len(names) == 1:
        return {names[0]: value}
    if not isinstance(value, dict):
        raise Usage(
            f"workflow {declared.name} takes {', '.join(names) or 'no input'}",
            hint="give --input as a JSON object by parameter name" if names else "leave --input out",
        )
    unknown = sorted(set(value) - set(names))
    if unknown:
        raise Usage(f"workflow {declared.name} takes no {', '.join(unknown)}", hint=f"it takes: {', '.join(names)}")
    return value


# -- worker -----------------------------------------------------------------------------------------------------------


def worker(
    app: AppArgument, *, runs_max: RunsMax = 1_000, log: LogForm = Log.TEXT, telemetry: Port = None, db: Db = None,
    namespace: Namespace = None,
) -> Exit:  # fmt: skip
    """Work on the runs of an app's workflows.

    Ctrl-C or SIGTERM drains: nothing new begins, what is in flight ends, the rest is given back. A second one ends at
    once.

    --log json writes each line of the log as a JSON object with the run and the operation that it concerns. --telemetry
    answers on 127.0.0.1, from a thread of its own: /health says 503 once the working loop is stuck.
    """
    import asyncio

    from fencepost.cli.target import app_for

    found = app_for(app, db, namespace)
    log_to_stderr(log)
    asyncio.run(_work(found, runs_max, telemetry))
    return Exit.DONE


async def _work(app: App, runs_max: int, port: int | None) -> None:
    from fencepost.runtime.collector import quiet_collector
    from fencepost.runtime.worker import Worker

    quiet_collector()
    async with app:
        lease = app.host.lease
        working = Worker(app.host, lease_length=lease.length, margin=lease.margin, runs_max=runs_max)
        _drain_on_signal(working)
        known = ", ".join(f"{name} {version}" for name, version in sorted(app.workflows))
        LOG.info("worker %s on %s: %s (Ctrl-C drains)", os.getpid(), without_password(app.url), known)
        with _serving(app, port):
            await working.work()
        LOG.info("worker %s has drained; it claimed a run %s", os.getpid(), counted(working.claimed, "time"))
    if working.abandoned:
        # Python would wait for them for ever. What they sent is unknown in the ledger, and asked about.
        LOG.warning("ended without %s whose body no cancel ends", counted(len(working.abandoned), "run"))
        os._exit(Exit.DONE)


def _drain_on_signal(working: Worker) -> None:
    import asyncio

    loop = asyncio.get_running_loop()
    asked: list[int] = []

    def stop() -> None:
        asked.append(1)
        if len(asked) > 1:
            _end_at_once()
        LOG.info("finishing what is in flight; again to end at once")
        working.stop()

    for number in _STOP:
        loop.add_signal_handler(number, stop)


def _end_at_once() -> None:
    """End without giving anything back, as a crash would: the ledger holds every intent, and the lease runs out."""
    LOG.info("ended at once; what was in flight is taken over when the lease has run out")
    os._exit(Exit.INTERRUPTED)


@contextmanager
def _serving(app: App, port: int | None) -> Iterator[None]:
    from fencepost.telemetry.endpoint import LOOPBACK, serving

    if port is None:
        yield
        return
    with serving(app, port) as served:
        LOG.info("health and metrics are at http://%s:%s", LOOPBACK, served)
        yield
