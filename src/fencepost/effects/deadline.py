"""Nothing is sent after its deadline: a `Guard` per send refuses, then resets, and at last ends the process.

Three lines of defence on the boot-time clock, which goes on while a machine sleeps (the protocol's part B):

1. `Guard.check`, right before each write, refuses when the deadline is near: what was paused between permission and
   send does not send.
2. The `Watcher`, one thread per process, resets the connection shortly before the deadline, so that what still waits
   in the kernel is discarded; then it disarms the third line.
3. A kernel timer, armed before the last check, ends the process with SIGKILL at the deadline itself. It fires only if
   no thread of the process could run, so a stopped process dies, and its sockets are reset by the kernel. It is
   deleted as soon as the peer's kernel has every byte.

A paused virtual machine stops even this clock; the limits page says so. Where the platform lacks the second or third
line, `deadline_assumption` says what has to be assumed instead.
Chooses no deadline and knows no request: `stream` opens the guards, the engine fixes the deadline before it asks
for permission. The system calls are in `kernel`.
"""

import heapq
import itertools
import os
import socket
import threading
import time
from typing import Final

from fencepost.core.errors import DeadlinePassed
from fencepost.effects.kernel import CAN_RESET, KernelTimer, reset, unsent

BOOTTIME: Final = hasattr(time, "CLOCK_BOOTTIME")
"""Whether this platform's clock goes on while the machine sleeps; else CLOCK_MONOTONIC stands in."""

LEAD: Final = 200_000
"""Microseconds before the deadline at which our own threads stop sending: their time to win against the timer.

Long enough for the watcher to get the interpreter's lock from several busy threads, since to lose costs the process.
"""

FIRST_LOOK: Final = 50_000
"""Microseconds until the watcher looks whether the peer confirmed all bytes: longer than a delayed confirmation."""

_CLOCK: Final = time.CLOCK_BOOTTIME if BOOTTIME else time.CLOCK_MONOTONIC


def boot_now() -> int:
    """Microseconds since this machine booted, sleep included (without sleep where `BOOTTIME` is false)."""
    return time.clock_gettime_ns(_CLOCK) // 1_000


def deadline_assumption() -> str | None:
    """What must be assumed because this platform cannot enforce it; None where all of it is enforced.

    The guarantee's page prints it beside the rung.
    """
    missing = []
    if not BOOTTIME:
        missing.append("the machine does not sleep during a send")
    if not CAN_RESET:
        missing.append("the kernel drops what it holds when a socket with SO_LINGER(1, 0) is closed")
    if not KernelTimer.available():
        missing.append("a process is not stopped between the check of its deadline and the end of its send")
    return "assumed: " + "; ".join(missing) if missing else None


