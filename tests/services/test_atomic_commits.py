"""A worker killed while its atomic effect's COMMIT is on its way to PostgreSQL, or the answer is on its way back.

What the server makes of it counts, and nothing else: the row is there once in the end, whoever hears of it. The other
moments at which such a worker is killed are in tests/processes/test_atomic.
"""

from dataclasses import dataclass
from threading import Event

import pytest

from fencepost.core.states import Outcome
from tests.polling import until
from tests.processes.booking import books
from tests.processes.conftest import nursery, outside
from tests.processes.harness import arrange
from tests.processes.stage import DOOMED, Stage
from tests.processes.test_atomic import DONE, DONE_AGAIN, finished_by_another, prepare, rows
from tests.services.fixtures import Place
from tests.services.wire import At, Wire

__all__ = ["nursery", "outside"]


@dataclass(frozen=True)
class Fate:
    """What becomes of a COMMIT, how many rows there are when its sender is dead, and what its attempts come to."""

    name: str
    at: At
    rows: int
    outcomes: list[Outcome]


FATES = [
    Fate("it arrives, and is answered to nobody", At.UNANSWERED, 1, DONE),
    Fate("it arrives when its sender is dead", At.HELD, 0, DONE),
    Fate("it never arrives", At.SWALLOWED, 0, DONE_AGAIN),
]


def strike(wire: Wire, what: At) -> Event:
    """Do this to the COMMIT of the transaction in which a row is booked; the event is set when it was done."""
    written, done = Event(), Event()

    def choose(sent: bytes) -> At:
        if b"INSERT INTO booking" in sent:
            written.set()
        elif written.is_set() and not done.is_set() and b"COMMIT" in sent and b"BEGIN" not in sent:
            done.set()
            return what
        return At.PASSED

    wire.choose = choose
    return done


@pytest.mark.parametrize("fate", FATES, ids=lambda fate: fate.name)
def test_a_worker_killed_during_its_commit_leaves_one_row_in_the_end(outside, nursery, postgres: Place, tmp_path, fate):
    arrange(outside)
    run, wire = f"commit-{fate.at.name.lower()}", Wire(postgres)
    done = strike(wire, fate.at)
    with Stage(outside, nursery, tmp_path / "stage", ledger=postgres.url()) as stage:
        prepare(stage)
        doomed = stage.child((books.name, run), lease=DOOMED, ledger=wire.url())
        assert done.wait(20)
        until(lambda: rows(stage, run) == fate.rows, "the server to have its word")
        doomed.kill()
        assert rows(stage, run) == fate.rows
        wire.release()
        wire.close()
        finished_by_another(stage, run, fate.outcomes)
