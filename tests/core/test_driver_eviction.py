"""A run leaves memory: its coroutines end where they stand, and nothing that they still do is recorded."""

from contextlib import suppress

import pytest

from fencepost.core.pending import Evicted
from tests.core.driver_play import begin, done, play


def test_closing_ends_each_coroutine_leaves_first_and_records_nothing():
    log = []

    async def branch(run, name):
        try:
            await run.wait(name)
        finally:
            log.append(name)

    async def workflow(run):
        try:
            await run.gather(branch(run, "a"), run.gather(branch(run, "b"), branch(run, "c")))
        finally:
            log.append("workflow")

    driver, _ = play(workflow)
    driver.close()
    driver.close()
    assert log == ["a", "b", "c", "workflow"]
    assert driver.waiting() == []
    assert driver.ending is None
    assert not driver.ignored_close


def test_everything_that_a_run_can_say_raises_once_it_has_left_memory():
    raised = []

    async def branch(run):
        await run.effect("never")

    async def workflow(run):
        early = run.effect("early")
        asks = [
            *(lambda: early, lambda: run.effect("a"), lambda: run.wait("a"), lambda: run.sleep(1)),
            *(lambda: run.child("a"), run.compensate, lambda: run.gather(branch(run)), run.race),
        ]
        try:
            await run.wait("w")
        finally:
            for ask in asks:
                try:
                    await ask()
                except Evicted:
                    raised.append(ask)
            for say in (run.now, run.uuid, run.random):
                try:
                    say()
                except Evicted:
                    raised.append(say)

    driver, _ = play(workflow)
    driver.close()
    assert len(raised) == 11
    assert not driver.ignored_close


def test_what_a_finally_raises_on_the_way_out_is_nobodys_error():
    async def workflow(run):
        try:
            await run.wait("w")
        finally:
            raise ValueError("broken clean-up")

    driver, _ = play(workflow)
    driver.close()
    assert not driver.ignored_close
    assert driver.ending is None


class Foreign:
    def __await__(self):
        yield


def test_a_coroutine_that_ignores_its_end_is_flagged_and_no_error():
    async def workflow(run):
        try:
            await run.wait("w")
        finally:
            await Foreign()

    driver, _ = play(workflow)
    driver.close()
    assert driver.ignored_close


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_coroutine_that_never_ends_is_dropped_with_the_flag():
    async def workflow(run):
        for _ in range(10):
            with suppress(GeneratorExit):
                await Foreign()

    async def first(run):
        await run.gather(run.wait("w"), run.read("go"))
        await workflow(run)

    driver, _ = play(first)
    driver.close()
    assert not driver.ignored_close

    async def stubborn(run):
        try:
            await run.wait("w")
        except GeneratorExit:
            await workflow(run)

    driver, _ = play(stubborn)
    driver.close()
    assert driver.ignored_close


def test_nothing_can_be_delivered_to_a_run_that_has_left_memory():
    async def workflow(run):
        await run.wait("w")

    driver, _ = play(workflow)
    driver.close()
    with pytest.raises(Evicted):
        driver.deliver(done("/w"))


def test_a_run_that_never_started_can_leave_memory_too():
    async def workflow(run):
        await run.wait("w")

    driver = begin(workflow)
    driver.close()
    assert driver.closed


def test_branches_that_were_written_and_never_begun_leave_no_warning():
    async def branch(run):
        await run.effect("never")

    async def workflow(run):
        early = run.gather(branch(run))
        try:
            await run.wait("w")
        finally:
            try:
                await early
            finally:
                await run.gather(branch(run), branch(run))

    driver, _ = play(workflow)
    driver.close()
    assert not driver.ignored_close


def test_faults_found_while_a_run_leaves_memory_do_not_hold_it():
    async def workflow(run):
        try:
            await run.wait("w")
        finally:
            run.driver.fault(AssertionError("a bound step was dropped"))

    driver, _ = play(workflow)
    driver.close()
    assert driver.ending is None
