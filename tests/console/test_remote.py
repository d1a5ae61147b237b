"""The app over HTTP: starting, signalling and waiting from a service without a ledger, with the types of its code."""

import asyncio
import socket
import threading
from collections.abc import Iterator

import pytest
from pydantic import BaseModel

from fencepost import App, Misuse, NotPermitted, Permissions, Run, RunHeld, RunInputMismatch, RunNotFound, workflow
from fencepost.core.errors import RunFailed, StoreUnavailable, ValueRefused
from fencepost.core.states import RunState, SignalState
from tests.console import shop
from tests.console.conftest import Serve, Served
from tests.runtime.stage import once, played, target


class Bill(BaseModel):
    id: str
    cents: int


@workflow()
async def pay(run: Run, bill: Bill, *, note: str = "thanks") -> Bill:
    await run.do(once(bill.id))
    return Bill(id=f"{bill.id} {note}", cents=bill.cents * 2)


@workflow()
async def breaks(run: Run) -> None:
    raise RuntimeError("it fell over")


CODE = [*shop.WORKFLOWS, pay, breaks]


@pytest.fixture
def served(serve: Serve) -> Served:
    return serve(worker=True, workflows=CODE)


def service(served: Served, *roles: str) -> App:
    return App(served.url, workflows=CODE, token=served.token("shop", *roles))


def test_a_service_starts_signals_and_waits_with_the_types_of_its_code(served: Served) -> None:
    @played
    async def speak() -> None:
        async with service(served) as app:
            for _ in range(2):
                handle = await app.start(pay, Bill(id="b", cents=100), id="bill/b")
            assert await handle.result(within="10s") == Bill(id="b thanks", cents=200)
            asked = await app.start(shop.ask, "!", id="r", on_behalf_of="tenant-1")
            sent = await app.signal("r", "word", "yes", id="evt-1")
            assert (sent.id, sent.state in (SignalState.KEPT, SignalState.APPLIED)) == ("evt-1", True)
            assert await asked.result(within="10s") == "yes!"
            assert await (await app.handle("r")).state() is RunState.SUCCEEDED

    speak()
    assert (target.requests, target.objects) == (["b"], ["b"])
    assert served.app.store.find("default", "r").principal == "tenant-1"
    assert served.rows() == [("shop", "signal", "done")]


def test_a_start_at_the_ledger_and_one_over_http_are_the_same_run(served: Served) -> None:
    bill = Bill(id="b", cents=1)
    served.call(served.app.start(pay, bill, id="one", on_behalf_of="ann"))
    with service(served).sync as app:
        assert app.start(pay, bill, id="one", on_behalf_of="ann").result(within="10s").cents == 2
        with pytest.raises(RunInputMismatch) as refused:
            app.start(pay, Bill(id="b", cents=2), id="one", on_behalf_of="ann")
    assert refused.value.ids["run"] == "one"
    assert target.requests == ["b"]


def test_what_went_wrong_is_raised_as_at_the_ledger(served: Served) -> None:
    target.plan("lost", "lose")
    with service(served).sync as app:
        with pytest.raises(RunNotFound):
            app.handle("nobody")
        with pytest.raises(RunFailed, match="it fell over"):
            app.start(breaks, id="f").result(within="10s")
        with pytest.raises(RunHeld):
            app.start(pay, Bill(id="lost", cents=1), id="h").result(within="10s")
        waits = app.start(shop.ask, "?", id="w")
        with pytest.raises(TimeoutError, match="run w is waiting"):
            waits.result(within="300ms")
        with pytest.raises(ValueRefused):
            app.signal("w", "word", float("nan"))


def test_whoever_may_not_start_is_told_so(serve: Serve) -> None:
    served = serve(worker=True, workflows=CODE, permissions=Permissions({"shop": "viewer", "ann": "admin"}))
    with service(served, "admin").sync as app, pytest.raises(NotPermitted, match="lacks the role operator for start"):
        app.start(pay, Bill(id="b", cents=1), id="x")
    assert target.requests == []


def test_what_needs_the_ledger_says_so_and_sends_nothing(served: Served) -> None:
    with service(served).sync as app:
        for asked in (
            lambda: app.cancel("r", by="ann", reason="no"), lambda: app.show("r"), app.runs, app.schedules.list,
            lambda: app.worker().__enter__(),
            lambda: app.start(pay, Bill(id="b", cents=1), id="x", connection=object()),
        ):  # fmt: skip
            with pytest.raises(Misuse):
                asked()


@pytest.mark.parametrize("url", ["http://192.0.2.1", "http://example.org", "http://127.0.0.1.example.org"])
def test_no_token_is_sent_over_a_network_in_the_clear(url: str) -> None:
    with App(url, workflows=CODE, token="fencepost_x").sync as app, pytest.raises(Misuse, match="in the clear"):
        app.handle("r")


def test_without_a_token_nothing_is_asked(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FENCEPOST_TOKEN", raising=False)
    with App(served.url, workflows=CODE).sync as app, pytest.raises(Misuse, match="no token"):
        app.handle("r")
    with App(served.url, workflows=CODE, token="fencepost_x").sync as app, pytest.raises(Misuse, match="who calls"):
        app.handle("r")


class Deaf:
    """Stands before a console: hands each request on, and loses the reply to the first so many of them."""

    def __init__(self, to: str, loses: int) -> None:
        self.port = int(to.rpartition(":")[2])
        self.loses = loses
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listening.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                caller, _ = self.listening.accept()
            except OSError:
                return
            with caller, socket.create_connection(("127.0.0.1", self.port)) as console:
                console.sendall(self._request(caller))
                reply = b"".join(iter(lambda: console.recv(65_536), b""))
                self.loses -= 1
                if self.loses < 0:
                    caller.sendall(reply)

    def _request(self, caller: socket.socket) -> bytes:
        got = b""
        while b"\r\n\r\n" not in got:
            got += caller.recv(65_536)
        head, _, body = got.partition(b"\r\n\r\n")
        length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")), 0)
        while len(body) < length:
            body += caller.recv(65_536)
        return head + b"\r\nConnection: close\r\n\r\n" + body


@pytest.fixture
def deaf(served: Served) -> Iterator[Deaf]:
    deaf = Deaf(served.url, 1)
    yield deaf
    deaf.listening.close()


def test_a_start_whose_reply_was_lost_is_one_run_when_it_is_sent_again(served: Served, deaf: Deaf) -> None:
    async def start_twice() -> None:
        async with App(deaf.url, workflows=CODE, token=served.token("shop")) as app:
            with pytest.raises(StoreUnavailable, match="does not answer"):
                await app.start(pay, Bill(id="b", cents=1), id="one")
            await app.start(pay, Bill(id="b", cents=1), id="one")

    asyncio.run(start_twice())
    served.call(served.call(served.app.handle("one")).result(within="10s"))
    assert (target.requests, target.objects) == (["b"], ["b"])
