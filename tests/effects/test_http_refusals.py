"""A write that `call.http` refuses before its first byte did not happen; after another write, that proves nothing."""

import asyncio
import threading

import pytest

from fencepost.core.contract import Retry
from fencepost.core.errors import Misuse, RunFailed, RunHeld
from fencepost.core.states import OperationState, Outcome
from fencepost.effects.call import Call, SyncCall
from fencepost.effects.declare import effect
from fencepost.effects.outside import Target
from fencepost.effects.promises import KeyArgument, KeyHeader
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.effects.peer import peer, read_request, reply
from tests.runtime.stage import operation, working

QUICK = Retry(attempts=3, within="1m", first_delay="2ms", longest_delay="10ms")


class Door:
    """A target that counts the requests which reach it."""

    def __init__(self, url):
        self.base = url.rpartition("/")[0]
        self.lines = []
        self._lock = threading.Lock()

    def answer(self, connection):
        while request := read_request(connection):
            with self._lock:
                self.lines.append(request.split(b"\r\n")[0].decode())
            connection.sendall(reply())


@pytest.fixture
def door():
    with peer() as target:
        it = Door(target.url)
        target.serve(it.answer)
        yield it


@pytest.fixture
def db(tmp_path):
    return f"sqlite:///{tmp_path / 'ledger.db'}"


def performed(db, step, door, raises, *, headers=None):
    """Perform the step in a run of its own; what the ledger holds of it, once it raised."""

    @workflow(name="one")
    async def one(run: Run) -> str:
        return await run.do(step(door.base))

    async def play():
        targets = {"known": Target(door.base, headers=headers)}
        async with working(db, one, targets=targets) as app:
            with pytest.raises(raises) as caught:
                await (await app.start(one, id="r")).result(within="10s")
            return await operation(app, "r", "make"), str(caught.value)

    return asyncio.run(play())


def closed_port():
    with peer() as gone:
        return gone.url


REFUSED = {
    "a relative URL without target": lambda http, base: http.post("/things", json={}),
    "credentials in the URL": lambda http, base: http.post(base.replace("//", "//user:secret@"), json={}),
    "no URL": lambda http, base: http.post("things", json={}),
    "a body that is no JSON": lambda http, base: http.post(base, json={"a": float("nan")}),
    "a body of no known type": lambda http, base: http.post(base, json={"a": object()}),
    "both json and content": lambda http, base: http.request("POST", base, json={}, content=b""),
    "a header that cannot be sent": lambda http, base: http.post(base, headers={"x": "a\r\nb: c"}),
    "a header that is no text": lambda http, base: http.post(base, headers={"x": 1}),
}


@pytest.mark.parametrize("in_thread", [False, True], ids=["loop", "thread"])
@pytest.mark.parametrize("refused", REFUSED.values(), ids=REFUSED)
def test_what_is_refused_before_a_byte_left_did_not_happen_and_is_not_tried_again(db, door, refused, in_thread):
    runs = []

    def plain(call: SyncCall, base: str) -> str:
        runs.append(1)
        return refused(call.http, base).text

    async def coroutine(call: Call, base: str) -> str:
        runs.append(1)
        await call.http.get(base)  # a read before it says nothing against the proof
        return (await refused(call.http, base)).text

    step = effect(on_unknown="hold", retry=QUICK, name="make")(plain if in_thread else coroutine)
    found, _ = performed(db, step, door, RunFailed)
    assert found.state is OperationState.FAILED
    assert [one.outcome for one in found.attempts] == [Outcome.NOT_APPLIED]
    assert runs == [1]
    assert not [line for line in door.lines if line.startswith("POST")]


def test_a_key_that_fits_into_no_list_and_a_credential_that_is_missing_prove_the_same(db, door):
    @effect(send_key=KeyArgument("key", window="1h"), retry=QUICK, name="make")
    async def listed(call: Call, base: str) -> str:
        return (await call.http.post(base, json=[1])).text

    assert performed(db, listed, door, RunFailed)[0].state is OperationState.FAILED

    def headers():
        raise KeyError("TOKEN")

    @effect(on_unknown="hold", retry=QUICK, name="make", target="known")
    async def credentialled(call: Call, base: str) -> str:
        return (await call.http.post("/things", json={})).text

    found, message = performed(db + "2", credentialled, door, RunFailed, headers=headers)
    assert found.state is OperationState.FAILED
    assert "TOKEN" in message
    assert door.lines == []


def test_another_request_under_the_same_key_is_refused_and_the_first_attempt_stays_proved(db, door):
    attempts = []

    @effect(send_key=KeyHeader("Idempotency-Key", window="1h"), retry=QUICK, name="make")
    async def shifting(call: Call, base: str) -> str:
        attempts.append(call.attempt)
        await call.http.post(closed_port(), json={"attempt": call.attempt})
        return "made"

    found, message = performed(db, shifting, door, RunFailed)
    assert found.state is OperationState.FAILED
    assert [one.outcome for one in found.attempts] == [Outcome.NOT_APPLIED] * 2
    assert "same key" in message
    assert attempts == [1, 2]


AFTER_ANOTHER_WRITE = {
    "refused": lambda http, base: http.post("things", json={}),
    "a second write": lambda http, base: http.post(base, json={}),
}


@pytest.mark.parametrize("then", AFTER_ANOTHER_WRITE.values(), ids=AFTER_ANOTHER_WRITE)
def test_what_is_refused_after_a_write_left_proves_nothing(db, door, then):
    @effect(on_unknown="hold", retry=QUICK, name="make")
    async def twice(call: Call, base: str) -> str:
        await call.http.post(base, json={"first": 1})
        return (await then(call.http, base)).text

    found, _ = performed(db, twice, door, RunHeld)
    assert found.state is OperationState.UNKNOWN
    assert len([line for line in door.lines if line.startswith("POST")]) == 1


@pytest.mark.parametrize("url", [closed_port, lambda: "things"], ids=["connection refused", "no URL"])
def test_what_is_refused_after_another_clients_send_proves_nothing(db, door, url):
    @effect(on_unknown="hold", retry=QUICK, name="make")
    async def mixed(call: Call, base: str) -> str:
        with call.sending():
            pass  # another client sends here
        return (await call.http.post(url(), json={})).text

    found, _ = performed(db, mixed, door, RunHeld)
    assert found.state is OperationState.UNKNOWN
    assert len(found.attempts) == 1


def test_an_old_proof_raised_again_after_a_write_proves_nothing(db, door):
    @effect(on_unknown="hold", retry=QUICK, name="make")
    async def stubborn(call: Call, base: str) -> str:
        try:
            await call.http.post("/things", json={})
        except Misuse:
            await call.http.post(base, json={})
            raise
        return "made"

    found, _ = performed(db, stubborn, door, RunHeld)
    assert found.state is OperationState.UNKNOWN
    assert len(door.lines) == 1


def test_a_refused_connection_after_a_read_is_still_proof_and_tried_again(db, door):
    runs, nobody = [], closed_port()

    @effect(on_unknown="hold", retry=QUICK, name="make")
    async def read_first(call: Call, base: str) -> str:
        await call.http.get(base)
        runs.append(1)
        await call.http.post(nobody, json={})
        return "made"

    found, _ = performed(db, read_first, door, RunHeld)
    assert {one.outcome for one in found.attempts} == {Outcome.NOT_APPLIED}
    assert len(runs) == 3
