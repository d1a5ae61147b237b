"""Gather and race: who waits for whom, whose error is raised, who wins, and how the others end."""

from contextlib import suppress

import pytest

from fencepost.core.asks import Held, Raised, Returned
from fencepost.core.errors import Cancelled, Misuse, StepFailed
from fencepost.core.pending import Evicted
from tests.core.driver_play import begin, done, failed, play

# -- gather -----------------------------------------------------------------------------------------------------


def test_a_gather_returns_the_values_in_branch_order_whatever_completes_first():
    async def workflow(run):
        return await run.gather(run.effect("a"), run.effect("b"), run.effect("c"))

    driver, told = play(workflow, done("c", 3), done("a", 1), done("b", 2))
    assert told == [["a", "b", "c"], [], [], []]
    assert driver.ending == Returned((1, 2, 3))


def test_branches_that_wait_for_nothing_need_no_completion():
    async def ready(value):
        return value

    async def workflow(run):
        return await run.gather(), await run.gather(ready(1), run.gather(ready(2), ready(3)))

    driver, told = play(workflow)
    assert told == [[]]
    assert driver.ending == Returned(((), (1, (2, 3))))


def test_a_gather_settles_every_branch_then_raises_the_first_error_by_branch_order_with_the_others():
    async def workflow(run):
        await run.gather(run.effect("a"), run.effect("b"), run.effect("c"), run.effect("d"))

    driver, _ = play(workflow, failed("d", "4th"), failed("b", "2nd"), failed("c", "3rd"))
    assert driver.ending is None
    driver.deliver(done("a"))
    error = driver.ending.error
    assert isinstance(error, StepFailed)
    assert error.record.message == "2nd"
    assert [other.record.message for other in error.others] == ["3rd", "4th"]


def test_the_errors_of_nested_gathers_stay_attached():
    async def fail(text):
        raise ValueError(text)

    async def workflow(run):
        await run.gather(run.gather(fail("a"), fail("b")), fail("c"))

    driver, _ = play(workflow)
    assert str(driver.ending.error) == "a"
    assert [str(other) for other in driver.ending.error.others] == ["b", "c"]


def test_an_exception_that_lets_nothing_be_attached_is_raised_all_the_same():
    class Frozen(Exception):
        def __setattr__(self, name, value):
            raise AttributeError(name)

    async def fail():
        raise Frozen

    async def workflow(run):
        await run.gather(fail(), fail())

    driver, _ = play(workflow)
    assert isinstance(driver.ending.error, Frozen)


def test_a_finished_sibling_is_not_asked_again_while_another_waits_for_a_person():
    async def approved(run):
        answers = [await run.wait(f"question {number}") for number in range(5)]
        return await run.effect("pay"), answers

    async def workflow(run):
        return await run.gather(run.effect("mail"), approved(run))

    answers = [done(f"/gather:1.1/question {number}", number) for number in range(5)]
    driver, told = play(workflow, done("mail"), *answers, done("pay", "paid"))
    assert [position for moves in told for position in moves].count("mail") == 1
    assert driver.ending == Returned((None, ("paid", [0, 1, 2, 3, 4])))


# -- race -------------------------------------------------------------------------------------------------------


def test_a_race_returns_index_and_value_of_the_first_to_finish_and_withdraws_what_the_others_wait_for():
    async def workflow(run):
        return await run.race(run.wait("decision"), run.effect("ask"), run.sleep(10))

    driver, told = play(workflow, done("ask", "yes"))
    assert told == [
        ["/race:1.0/decision", "ask", "/race:1.2/sleep:1"],
        ["-/race:1.0/decision", "-/race:1.2/sleep:1"],
    ]
    assert driver.ending == Returned((1, "yes"))


def test_a_race_raises_the_error_of_the_first_to_finish():
    async def workflow(run):
        await run.race(run.wait("decision"), run.effect("ask"))

    driver, told = play(workflow, failed("ask", "no"))
    assert told[-1] == ["-/race:1.0/decision"]
    assert driver.ending.error.record.message == "no"


def test_losers_get_the_cancel_exception_where_they_wait_in_branch_order_and_nested_ones_first():
    log = []

    async def noting(name, awaitable):
        try:
            await awaitable
        except Cancelled as error:
            log.append((name, str(error)))
            raise

    async def workflow(run):
        inner = noting("inner", run.gather(noting("a", run.wait("a")), noting("b", run.race(run.wait("b")))))
        return await run.race(inner, run.read("go"), noting("c", run.wait("c")))

    driver, told = play(workflow, done("/race:1.1/go"))
    reason = "another branch won the race"
    assert log == [("a", reason), ("b", reason), ("inner", reason), ("c", reason)]
    assert told[-1] == ["-/race:1.0/gather:1.0/a", "-/race:1.0/gather:1.1/race:1.0/b", "-/race:1.2/c"]
    assert driver.ending == Returned((1, None))


def test_a_cancelled_loser_can_begin_nothing_not_even_a_compensation_and_what_it_raises_is_dropped():
    refused = []

    async def stubborn(run):
        try:
            await run.wait("decision")
        except Cancelled:
            asks = [run.effect("mail"), run.read("state"), run.compensate(), run.sleep(1), run.gather(run.read("x"))]
            for ask in asks:
                try:
                    await ask
                except Cancelled:
                    refused.append(ask)
            raise ValueError("dropped") from None

    async def workflow(run):
        await run.race(stubborn(run), run.read("go"))
        return await run.effect("after")

    driver, told = play(workflow, done("/race:1.1/go"), done("after", 1))
    assert told[1] == ["-/race:1.0/decision", "after"]
    assert len(refused) == 5
    assert driver.ending == Returned(1)


