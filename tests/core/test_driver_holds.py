"""What makes a run held before any further effect: changed code, unreadable results, foreign awaits, faults."""

import asyncio
import gc

import pytest

from fencepost.core.asks import Held, Recorded
from fencepost.core.errors import ForeignAwait, HistoryMismatch, Misuse, StepFailed
from tests.core.driver_play import Bound, as_recorded, begin, done, play


async def as_started(run):
    """The first version of the code: a read, then an effect, then another."""
    await run.read("a")
    await run.effect("b", None, "5")
    await run.effect("c")


def ledger_of(workflow, *completions):
    """What the ledger holds of a run: each position that was asked for."""
    driver = begin(workflow)
    recorded = {}
    for moves in [driver.start(), *map(driver.deliver, completions)]:
        recorded |= {ask.position: as_recorded(ask) for ask in moves}
    return recorded


async def without_b(run):
    await run.read("a")
    await run.effect("c")


async def with_an_insertion(run):
    await run.read("a")
    await run.effect("new")
    await run.effect("b", None, "5")


async def reordered(run):
    await run.read("a")
    await run.effect("c")
    await run.effect("b", None, "5")


async def renamed(run):
    await run.read("a")
    await run.effect("bee", None, "5")


async def other_arguments(run):
    await run.read("a")
    await run.effect("b", None, "6")


async def other_version(run):
    await run.read("a")
    await run.effect("b", None, "5", 2)


async def ends_early(run):
    await run.read("a")


async def other_kind(run):
    await run.wait("a")


CHANGES = [
    *(without_b, with_an_insertion, reordered, renamed, other_arguments, other_version, ends_early, other_kind),
]


@pytest.mark.parametrize("changed", CHANGES)
@pytest.mark.parametrize("b_is_done", [True, False], ids=["b done", "b in flight"])
def test_changed_code_is_noticed_before_any_further_effect(changed, b_is_done):
    history = [done("/a"), done("b")] if b_is_done else [done("/a")]
    driver, told = play(changed, *history, recorded=ledger_of(as_started, *history))
    mismatch = driver.history_mismatch()
    if isinstance(driver.ending, Held):
        assert told[-1] == []
        mismatch = driver.ending.error
    assert isinstance(mismatch, HistoryMismatch)
    assert mismatch.hint
    assert mismatch.ids["run"] == "run-1"


def test_unchanged_code_is_not_mistaken_for_changed_code():
    history = [done("/a"), done("b")]
    driver, _ = play(as_started, *history, recorded=ledger_of(as_started, *history))
    assert driver.ending is None
    assert driver.unasked() == {}


def test_code_that_asks_in_another_order_side_by_side_is_not_a_change():
    async def one(run):
        await run.gather(run.effect("a"), run.effect("b"))

    async def other(run):
        await run.gather(run.effect("b"), run.effect("a"))

    driver, _ = play(other, recorded=ledger_of(one))
    assert driver.ending is None
    assert driver.history_mismatch() is None


def test_what_is_recorded_and_not_asked_for_after_the_whole_replay_is_named():
    recorded = ledger_of(as_started) | {"gone": Recorded("effect", "gone", "", 1), "cancel": Recorded("", "", "", 0)}
    driver, _ = play(as_started, recorded=recorded)
    assert list(driver.unasked()) == ["gone"]
    assert "gone" in str(driver.history_mismatch())


def test_a_known_outcome_may_be_read_by_another_contract_version_but_not_with_other_parameters():
    final = {position: entry._replace(final=True) for position, entry in ledger_of(as_started, done("/a")).items()}
    driver, _ = play(other_version, done("/a"), done("b"), recorded=final)
    assert not isinstance(driver.ending, Held)
    driver, _ = play(other_arguments, done("/a"), recorded=final)
    assert isinstance(driver.ending, Held)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda run: run.sleep(5), lambda run: run.sleep(6)),
        (lambda run: run.wait("w", "spec"), lambda run: run.wait("w", "other spec")),
        (lambda run: run.compensate("why"), lambda run: run.compensate("other reason")),
        (lambda run: run.read("a"), lambda run: run.compute("a")),
        (lambda run: run.race(run.read("a")), lambda run: run.gather(run.read("a"))),
    ],
    ids=["sleep", "wait", "compensate", "kind", "race"],
)
def test_each_kind_of_ask_is_compared_with_its_record(one, other):
    driver, _ = play(other, recorded=ledger_of(one))
    assert isinstance(driver.ending, Held) or driver.history_mismatch()
    driver, _ = play(one, recorded=ledger_of(one))
    assert driver.ending is None
    assert driver.history_mismatch() is None


