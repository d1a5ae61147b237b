"""An effect at one end and an idempotent endpoint at the other: what the two make of a handler that breaks off."""

import pytest

from fencepost.core.contract import Retry
from fencepost.core.errors import RunHeld
from fencepost.effects.call import Call
from fencepost.effects.declare import effect
from fencepost.effects.outside import Target
from fencepost.effects.promises import KeyHeader
from fencepost.runtime.ledger import Ledger


@effect(
    target="shop",
    send_key=KeyHeader("Idempotency-Key", window="24h"),
    retry=Retry(attempts=4, within="1m", first_delay="20ms", longest_delay="50ms"),
    attempt_timeout="5s",
)
async def order(call: Call, name: str) -> str:
    reply = await call.http.post("/orders", json={"name": name})
    return str(reply.json())


def perform(folder, port: int) -> str:
    targets = {"shop": Target(f"http://127.0.0.1:{port}", scope="ann")}
    with Ledger(f"sqlite:///{folder / 'sender.db'}", targets=targets).sync as ledger:
        return ledger.perform(order("a"), operation="order:1")


@pytest.mark.parametrize("trouble", ["raise early", "raise late"])
def test_an_atomic_endpoint_and_a_sender_that_sends_again_come_to_one_order(atomic, trouble):
    server = atomic.serve()
    atomic.tell("trouble", trouble)
    assert perform(atomic.folder, server.port) == "{'made': 'a'}"
    assert atomic.done == ["a"]


@pytest.mark.parametrize(("trouble", "answer"), [("raise early", "{'made': 'a'}"), ("raise late", "{'found': 'a'}")])
def test_an_endpoint_that_can_look_lets_the_sender_wait_until_it_knows(beside, trouble, answer):
    server = beside.serve(within="1s", looks=True)
    beside.tell("trouble", trouble)
    assert perform(beside.folder, server.port) == answer
    assert beside.done == ["a"]


def test_an_endpoint_that_cannot_look_leaves_it_to_people_at_both_ends(beside):
    server = beside.serve()
    beside.tell("trouble", "raise late")
    with pytest.raises(RunHeld):
        perform(beside.folder, server.port)
    assert beside.done == ["a"]