def test_a_loser_that_swallows_the_cancel_and_returns_has_lost_all_the_same():
    async def stubborn(run):
        try:
            await run.wait("decision")
        except Cancelled:
            return "mine"

    async def workflow(run):
        return await run.race(stubborn(run), run.read("go"))

    driver, _ = play(workflow, done("/race:1.1/go", "theirs"))
    assert driver.ending == Returned((1, "theirs"))


def test_a_loser_that_never_stops_asking_makes_the_run_held():
    async def endless(run):
        while not run.driver.closed:
            with suppress(Cancelled, Evicted):
                await run.wait("decision")

    async def workflow(run):
        await run.race(endless(run), run.read("go"))
        await run.effect("after")

    driver, told = play(workflow, done("/race:1.1/go"))
    assert told[-1] == []
    assert isinstance(driver.ending, Held)
    assert type(driver.ending.error).__name__ == "CancelIgnored"
    assert "test_driver_groups.py" in driver.ending.error.ids["at"]


def test_branches_that_had_no_turn_before_the_race_was_won_never_begin():
    begun = []

    async def ready():
        return "at once"

    async def late(run):
        begun.append("late")
        await run.effect("mail")

    async def workflow(run):
        return await run.race(run.effect("first"), ready(), late(run), run.effect("last"))

    driver, told = play(workflow)
    assert driver.ending == Returned((1, "at once"))
    assert begun == []
    assert told == [[]], "what was asked and withdrawn in one advance never gets out"


def test_one_completion_for_two_branches_of_a_race_lets_the_first_to_wait_win():
    async def workflow(run):
        return await run.race(run.effect("refund", "7"), run.effect("refund", "7"))

    driver, told = play(workflow, done("refund[7]", "r"))
    assert told == [["refund[7]"], []]
    assert driver.ending == Returned((0, "r"))


def test_an_effect_that_somebody_else_still_waits_for_is_not_withdrawn():
    async def workflow(run):
        return await run.gather(run.effect("refund", "7"), run.race(run.effect("refund", "7"), run.sleep(1)))

    driver, told = play(workflow, done("/gather:1.1/race:1.1/sleep:1"), done("refund[7]", "r"))
    assert told == [["refund[7]", "/gather:1.1/race:1.1/sleep:1"], [], []]
    assert driver.ending == Returned(("r", (1, None)))


def test_a_withdrawn_effect_with_an_item_can_be_asked_for_again_and_is_the_same_effect():
    async def workflow(run):
        await run.race(run.effect("refund", "7"), run.sleep(1))
        await run.read("pause")
        return await run.effect("refund", "7")

    driver, told = play(workflow, done("/race:1.1/sleep:1"), done("/pause"), done("refund[7]", "r"))
    assert told == [["refund[7]", "/race:1.1/sleep:1"], ["-refund[7]", "/pause"], ["refund[7]"], []]
    assert driver.ending == Returned("r")


def test_an_effect_withdrawn_and_asked_for_again_in_one_advance_is_neither_for_the_outside():
    async def workflow(run):
        await run.race(run.effect("refund", "7"), run.sleep(1))
        return await run.effect("refund", "7")

    driver, told = play(workflow, done("/race:1.1/sleep:1"), done("refund[7]", "r"))
    assert told == [["refund[7]", "/race:1.1/sleep:1"], [], []]
    assert driver.ending == Returned("r")


def test_a_race_of_nobody_and_branches_that_are_no_awaitables_are_refused_where_they_are_written():
    async def nobody(run):
        await run.race()

    async def nonsense(run):
        await run.gather(run.read("a"), nobody(run), 7)

    for workflow in (nobody, nonsense):
        driver = begin(workflow)
        assert driver.start() == []
        assert isinstance(driver.ending, Raised)
        assert isinstance(driver.ending.error, Misuse)


def test_an_awaitable_that_refuses_to_begin_is_an_error_of_the_workflow():
    class Refusing:
        def __await__(self):
            raise ValueError("not today")

    async def never(run):
        await run.effect("mail")

    async def workflow(run):
        await run.gather(never(run), Refusing())

    driver, told = play(workflow)
    assert told == [[]]
    assert isinstance(driver.ending.error, ValueError)


def test_a_coroutine_that_was_used_already_is_an_error_of_the_workflow():
    async def ready():
        return 1

    async def workflow(run):
        used = ready()
        await used
        await run.gather(used)

    driver, _ = play(workflow)
    assert isinstance(driver.ending.error, RuntimeError)


@pytest.mark.parametrize("winner", [0, 1, 2])
def test_replay_lets_the_recorded_winner_win(winner):
    async def workflow(run):
        index, _ = await run.race(*(run.effect("offer", str(number)) for number in range(3)))
        return await run.effect(f"accept {index}")

    answers = [done(f"offer[{winner}]"), done(f"accept {winner}", "done")]
    first, told = play(workflow, *answers)
    again, told_again = play(workflow, *answers)
    assert told == told_again
    assert told[1] == [*(f"-offer[{number}]" for number in range(3) if number != winner), f"accept {winner}"]
    assert first.ending == again.ending == Returned("done")
