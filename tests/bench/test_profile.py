"""A profile names the room that pays for each function, and its rooms sum up to the true cost."""

import cProfile
import json
import pstats

import pytest

from bench.profile import ROOMS, Cost, report, room_of, spread
from fencepost.core import identity


@pytest.mark.parametrize(
    ("function", "room"),
    [
        (("/x/src/fencepost/core/driver.py", 1, "deliver"), "core"),
        (("/x/src/fencepost/store/sql.py", 1, "f"), "store"),
        (("/x/site-packages/pydantic/main.py", 1, "f"), "pydantic"),
        (("/x/lib/python3.11/asyncio/events.py", 1, "_run"), "asyncio"),
        (("/x/lib/python3.11/selectors.py", 1, "select"), "asyncio"),
        (("/x/bench/work.py", 1, "one_run"), "bench"),
        (("/x/lib/python3.11/enum.py", 1, "f"), "other"),
        (("~", 0, "<method 'executemany' of 'sqlite3.Connection' objects>"), "sqlite"),
        (("~", 0, "<built-in method builtins.len>"), None),
    ],
)
def test_a_function_belongs_to_its_room(function, room):
    assert room_of(function) == room
    assert room is None or room in ROOMS


def test_the_rooms_sum_up_to_the_true_cost_and_c_goes_to_its_caller():
    profiler = cProfile.Profile()
    profiler.runcall(lambda: [identity.canonical({"n": number}) for number in range(200)])
    profile = spread(pstats.Stats(profiler), 200, Cost(9.0, 5.0, 1.0))
    assert sum(spent.microseconds for spent in profile.rooms.values()) == pytest.approx(5.0)
    assert profile.rooms["core"].calls > 1
    assert json.__name__ not in profile.rooms
    assert any(row.startswith("core") for row in report(profile, 3))
