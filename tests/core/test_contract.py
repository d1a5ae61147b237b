"""A retry budget is declared in the words of every other duration, and holds microseconds."""

from dataclasses import FrozenInstanceError, replace
from datetime import timedelta

import pytest

from fencepost.core.contract import Retry
from fencepost.core.duration import HOUR, MINUTE, SECOND
from fencepost.core.errors import DeclarationError

PLAIN = Retry(attempts=5, within=15 * MINUTE, first_delay=SECOND, longest_delay=5 * MINUTE, retry_after_max=HOUR)


@pytest.mark.parametrize("within", ["15m", "900s", timedelta(minutes=15), 15 * MINUTE])
def test_the_same_duration_is_the_same_budget_however_it_is_written(within):
    assert Retry(within=within, first_delay="1s") == PLAIN == Retry()
    assert hash(Retry(within=within)) == hash(PLAIN)


def test_none_stays_none_and_a_replaced_field_is_read_alike():
    assert Retry(within=None).within is None
    assert replace(PLAIN, within="1h").within == HOUR


@pytest.mark.parametrize("field", ["within", "first_delay", "longest_delay", "retry_after_max"])
@pytest.mark.parametrize("wrong", ["soon", "-1s", -1, 1.5, True, timedelta(seconds=-1)])
def test_what_is_no_duration_is_refused_with_its_field(field, wrong):
    with pytest.raises(DeclarationError, match=f"Retry {field}"):
        Retry(**{field: wrong})


def test_a_budget_does_not_change():
    with pytest.raises(FrozenInstanceError):
        PLAIN.within = HOUR
