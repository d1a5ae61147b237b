"""What charts count is what there is: nothing twice, nothing outside of its time, and no scale that ends below it."""

from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.charting import (
    BUCKETS_MAX,
    TARGETS_MAX,
    Buckets,
    Retried,
    Sent,
    counted,
    decades,
    latencies,
    retries,
    top_of_count,
    top_of_time,
    unknown_ages,
)
from fencepost.core.duration import DAY, HOUR, MINUTE, SECOND
from fencepost.core.states import OperationState, Outcome

NOW = 20_000 * DAY + 7 * HOUR + 12_345_678
INSTANTS = st.integers(NOW - 3 * HOUR, NOW)


def sent(at, settled=None, *, effect="charge", number=1, state=OperationState.UNKNOWN, changed=None):
    known = settled is not None
    state = OperationState.SUCCEEDED if known else state
    outcome = Outcome.APPLIED if known else Outcome.UNRESOLVED
    return Sent(effect, number, at, settled, outcome, state, at if changed is None else changed)


@given(st.integers(1, 400 * DAY), st.integers(0, 40_000 * DAY))
def test_buckets_are_few_round_and_end_now(within, now):
    buckets = Buckets.before(now, within)
    bounds = list(buckets.bounds())
    assert 1 <= buckets.count <= BUCKETS_MAX + 1
    assert buckets.began_at % buckets.step == 0
    assert bounds[-1][0] <= now < bounds[-1][1]
    assert buckets.of(now) == buckets.count - 1
    assert buckets.began_at > now - within - buckets.step


@given(st.lists(INSTANTS))
def test_each_instant_is_counted_once(instants):
    buckets = Buckets.before(NOW, HOUR)
    inside = [at for at in instants if at >= buckets.began_at]
    assert sum(counted(instants, buckets)) == len(inside)
    assert counted([None], buckets) == [0] * buckets.count


@given(st.lists(st.tuples(INSTANTS, st.one_of(st.none(), st.integers(0, 2 * HOUR)))))
def test_an_age_is_that_of_the_oldest_at_some_moment_of_the_bucket(told):
    rows = [sent(at, None if lasts is None else min(NOW, at + lasts)) for at, lasts in told]
    buckets = Buckets.before(NOW, HOUR)
    ages = unknown_ages(rows, buckets, NOW)
    for age, (began, ended) in zip(ages, buckets.bounds(), strict=True):
        moments = [min(ended, NOW), *(one.known_at for one in rows if one.known_at and began <= one.known_at <= ended)]
        oldest = [
            at - one.dispatched_at
            for at in moments
            for one in rows
            if one.dispatched_at <= at <= (NOW if one.known_at is None else one.known_at)
        ]
        assert age == max([0, *oldest])


def test_the_oldest_that_is_unknown_now_counts_wherever_it_stands():
    buckets = Buckets.before(NOW, HOUR)
    ages = unknown_ages([], buckets, NOW, oldest=NOW - DAY)
    assert ages[-1] == DAY
    assert ages == sorted(ages)
    assert all(DAY - HOUR < age <= DAY for age in ages)


def test_what_another_attempt_has_proved_is_not_unknown_any_more():
    first = sent(NOW - HOUR, state=OperationState.SUCCEEDED, changed=NOW - HOUR + MINUTE)
    assert first.known_at == NOW - HOUR + MINUTE
    assert sent(NOW - HOUR).known_at is None
    assert sent(NOW - HOUR, state=OperationState.DISPATCHED).known_at is None


@given(st.lists(st.integers(0, HOUR), min_size=1))
def test_a_spread_is_of_the_durations_themselves(lasting):
    [spread] = latencies([sent(NOW - lasts - 1, NOW - 1) for lasts in lasting], Buckets(NOW - 2, 2, 1))
    assert spread.many == len(lasting)
    assert min(lasting) <= spread.median <= spread.most <= max(lasting)
    assert {spread.median, spread.most} <= set(lasting)
    assert sum(one <= spread.most for one in lasting) >= 0.95 * len(lasting)


def test_where_nothing_was_settled_there_is_no_latency():
    assert latencies([sent(NOW - 5)], Buckets(NOW - 10, 20, 1)) == [None]


def test_retries_are_counted_by_target_and_the_rest_together():
    rows = [sent(NOW, effect=f"e{one}", number=number) for one in range(12) for number in range(1, one + 2)]
    found = retries([*rows, sent(0, effect="e0", number=2)], NOW, lambda effect: effect)
    assert len(found) == TARGETS_MAX + 1
    assert found[0] == Retried("e11", 1, 11)
    assert found[-1] == Retried("", 4, 0 + 1 + 2 + 3)
    assert retries(rows, NOW, lambda _: "bank") == [Retried("bank", 12, 66)]
    assert retries([], NOW, str) == []


@given(st.integers(1, 10**16))
def test_a_scale_ends_above_all_and_not_far(value):
    assert value <= top_of_count(value) < 2.5 * value + 1
    assert value <= top_of_time(value) <= max(3.1 * value, 365 * DAY + value, 1_000)
    low, high = decades(value, value)
    assert low <= value <= high
    assert low < high <= 100 * value


def test_scales_are_round():
    assert [top_of_count(one) for one in (1, 3, 7, 11, 4_000)] == [1, 5, 10, 20, 5_000]
    assert [top_of_time(one) for one in (1, 3 * SECOND, 61 * SECOND, 400 * DAY)] == [
        1_000, 5 * SECOND, 2 * MINUTE, 730 * DAY,
    ]  # fmt: skip