class Guard:
    """Keeps one send before `deadline` (boot-time clock, microseconds). Open it, check before each write, close it.

    `cut` is the instant at which our own side stops: `LEAD` before the deadline, or a quarter of the time left if
    that is less. `fired` tells whether the watcher had to reset the connection. `armed` tells whether a kernel timer
    stood behind this send.
    """

    __slots__ = ("_complete", "_lock", "_look_again", "_sock", "_timer", "armed", "cut", "deadline", "fired", "opened")

    def __init__(self, deadline: int) -> None:
        self.deadline = deadline
        self.cut = deadline - min(LEAD, max(0, deadline - boot_now()) // 4)
        self.fired = False
        self.armed = False
        self.opened = False
        self._complete = False
        self._look_again = FIRST_LOOK
        self._sock: socket.socket | None = None
        self._timer: KernelTimer | None = None
        # Orders the watcher's reset before the owner's close of the same descriptor. Nothing else is held inside it.
        self._lock = threading.Lock()

    def open(self, sock: socket.socket | None = None) -> None:
        """Arm the kernel timer, hand `sock` to the watcher, then check.

        Without a socket only the timer and the check apply: that covers the gap before another client's own send.
        After this returned, `close` must be called, and before `sock` is closed. A guard may be opened again.

        Raises:
            DeadlinePassed: it is too late; the guard is closed and nothing may be sent.
            OSError: the kernel gave no timer; the guard is closed and nothing may be sent.
        """
        assert not self.opened, "one guard, one send"
        self._sock = sock
        self._complete = False
        self.opened = True  # before the timer, so that an interrupt here cannot leave one that nobody deletes
        try:
            self._arm()
            if sock is not None:
                _watcher.watch(self, min(boot_now() + self._look_again, self.cut))
            self.check()
        except BaseException:
            self.close()
            raise

    def goes_on(self) -> None:
        """Say that more follows after `sent` was called; raises as `open` does."""
        with self._lock:
            self._complete = False
            if self._timer is None:
                self._arm()
        self.check()

    def _arm(self) -> None:
        self.check()  # a deadline that has passed must not arm a timer that would fire at once
        self._timer = KernelTimer(self.deadline) if KernelTimer.available() else None
        self.armed = self._timer is not None

    def check(self) -> None:
        """Raise DeadlinePassed if no more bytes may be handed to the kernel."""
        now = boot_now()
        if self.fired or now >= self.cut:
            raise DeadlinePassed(
                f"the send deadline is over or too near ({self.deadline - now} µs left)",
                hint="nothing more is sent for this attempt; the next one gets a deadline of its own",
            )

    def sent(self) -> None:
        """Say that every byte was handed to the kernel: the timer goes as soon as the peer's kernel has them all."""
        with self._lock:
            self._complete = True
            self._disarm_if_drained()

    def close(self) -> bool:
        """Stop guarding; whatever still waits in the kernel is discarded first, by a reset of the connection.

        Returns False if that was necessary: the connection is then of no further use. Closing again does nothing.
        """
        with self._lock:
            sock, self._sock = self._sock, None
            self.opened = False
            drained = sock is None or self.fired or not unsent(sock)
            if sock is not None and not drained:
                reset(sock)  # before the timer goes: a stop between the two must not let bytes out
            if self._timer is not None:
                self._timer.delete()
                self._timer = None
            return drained

    def look(self, now: int) -> int | None:
        """Do what is due at `now` (the watcher calls this); returns when to look again, None for never."""
        with self._lock:
            if not self.opened or self._sock is None:
                return None
            if now < self.cut:
                self._disarm_if_drained()
                self._look_again *= 2
                return min(now + self._look_again, self.cut)
            self.fired = True
            try:
                reset(self._sock)
            except OSError:
                return None  # the kernel timer stays armed: it is what stands behind this line
            if self._timer is not None:
                self._timer.delete()
                self._timer = None
            return None

    def _disarm_if_drained(self) -> None:
        # Only after the last byte: an empty queue between two writes says nothing about the second.
        sock, timer = self._sock, self._timer
        if self._complete and timer is not None and sock is not None and unsent(sock) == 0:
            self._timer = None
            timer.delete()


class Watcher:
    """The one thread of a process that looks after open guards; started by the first, a daemon, new after a fork.

    Waits without the lock order mattering: it holds its own lock only to pick a guard, never while it acts on one.
    """

    def __init__(self) -> None:
        self._follows_forks = False
        self._begin()

    def _begin(self) -> None:
        # Also called in a forked child, which has neither the parent's thread nor its timers, only its sockets; those
        # are the parent's to guard. The parent's lock may have been held at the fork, so the child gets a new one.
        self._changed = threading.Condition(threading.Lock())
        self._serial = itertools.count()
        self._queue: list[tuple[int, int, Guard]] = []
        self._thread: threading.Thread | None = None

    def watch(self, guard: Guard, at: int) -> None:
        """Call `guard.look` at `at` (boot-time clock, microseconds), unless it is closed by then."""
        with self._changed:
            heapq.heappush(self._queue, (at, next(self._serial), guard))
            if self._thread is None:
                self._start()
            elif self._queue[0][2] is guard:
                self._changed.notify()

    def _start(self) -> None:
        if not self._follows_forks and hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._begin)
            self._follows_forks = True
        self._thread = threading.Thread(target=self._run, name="fencepost-deadlines", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            guard = self._next_due()
            again = guard.look(boot_now())
            if again is not None:
                self.watch(guard, again)

    def _next_due(self) -> Guard:
        with self._changed:
            while True:
                # Most sends are over long before their first look; dropping those in passing keeps the thread asleep.
                while self._queue and not self._queue[0][2].opened:
                    heapq.heappop(self._queue)
                wait = self._queue[0][0] - boot_now() if self._queue else None
                if wait is not None and wait <= 0:
                    return heapq.heappop(self._queue)[2]
                self._changed.wait(None if wait is None else wait / 1_000_000)

    def __len__(self) -> int:
        """How many guards are queued, closed ones that were not dropped yet included."""
        return len(self._queue)


_watcher: Final = Watcher()
