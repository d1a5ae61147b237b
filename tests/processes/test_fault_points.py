"""Kills a real process right before and right after every transition that a commit makes, and at each point of a send.

The points are read off the transition tables and compared with what the stories of `plots` pass when nothing is
killed. Then each is reached once more by a process that kills itself there; another one goes on, and the world must
hold in the end what it holds without the kill. Rows that no commit makes are listed here, each with its reason.
"""

import itertools
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from fencepost.core.transitions import TABLES
from fencepost.effects.exchange import FAULT_POINTS
from tests.processes.cast import Cast
from tests.processes.conftest import REACHED
from tests.processes.count import End
from tests.processes.harness import SIDE_BY_SIDE, arrange
from tests.processes.plots import STORIES, Story, goes_well
from tests.processes.stage import Stage

NOT_COMMITTED = {
    "operation:reserved:release": "only a look-up's answer postpones, and nothing reserved is asked about",
    "operation:dispatched:cancel": "cancel says nothing about what was sent, so nothing is written",
    "operation:unknown:cancel": "the same",
    "operation:succeeded:cancel": "the same",
    "operation:failed:cancel": "the same",
    "operation:cancelled:cancel": "it is cancelled already, so nothing is written",
    "operation:succeeded:lose": "its attempts keep it known, so nothing is written",
    "operation:failed:lose": "the same",
    "attempt:applied:applied": "the same evidence once more is only appended",
    "attempt:not applied:not applied": "the same",
    "attempt:applied:contradict": "what has succeeded keeps its attempts; late evidence raises the flag alone",
    "attempt:unresolved:contradict": "the first evidence on an unresolved attempt contradicts nothing",
    "run:ready:hold": "nobody owns it, so nobody finds a reason to hold it",
    "run:cancelling:claim": "announced as a takeover, owned or not: one statement does both",
    "run:compensating:claim": "the same",
    "run:compensating:compensate": "it is compensating already; the verb is refused",
    "step:done:cancel": "it has its result, so nothing is written",
    "step:failed:cancel": "it has its error, so nothing is written",
    "step:cancelled:cancel": "it is cancelled already, so nothing is written",
}
"""Cells of the tables that say "nothing happens", and the few that no code path makes; each with its reason."""

ROWS = [row.name for table in TABLES for row in table.rows()]
POINTS = [f"{when}:{row}" for row in ROWS if row not in NOT_COMMITTED for when in ("before", "after")] + [*FAULT_POINTS]


TURNS_MAX = 4


@dataclass(frozen=True)
class Played:
    """How a story ended, which points it passed, and whether a process killed itself at the one that it was to."""

    story: Story
    end: End
    points: frozenset[str]
    reached: bool


class Theatre:
    """Plays stories side by side, each on a ledger of its own."""

    def __init__(self, world, nursery, folder) -> None:
        self._world = world
        self._nursery = nursery
        self._folder = folder
        self._numbers = itertools.count(1)

    def play(self, story: Story, kill_at: str = "", control: str = "") -> Played:
        """Play a story, with the process that reaches `kill_at` killed there."""
        name = f"story-{next(self._numbers)}"
        points = self._folder / f"{name}.txt"
        with Stage(self._world, self._nursery, self._folder / name, control) as stage:
            cast = Cast(stage, name, kill_at, points)
            try:
                story.plot(cast)
                end = cast.end()
            except Exception as error:
                error.add_note(f"in the story {story.name!r}, killed at {kill_at or 'no point'!r}")
                raise
        return Played(story, end, frozenset(points.read_text().splitlines()), cast.reached)

    def play_all(self, plays: Iterable[tuple]) -> list[Played | Exception]:
        """Play many; what each came to."""
        with ThreadPoolExecutor(SIDE_BY_SIDE) as threads:
            going = [threads.submit(self.play, *one) for one in plays]
        return [one.exception() or one.result() for one in going]


@pytest.fixture(scope="module")
def theatre(outside, nursery, tmp_path_factory):
    arrange(outside)
    return Theatre(outside, nursery, tmp_path_factory.mktemp("stories"))


@pytest.fixture(scope="module")
def undisturbed(theatre):
    played = theatre.play_all((story,) for story in STORIES)
    if wrong := [one for one in played if isinstance(one, Exception)]:
        raise ExceptionGroup("stories that went wrong by themselves", wrong)
    return played


def test_every_row_of_the_tables_is_passed_by_a_story_or_has_a_reason_not_to_be(undisturbed):
    passed = set().union(*(one.points for one in undisturbed))
    assert sorted(set(POINTS) - passed) == []
    assert sorted(passed - set(POINTS)) == []
    assert sorted(set(NOT_COMMITTED) - set(ROWS)) == [], "reasons for rows that there are no more"


@pytest.mark.timeout(900)
def test_a_process_killed_at_any_fault_point_leaves_the_world_as_if_it_had_lived(theatre, undisturbed, request):
    passing = {point: [one for one in undisturbed if point in one.points] for point in POINTS}
    reached: set[str] = set()
    wrong: list[Exception] = []
    # Who gets to a point first depends on the moment; where it was passed by nobody that time, another story tries.
    for turn in range(TURNS_MAX):
        missing = [point for point in POINTS if point not in reached and passing[point]]
        chosen = [(passing[point][turn % len(passing[point])], point) for point in missing]
        for (whole, point), outcome in zip(chosen, theatre.play_all((w.story, p) for w, p in chosen), strict=True):
            if isinstance(outcome, Exception):
                wrong.append(outcome)
                reached.add(point)
            elif outcome.reached:
                reached.add(point)
                wrong += differences(whole, outcome, point)
    request.config.stash[REACHED] = (len(reached), len(POINTS))
    if wrong:
        raise ExceptionGroup(f"{len(wrong)} points went wrong", wrong)
    assert sorted(set(POINTS) - reached) == []


def test_control_who_sends_again_without_asking_leaves_another_world(theatre, undisturbed):
    point = "http:first byte in"
    whole = next(one for one in undisturbed if one.story.plot is goes_well)
    killed = theatre.play(whole.story, point, "again")
    assert killed.reached
    assert differences(whole, killed, point)


def differences(whole: Played, killed: Played, point: str) -> list[Exception]:
    """What the kill changed: there must be the same objects, each as often, and the same end."""
    for what, now, then in (
        ("objects", killed.end.objects, whole.end.objects),
        ("state", killed.end.state, whole.end.state),
    ):
        if now != then:
            return [AssertionError(f"{what} {now} in place of {then}: {whole.story.name!r}, killed at {point!r}")]
    return []
