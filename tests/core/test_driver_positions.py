"""Where steps stand: readable positions that no two things share, and that do not depend on what completes first."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.errors import Misuse
from fencepost.core.position import (
    CANCEL,
    ROOT,
    branch_path,
    effect_position,
    escaped,
    named_position,
    numbered_position,
)
from tests.core.driver_play import begin, done, play, short

# Short texts of the characters that mean something collide soonest.
NAMES = st.text(alphabet="ab%/[]#:.0123", min_size=1, max_size=6) | st.sampled_from(
    ["cancel", "%63ancel", "gather:1.0", "sleep", "sleep:1", "a#2", "a[b]", "/a"]
)
GROUPS = st.sampled_from(["gather", "race"])
NUMBERS = st.integers(1, 12)
BRANCHES = st.lists(st.tuples(GROUPS, NUMBERS, st.integers(0, 12)), max_size=3)
THINGS = st.one_of(
    st.tuples(st.just("effect"), NAMES, st.none() | NAMES),
    st.tuples(st.just("step"), BRANCHES, NAMES, NUMBERS),
    st.tuples(st.just("numbered"), BRANCHES, st.sampled_from(["sleep", "compensate", "gather", "race"]), NUMBERS),
    st.just(("cancel",)),
)


def position(thing):
    match thing:
        case ("effect", name, item):
            return effect_position(name, item)
        case ("step", branches, name, occurrence):
            return named_position(path(branches), escaped(name), occurrence)
        case ("numbered", branches, kind, number):
            return numbered_position(path(branches), kind, number)
        case _:
            return CANCEL


def path(branches):
    result = ROOT
    for kind, number, index in branches:
        result = branch_path(numbered_position(result, kind, number), index)
    return result


def thing_at(text):
    """Read a position back; that this can be written shows that nothing was lost."""
    if text == CANCEL:
        return ("cancel",)
    if not text.startswith(ROOT):
        name, bracket, item = text.partition("[")
        return ("effect", plain(name), item[:-1] if bracket else None)
    *segments, last = text.removeprefix(ROOT).split("/")
    branches = [
        (kind, int(number), int(index)) for kind, number, index in (re.split("[:.]", segment) for segment in segments)
    ]
    if ":" in last:
        kind, _, number = last.partition(":")
        return ("numbered", branches, kind, int(number))
    name, _, occurrence = last.partition("#")
    return ("step", branches, plain(name), int(occurrence or 1))


def plain(text):
    return re.sub("%(..)", lambda match: chr(int(match[1], 16)), text)


@given(THINGS)
def test_a_position_says_all_of_what_stands_there_so_two_things_never_share_one(thing):
    assert thing_at(position(thing)) == thing


@given(THINGS, THINGS)
def test_different_things_have_different_positions(one, other):
    assert (position(one) == position(other)) == (one == other)


def test_positions_read_like_the_code_that_asks():
    async def workflow(run):
        await run.read("rate")
        await run.gather(
            run.effect("charge", "line-7"),
            run.gather(run.read("rate"), run.wait("decision")),
            run.race(run.child("audit"), run.sleep(5)),
            run.effect("notify"),
        )

    driver, told = play(workflow, done("/rate"))
    assert told[1] == [
        "charge[line-7]",
        "/gather:1.1/gather:1.0/rate",
        "/gather:1.1/gather:1.1/decision",
        "/gather:1.2/race:1.0/audit",
        "/gather:1.2/race:1.1/sleep:1",
        "notify",
    ]
    assert short(driver.waiting()) == told[1]


def test_repetitions_are_told_apart_by_occurrence_and_groups_sleeps_and_compensations_by_number():
    async def workflow(run):
        await run.read("rate")
        await run.read("rate")
        await run.wait("rate")
        await run.sleep(1)
        await run.sleep(1)
        await run.gather(run.read("rate"))
        await run.gather(run.read("rate"))
        await run.compensate()
        await run.compensate()

    expected = [
        *("/rate", "/rate#2", "/rate#3", "/sleep:1", "/sleep:2"),
        *("/gather:1.0/rate", "/gather:2.0/rate", "/compensate:1", "/compensate:2"),
    ]
    _, told = play(workflow, *map(done, expected))
    assert told == [[position] for position in expected] + [[]]


def test_the_position_of_a_step_does_not_depend_on_which_branch_completes_first():
    async def branch(run, name):
        await run.read(name)
        await run.read("rate")
        await run.effect("charge", name)

    async def workflow(run):
        await run.gather(branch(run, "a"), branch(run, "b"))

    seen = []
    for first, second in (("0/a", "1/b"), ("1/b", "0/a")):
        rates = [f"/gather:1.{text[0]}/rate" for text in (first, second)]
        _, told = play(workflow, *map(done, [f"/gather:1.{first}", f"/gather:1.{second}", *rates]))
        seen.append({position for moves in told for position in moves})
    assert seen[0] == seen[1]


def test_an_effect_named_cancel_is_not_the_cancel_of_the_run():
    async def workflow(run):
        return await run.effect("cancel")

    driver, told = play(workflow, done("%63ancel", "did it"))
    assert told[0] == ["%63ancel"]
    assert driver.ending == ("did it",)
    assert not driver.cancelled


@pytest.mark.parametrize("item", ["", 7, b"x"])
def test_an_item_that_is_not_a_text_is_refused_where_it_is_written(item):
    async def workflow(run):
        await run.effect("charge", item)

    driver = begin(workflow)
    assert driver.start() == []
    assert isinstance(driver.ending.error, Misuse)
    assert "charge" in str(driver.ending.error)


def test_draws_and_ids_depend_on_run_and_position_only():
    async def branch(run):
        return str(run.uuid()), run.random().random(), run.random().randint(1, 6)

    async def workflow(run):
        draws = run.random()
        items = list(range(10))
        draws.shuffle(items)
        return await run.gather(branch(run), branch(run)), draws.choice("abc"), draws.random(), items

    def result(run_id):
        driver = begin(workflow, run_id=run_id)
        driver.start()
        return driver.ending.value

    assert result("run-1") == result("run-1")
    assert result("run-1") != result("run-2")
    (first, second), _, number, items = result("run-1")
    assert first != second
    assert 0 <= number < 1
    assert sorted(items) == list(range(10))


@given(st.integers(-5, 5), st.integers(0, 2**300))
def test_a_drawn_integer_lies_between_its_bounds(low, span):
    async def workflow(run):
        return [run.random().randint(low, low + span) for _ in range(3)]

    driver = begin(workflow)
    driver.start()
    assert all(low <= value <= low + span for value in driver.ending.value)


def test_drawn_integers_and_floats_cover_their_range_evenly():
    async def workflow(run):
        draws = run.random()
        return [draws.randint(0, 2) for _ in range(3_000)], [draws.random() for _ in range(1_000)]

    driver = begin(workflow)
    driver.start()
    integers, floats = driver.ending.value
    assert all(900 < integers.count(value) < 1_100 for value in range(3))
    assert 0.45 < sum(floats) / len(floats) < 0.55
