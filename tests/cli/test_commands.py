"""The shape of the command line: every command helps itself, and what cannot be read is a usage error."""

import pytest

from fencepost.cli import demonstrating, main
from fencepost.cli.exits import Exit

NAMES = [command.__name__.replace("_", "-") for command in main.COMMANDS]


def test_the_commands_are_those_that_the_docs_name():
    assert sorted(NAMES) == sorted(
        [
            "start",
            "worker",
            "runs",
            "show",
            "trace",
            "metrics",
            "health",
            "signal",
            "approve",
            "callback",
            "cancel",
            "resume",
            "retry",
            "settle",
            "compensate",
            "forward",
            "redecide",
            "terminate",
            "purge",
            "reconcile",
            "reopen",
            "bulk",
            "bulks",
            "proposals",
            "confirm",
            "decline",
            "audit",
            "check",
            "migrate",
            "contain",
            "release",
            "contained",
            "queue",
            "schedule",
            "contract",
            "doctor",
            "alerts",
            "restored",
            "copy",
            "console",
            "token",
            "account",
            "demo",
        ]
    )


@pytest.mark.parametrize("name", NAMES)
def test_each_command_helps_itself(fencepost, name):
    ended = fencepost(name, "--help")
    assert ended.code == 0
    assert f"Usage: fencepost {name}" in ended.out


@pytest.mark.parametrize(
    "arguments", [("nonsense",), ("show",), ("runs", "--limit", "x"), ("runs", "--limit", "0"), ("show", "x", "--nope")]
)
def test_what_cannot_be_read_is_one_line_and_exit_two(fencepost, arguments):
    ended = fencepost(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("fencepost: usage: ")
    assert ended.err.count("\n") == 1


def test_without_a_command_the_help_is_printed_as_it_is_and_exit_two(fencepost):
    ended = fencepost()
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("Usage: fencepost [OPTIONS] COMMAND [ARGS]...\n\n")
    assert ended.err == fencepost("--help").out


def test_an_unexpected_error_is_one_line_without_a_traceback(fencepost, db, monkeypatch):
    def fail(*_, **__):
        raise ZeroDivisionError("by\nnought")

    monkeypatch.setattr("fencepost.cli.target.app_for", fail)
    ended = fencepost("show", "x", "--db", db)
    assert ended.code == 70
    assert ended.err.startswith("fencepost: unexpected error: ZeroDivisionError: by\\nnought (FENCEPOST_DEBUG=1")


def test_an_interrupt_is_quiet(fencepost, db, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("fencepost.cli.target.app_for", interrupt)
    ended = fencepost("runs", "--db", db)
    assert (ended.code, ended.err.strip()) == (130, "")


def test_the_demo_is_given_its_options_and_its_exit_code_is_ours(fencepost, monkeypatch, tmp_path):
    asked = {}

    def run_demo(**options):
        asked.update(options)
        return 3

    monkeypatch.setattr("fencepost.demo.main.run_demo", run_demo)
    ended = fencepost("demo", "--seed", "7", "--invoices", "50", "--folder", str(tmp_path))
    assert ended.code == Exit.FINDINGS
    assert asked == {"seed": 7, "invoices": 50, "folder": tmp_path}
    assert demonstrating.demo.__doc__
