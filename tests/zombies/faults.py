"""What befalls the owner of the matrix's runs, as one function per column; each ends with the victim's word given.

When a function returns, whatever the old owner had left to do has been done and answered. The runs' end, and the
person who helps them there, is `play`; whether the numbers are right is `verdict`.
"""

import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from fencepost.core.duration import microseconds
from fencepost.store.open import wall_clock
from tests.polling import until
from tests.zombies import clock
from tests.zombies.cells import CELLS, Row
from tests.zombies.ledgers import Ledger, lock_kept
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

    A server can be out of reach for it alone: then its heir takes over while it is cut off, and what it was about to
    send it sends meanwhile. A file cannot: whoever keeps the write lock cuts everybody off, so that nobody takes over
    before the cut is mended; then the heir finds a lease that could not be renewed.
    """
    play.enter()
    if play.ledger.cuts_everybody:
        play.until(lambda: _taken_over_after_a_cut(play), "the heir to take over")
        play.until(play.has_done_what_it_could, "the heir to do what it can")
        play.give_word()
    else:
        with play.ledger.cut():
            play.until(play.has_done_what_it_could, "the heir to take over")
            play.give_word()
            play.until(lambda: len(play.notes.having("woke")) == len(CELLS), "every run to go on")
            play.until(lambda: _have_sent(play), "those that had a connection to send")
    play.until_reported()


def _taken_over_after_a_cut(play: Play) -> bool:
    """Keep the lock until the victim's lease is over; False if the victim could renew it in the moment after."""
    lease = play.before[CELLS[0].id].lease
    with play.ledger.cut():
        [mine] = [one for one in play.app.store.leases() if one.id == lease]
        until(lambda: wall_clock() > mine.expires_at + 600_000, "the lease to run out")
    try:
        until(play.is_taken_over, "the heir to take over", seconds_max=2)
    except TimeoutError:
        return False
    return True


def _have_sent(play: Play) -> bool:
    """Whether the look-up row's request, which stood before its first byte, is at the target."""
    return any(f"{Row.LOOK_UP}.3/" in (line.body or "") for line in play.world.files.requests("payments"))


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


def clock_of_the_owner_back(play: Play) -> None:
    """Its wall clock jumps an hour back, so that the lease it renews in a file is long over for everybody else.

    A server has a clock of its own: there nobody takes over, and the owner goes on as if nothing had been.
    """
    play.enter(jumping=True)
    play.clocks["victim"].jump(-HOUR_SECONDS)
    if play.ledger.has_own_clock:
        play.until(play.has_renewed, "the victim to renew its lease after the jump")
        assert not play.is_taken_over(), "whose clock jumped?"
    else:
        play.until(play.has_done_what_it_could, "the heir to take over")
    play.give_word()
    play.until_reported()


def clock_ahead(play: Play) -> None:
    """The clock by which leases are judged jumps an hour ahead: that of the heir, or of the server.

    The heir takes over from a living owner, and every span seems over; only its own boot-time clock knows better.
    """
    play.enter(jumping=not play.ledger.has_own_clock)
    if play.ledger.has_own_clock:
        play.ledger.jump(HOUR_SECONDS)
    else:
        play.clocks["heir"].jump(HOUR_SECONDS)
    play.until(play.has_done_what_it_could, "the heir to take over")
    play.give_word()
    play.until_reported()


@dataclass(frozen=True)
class Fault:
    """One column: what happens, what the effects declare there, and whether the old owner is refused in the end."""

    name: str
    strike: Callable[[Play], None]
    times: Times = field(default_factory=Times)
    wakes: bool = True
    is_request: bool = False
    """What comes back is a request of an owner that still is one."""
    clock: Literal["", "owner's", "ledger's"] = ""
    """Whose clock jumps."""

    def keeps_owner(self, ledger: Ledger) -> bool:
        """Whether nobody takes over on this ledger, so that nobody is refused."""
        return self.is_request or (self.clock == "owner's" and ledger.has_own_clock)

    @property
    def span(self) -> int:
        """How long after its dispatch an attempt may still land, as the effects of this fault declare it."""
        return microseconds(self.times.timeout) + microseconds(self.times.settle)

    @property
    def lacks(self) -> str | None:
        """Why it cannot be played on this machine, or None."""
        return clock.HOW_TO_GET_IT if self.clock and clock.library() is None else None


FAULTS = [
    Fault("stopped", stopped),
    Fault("cut from ledger", cut_from_the_ledger, Times(timeout="20s")),
    Fault("cut from target", cut_from_the_target, Times("4s", "5s"), is_request=True),
    Fault("clock back", clock_of_the_owner_back, clock="owner's"),
    Fault("clock ahead", clock_ahead, Times("10s", "1s"), clock="ledger's"),
    Fault("killed", killed, Times("6s", "1s"), wakes=False),
]
