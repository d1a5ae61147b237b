"""One step after the other: what is asked, what the workflow receives, and an effect that is met again."""

import pytest

from fencepost.core.asks import Held, Raised, Returned, SleepAsk
from fencepost.core.errors import RepeatedEffect, StepFailed
from tests.core.driver_play import STARTED_AT, as_recorded, begin, done, failed, play


def test_a_workflow_asks_for_one_step_after_the_other_and_returns_its_value():
    async def workflow(run):
        first = await run.read("a")
        second = await run.effect("b")
        return first + second

    driver, told = play(workflow, done("/a", 1), done("b", 2))
    assert told == [["/a"], ["b"], []]
    assert driver.ending == Returned(3)
    assert driver.delivered == 2


def test_an_ask_carries_the_bound_call_and_nothing_happens_before_it_is_awaited():
    async def workflow(run):
        later = run.effect("charge", "line-1", "amount 5")
        await run.wait("go", "approval")
        await later

    driver = begin(workflow)
    (wait,) = driver.start()
    assert (wait.kind, wait.name, wait.fingerprint, wait.version) == ("wait", "go", "digest of approval", 0)
    (step,) = driver.deliver(done("/go"))
    assert (step.kind, step.name, step.item, step.fingerprint, step.version) == (
        *("effect", "charge", "line-1"),
        *("digest of amount 5", 1),
    )


def test_the_error_of_a_step_reaches_the_workflow_as_one_exception_with_class_message_and_traceback():
    async def workflow(run):
        try:
            await run.effect("charge")
        except StepFailed as error:
            return error.record, error.ids

    driver, _ = play(workflow, failed("charge", "card refused"))
    record, ids = driver.ending.value
    assert (record.class_name, record.message, record.traceback) == ("shop.Refused", "card refused", "Traceback ...")
    assert ids == {"run": "run-1", "step": "charge"}


def test_an_exception_of_the_workflow_ends_it_with_that_very_object_and_the_number_of_completions():
    problem = ValueError("no")

    async def workflow(run):
        await run.read("a")
        raise problem

    driver, _ = play(workflow, done("/a"))
    assert driver.ending == Raised(problem, 1)


def test_a_workflow_that_cannot_even_be_called_ends_as_raised():
    driver = begin(lambda run: run.nonsense)
    assert driver.start() == []
    assert isinstance(driver.ending.error, AttributeError)


def test_even_an_exit_ends_the_workflow_and_not_its_worker():
    async def workflow(run):
        raise SystemExit(3)

    driver, _ = play(workflow)
    assert isinstance(driver.ending.error, SystemExit)


def test_an_interrupt_is_nobodys_result_it_ends_the_advance_and_the_run_leaves_memory():
    async def workflow(run):
        await run.read("a")
        raise KeyboardInterrupt

    driver = begin(workflow)
    driver.start()
    with pytest.raises(KeyboardInterrupt):
        driver.deliver(done("/a"))
    assert driver.closed
    assert driver.ending is None


def test_now_is_when_the_last_completion_was_delivered_and_sleeps_count_from_there():
    async def workflow(run):
        seen = [run.now()]
        await run.read("a")
        seen.append(run.now())
        await run.sleep(50)
        return [*seen, run.now()]

    driver = begin(workflow)
    driver.start()
    assert driver.deliver(done("/a", at=2_000)) == [SleepAsk("/sleep:1", until=2_050, duration=50)]
    driver.deliver(done("/sleep:1", "ignored", at=9_000))
    assert driver.ending == Returned([STARTED_AT, 2_000, 9_000])


def test_a_sleep_returns_nothing_whatever_stands_in_its_row():
    async def workflow(run):
        return await run.sleep(1)

    driver, _ = play(workflow, done("/sleep:1", "something"))
    assert driver.ending == Returned(None)


def test_each_kind_of_step_is_answered_through_its_own_decoder():
    class Doubled:
        fingerprint, version = "", 1

        def decode(self, payload):
            return payload * 2

    async def workflow(run):
        driver, call = run.driver, Doubled()
        return [
            await driver.do("effect", "e", None, call),
            await driver.do("model", "m", None, call),
            await driver.wait("w", call),
            await driver.child("c", call),
            await driver.compensate("why", call.decode),
        ]

    answers = [done(position, 1) for position in ("e", "/m", "/w", "/c", "/compensate:1")]
    driver, _ = play(workflow, *answers)
    assert driver.ending == Returned([2] * 5)


# -- an effect met again ----------------------------------------------------------------------------------------


def test_an_effect_met_again_with_the_same_item_and_request_gets_the_recorded_result_without_asking():
    async def workflow(run):
        first = await run.effect("refund", "order-7", "100.00")
        second = await run.effect("refund", "order-7", "100.00")
        third = await run.effect("refund", "order-8", "100.00")
        return first, second, third

    driver, told = play(workflow, done("refund[order-7]", "r7"), done("refund[order-8]", "r8"))
    assert told == [["refund[order-7]"], ["refund[order-8]"], []]
    assert driver.ending == Returned(("r7", "r7", "r8"))


