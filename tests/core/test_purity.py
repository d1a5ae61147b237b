"""Core and its tests are pure: the watch over them sees what it must, and the rest of the suite runs under it."""

import socket
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import settings

from fencepost.core import recovery
from tests.core.purity import watching

TOUCHES = {
    "open": lambda: Path(__file__).read_bytes(),
    "socket.__new__": lambda: socket.socket().close(),
    "time.time": lambda: time.time() > 0,
    "time.monotonic": lambda: time.monotonic() > 0,
}


@pytest.mark.parametrize("what", TOUCHES)
def test_the_watch_sees(what):
    with watching() as touched:
        TOUCHES[what]()
    assert touched
    assert all(line.startswith("tests/core/test_purity.py:") and line.endswith(f" touches {what}") for line in touched)


def test_the_watch_is_silent_about_pure_code():
    with watching() as touched:
        assert datetime.fromtimestamp(0, tz=UTC).year == 1970
        assert recovery.HoldReason.CONFLICT
    assert touched == []


def test_hypothesis_keeps_no_database_here():
    assert settings().database is None
