"""Fixtures of the scenarios: a ledger's file, and the counting target of `tests.runtime.stage`, forgetful."""

import pytest

from tests.runtime.stage import target


@pytest.fixture
def db(url):
    return url


@pytest.fixture(autouse=True)
def outside():
    target.reset()
    return target
