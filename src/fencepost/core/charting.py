"""What charts show, counted out of what the ledger holds: by equal spans of time, and by target.

A number is never shown against a scale that makes it look larger or smaller than it is: counts and ages begin at zero,
and a scale that does not says so where it is drawn. Where nothing happened there is nothing, and no zero that looks
like a measurement. Pure. The rows come from `store.measuring`; drawing is `console.charts`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fencepost.core.duration import DAY, HOUR, MILLISECOND, MINUTE, SECOND
from fencepost.core.states import FINAL_OPERATION_STATES, OperationState, Outcome

BUCKETS_MAX = 60
TARGETS_MAX = 8

_ROUND = (
    *(MILLISECOND * one for one in (1, 2, 5, 10, 20, 50, 100, 200, 500)),
    *(SECOND * one for one in (1, 2, 5, 10, 20, 30)),
    *(MINUTE * one for one in (1, 2, 5, 10, 20, 30)),
    *(HOUR * one for one in (1, 2, 6, 12)),
    *(DAY * one for one in (1, 2, 7, 14, 30, 60, 90, 180, 365)),
)
"""Durations that are read at a glance."""


class Sent(NamedTuple):
    """One attempt: of which effect, the how manieth, when it was dispatched and settled, and what its effect is now."""

    effect: str
    number: int
    dispatched_at: int
    settled_at: int | None
    outcome: Outcome
    state: OperationState
    changed_at: int

    @property
    def known_at(self) -> int | None:
        """Since when nobody needs to ask what became of it; None: it is in flight, or unknown.

        Of one that was never settled by itself that is when its effect was: another attempt proved what happened.
        """
        if self.settled_at is not None:
            return self.settled_at
        return max(self.changed_at, self.dispatched_at) if self.state in FINAL_OPERATION_STATES else None


class Lived(NamedTuple):
    """One run: when it began, and when and how it ended."""

    created_at: int
    ended_at: int | None
    state: str


class Lately(NamedTuple):
    """What the ledger holds of its newest runs: at most so many `runs`, and of their attempts at most `limit`.

    `is_cut`: there were more attempts than that. `as_of` is when it was read, store clock.
    """

    as_of: int
    runs: int
    lived: list[Lived]
    sent: list[Sent]
    is_cut: bool


@dataclass(frozen=True, slots=True)
class Buckets:
    """Equal spans of time, the last of which is not over: `count` of `step` microseconds, from `began_at` on."""

    began_at: int
    step: int
    count: int

    @classmethod
    def before(cls, now: int, within: int) -> Buckets:
        """Those of the time `within` before now. They begin at round times, so that none wanders as time goes on."""
        assert within > 0, "there is a time to look at"
        step = next((one for one in _ROUND if one * BUCKETS_MAX >= within), within)
        first = min((now - within) // step + 1, now // step)
        return cls(first * step, step, now // step - first + 1)

    def of(self, at: int) -> int | None:
        """In which one an instant is; None: in none."""
        number = (at - self.began_at) // self.step
        return number if 0 <= number < self.count else None

    def bounds(self) -> Iterator[tuple[int, int]]:
        """From when until when each of them is."""
        for number in range(self.count):
            yield self.began_at + number * self.step, self.began_at + (number + 1) * self.step


def unknown_ages(sent: Iterable[Sent], buckets: Buckets, now: int, oldest: int | None = None) -> list[int]:
    """How old the oldest attempt got, in each bucket, of which it was not known then what became of it; 0: none was.

    `oldest` is when the effect was first dispatched that is unknown now for the longest time, wherever it stands.
    """
    spans = [(one.dispatched_at, one.known_at) for one in sent]
    spans += [] if oldest is None else [(oldest, None)]
    ages = [0] * buckets.count
    for began, known in spans:
        ended = now if known is None else min(known, now)
        first, last = max(0, (began - buckets.began_at) // buckets.step), (ended - buckets.began_at) // buckets.step
        for number in range(first, min(last, buckets.count - 1) + 1):
            until = min(ended, buckets.began_at + (number + 1) * buckets.step)
            ages[number] = max(ages[number], until - began)
    return ages


def counted(instants: Iterable[int | None], buckets: Buckets) -> list[int]:
    """How many of the instants are in each bucket."""
    counts = Counter(buckets.of(at) for at in instants if at is not None)
    return [counts[number] for number in range(buckets.count)]


class Spread(NamedTuple):
    """How durations are spread: the middle one, that which 95 of 100 keep within, and how many there are."""

    median: int
    most: int
    many: int


def latencies(sent: Iterable[Sent], buckets: Buckets) -> list[Spread | None]:
    """How long it took until the outcome of attempts was settled, by the bucket in which it was; None: of none."""
    took: list[list[int]] = [[] for _ in range(buckets.count)]
    for one in sent:
        number = None if one.settled_at is None else buckets.of(one.settled_at)
        if number is not None and one.settled_at is not None:
            took[number].append(max(0, one.settled_at - one.dispatched_at))
    return [_spread(sorted(found)) for found in took]


def _spread(found: Sequence[int]) -> Spread | None:
    if not found:
        return None
    last = len(found) - 1
    return Spread(found[last // 2], found[-(-last * 95 // 100)], len(found))


class Retried(NamedTuple):
    """Of one target: how many effects were sent to it, and how many further attempts that took."""

    target: str
    effects: int
    retries: int


def retries(sent: Iterable[Sent], since: int, target_of: Callable[[str], str]) -> list[Retried]:
    """What was dispatched since then, by target: the most retried first, and of many the last is all others ("")."""
    effects: Counter[str] = Counter()
    again: Counter[str] = Counter()
    for one in sent:
        if one.dispatched_at >= since:
            (effects if one.number == 1 else again)[target_of(one.effect)] += 1
    names = sorted({*effects, *again}, key=lambda name: (-again[name], -effects[name], name))
    shown, rest = names[:TARGETS_MAX], names[TARGETS_MAX:]
    found = [Retried(name, effects[name], again[name]) for name in shown]
    if rest:
        found.append(Retried("", sum(effects[name] for name in rest), sum(again[name] for name in rest)))
    return found


# -- scales -----------------------------------------------------------------------------------------------------------


def top_of_time(longest: int) -> int:
    """The end of a scale of durations from zero on: the next round one."""
    return next((one for one in _ROUND if one >= longest), -(-longest // (365 * DAY)) * 365 * DAY)


def top_of_count(most: int) -> int:
    """The end of a scale of counts from zero on: the next of 1, 2, 5, 10, 20 and so on."""
    size = 1
    while True:
        for digit in (1, 2, 5):
            if digit * size >= most:
                return digit * size
        size *= 10


def decades(shortest: int, longest: int) -> tuple[int, int]:
    """The ends of a scale of durations on which each line is ten times the one below; at least one is above."""
    low = high = 1
    while low * 10 <= shortest:
        low *= 10
    while high < longest or high <= low:
        high *= 10
    return low, high
