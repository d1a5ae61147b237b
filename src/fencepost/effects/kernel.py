"""What only the kernel can promise about a socket: end it by a reset, end the process at an instant, count what waits.

Each function is one system call, or its fallback where the platform lacks it; `KernelTimer.available()` and
`CAN_RESET` say which of the two this machine has. Tried on Linux x86-64; the structures are those of every 64-bit
Linux (aarch64 too), and glibc and musl agree on them.

Decides nothing about when: that is `deadline`.
"""

import array
import ctypes
import errno
import functools
import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable

try:
    import fcntl
    import termios
except ImportError:  # pragma: no cover - not a POSIX system
    fcntl = termios = None  # type: ignore[assignment]  # then LINUX_64 is false and nobody asks them

LINUX_64 = sys.platform == "linux" and sys.maxsize > 2**32
"""The system calls below are laid out for this platform only."""

CAN_RESET = LINUX_64
"""Whether `reset` discards what the kernel still holds at once, whoever else has a copy of the descriptor."""

SIGEV_SIGNAL = 0
TIMER_ABSTIME = 1
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_DRAIN_ON_CLOSE = struct.pack("ii", 0, 0)
_NO_ADDRESS = bytes(16)  # struct sockaddr with sa_family = AF_UNSPEC


class _Event(ctypes.Structure):
    """`struct sigevent`: 64 bytes, of which SIGEV_SIGNAL reads the first 16."""

    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signo", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("padding", ctypes.c_char * 48),
    )


class _Setting(ctypes.Structure):
    """`struct itimerspec`: interval, then value, each in seconds and nanoseconds."""

    _fields_ = (
        ("interval_s", ctypes.c_long),
        ("interval_ns", ctypes.c_long),
        ("value_s", ctypes.c_long),
        ("value_ns", ctypes.c_long),
    )


@functools.cache
def _libc() -> ctypes.PyDLL:
    # PyDLL keeps the interpreter lock: these calls return at once, and giving the lock away between "armed" and
    # "sent" would only widen the gap that the timer has to cover.
    return ctypes.PyDLL(None, use_errno=True)


@functools.cache
def _timer_calls() -> tuple[Callable[..., int], Callable[..., int], Callable[..., int]]:
    library = _libc()
    if not hasattr(library, "timer_create"):  # glibc before 2.34 keeps them in a library of its own
        library = ctypes.PyDLL("librt.so.1", use_errno=True)
    return library.timer_create, library.timer_settime, library.timer_delete


class KernelTimer:
    """A timer that ends this process with SIGKILL at `at` (boot-time clock, microseconds), unless deleted before.

    It needs no thread of ours to run, so it also ends a process that is stopped; its sockets preset by
    `preset_reset` are then reset by the kernel. A forked child does not inherit it.

    Raises OSError when the kernel refuses (usually RLIMIT_SIGPENDING); nothing is armed then.
    """

    __slots__ = ("_handle", "_pid")

    def __init__(self, at: int) -> None:
        assert LINUX_64, "ask KernelTimer.available() first"
        create, set_time, _ = _timer_calls()
        self._handle: ctypes.c_void_p | None = None
        self._pid = os.getpid()
        handle = ctypes.c_void_p()
        event = _Event(None, signal.SIGKILL, SIGEV_SIGNAL, b"")
        if create(time.CLOCK_BOOTTIME, ctypes.byref(event), ctypes.byref(handle)) != 0:
            raise _refusal("timer_create")
        self._handle = handle
        # A value of zero would disarm; an instant that has passed fires at once, which is what it says.
        seconds, micros = divmod(max(at, 1), 1_000_000)
        setting = _Setting(0, 0, seconds, micros * 1_000)
        if set_time(handle, TIMER_ABSTIME, ctypes.byref(setting), None) != 0:
            refusal = _refusal("timer_settime")
            self.delete()
            raise refusal

    def delete(self) -> None:
        """Disarm and free the timer; again, or in a forked child, this does nothing."""
        handle, self._handle = self._handle, None
        if handle is not None and self._pid == os.getpid():
            _timer_calls()[2](handle)

    @staticmethod
    @functools.cache
    def available() -> bool:
        """Whether this kernel arms such timers (asked once, by arming one an hour ahead and deleting it)."""
        if not LINUX_64 or not hasattr(time, "CLOCK_BOOTTIME"):
            return False
        try:
            hour_ahead = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000 + 3_600_000_000
            KernelTimer(hour_ahead).delete()
        except (OSError, AttributeError):
            return False
        return True


def preset_reset(sock: socket.socket) -> None:
    """Make every end of this socket a reset: close and the death of the process then send nothing that still waits."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)


def allow_draining(sock: socket.socket) -> None:
    """Let close end the connection politely; only for a socket of which `unsent` has just said 0."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _DRAIN_ON_CLOSE)


def unsent(sock: socket.socket) -> int | None:
    """Bytes that this kernel holds and the peer's kernel has not confirmed; None where it cannot be asked.

    0 means that every byte is at the peer, so that nothing of ours can be delivered any later.
    """
    if not LINUX_64:
        return None
    count = array.array("i", [0])
    try:
        fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, count)  # SIOCOUTQ has the same number
    except OSError:
        return None
    return count[0]


def reset(sock: socket.socket) -> None:
    """End the connection with a reset, discard what waits in the kernel and wake whoever polls the socket.

    The descriptor stays open, so another thread may call this without the danger that its number is reused under the
    owner's hands. Connecting to "no address" is Linux's way to do that (connect(2), AF_UNSPEC); it works although
    a forked child or a duplicate still holds the socket, when a close would do nothing. Elsewhere shutdown wakes the
    owner, whose close then resets (`preset_reset`).
    """
    try:
        if CAN_RESET and _libc().connect(sock.fileno(), _NO_ADDRESS, len(_NO_ADDRESS)) == 0:
            return
        sock.shutdown(socket.SHUT_RDWR)
    except OSError as error:
        if error.errno not in {errno.ENOTCONN, errno.EBADF, errno.EINVAL}:  # those say: it has ended already
            raise


def _refusal(call: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{call}: {os.strerror(number)}")
