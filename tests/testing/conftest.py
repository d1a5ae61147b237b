"""A fresh world for each test, and a client that hides nothing: no proxy, no retry, a bounded time."""

import httpx2
import pytest

from fencepost.testing.world import World


@pytest.fixture
def world(tmp_path):
    with World.start(tmp_path / "world") as world:
        yield world


@pytest.fixture
def client():
    with httpx2.Client(trust_env=False, timeout=10) as client:
        yield client
