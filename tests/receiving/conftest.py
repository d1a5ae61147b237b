"""Starts the shop's servers, sends to them, and counts what the application did."""

import http.client
import json
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.polling import until
from tests.processes.nursery import Nursery
from tests.runtime.callers import make_table, names


@dataclass(frozen=True)
class Said:
    """A response."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def is_replayed(self) -> bool:
        return self.headers.get("idempotent-replayed") == "true"

    @property
    def waits(self) -> bool:
        """Whether the sender is asked to come back."""
        return self.status == 409 and "retry-after" in self.headers


class Server:
    """A process that serves the shop; `kill` ends it as a crash would."""

    def __init__(self, nursery: Nursery, told: dict, complaints: Path) -> None:
        self.process = nursery.fork(told, {}, complaints)
        self.port = int(self.process.stdout.readline())

    def send(self, key: str | None, order: Any, *, method: str = "POST", **headers: str) -> Said | None:
        """What is answered; None if the connection broke off."""
        given = {"Content-Type": "application/json", **({"Idempotency-Key": key} if key is not None else {})}
        given |= {name.replace("_", "-").title(): value for name, value in headers.items()}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            body = order if isinstance(order, bytes) else json.dumps(order).encode()
            connection.request(method, "/orders", body, given)
            reply = connection.getresponse()
            return Said(reply.status, {name.lower(): value for name, value in reply.getheaders()}, reply.read())
        except (ConnectionError, http.client.HTTPException):
            return None
        finally:
            connection.close()

    def send_until_answered(self, key: str, order: Any) -> Said:
        """Send again while the server asks to."""
        found: list[Said] = []

        def is_answered() -> bool:
            said = self.send(key, order)
            found.append(said)
            return said is not None and not said.waits

        until(is_answered, "an answer")
        return found[-1]

    def kill(self) -> None:
        """End it as a crash would."""
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGKILL)
            self.process.wait()


class Shop:
    """The shop's database and files, and its servers."""

    def __init__(self, nursery: Nursery, kind: str, url: str, folder: Path, *, atomic: bool) -> None:
        self._nursery = nursery
        self.kind = kind
        self.url = url
        self.folder = folder
        self.atomic = atomic
        self._servers: list[Server] = []
        make_table(url)

    def serve(self, **told: Any) -> Server:
        terms = {"atomic": self.atomic, **told}
        about = {"kind": self.kind, "url": self.url, "folder": str(self.folder), "terms": terms}
        self._servers.append(Server(self._nursery, about, self.folder / "complaints"))
        return self._servers[-1]

    @property
    def done(self) -> list[str]:
        """What the application did, each time that it did it."""
        return names(self.url)

    def tell(self, file: str, text: str = "") -> None:
        (self.folder / file).write_text(text)

    def has(self, file: str) -> bool:
        return (self.folder / file).exists()

    def close(self) -> None:
        for server in self._servers:
            server.kill()
            server.process.close()


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    nursery = Nursery("tests.receiving.server")
    yield nursery
    nursery.close()


@pytest.fixture(params=["wsgi", "asgi"])
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


MakeShop = Callable[..., Shop]


@pytest.fixture
def make_shop(nursery: Nursery, kind: str, url: str, tmp_path: Path) -> Iterator[MakeShop]:
    made: list[Shop] = []

    def make(*, atomic: bool) -> Shop:
        made.append(Shop(nursery, kind, url, tmp_path, atomic=atomic))
        return made[-1]

    yield make
    for shop in made:
        shop.close()


@pytest.fixture(params=[False, True], ids=["beside", "atomic"])
def shop(request: pytest.FixtureRequest, make_shop: MakeShop) -> Shop:
    """The shop, with receipts beside its work and in the same transaction."""
    return make_shop(atomic=request.param)


@pytest.fixture
def beside(make_shop: MakeShop) -> Shop:
    return make_shop(atomic=False)


@pytest.fixture
def atomic(make_shop: MakeShop) -> Shop:
    return make_shop(atomic=True)
