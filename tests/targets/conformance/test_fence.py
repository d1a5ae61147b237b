"""What every fence keeps, whatever its target: the sentences of the ladder, one test each."""

import asyncio
from threading import Barrier, Event, Thread

import pytest

from fencepost import (
    Absent,
    App,
    Fenced,
    FenceRefused,
    Found,
    Retry,
    Run,
    RunHeld,
    SyncCall,
    Unresolved,
    effect,
    workflow,
)

ROUNDS = 10


def test_what_was_written_under_a_lower_token_is_seen_after_the_raise(place, resource):
    place.write(resource, 1, "first")

    place.fence.raise_to(resource, 2)

    assert place.holds(resource, "first")
    assert not place.holds(resource, "second")


def test_an_old_writer_who_arrives_before_the_new_owners_first_write_is_refused(place, resource):
    place.fence.raise_to(resource, 2)

    with pytest.raises(FenceRefused) as refused:
        place.write(resource, 1, "old")

    assert refused.value.ids["resource"] == resource
    assert not place.holds(resource, "old")
    place.write(resource, 2, "new")
    assert place.holds(resource, "new")


def test_an_old_writer_who_arrives_after_it_is_refused_too(place, resource):
    place.write(resource, 1, "first")
    place.write(resource, 3, "new")

    with pytest.raises(FenceRefused):
        place.write(resource, 2, "old")

    assert [place.holds(resource, value) for value in ("first", "new", "old")] == [True, True, False]


def test_the_same_token_may_write_again(place, resource):
    for value in ("one", "two", "three"):
        place.write(resource, 7, value)

    assert all(place.holds(resource, value) for value in ("one", "two", "three"))


def test_a_lower_raise_is_refused_and_changes_nothing(place, resource):
    place.fence.raise_to(resource, 5)
    place.write(resource, 5, "five")

    with pytest.raises(FenceRefused):
        place.fence.raise_to(resource, 3)

    with pytest.raises(FenceRefused):
        place.write(resource, 4, "four")
    place.write(resource, 5, "five again")
    assert [place.holds(resource, value) for value in ("five", "four", "five again")] == [True, False, True]


def test_a_raise_may_be_repeated(place, resource):
    place.write(resource, 1, "first")

    for _ in range(3):
        place.fence.raise_to(resource, 2)

    with pytest.raises(FenceRefused):
        place.write(resource, 1, "old")
    place.write(resource, 2, "new")
    assert place.holds(resource, "first")


def test_tokens_are_compared_as_numbers(place, resource):
    place.fence.raise_to(resource, 9)
    place.write(resource, 10, "ten")
    with pytest.raises(FenceRefused):
        place.write(resource, 9, "nine")

    large = 2**62
    place.fence.raise_to(resource, large)
    with pytest.raises(FenceRefused):
        place.write(resource, large - 1, "almost")
    place.write(resource, large, "large")


def test_resources_are_independent(place, resource):
    other = f"{resource}-other"
    place.fence.raise_to(resource, 9)

    place.write(other, 1, "value")

    assert place.holds(other, "value")
    assert not place.holds(resource, "value")


def test_a_failed_raise_is_an_error_and_no_refusal(place, resource):
    with pytest.raises(Exception) as error:  # noqa: PT011 - each client has its own
        place.out_of_reach().raise_to(resource, 2)

    assert not isinstance(error.value, FenceRefused)


# -- at the same time -------------------------------------------------------------------------------------------------


class Racer(Thread):
    """Does one thing in a thread of its own, and keeps what it raised."""

    def __init__(self, does):
        super().__init__()
        self._does = does
        self.error = None
        self.start()

    def run(self):
        try:
            self._does()
        except Exception as error:  # noqa: BLE001 - the test looks at it
            self.error = error


@pytest.mark.parametrize("known", [False, True], ids=["of a new resource", "of a known resource"])
def test_of_a_raise_and_a_write_at_once_never_both_win(place, resource, known):
    for number in range(ROUNDS):
        raced = f"{resource}-{number}"
        if known:
            place.write(raced, 1, "first")
        start = Barrier(2)
        writer = Racer(lambda: (start.wait(), place.write(raced, 1, "old")))  # noqa: B023 - joined in the same round
        start.wait()

        place.fence.raise_to(raced, 2)
        was_there = place.holds(raced, "old")
        writer.join()

        # Whatever the writer was told: what the look-up did not see never comes.
        assert place.holds(raced, "old") is was_there
        assert was_there or writer.error is not None
        assert not was_there or not isinstance(writer.error, FenceRefused)


