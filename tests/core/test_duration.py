"""Durations as people write them, and as they are printed again."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.duration import DAY, HOUR, MINUTE, SECOND, microseconds, spelled
from fencepost.core.errors import DeclarationError


@pytest.mark.parametrize(
    ("text", "means"),
    [("20s", 20 * SECOND), ("1.5h", 90 * MINUTE), ("24h", DAY), ("7d", 7 * DAY), ("500ms", SECOND // 2), ("3us", 3),
     (" 15m ", 15 * MINUTE), ("1h30m", 90 * MINUTE), ("0s", 0), (timedelta(hours=2), 2 * HOUR), (timedelta(0), 0)],
)  # fmt: skip
def test_reads(text, means):
    assert microseconds(text) == means


@pytest.mark.parametrize(
    "wrong", ["", "20", "s", "-1s", "1 s", "1h 30m", "1h30", "1e3s", "1w", None, 20, timedelta(seconds=-1)]
)
def test_refuses_by_name_and_says_what_to_write(wrong):
    with pytest.raises(DeclarationError, match="settle") as refused:
        microseconds(wrong, what="settle")
    assert refused.value.hint


@given(st.integers(0, 1_000 * DAY))
def test_what_is_spelled_reads_the_same(duration):
    assert microseconds(spelled(duration)) == duration


@pytest.mark.parametrize(
    ("duration", "says"),
    [(86_395 * SECOND, "23h59m55s"), (90 * SECOND, "90s"), (15 * MINUTE, "15m"), (2_500_000, "2500ms"), (7 * DAY, "7d"),
     (595 * SECOND, "9m55s"), (DAY + 1, "1d1us"), (3, "3us"), (0, "0s")],
)  # fmt: skip
def test_a_long_duration_is_spelled_in_several_units(duration, says):
    assert spelled(duration) == says
