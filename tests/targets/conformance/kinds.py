"""The kinds of targets under one interface: write a value under a token, ask whether it is there, raise the token.

A `Place` is a fence with a target of its own. `pause` is called in the middle of a write, where it hurts most: between
the comparison and the commit, or between the look and the request. What must hold for each is in `test_fence`.
"""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Protocol

import httpx2
import sqlalchemy

from fencepost.targets import ConsulFence, DynamoFence, EtcdFence, Fence, HttpFence, ObjectFence, SqlFence
from tests.services import aws, wanted
from tests.targets import servers

Pause = Callable[[], None]
NOBODY = "http://127.0.0.1:9"  # the port "discard": nobody listens there


def no_pause() -> None:
    pass


class Place(Protocol):
    """A fence, and a target whose values it guards."""

    fence: Fence

    def write(self, resource: str, token: int, value: str, pause: Pause = no_pause) -> None:
        """Add a value to the resource under the token; raises what the fence does."""

    def holds(self, resource: str, value: str) -> bool:
        """Whether the value is there, as the authority has it."""

    def out_of_reach(self) -> Fence:
        """The same kind of fence, whose target cannot be reached."""


# -- SQL --------------------------------------------------------------------------------------------------------------

ENTRIES = "CREATE TABLE IF NOT EXISTS entry (resource TEXT, value TEXT)"


INSERT = "INSERT INTO entry (resource, value) VALUES (?, ?)"
COUNT = "SELECT count(*) FROM entry WHERE resource = ? AND value = ?"


class Sql:
    """A database behind the plain connections of its driver; `mark` is how that one writes a parameter."""

    def __init__(self, connect: Callable[[], Any], unreachable: Callable[[], Any], mark: str) -> None:
        self.fence = SqlFence(connect)
        self._connect, self._unreachable = connect, unreachable
        self._insert, self._count = INSERT.replace("?", mark), COUNT.replace("?", mark)
        self.fence.create()
        with closing(connect()) as connection:
            connection.execute(ENTRIES)
            connection.commit()

    def write(self, resource: str, token: int, value: str, pause: Pause = no_pause) -> None:
        with closing(self._connect()) as connection:
            self.fence.guard(connection, resource, token)
            connection.execute(self._insert, (resource, value))
            pause()
            connection.commit()

    def holds(self, resource: str, value: str) -> bool:
        with closing(self._connect()) as connection:
            (count,) = connection.execute(self._count, (resource, value)).fetchone()
            assert count <= 1, f"{value} was written {count} times"
            return count == 1

    def out_of_reach(self) -> Fence:
        return SqlFence(self._unreachable)


class SqlAlchemy:
    """A database behind SQLAlchemy."""

    def __init__(self, engine: sqlalchemy.Engine, unreachable: sqlalchemy.Engine) -> None:
        self.fence = SqlFence(engine.connect)
        self._engine, self._unreachable = engine, unreachable
        self.fence.create()
        with engine.begin() as connection:
            connection.exec_driver_sql(ENTRIES)

    def write(self, resource: str, token: int, value: str, pause: Pause = no_pause) -> None:
        with self._engine.begin() as connection:
            self.fence.guard(connection, resource, token)
            insert = sqlalchemy.text("INSERT INTO entry (resource, value) VALUES (:resource, :value)")
            connection.execute(insert, {"resource": resource, "value": value})
            pause()

    def holds(self, resource: str, value: str) -> bool:
        count = sqlalchemy.text("SELECT count(*) FROM entry WHERE resource = :resource AND value = :value")
        with self._engine.connect() as connection:
            return connection.execute(count, {"resource": resource, "value": value}).scalar_one() == 1

    def out_of_reach(self) -> Fence:
        return SqlFence(self._unreachable.connect)


# -- over HTTP --------------------------------------------------------------------------------------------------------


class PausingClient(httpx2.Client):
    """Pauses before each request that writes."""

    pause: Pause = staticmethod(no_pause)

    def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        if request.method == "PUT" or request.url.path.endswith("/txn"):
            self.pause()
        return super().send(request, **options)


class OverHttp:
    """A place whose fence speaks HTTP; each writer has a client of its own."""

    def __init__(self, address: str, fence: Callable[[httpx2.Client], Any]) -> None:
        self._address, self._fence_of = address, fence
        self._clients: list[httpx2.Client] = []
        self.fence = self._fence()

    def _fence(self, pause: Pause = no_pause, address: str | None = None) -> Any:
        client = PausingClient(base_url=address or self._address, trust_env=False, timeout=10)
        client.pause = pause
        self._clients.append(client)
        return self._fence_of(client)

    def out_of_reach(self) -> Fence:
        return self._fence(address=NOBODY)

    def close(self) -> None:
        for client in self._clients:
            client.close()


