"""Patches: false for each history that went by without them, true for each that had not come so far, never a mismatch.

Old code and patched code differ by one more step behind the patch, at every place of random programs. A history is cut
at every point at which a crash may cut it: after so many answers, with or without what was asked for then.
"""

import random

import pytest

from fencepost.core.asks import Patch, Recorded, Returned
from fencepost.core.driver import Driver
from tests.core.driver_play import STARTED_AT, Run, done

PROGRAMS = 60


def as_recorded(move):
    """What a ledger holds of a move."""
    if isinstance(move, Patch):
        return Recorded("patch", move.name, "", 0, final=True)
    return Recorded(move.kind, move.name, move.fingerprint, move.version)


class Patched(Run):
    """The facade with patches."""

    def __init__(self, driver):
        super().__init__(driver)
        self.patched, self.deprecated = driver.patched, driver.deprecated


def program(shape, *, patch_at=None, deprecated=False):
    """Groups of steps, one after the other; before the `patch_at`-th the patched code does one step more."""

    async def body(run):
        went_new = []
        for number, width in enumerate(shape):
            if number == patch_at:
                if deprecated:
                    run.deprecated("more")
                if deprecated or run.patched("more"):
                    went_new.append(await run.effect("more"))
            asked = [run.effect(f"step {number}.{place}") for place in range(width)]
            await (run.gather(*asked) if width > 1 else asked[0])
        return bool(went_new)

    return body


def begin(body, *, recorded=None, history_length=0):
    return Driver(
        lambda run, _: body(run), None, run_id="run-1", started_at=STARTED_AT, facade=Patched, recorded=recorded,
        history_length=history_length,
    )  # fmt: skip


def play(driver, asks, recorded, history):
    """Answer what is asked for until the end, and keep what a ledger would hold."""
    waiting = [ask.position for ask in asks if not isinstance(ask, Patch)]
    recorded.update((ask.position, as_recorded(ask)) for ask in asks)
    while driver.ending is None:
        position = waiting.pop(0)
        history.append(position)
        asks = driver.deliver(done(position, "x"))
        recorded.update((ask.position, as_recorded(ask)) for ask in asks)
        waiting += [ask.position for ask in asks if not isinstance(ask, Patch)]


def histories(shape, body):
    """Every history that a crash may leave: (what is recorded, what was delivered, was the last advance recorded)."""
    driver = begin(body)
    asks = driver.start()
    recorded, history = {}, []
    waiting = []
    yield {}, [], False
    while True:
        recorded |= {ask.position: as_recorded(ask) for ask in asks}
        waiting += [ask.position for ask in asks if not isinstance(ask, Patch)]
        yield dict(recorded), list(history), True
        if driver.ending is not None:
            return
        position = waiting.pop(0)
        history.append(position)
        asks = driver.deliver(done(position, "x"))


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_an_old_history_keeps_its_way_and_a_new_place_takes_the_patch(seed):
    draw = random.Random(f"patches:{seed}")
    shape = [draw.randint(1, 3) for _ in range(draw.randint(1, 5))]
    patch_at = draw.randrange(len(shape))
    before = sum(shape[:patch_at])
    for recorded, history, last in histories(shape, program(shape)):
        old_way = len(history) > before or (len(history) == before and last)
        driver = begin(program(shape, patch_at=patch_at), recorded=recorded, history_length=len(history))
        moves = driver.start()
        for position in history:
            moves = driver.deliver(done(position, "x"))
        assert driver.history_mismatch() is None
        assert any(isinstance(move, Patch) for move in moves) is (len(history) == before and not old_way)
        kept, rest = dict(recorded), list(history)
        kept |= {move.position: as_recorded(move) for move in moves}
        play(driver, driver.waiting(), kept, rest)
        assert driver.ending == Returned(not old_way), (shape, patch_at, history, last)
        replayed = begin(program(shape, patch_at=patch_at), recorded=kept, history_length=len(rest))
        replayed.start()
        for position in rest:
            replayed.deliver(done(position, "x"))
        assert replayed.ending == driver.ending, "each replay answers the same"
        assert replayed.history_mismatch() is None


def test_a_patch_that_is_deleted_too_early_is_a_named_mismatch_and_a_deprecated_one_is_none():
    shape, recorded, history = [1, 1], {}, []
    first = begin(program(shape, patch_at=1))
    play(first, first.start(), recorded, history)
    assert isinstance(recorded["/patch:more"], Recorded)

    async def deleted(run):
        await run.effect("step 0.0")
        await run.effect("more")
        await run.effect("step 1.0")
        return True

    for body, fits in ((deleted, False), (program(shape, patch_at=1, deprecated=True), True)):
        driver = begin(body, recorded=recorded, history_length=len(history))
        driver.start()
        for position in history:
            driver.deliver(done(position, "x"))
        assert (driver.history_mismatch() is None) is fits


def test_what_is_asked_twice_is_answered_alike_and_recorded_once():
    async def twice(run):
        return run.patched("one") is run.patched("one")

    driver = begin(twice)
    assert [move.position for move in driver.start()] == ["/patch:one"]
    assert driver.ending == Returned(True)


def test_a_workflow_says_how_far_it_is_once_and_not_again_in_a_replay():
    async def telling(run):
        run.driver.report("0")
        await run.effect("first")
        run.driver.report("1")
        await run.effect("second")

    driver = begin(telling)
    asks = driver.start()
    assert driver.progress == "0"
    recorded = {ask.position: as_recorded(ask) for ask in asks}
    recorded |= {ask.position: as_recorded(ask) for ask in driver.deliver(done("first"))}
    assert driver.progress == "1"
    replayed = begin(telling, recorded=recorded, history_length=1)
    replayed.start()
    replayed.deliver(done("first"))
    assert replayed.progress is None
