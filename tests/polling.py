"""Waiting in tests: poll for a condition, with a bound, instead of sleeping for a guessed time.

This is the only test file that sleeps (tests/tidy looks). It does not move the store's clock; a test that wants a
lease to expire sets that clock.
"""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(condition: Callable[[], T], what: str, *, seconds_max: float = 20.0, seconds_between: float = 0.01) -> T:
    """Call `condition` until its result is true and return that; raise TimeoutError naming `what` after the bound."""
    give_up_at = time.monotonic() + seconds_max
    while not (seen := condition()):
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"waited {seconds_max} s for {what}; last seen: {seen!r}")
        time.sleep(seconds_between)
    return seen
