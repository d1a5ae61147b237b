"""Fixtures of ledgers: on a file, and where real servers are wanted on one that lasts the whole test session too.

Every conftest may use them through tests/conftest.py. How a server is started is in the file of its name.
"""

from collections.abc import Callable, Iterator
from itertools import count
from typing import TypeVar

import pytest

from tests.services import wanted
from tests.services.pooler import Pooler
from tests.services.postgres import Cluster, NotHere

_schemas = count(1)


class Place:
    """Room for one ledger: a schema that nobody has used yet."""

    def __init__(self, server: Cluster) -> None:
        self.server = server
        self.schema = f"ledger_{next(_schemas)}"

    def url(self, **parameters: str | int) -> str:
        """The ledger's url, with more parameters."""
        more = "".join(f"&{name}={value}" for name, value in parameters.items())
        return self.server.url(more=f"&schema={self.schema}{more}")


Service = TypeVar("Service", Cluster, Pooler)


def started(start: Callable[[], Service]) -> Service:
    try:
        return start()
    except NotHere as missing:
        if wanted.must_be_there():
            pytest.fail(str(missing), pytrace=False)
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Cluster]:
    """A PostgreSQL server of this session's own."""
    server = started(Cluster)
    yield server
    server.remove()


@pytest.fixture
def own_server() -> Iterator[Cluster]:
    """A PostgreSQL server that one test may stop, and kill, and start again."""
    server = started(Cluster)
    yield server
    server.remove()


@pytest.fixture(scope="session")
def pooler(postgres_server: Cluster) -> Iterator[Pooler]:
    """A pooler before the session's server."""
    before = started(lambda: Pooler(postgres_server))
    yield before
    before.remove()


@pytest.fixture
def postgres(postgres_server: Cluster) -> Place:
    """Room for a ledger of this test's own."""
    return Place(postgres_server)


def _sqlite(request: pytest.FixtureRequest) -> str:
    return f"sqlite:///{request.getfixturevalue('tmp_path') / 'ledger.db'}"


def _postgres(request: pytest.FixtureRequest) -> str:
    return request.getfixturevalue("postgres").url()


URLS: dict[str, Callable[[pytest.FixtureRequest], str]] = {"sqlite": _sqlite, "postgres": _postgres}
DIALECTS = ["sqlite", "postgres"] if wanted.are_wanted() else ["sqlite"]


@pytest.fixture(params=DIALECTS)
def dialect(request: pytest.FixtureRequest) -> str:
    """Which database."""
    return request.param


@pytest.fixture
def url(request: pytest.FixtureRequest, dialect: str) -> str:
    """The url of a ledger that nobody has used yet."""
    return URLS[dialect](request)
