"""Ties a child process to the life of its parent, so that nothing outlives a demo that was itself killed.

A program that knows nothing of it is started through it: `python -m fencepost.demo.leash PARENT -m MODULE …`. Only the
kernel can end a process that is stopped, which a paused worker is. What a demo that ends in order does with its
children is in `crew`.
"""

import ctypes
import os
import signal
import sys

_SET_PARENT_DEATH_SIGNAL = 1  # prctl(2), PR_SET_PDEATHSIG


def end_with(parent: int) -> None:
    """Have the kernel kill this process when its parent, whose pid is given, is gone; where it can, which is Linux."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None, use_errno=True).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:  # it was gone before we asked
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    end_with(parent=int(sys.argv[1]))
    os.execv(sys.executable, [sys.executable, *sys.argv[2:]])  # noqa: S606 - the same interpreter; the leash stays on
