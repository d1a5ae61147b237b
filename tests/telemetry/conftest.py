"""Fixtures of telemetry's tests: a ledger's file, and a target that has forgotten the test before."""

import pytest

from tests.runtime.stage import Target, target


@pytest.fixture
def db(url: str) -> str:
    """The URL of a ledger that does not exist yet."""
    return url


@pytest.fixture(autouse=True)
def outside() -> Target:
    """The target, forgetful."""
    target.reset()
    return target
