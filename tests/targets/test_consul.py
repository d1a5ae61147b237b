"""Consul checks an index, so that the token is compared beside it; a session's lock may be asked for as well."""

from contextlib import closing

import httpx2
import pytest

from fencepost import FenceRefused, Transient, Unresolved
from fencepost.targets import ConsulFence
from tests.targets.servers import Consul, Response, served


@pytest.fixture
def consul():
    return Consul()


@pytest.fixture
def fence(consul):
    with served(consul) as address, closing(httpx2.Client(base_url=address, trust_env=False)) as client:
        yield ConsulFence(client)


def test_a_write_may_ask_that_a_session_holds_a_lock(fence, consul):
    consul.locks["lock"] = "session-1"
    fence.write("plan", 1, fence.held_by("session-1", "lock"), fence.set("plan", b"one"))
    assert fence.get("plan") == b"one"

    consul.locks["lock"] = "session-2"
    with pytest.raises(FenceRefused, match="a condition of this write does not hold"):
        fence.write("plan", 1, fence.held_by("session-1", "lock"), fence.set("plan", b"two"))
    assert fence.get("plan") == b"one"


def test_a_refused_write_deletes_nothing(fence):
    fence.write("plan", 1, fence.set("plan", b"one"))
    fence.raise_to("plan", 2)

    with pytest.raises(FenceRefused):
        fence.write("plan", 1, fence.delete("plan"))
    assert fence.get("plan") == b"one"
    fence.write("plan", 2, fence.delete("plan"))
    assert fence.get("plan") is None


def test_a_token_that_moves_all_the_time_is_no_refusal_of_the_raise(fence, consul, monkeypatch):
    monkeypatch.setattr(consul, "_refusal", lambda **_: "failed to set key, index is stale")

    with pytest.raises(Transient, match="each of 20 times"):
        fence.raise_to("plan", 2)
    with pytest.raises(FenceRefused, match="was changed"):
        fence.write("plan", 2)


def test_a_refusal_beside_ones_own_token_proves_nothing(fence, consul, monkeypatch):
    fence.raise_to("plan", 2)
    monkeypatch.setattr(consul, "_refusal", lambda **_: "failed to set key, index is stale")

    with pytest.raises(Unresolved, match="an earlier copy"):
        fence.write("plan", 2, fence.set("plan", b"one"))


def test_a_refusal_whose_reason_cannot_be_read_proves_nothing(fence, consul, monkeypatch):
    def refuse(**_):
        monkeypatch.setattr(consul, "_get", lambda _: Response(500))
        return "failed to set key, index is stale"

    monkeypatch.setattr(consul, "_refusal", refuse)

    with pytest.raises(Unresolved, match="could not be read"):
        fence.write("plan", 2, fence.set("plan", b"one"))
