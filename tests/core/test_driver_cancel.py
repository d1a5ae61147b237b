"""The cancel of a run: where it arrives, what is still allowed afterwards, and how the run ends."""

from contextlib import suppress

import pytest

from fencepost.core.asks import Cancelled_, Held, Raised, Returned
from fencepost.core.errors import Cancelled
from fencepost.core.pending import Evicted
from tests.core.driver_play import CANCEL, done, failed, play


def test_a_cancel_arrives_where_the_workflow_waits_and_withdraws_what_it_waits_for():
    async def workflow(run):
        await run.effect("a")
        await run.effect("b")

    driver, told = play(workflow, done("a"), CANCEL)
    assert told == [["a"], ["b"], ["-b"]]
    assert driver.ending == Cancelled_("stop it")
    assert driver.cancelled
    assert driver.delivered == 2


def test_a_cancel_is_no_exception_that_ordinary_handlers_catch():
    async def workflow(run):
        try:
            await run.effect("a")
        except Exception:  # noqa: BLE001 - the handler that a user would write
            return "caught"

    driver, _ = play(workflow, CANCEL)
    assert driver.ending == Cancelled_("stop it")


def test_a_cancel_reaches_the_leaves_first_and_each_branch_ends_before_the_one_around_it():
    log = []

    async def noting(name, awaitable):
        try:
            await awaitable
        except Cancelled as error:
            log.append((name, str(error)))
            raise

    async def workflow(run):
        race = noting("race", run.race(noting("a", run.wait("a")), noting("b", run.wait("b"))))
        await noting("all", run.gather(race, noting("c", run.wait("c"))))

    driver, told = play(workflow, CANCEL)
    assert [name for name, _ in log] == ["a", "b", "race", "c", "all"]
    assert {reason for _, reason in log} == {"stop it"}
    assert told[-1] == ["-/gather:1.0/race:1.0/a", "-/gather:1.0/race:1.1/b", "-/gather:1.1/c"]
    assert driver.ending == Cancelled_("stop it")


def test_after_a_cancel_reads_compensations_and_groups_of_them_are_allowed_and_nothing_else():
    refused = []

    async def workflow(run):
        try:
            await run.effect("a")
        except Cancelled:
            asks = [run.effect("b"), run.compute("c"), run.wait("d"), run.sleep(1), run.child("e")]
            for ask in [*asks, run.driver.do("model", "f", None, run.read("x").call)]:
                try:
                    await ask
                except Cancelled as error:
                    refused.append(str(error))
            await run.gather(run.read("state"), run.compensate("cancelled"))
            raise

    driver, told = play(workflow, CANCEL, done("/gather:1.0/state"), done("/gather:1.1/compensate:1"))
    assert refused == ["stop it"] * 6
    assert told == [["a"], ["-a", "/gather:1.0/state", "/gather:1.1/compensate:1"], [], []]
    assert driver.ending == Cancelled_("stop it")


def test_a_group_inside_waits_for_the_compensation_of_its_branch_before_the_cancel_goes_on():
    log = []

    async def careful(run):
        try:
            await run.effect("a")
        finally:
            await run.compensate("careful")
            log.append("compensated")

    async def workflow(run):
        try:
            await run.gather(careful(run), run.effect("b"))
        finally:
            log.append("outside")

    driver, told = play(workflow, CANCEL)
    assert told[-1] == ["-a", "-b", "/gather:1.0/compensate:1"]
    assert log == []
    driver.deliver(done("/gather:1.0/compensate:1"))
    assert log == ["compensated", "outside"]
    assert driver.ending == Cancelled_("stop it")


def test_errors_of_the_way_out_stay_attached_to_the_cancel_of_the_branch_around():
    async def careful(run):
        try:
            await run.effect("a")
        finally:
            await run.compensate("careful")

    async def workflow(run):
        try:
            await run.gather(careful(run), run.effect("b"))
        except Cancelled as error:
            return [other.record.message for other in error.others]

    driver, _ = play(workflow, CANCEL, failed("/gather:1.0/compensate:1", "refund refused"))
    assert driver.ending == Returned(["refund refused"])


def test_a_compensation_that_is_under_way_is_not_interrupted_and_the_cancel_comes_with_the_next_ask():
    async def workflow(run):
        report = await run.compensate("rejected")
        try:
            await run.effect("mail")
        except Cancelled:
            return report

    driver, told = play(workflow, CANCEL, done("/compensate:1", "report"))
    assert told == [["/compensate:1"], [], []]
    assert driver.ending == Returned("report")
    assert driver.cancelled


def test_a_race_that_is_cancelled_has_no_winner_that_would_stop_a_compensation():
    async def careful(run):
        try:
            await run.effect("a")
        finally:
            await run.compensate("careful")

    async def workflow(run):
        await run.race(run.wait("w"), careful(run))

    driver, told = play(workflow, CANCEL, done("/race:1.1/compensate:1"))
    assert told == [["/race:1.0/w", "a"], ["-/race:1.0/w", "-a", "/race:1.1/compensate:1"], []]
    assert driver.ending == Cancelled_("stop it")


def test_a_cancel_exception_of_the_workflows_own_making_is_an_error_like_any_other():
    async def workflow(run):
        raise Cancelled("I give up")

    driver, _ = play(workflow)
    assert isinstance(driver.ending, Raised)


def test_a_workflow_that_catches_the_cancel_and_returns_has_returned_and_says_that_it_was_cancelled():
    async def workflow(run):
        try:
            await run.effect("a")
        except Cancelled:
            return "tidied"

    driver, _ = play(workflow, CANCEL)
    assert driver.ending == Returned("tidied")
    assert driver.cancelled
    assert driver.cancel_reason == "stop it"


def test_a_cancelled_workflow_that_never_stops_asking_is_held():
    async def workflow(run):
        while not run.driver.closed:
            with suppress(Cancelled, Evicted):
                await run.effect("a")

    driver, told = play(workflow, CANCEL)
    assert told[-1] == []
    assert isinstance(driver.ending, Held)


def test_an_effect_whose_result_is_known_is_refused_after_a_cancel_like_any_other():
    async def workflow(run):
        await run.effect("a", "1")
        try:
            await run.wait("w")
        except Cancelled:
            await run.effect("a", "1")

    driver, _ = play(workflow, done("a[1]"), CANCEL)
    assert driver.ending == Cancelled_("stop it")


@pytest.mark.parametrize("extra", [CANCEL, done("a")], ids=["a second cancel", "an answer to what was withdrawn"])
def test_what_nobody_waits_for_after_a_cancel_holds_the_run(extra):
    async def workflow(run):
        try:
            await run.effect("a")
        finally:
            await run.compensate()

    driver, told = play(workflow, CANCEL, extra)
    assert told[-1] == []
    assert isinstance(driver.ending, Held)
