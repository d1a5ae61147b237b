"""A guard refuses late sends, its watcher resets the connection, and behind both the kernel ends the process."""

import contextlib
import signal
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.core.errors import DeadlinePassed
from fencepost.effects import deadline
from fencepost.effects.deadline import LEAD, Guard, Watcher, boot_now, deadline_assumption
from fencepost.effects.kernel import KernelTimer, preset_reset, reset, unsent
from tests.effects.peer import peer, read_to_the_end
from tests.polling import until

ENFORCED = pytest.mark.skipif(deadline_assumption() is not None, reason=f"{deadline_assumption()}")
LONG = 10_000_000
SHORT = 200_000
ROOT = Path(__file__).parents[2]


def own_timers() -> int:
    return Path("/proc/self/timers").read_text().count("ClockID:")


def run(script: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a process of its own, which a kernel timer may end without ending the tests."""
    command = [sys.executable, "-c", textwrap.dedent(script)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


@contextlib.contextmanager
def connected() -> Iterator[tuple[socket.socket, socket.socket]]:
    with peer() as target, socket.socket() as mine:
        preset_reset(mine)
        host, _, port = target.url[7:].partition("/")[0].partition(":")
        mine.connect((host, int(port)))
        yield mine, target.accept()


@contextlib.contextmanager
def opened(sock: socket.socket, microseconds: int = LONG) -> Iterator[Guard]:
    """A guard that is closed however the test ends: a timer that is left behind would end all tests."""
    guard = Guard(boot_now() + microseconds)
    guard.open(sock)
    try:
        yield guard
    finally:
        guard.close()


# -- the clock and what is assumed -----------------------------------------------------------------------------------


def test_the_boot_clock_is_in_microseconds_and_never_goes_back() -> None:
    seen = [boot_now() for _ in range(1_000)]
    assert seen == sorted(seen)
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    assert abs(boot_now() / 1_000_000 - uptime) < 1


@ENFORCED
def test_each_missing_line_of_defence_is_named_as_an_assumption(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadline, "BOOTTIME", False)
    assert "sleep" in (deadline_assumption() or "")
    monkeypatch.setattr(deadline, "CAN_RESET", False)
    monkeypatch.setattr(KernelTimer, "available", staticmethod(lambda: False))
    assumed = deadline_assumption() or ""
    assert assumed.count(";") == 2
    assert "stopped" in assumed


# -- the guard -------------------------------------------------------------------------------------------------------


def test_our_own_side_stops_before_the_deadline_by_at_most_a_quarter_of_what_is_left() -> None:
    now = boot_now()
    assert Guard(now + LONG).cut == now + LONG - LEAD
    assert 0 < now + 100_000 - Guard(now + 100_000).cut <= 25_000
    assert Guard(now - 5).cut == now - 5


def test_a_guard_that_is_opened_too_late_refuses_and_leaves_nothing_armed() -> None:
    guard = Guard(boot_now() - 1)
    with pytest.raises(DeadlinePassed, match="too near"):
        guard.open()
    assert not guard.opened
    assert own_timers() == 0


@ENFORCED
def test_an_open_guard_has_one_kernel_timer_and_a_closed_one_has_none() -> None:
    with connected() as (mine, _):
        with opened(mine) as guard:
            assert own_timers() == 1
            assert guard.close()
        assert own_timers() == 0


@ENFORCED
def test_the_timer_goes_as_soon_as_the_peers_kernel_has_every_byte() -> None:
    with connected() as (mine, _), opened(mine) as guard:
        mine.sendall(b"all of it")
        guard.sent()
        until(lambda: own_timers() == 0, "the watcher to see the queue empty")


@ENFORCED
def test_an_empty_queue_between_two_writes_does_not_disarm() -> None:
    with connected() as (mine, _), opened(mine) as guard:
        mine.sendall(b"the first half")
        until(lambda: unsent(mine) == 0, "the peer's kernel to have it")
        guard.look(boot_now())
        assert own_timers() == 1


@ENFORCED
def test_when_more_follows_after_all_the_timer_comes_back() -> None:
    with connected() as (mine, _), opened(mine) as guard:
        guard.sent()
        assert own_timers() == 0
        guard.goes_on()
        assert own_timers() == 1


def test_the_watcher_resets_the_connection_and_wakes_its_reader() -> None:
    with connected() as (mine, other), opened(mine, SHORT) as guard:
        mine.settimeout(20)
        with pytest.raises(OSError, match=r"reset|pipe"):
            mine.recv(1)
        assert boot_now() < guard.deadline
        assert guard.fired
        assert read_to_the_end(other) == (b"", "reset")
        with pytest.raises(DeadlinePassed):
            guard.check()
        assert own_timers() == 0


def test_closing_a_guard_discards_what_still_waits_in_the_kernel() -> None:
    with connected() as (mine, other):
        with opened(mine) as guard:
            mine.sendall(b"x" * 60_000 + b"LAST")
            assert not guard.close()
        arrived, end = read_to_the_end(other)
    assert end == "reset"
    assert b"LAST" not in arrived


def test_a_reset_ends_a_connection_of_which_somebody_else_has_a_copy() -> None:
    with connected() as (mine, other), mine.dup():
        reset(mine)
        assert read_to_the_end(other) == (b"", "reset")
        reset(mine)


def test_many_guards_of_many_threads_keep_one_watcher() -> None:
    def open_and_close() -> None:
        with connected() as (mine, _):
            for _ in range(50):
                with opened(mine):
                    pass

    threads = [threading.Thread(target=open_and_close) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(thread.name == "fencepost-deadlines" for thread in threading.enumerate()) == 1
    assert own_timers() == 0


def test_closed_guards_are_dropped_from_the_watchers_queue() -> None:
    watcher = Watcher()
    for _ in range(500):
        watcher.watch(Guard(boot_now() + LONG), boot_now() + 1_000)
    until(lambda: len(watcher) == 0, "the watcher to drop them")


# -- the kernel ------------------------------------------------------------------------------------------------------


@ENFORCED
def test_the_kernel_ends_a_process_that_holds_the_interpreter_beyond_its_deadline() -> None:
    ended = run("""
        import re
        from fencepost.effects.deadline import Guard, boot_now
        Guard(boot_now() + 300_000).open()
        re.match("(a+)+$", "a" * 64 + "b")  # keeps the interpreter's lock for years
    """)
    assert ended.returncode == -signal.SIGKILL


@ENFORCED
def test_the_kernel_ends_a_process_that_is_stopped_beyond_its_deadline() -> None:
    ended = run("""
        import os, signal
        from fencepost.effects.deadline import Guard, boot_now
        Guard(boot_now() + 300_000).open()
        os.kill(os.getpid(), signal.SIGSTOP)
    """)
    assert ended.returncode == -signal.SIGKILL


@ENFORCED
def test_when_the_kernel_gives_no_timer_the_send_is_refused() -> None:
    ended = run("""
        import resource
        from fencepost.effects.deadline import Guard, boot_now
        from fencepost.effects.kernel import KernelTimer
        assert KernelTimer.available()
        resource.setrlimit(resource.RLIMIT_SIGPENDING, (0, 0))
        guard = Guard(boot_now() + 300_000)
        try:
            guard.open()
        except OSError as refused:
            print(refused, guard.opened)
    """)
    assert ended.stdout.startswith("[Errno 11] timer_create"), ended.stderr
    assert ended.stdout.rstrip().endswith("False")


@ENFORCED
def test_a_forked_child_has_no_timer_and_gets_a_watcher_of_its_own() -> None:
    ended = run("""
        import os, socket, sys
        from fencepost.effects.deadline import Guard, boot_now
        from tests.effects.test_deadline import connected, own_timers
        with connected() as (mine, _), connected() as (other, _):
            guard = Guard(boot_now() + 30_000_000)
            guard.open(mine)
            child = os.fork()
            if child == 0:
                of_parent = own_timers()
                own = Guard(boot_now() + 200_000)
                own.open(other)
                try:
                    other.recv(1)
                except OSError:
                    os._exit(10 + of_parent + own_timers())
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            mine.sendall(b"the parent's connection lives on")
            print(status, own_timers(), guard.fired)
            guard.close()
    """)
    assert ended.stdout.split() == ["10", "1", "False"], ended.stderr