@pytest.mark.parametrize("known", [False, True], ids=["of a new resource", "of a known resource"])
def test_a_writer_paused_in_the_middle_is_seen_or_refused(place, resource, known):
    arrived, go_on = Event(), Event()
    if known:
        place.write(resource, 1, "first")

    def pause():
        arrived.set()
        assert go_on.wait(60)

    writer = Racer(lambda: place.write(resource, 1, "old", pause))
    assert arrived.wait(60)
    seen = []
    raiser = Racer(lambda: (place.fence.raise_to(resource, 2), seen.append(place.holds(resource, "old"))))
    raiser.join(0.3)  # a database makes it wait for the writer, all others let it pass
    looked_before = list(seen)
    go_on.set()
    writer.join()
    raiser.join()

    assert raiser.error is None
    assert seen == [place.holds(resource, "old")]
    if looked_before:
        assert isinstance(writer.error, FenceRefused)
    else:
        assert writer.error is None


def test_many_raises_at_once_leave_the_highest(place, resource):
    racers = [Racer(lambda token=token: place.fence.raise_to(resource, token)) for token in range(1, 9)]
    for racer in racers:
        racer.join()

    assert racers[-1].error is None
    assert all(racer.error is None or isinstance(racer.error, FenceRefused) for racer in racers)
    with pytest.raises(FenceRefused):
        place.write(resource, 7, "seven")
    place.write(resource, 8, "eight")


# -- under the engine -------------------------------------------------------------------------------------------------


def booking(place, resource, told, *, fence=None):
    """A workflow of one fenced effect; `told` says what its attempts do in turn. The span is an hour."""
    sent = []

    def find(call: SyncCall, account: str) -> Found[str] | Absent:
        values = [f"attempt-{number}" for number in range(1, 6)]
        return Found.only(value for value in values if place.holds(account, value))

    @effect(
        fence=Fenced(fence or place.fence, resource=lambda account: account),
        reconcile=find, consistent=True, settle="1h", attempt_timeout="1m",
        retry=Retry(attempts=5, within="15m", first_delay="1ms", longest_delay="2ms"),
    )  # fmt: skip
    def book(call: SyncCall, account: str) -> str:
        value = f"attempt-{call.attempt}"
        sent.append(call.token(account))
        with call.sending():
            does = told.pop(0)
            if does != "is delayed":
                place.write(account, call.token(account), value)
            if does != "writes":
                raise Unresolved("no reply")
        return value

    @workflow(version=1)
    async def pay(run: Run, account: str) -> str:
        return await run.do(book(account))

    return pay, sent


def play(folder, pay, account):
    async def to_the_end():
        async with App(f"sqlite:///{folder}/ledger.db", workflows=[pay]) as app, app.worker():
            return await (await app.start(pay, account, id="run-1")).result(within="60s")

    return asyncio.run(to_the_end())


def test_the_engine_finds_what_was_written_and_does_not_write_again(place, resource, tmp_path):
    pay, sent = booking(place, resource, ["writes, and the reply is lost"])

    assert play(tmp_path, pay, resource) == "attempt-1"
    assert sent == [1]


def test_the_engine_writes_again_at_once_and_the_late_first_write_is_refused(place, resource, tmp_path):
    pay, sent = booking(place, resource, ["is delayed", "writes"])

    assert play(tmp_path, pay, resource) == "attempt-2"
    assert sent == [1, 3]
    with pytest.raises(FenceRefused):
        place.write(resource, 1, "attempt-1")
    assert not place.holds(resource, "attempt-1")


def test_after_a_failed_raise_the_engine_concludes_nothing(place, resource, tmp_path):
    pay, sent = booking(place, resource, ["is delayed"], fence=place.out_of_reach())

    with pytest.raises(RunHeld, match="cannot tell"):
        play(tmp_path, pay, resource)
    assert sent == [1]
