"""Fixtures of the runtime's tests: a ledger's file, and a target that has forgotten the test before."""

from pathlib import Path

import pytest

from tests.runtime.stage import Target, target


@pytest.fixture
def db(tmp_path: Path) -> str:
    """The URL of a ledger that does not exist yet."""
    return f"sqlite:///{tmp_path / 'ledger.db'}"


@pytest.fixture(autouse=True)
def outside() -> Target:
    """The target, forgetful."""
    target.reset()
    return target
