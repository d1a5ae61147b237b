"""A worker is stopped in the middle of a fenced write, another takes over, and the first wakes: one booking."""

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing, contextmanager

import pytest

from fencepost.core.states import Outcome, RunState
from tests.polling import until
from tests.processes.nursery import ROOT
from tests.targets.booker import RUN, make_app


@contextmanager
def booker(folder, waits=""):
    """A process, ended with SIGKILL unless it has ended."""
    with (
        (folder / f"stderr-{waits or 'heir'}").open("wb") as complaints,
        subprocess.Popen(
            [sys.executable, "-m", "tests.targets.booker", folder, waits], cwd=ROOT, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints,
        ) as process,
    ):  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


def stop(process, ledger):
    """Stop it with SIGSTOP, though not while it holds the ledger's write lock: nobody else could write then."""

    def stopped():
        os.kill(process.pid, signal.SIGSTOP)
        with closing(sqlite3.connect(ledger, timeout=0.3)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                os.kill(process.pid, signal.SIGCONT)
                return False
            connection.rollback()
        return True

    until(stopped, "the writer to be outside a transaction of the ledger")


def says(process):
    return process.stdout.readline().strip()


@pytest.fixture
def app(tmp_path):
    app = make_app(tmp_path)
    yield app
    app.sync.close()


def history(app):
    return app.store.load(app.store.find("default", RUN).no)


def bookings(folder):
    with closing(sqlite3.connect(folder / "books.db")) as connection:
        return [token for (token,) in connection.execute("SELECT token FROM entry")]


def until_state(app, state):
    until(lambda: history(app).run.state is state, f"the run to be {state}", seconds_max=60)


def test_a_writer_who_wakes_after_the_takeover_is_refused_at_the_target(app, tmp_path):
    with booker(tmp_path, "before the guard") as first, booker(tmp_path) as second:
        assert says(first) == "before the guard"
        stop(first, tmp_path / "ledger.db")

        # The lease runs out; the heir raises the token to 2, looks up, finds nothing and books at once with 3.
        assert [says(second), says(second)] == ["looks up", "has booked with 3"]
        until_state(app, RunState.SUCCEEDED)
        (tmp_path / "go").touch()
        os.kill(first.pid, signal.SIGCONT)

        assert says(first) == "is refused with 1"

    assert bookings(tmp_path) == [3]
    (operation,) = history(app).operations
    assert [attempt.outcome for attempt in operation.attempts] == [Outcome.NOT_APPLIED, Outcome.APPLIED]
    assert not operation.conflict


def test_while_a_writer_holds_the_guard_nothing_is_concluded_and_its_booking_is_taken_in(app, tmp_path):
    with booker(tmp_path, "behind the guard") as first, booker(tmp_path) as second:
        assert says(first) == "behind the guard"
        stop(first, tmp_path / "ledger.db")

        # The heir cannot raise the token, so it asks nothing and sends nothing; a person would be asked.
        until_state(app, RunState.HELD)
        assert bookings(tmp_path) == []
        (tmp_path / "go").touch()
        os.kill(first.pid, signal.SIGCONT)

        assert says(first) == "has booked with 1"
        until_state(app, RunState.SUCCEEDED)
        second.stdin.close()
        assert second.stdout.read() == ""

    assert bookings(tmp_path) == [1]
    (operation,) = history(app).operations
    assert [attempt.outcome for attempt in operation.attempts] == [Outcome.APPLIED]
    assert not operation.conflict