def test_each_asker_gets_a_value_of_its_own():
    class Listed:
        fingerprint, version = "", 1

        def decode(self, payload):
            return list(payload)

    async def workflow(run):
        first = await run.driver.do("effect", "e", "1", Listed())
        first.append("changed")
        return await run.driver.do("effect", "e", "1", Listed())

    driver, _ = play(workflow, done("e[1]", ["stored"]))
    assert driver.ending == Returned(["stored"])


def test_a_recorded_error_is_raised_again_when_its_effect_is_met_again():
    async def workflow(run):
        seen = []
        for _ in range(2):
            try:
                await run.effect("refund", "order-7")
            except StepFailed as error:
                seen.append(error.record.message)
        return seen

    driver, _ = play(workflow, failed("refund[order-7]", "closed"))
    assert driver.ending == Returned(["closed", "closed"])


def test_an_effect_met_again_in_flight_is_asked_once_and_delivered_in_the_order_of_waiting():
    order = []

    async def branch(run, name):
        result = await run.effect("refund", "order-7")
        order.append((name, result))

    async def late(run):
        await run.read("first")
        await branch(run, "late")

    async def workflow(run):
        await run.gather(late(run), branch(run, "a"), branch(run, "b"))

    driver, told = play(workflow, done("/gather:1.0/first"), done("refund[order-7]", "r7"))
    assert told == [["/gather:1.0/first", "refund[order-7]"], [], []]
    assert order == [("a", "r7"), ("b", "r7"), ("late", "r7")]
    assert driver.delivered == 2


@pytest.mark.parametrize(
    ("again", "words"),
    [
        pytest.param(lambda run: run.effect("refund", None, "5"), "without an item", id="without an item"),
        pytest.param(lambda run: run.effect("refund", "o", "6"), "another parameters", id="with another request"),
        pytest.param(lambda run: run.effect("refund", "o", "5", 2), "another contract version", id="another version"),
    ],
)
@pytest.mark.parametrize("answered", [True, False], ids=["answered", "in flight"])
def test_an_effect_met_again_otherwise_is_refused_by_name_and_nothing_gets_out(again, words, answered):
    async def workflow(run):
        item = None if "item" in words else "o"

        async def second():
            await run.effect("other")
            await again(run)

        async def first():
            await run.effect("refund", item, "5")
            await run.effect("next")

        await run.gather(first(), second())

    refund = "refund" if "item" in words else "refund[o]"
    answers = ([done(refund)] if answered else []) + [done("other")]
    driver, told = play(workflow, *answers)
    assert told[-1] == []
    assert isinstance(driver.ending, Held)
    assert isinstance(driver.ending.error, RepeatedEffect)
    assert words.removeprefix("another ") in str(driver.ending.error)
    assert "test_driver_steps.py" in driver.ending.error.ids["at"]
    assert driver.deliver(done("next")) == []


def test_no_ask_of_an_advance_gets_out_once_that_advance_is_refused():
    async def workflow(run):
        async def repeat():
            await run.effect("charge")
            await run.effect("charge")

        async def other():
            await run.effect("charge", "1")
            await run.effect("mail")

        await run.read("start")
        await run.gather(other(), repeat())

    driver, told = play(workflow, done("/start"), done("charge[1]"), done("charge"))
    assert told == [["/start"], ["charge[1]", "charge"], ["mail"], []]
    assert isinstance(driver.ending, Held)


# -- long runs --------------------------------------------------------------------------------------------------


def test_ten_thousand_steps_in_a_row_need_no_deeper_stack():
    async def workflow(run):
        return sum([await run.effect("add", str(number)) for number in range(10_000)])

    driver, _ = play(workflow, *(done(f"add[{number}]", 1) for number in range(10_000)))
    assert driver.ending == Returned(10_000)


def test_ten_thousand_recorded_effects_met_again_at_once_need_no_deeper_stack():
    async def workflow(run):
        return sum([await run.effect("add", "1") for _ in range(10_000)])

    driver, _ = play(workflow, done("add[1]", 1))
    assert driver.ending == Returned(10_000)


def test_a_thousand_branches_and_a_thousand_levels_need_no_deeper_stack():
    async def deep(run, level):
        if level == 0:
            return await run.effect("bottom")
        (value,) = await run.gather(deep(run, level - 1))
        return value + 1

    async def workflow(run):
        values = await run.gather(*(run.effect("add", str(number)) for number in range(1_000)))
        return sum(values) + await deep(run, 1_000)

    answers = [done(f"add[{number}]", 1) for number in reversed(range(1_000))]
    driver, told = play(workflow, *answers, done("bottom", 0))
    assert len(told[0]) == 1_000
    assert driver.ending == Returned(2_000)


def test_replay_of_a_recorded_run_asks_the_same_and_misses_nothing():
    async def workflow(run):
        await run.effect("a")
        await run.gather(run.effect("b"), run.wait("w"))

    recorded = {}
    first = begin(workflow)
    for advance in (first.start(), first.deliver(done("a"))):
        recorded |= {ask.position: as_recorded(ask) for ask in advance}
    assert list(recorded) == ["a", "b", "/gather:1.1/w"]
    again, told = play(workflow, done("a"), recorded=recorded)
    assert told == [["a"], ["b", "/gather:1.1/w"]]
    assert again.unasked() == {}
    assert again.history_mismatch() is None
