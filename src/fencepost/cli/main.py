"""The command line's entry: names the commands, and turns whatever ends one into a line and an exit code.

What commands do is in the modules beside this one; errors are worded by `complaint`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from fencepost.cli import (
    accounting,
    acting,
    alerting,
    approving,
    auditing,
    bulks,
    checking,
    confirming,
    containing,
    contract,
    copying,
    demonstrating,
    doctor,
    exits,
    looking,
    many,
    purging,
    queueing,
    reporting,
    restoring,
    scheduling,
    serving,
    terminal,
    tokening,
    tracing,
    watching,
    working,
)
from fencepost.cli.exits import Exit

# `\b` keeps the lines of the paragraph that follows as they are.
_SEE_ABOVE = "Exit codes: see `fencepost --help`."
_EPILOG = "\b\nExit codes:\n" + exits.as_text()


def _print_version(asked: bool) -> None:  # noqa: FBT001 - typer passes an option's value by position
    if asked:
        from fencepost import __version__

        terminal.say(f"fencepost {__version__}")
        raise typer.Exit


Version = Annotated[bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version.")]


def _root(context: typer.Context, *, version: Version = False) -> None:
    """Durable execution that never guesses whether a side effect happened."""
    del version  # its callback has printed it
    if context.invoked_subcommand is None:
        terminal.remark(context.get_help())
        raise typer.Exit(Exit.USAGE)


COMMANDS: tuple[Callable[..., Exit], ...] = (
    working.start,
    working.worker,
    looking.runs,
    looking.show,
    tracing.trace,
    acting.signal,
    reporting.callback,
    approving.approve,
    acting.cancel,
    acting.resume,
    acting.reconcile,
    acting.retry,
    acting.settle,
    acting.compensate,
    acting.forward,
    acting.redecide,
    acting.terminate,
    acting.reopen,
    acting.migrate,
    many.bulk,
    bulks.bulks,
    confirming.proposals,
    confirming.confirm,
    confirming.decline,
    containing.contain,
    containing.release,
    containing.contained,
    queueing.queue,
    scheduling.schedule,
    contract.contract,
    doctor.doctor,
    alerting.alerts,
    watching.metrics,
    watching.health,
    auditing.audit,
    checking.check,
    restoring.restored,
    purging.purge,
    copying.copy,
    serving.console,
    tokening.token,
    accounting.account,
    demonstrating.demo,
)
"""The commands in the order of `--help`, under their functions' names, with hyphens; groups come last there."""

BELOW: dict[Callable[..., Exit], tuple[Callable[..., Exit], ...]] = {
    auditing.audit: (auditing.verify, auditing.anchor),
    queueing.queue: (queueing.pause, queueing.resume),
    scheduling.schedule: (scheduling.pause, scheduling.resume, scheduling.fire, scheduling.remove),
    bulks.bulks: (bulks.show, bulks.pause, bulks.resume),
    tokening.token: (tokening.make, tokening.revoke),
    accounting.account: (accounting.invite, accounting.close),
}
"""The commands that stand below another one."""


def commands() -> typer.Typer:
    """The command line as typer knows it."""
    found = typer.Typer(
        name="fencepost",
        epilog=_EPILOG,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
    )
    found.callback(invoke_without_command=True, subcommand_metavar="COMMAND [ARGS]...")(_root)
    for command in COMMANDS:
        if command in BELOW:
            _add_group(found, command)
        else:
            found.command(epilog=_SEE_ABOVE)(command)
    return found


def _add_group(found: typer.Typer, command: Callable[..., Exit]) -> None:
    """A command that does something by itself and has others below it."""
    group = typer.Typer(name=command.__name__, epilog=_SEE_ABOVE, rich_markup_mode=None)
    group.callback(invoke_without_command=True, subcommand_metavar="[COMMAND] [ARGS]...")(command)
    for below in BELOW[command]:
        group.command(epilog=_SEE_ABOVE)(below)
    found.add_typer(group)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; `arguments` are those of the process if not given. Returns its exit code."""
    for stream in (sys.stdout, sys.stderr):
        _write_whatever_the_locale(stream)
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except (terminal.ReaderGone, BrokenPipeError):
        terminal.leave_quietly()
        return Exit.READER_GONE
    return code


def _run(arguments: Sequence[str] | None) -> int:
    from fencepost.cli.complaint import complain, complain_of_usage

    command = typer.main.get_command(commands())
    try:
        return int(command.main(args=arguments, prog_name="fencepost", standalone_mode=False) or 0)
    except typer.TyperException as error:
        return complain_of_usage(error.format_message())
    except (typer.Abort, KeyboardInterrupt):
        return Exit.INTERRUPTED
    except (terminal.ReaderGone, BrokenPipeError):
        raise
    except Exception as error:  # noqa: BLE001 - the last place that can still say it in one line
        return complain(error)


def _write_whatever_the_locale(stream: Any) -> None:
    """A character that the terminal's encoding lacks is written as an escape, never an error."""
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="backslashreplace")
