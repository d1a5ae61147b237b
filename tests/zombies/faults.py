"""What befalls the owner of the matrix's runs, as one function per column; each ends with the victim's word given.

When a function returns, whatever the old owner had left to do has been done and answered. The runs' end, and the
person who helps them there, is `play`; whether the numbers are right is `verdict`.
"""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from fencepost.core.duration import microseconds
from fencepost.store.open import wall_clock
from tests.polling import until
from tests.zombies import clock
from tests.zombies.cells import CELLS
from tests.zombies.play import Play, Times

HOUR_SECONDS = 3_600


def stopped(play: Play) -> None:
    """SIGSTOP past its lease; SIGCONT when its heir has done what it could."""
    play.enter()
    play.stop_victim()
    play.until(play.has_done_what_it_could, "the heir to take over")
    play.give_word()
    play.victim.signal(signal.SIGCONT)
    play.until_reported()


def killed(play: Play) -> None:
    """SIGKILL: nobody wakes."""
    play.enter()
    play.victim.signal(signal.SIGKILL)
    play.until(play.has_done_what_it_could, "the heir to take over")


def cut_from_the_ledger(play: Play) -> None:
    """Nothing that it writes reaches the ledger until its lease is over.

    An SQLite ledger cannot be out of reach for one process alone: whoever keeps the write lock cuts everybody off, so
    that nobody takes over before the cut is mended; then the heir finds a lease that could not be renewed.
    """
    play.enter()
    file = play.ledger_file
    assert file is not None, "only a file can be locked"
    play.until(lambda: _taken_over_after_a_cut(play, file), "the heir to take over")
    play.until(play.has_done_what_it_could, "the heir to do what it can")
    play.give_word()
    play.until_reported()


def _taken_over_after_a_cut(play: Play, file: Path) -> bool:
    """Keep the lock until the victim's lease is over; False if the victim could renew it in the moment after."""
    lease = play.before[CELLS[0].id].lease
    with lock_kept(file):
        [mine] = [one for one in play.app.store.leases() if one.id == lease]
        until(lambda: wall_clock() > mine.expires_at + 600_000, "the lease to run out")
    try:
        until(play.is_taken_over, "the heir to take over", seconds_max=2)
    except TimeoutError:
        return False
    return True


def cut_from_the_target(play: Play) -> None:
    """What it sends is held up on its way until the attempt has been given up, and delivered then.

    The ledger is within reach, so nobody takes over: what comes back too late here is the request.
    """
    play.enter()
    play.wires.cut()
    with lock_kept(play.accounts.file):
        play.give_word()
        play.until(lambda: _are_given_up(play), "the first attempts to be given up")
        play.healed_at = wall_clock()
    play.wires.heal()
    play.until_reported()


def _are_given_up(play: Play) -> bool:
    """Whether the first attempt of each run that had not sent yet is past its time."""
    operations = [play.history(cell).operations for cell in CELLS if cell.point < 4]
    return all(found and found[0].attempts[0].send_by < wall_clock() - 100_000 for found in operations)


def clock_set_back(play: Play) -> None:
    """Its wall clock jumps an hour back, so that the lease it renews is long over for everybody else."""
    play.enter(jumping=True)
    play.clocks["victim"].jump(-HOUR_SECONDS)
    play.until(play.has_done_what_it_could, "the heir to take over")
    play.give_word()
    play.until_reported()


def clock_of_the_heir_ahead(play: Play) -> None:
    """The heir's wall clock jumps an hour ahead: it takes over from a living owner, and every span seems over."""
    play.enter(jumping=True)
    play.clocks["heir"].jump(HOUR_SECONDS)
    play.until(play.has_done_what_it_could, "the heir to take over")
    play.give_word()
    play.until_reported()


@contextmanager
def lock_kept(file: Path) -> Iterator[None]:
    """Another process keeps the write lock of an SQLite file."""
    command = [sys.executable, "-m", "tests.zombies.keeper", str(file)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
    ) as keeper:
        assert keeper.stdout is not None
        assert keeper.stdin is not None
        assert keeper.stdout.readline() == b"kept\n"
        try:
            yield
        finally:
            keeper.stdin.close()
            keeper.wait(30)


@dataclass(frozen=True)
class Fault:
    """One column: what happens, what the effects declare there, and whether the old owner is refused in the end."""

    name: str
    strike: Callable[[Play], None]
    times: Times = field(default_factory=Times)
    wakes: bool = True
    is_request: bool = False
    """What comes back is a request of an owner that still is one."""
    needs_clock: bool = False

    @property
    def span(self) -> int:
        """How long after its dispatch an attempt may still land, as the effects of this fault declare it."""
        return microseconds(self.times.timeout) + microseconds(self.times.settle)

    @property
    def lacks(self) -> str | None:
        """Why it cannot be played on this machine, or None."""
        return clock.HOW_TO_GET_IT if self.needs_clock and clock.library() is None else None


FAULTS = [
    Fault("stopped", stopped),
    Fault("cut from ledger", cut_from_the_ledger, Times(timeout="20s")),
    Fault("cut from target", cut_from_the_target, Times("4s", "5s"), is_request=True),
    Fault("clock back", clock_set_back, needs_clock=True),
    Fault("heir ahead", clock_of_the_heir_ahead, Times("10s", "1s"), needs_clock=True),
    Fault("killed", killed, Times("6s", "1s"), wakes=False),
]
