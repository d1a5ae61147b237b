"""A worker killed with SIGKILL in the middle of going back: another takes over, and nothing is ever undone twice.

Real processes, counted at the world's own files. The control asks nobody before it sends again, and goes wrong.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from fencepost.testing.world import Fault
from tests.processes.retreats import RETREATS
from tests.processes.workflows import PLACES, RUNGS
from tests.services.fixtures import Place


@dataclass(frozen=True)
class Moment:
    """When the worker is killed, with which rung; `sent` says whether the first undo has left by then."""

    rung: str
    point: str
    sent: bool

    def __str__(self) -> str:
        return f"{self.rung}, killed at {self.point}"


RESTING = [
    Moment(rung, point, sent)
    for rung in RUNGS
    for point, sent in [
        ("before:run:running:compensate", False),
        ("after:run:running:compensate", False),
        # Four effects are sent, of which the last is refused; the third's undo is never sent, for its policy refuses.
        ("before:operation:nothing:dispatch#5", False),
        ("after:operation:nothing:dispatch#5", False),
        ("http:first byte in#5", True),
        ("after:operation:dispatched:apply#4", True),
        ("before:run:compensating:end partly compensated", True),
    ]
]
TURNING = [
    Moment(rung, point, sent)
    for rung in RUNGS
    for point, sent in [("after:run:running:compensate", False), ("http:first byte in#5", True)]
]


@pytest.fixture
def ledgers(request: pytest.FixtureRequest, dialect: str) -> Callable[[], str]:
    """Gives the url of another ledger each time; "" for a file."""
    if dialect == "sqlite":
        return str
    server = request.getfixturevalue("postgres_server")
    return lambda: Place(server).url()


def refuse_the_fourth(stage, rung: str, run: str) -> None:
    stage.strike(PLACES[rung].target, Fault(do="answer", status=401, times=None, body=f'"{run}/fourth"'))


def test_what_was_undone_when_the_worker_died_is_not_undone_again_and_the_rest_is_in_its_order(table, ledgers):
    def scene(stage, moment, run):
        refuse_the_fourth(stage, moment.rung, run)
        stage.killed_at(moment.point, RETREATS[moment.rung][0].name, run, other=True)
        end = stage.end(run)
        assert end.state == "partly compensated"
        assert dict(end.objects) == {"first": 1, "second": 1, "third": 1, "undo second": 1, "undo first": 1}
        assert end.undone == ["undo second", "undo first"]
        assert end.requests["undo third"] == 0
        assert all(count == 1 for count in end.keys.values())

    table.play(RESTING, scene, ledger=ledgers)


def test_an_earlier_turns_effect_whose_undo_was_in_flight_is_undone_once(table, ledgers):
    def scene(stage, moment, run):
        refuse_the_fourth(stage, moment.rung, run)
        stage.killed_at(moment.point, RETREATS[moment.rung][1].name, run, other=True)
        end = stage.end(run)
        assert end.state == "compensated"
        assert dict(end.objects) == {"first": 1, "second": 1, "undo second": 1, "undo first": 1}
        assert end.undone == ["undo second", "undo first"]

    table.play(TURNING, scene, ledger=ledgers)


def test_control_who_sends_again_without_asking_undoes_twice(table, ledgers):
    def scene(stage, moment, run):
        refuse_the_fourth(stage, moment.rung, run)
        stage.killed_at(moment.point, RETREATS[moment.rung][0].name, run, other=True)
        assert stage.end(run).requests["undo second"] == 2

    table.play([one for one in RESTING if one.point == "http:first byte in#5"], scene, ledger=ledgers, control="again")