class Etcd(OverHttp):
    def __init__(self, address: str) -> None:
        super().__init__(address, EtcdFence)

    def write(self, resource: str, token: int, value: str, pause: Pause = no_pause) -> None:
        self._fence(pause).write(resource, token, EtcdFence.put(f"entry/{resource}/{value}", b"there"))

    def holds(self, resource: str, value: str) -> bool:
        return self.fence.get(f"entry/{resource}/{value}") == b"there"


class Consul(OverHttp):
    def __init__(self, address: str) -> None:
        super().__init__(address, ConsulFence)

    def write(self, resource: str, token: int, value: str, pause: Pause = no_pause) -> None:
        self._fence(pause).write(resource, token, ConsulFence.set(f"entry/{resource}/{value}", b"there"))

    def holds(self, resource: str, value: str) -> bool:
        return self.fence.get(f"entry/{resource}/{value}") == b"there"


class Http(OverHttp):
    def __init__(self, address: str, **options: str) -> None:
        super().__init__(f"{address}/orders/", lambda client: HttpFence(client, **options))

    def write(self, resource: str, token: int, value: str, pause: Pause = no_pause) -> None:
        self._fence(pause).write(resource, token, lambda now: now | {value: "there"})

    def holds(self, resource: str, value: str) -> bool:
        return value in self.fence.read(resource).content


# -- AWS --------------------------------------------------------------------------------------------------------------


class Objects:
    def __init__(self, address: str) -> None:
        self._client = aws.client("s3", address)
        self.fence = ObjectFence(self._client, "plans", prefix="plan/")

    def write(self, resource: str, token: int, value: str, pause: Pause = no_pause) -> None:
        def change(now: dict[str, Any]) -> dict[str, Any]:
            pause()
            return now | {value: "there"}

        self.fence.write(resource, token, change)

    def holds(self, resource: str, value: str) -> bool:
        return value in self.fence.read(resource).content

    def out_of_reach(self) -> Fence:
        return ObjectFence(aws.client("s3", NOBODY), "plans")


class Dynamo:
    def __init__(self, address: str) -> None:
        self.fence = DynamoFence(aws.client("dynamodb", address), "accounts")

    def write(self, resource: str, token: int, value: str, pause: Pause = no_pause) -> None:
        pause()  # one request: there is no middle
        self.fence.write(resource, token, {value: {"S": "there"}})

    def holds(self, resource: str, value: str) -> bool:
        return value in self.fence.read(resource)

    def out_of_reach(self) -> Fence:
        return DynamoFence(aws.client("dynamodb", NOBODY), "accounts")


# -- where they run ---------------------------------------------------------------------------------------------------


def sqlite(folder: Path) -> Sql:
    """A file of one's own; a locked one is waited for."""
    return Sql(
        lambda: sqlite3.connect(folder / "books.db", timeout=20),
        lambda: sqlite3.connect(folder / "nowhere" / "books.db"),
        "?",
    )


def sqlalchemy_on(url: str, unreachable: str) -> SqlAlchemy:
    engines = (sqlalchemy.create_engine(one, poolclass=sqlalchemy.NullPool) for one in (url, unreachable))
    return SqlAlchemy(*engines)


@contextmanager
def local(kind: str, folder: Path) -> Iterator[Place]:
    """A place of a kind that needs nothing but Python."""
    with ExitStack() as stack:
        match kind:
            case "sqlite3":
                yield sqlite(folder)
            case "sqlalchemy on sqlite":
                yield sqlalchemy_on(f"sqlite:///{folder}/books.db", f"sqlite:///{folder}/nowhere/books.db")
            case "http, token in a field":
                yield stack.enter_context(closing(Http(stack.enter_context(servers.served(servers.Resources())))))
            case "http, token in a header":
                address = stack.enter_context(servers.served(servers.Resources()))
                yield stack.enter_context(closing(Http(address, header="x-fence-token")))
            case "consul's double":
                yield stack.enter_context(closing(Consul(stack.enter_context(servers.served(servers.Consul())))))
            case other:
                raise AssertionError(other)


LOCAL = ("sqlite3", "sqlalchemy on sqlite", "http, token in a field", "http, token in a header", "consul's double")
SERVICES = ("psycopg", "sqlalchemy on postgresql", "etcd", "s3", "dynamodb")
CONSUL = "CONSUL_HTTP_ADDR"


def every() -> list[str]:
    """The kinds that are asked for here."""
    real = SERVICES if wanted.are_wanted() else ()
    return [*LOCAL, *real, *(["consul"] if os.environ.get(CONSUL) else [])]
