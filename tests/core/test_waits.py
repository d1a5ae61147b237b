"""Which signal satisfies which wait (C16): early, twice, late, against a deadline, and under many names."""

from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.records import Signal, Step
from fencepost.core.states import SignalState, StepState
from fencepost.core.waits import NOT_WAITING, Expired, Satisfied, due, refusal, wake_at


def wait(name="approve", opened=10, until=None, *, position=None, state=StepState.OPEN, kind="wait"):
    return Step(position or name, kind, name, "f", state, opened_at=opened, due_at=until)


def signal(name="approve", at=20, *, id="s1", state=SignalState.KEPT):
    return Signal(id, name, "{}", state, sent_at=at)


# -- early, in time, twice, late ------------------------------------------------------------------------------------


def test_a_signal_that_came_before_its_wait_satisfies_it():
    early = signal(at=1)
    assert due([wait(opened=10)], [early], now=10) == [Satisfied("approve", early)]
    assert refusal([], early) is None


def test_a_signal_that_comes_while_another_step_runs_is_kept():
    early = signal(at=1)
    assert due([wait("other")], [early], now=5) == []
    assert refusal([wait("other")], early) is None


def test_a_signal_satisfies_the_open_wait_of_its_name():
    came = signal()
    assert due([wait(), wait("pay")], [came], now=20) == [Satisfied("approve", came)]


def test_of_two_signals_the_first_is_taken_and_the_second_refused_when_the_wait_is_closed():
    first, second = signal(at=20, id="z"), signal(at=21, id="a")
    assert due([wait()], [second, first], now=30) == [Satisfied("approve", first)]
    assert refusal([wait(state=StepState.DONE)], second) == NOT_WAITING


def test_an_applied_or_refused_signal_is_not_taken_again():
    used = [signal(state=SignalState.APPLIED), signal(state=SignalState.REFUSED, id="s2")]
    assert due([wait()], used, now=30) == []


def test_a_late_signal_is_refused_as_not_waiting():
    for closed in (StepState.DONE, StepState.FAILED, StepState.CANCELLED):
        assert refusal([wait(state=closed)], signal()) == NOT_WAITING


def test_an_open_wait_of_the_name_refuses_nothing():
    assert refusal([wait(position="1", state=StepState.DONE), wait(position="2")], signal()) is None


def test_a_name_that_may_be_waited_for_again_keeps_its_signals():
    assert refusal([wait("line", state=StepState.DONE)], signal("line"), many={"line"}) is None
    assert refusal([wait("line", state=StepState.DONE)], signal("line"), many={"other"}) == NOT_WAITING


# -- deadlines ------------------------------------------------------------------------------------------------------


def test_a_wait_expires_at_its_deadline_and_not_before():
    assert due([wait(until=50)], [], now=49) == []
    assert due([wait(until=50)], [], now=50) == [Expired("approve")]


def test_a_signal_at_the_deadline_wins_even_if_both_are_seen_much_later():
    at_the_last_moment = signal(at=50)
    assert due([wait(until=50)], [at_the_last_moment], now=900) == [Satisfied("approve", at_the_last_moment)]


def test_a_signal_after_the_deadline_comes_too_late_even_if_both_are_seen_at_once():
    assert due([wait(until=50)], [signal(at=51)], now=900) == [Expired("approve")]


def test_a_signal_that_is_too_late_for_one_wait_is_left_for_the_next_of_its_name():
    came = signal(at=60)
    waits = [wait(position="1", opened=10, until=50), wait(position="2", opened=11)]
    assert due(waits, [came], now=60) == [Expired("1"), Satisfied("2", came)]


def test_a_sleep_ends_at_its_time_and_takes_no_signal():
    sleep = wait("approve", until=50, kind="sleep")
    assert due([sleep], [signal()], now=49) == []
    assert due([sleep], [signal()], now=50) == [Expired("approve")]


# -- many, and the order in which they become visible ---------------------------------------------------------------


def test_waits_of_one_name_take_signals_in_the_order_of_arrival():
    first, second, third = (signal("line", at, id=str(at)) for at in (20, 21, 22))
    waits = [wait("line", 12, position="2"), wait("line", 11, position="1")]
    assert due(waits, [third, second, first], now=30) == [Satisfied("1", first), Satisfied("2", second)]


def test_what_happened_first_is_delivered_first_whatever_the_names():
    came, early = signal("pay", 40), signal("approve", 5, id="s2")
    waits = [wait("pay"), wait("sleepy", until=30, kind="sleep"), wait("approve", opened=10)]
    assert due(waits, [came, early], now=50) == [Satisfied("approve", early), Expired("sleepy"), Satisfied("pay", came)]


def test_other_open_steps_are_not_waits():
    assert due([wait(until=5, kind="model")], [signal()], now=50) == []


names = st.sampled_from(["a", "b"])
waiting = st.lists(st.tuples(names, st.integers(0, 50), st.none() | st.integers(0, 99)), max_size=5)
signals = st.lists(st.tuples(names, st.integers(0, 99)), max_size=5)


@given(waiting, signals, st.integers(0, 120), st.randoms())
def test_each_signal_satisfies_one_wait_and_each_wait_ends_once_in_any_order_of_rows(waits, sent, now, shuffle):
    steps = [wait(name, opened, until, position=str(n)) for n, (name, opened, until) in enumerate(waits)]
    kept = [signal(name, at, id=str(n)) for n, (name, at) in enumerate(sent)]
    closed = due(steps, kept, now=now)
    taken = [one.signal.id for one in closed if isinstance(one, Satisfied)]
    assert len(set(taken)) == len(taken)
    assert len({one.position for one in closed}) == len(closed)
    shuffle.shuffle(steps)
    shuffle.shuffle(kept)
    assert due(steps, kept, now=now) == closed


# -- waking up ------------------------------------------------------------------------------------------------------


def test_a_run_wakes_at_its_earliest_deadline():
    steps = [wait(until=70), wait("b", until=60), wait("c"), wait("d", until=5, state=StepState.DONE)]
    assert wake_at(steps) == 60
    assert wake_at(steps, also=[40]) == 40
    assert wake_at([], also=[40]) == 40


def test_a_run_that_only_waits_for_signals_is_not_woken_by_time():
    assert wake_at([wait()]) is None
    assert wake_at([]) is None