# -- results that cannot be read -----------------------------------------------------------------------------------


def test_a_stored_result_that_cannot_be_decoded_holds_the_run_and_is_no_error_of_the_workflow():
    class Strict(Bound):
        def decode(self, payload):
            raise ValueError("field missing")

    caught = []

    async def workflow(run):
        try:
            await run.driver.do("read", "a", None, Strict())
        except Exception as error:  # noqa: BLE001 - the handler that a user would write
            caught.append(error)

    driver, told = play(workflow, done("/a", {}))
    assert told[-1] == []
    assert caught == []
    assert type(driver.ending.error).__name__ == "UnreadableValue"
    assert "field missing" in str(driver.ending.error)
    assert isinstance(driver.ending.error.__cause__, ValueError)
    assert driver.delivered == 0, "it is delivered again once the type accepts it"


# -- foreign awaits ----------------------------------------------------------------------------------------------


class Foreign:
    def __await__(self):
        yield "something that only an event loop understands"


def test_a_foreign_await_is_raised_where_it_stands_and_holds_the_run_even_if_it_is_swallowed():
    caught = []

    async def workflow(run):
        try:
            await Foreign()
        except ForeignAwait as error:
            caught.append(error)
        await run.effect("mail")

    driver, told = play(workflow)
    assert told == [[]]
    assert driver.ending == Held(caught[0])
    assert "str" in str(caught[0])
    assert "test_driver_holds.py" in caught[0].ids["at"]


def test_asyncio_is_foreign():
    async def workflow(run):
        await asyncio.sleep(0)

    driver, _ = play(workflow)
    assert isinstance(driver.ending.error, ForeignAwait)


def test_a_foreign_await_in_one_branch_keeps_back_what_the_others_ask_for():
    async def workflow(run):
        await run.gather(run.effect("a"), Foreign(), run.effect("b"))

    driver, told = play(workflow)
    assert told == [[]]
    assert isinstance(driver.ending.error, ForeignAwait)


def test_what_another_run_asks_for_is_foreign():
    other = begin(as_started)
    other.start()

    async def workflow(run):
        await other.sleep(1)

    driver, _ = play(workflow)
    assert isinstance(driver.ending.error, ForeignAwait)


# -- faults ------------------------------------------------------------------------------------------------------


def test_a_reported_fault_holds_the_run_and_keeps_back_the_asks_of_that_advance():
    fault = Misuse("a step was bound and never performed")

    async def workflow(run):
        await run.effect("a")
        run.driver.fault(fault)
        run.driver.fault(Misuse("a later one"))
        await run.effect("b")

    driver, told = play(workflow, done("a"))
    assert told == [["a"], []]
    assert driver.ending == Held(fault)


def test_a_fault_outranks_a_normal_return():
    fault = Misuse("a step was bound and never performed")

    async def workflow(run):
        run.driver.fault(fault)
        return "fine"

    driver, _ = play(workflow)
    assert driver.ending == Held(fault)


def test_a_fault_reported_between_two_advances_holds_the_next():
    async def workflow(run):
        await run.effect("a")
        await run.effect("b")

    driver = begin(workflow)
    driver.start()
    driver.fault(Misuse("found by the garbage collector"))
    assert driver.deliver(done("a")) == []
    assert isinstance(driver.ending, Held)


def test_cleaning_up_can_be_told_from_working():
    seen = []

    async def loser(run):
        try:
            await run.wait("w")
        finally:
            seen.append(run.driver.unwinding)

    async def workflow(run):
        await run.race(loser(run), run.read("go"))
        seen.append(run.driver.unwinding)
        try:
            await run.effect("a")
        finally:
            seen.append(run.driver.unwinding)

    driver, _ = play(workflow, done("/race:1.1/go"))
    driver.close()
    assert seen == [True, False, True]


def test_a_held_run_takes_nothing_more_and_its_coroutines_have_ended():
    ended = []

    async def branch(run):
        try:
            await run.effect("a")
        except StepFailed:
            pass
        finally:
            ended.append("branch")

    async def workflow(run):
        try:
            await run.gather(branch(run), run.effect("b"))
        finally:
            ended.append("workflow")

    driver, told = play(workflow, done("nobody waits for this"), done("a"))
    assert told == [["a", "b"], [], []]
    assert isinstance(driver.ending.error, HistoryMismatch)
    assert ended == ["branch", "workflow"]
    assert driver.delivered == 0
    gc.collect()
