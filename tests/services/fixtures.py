"""Fixtures of real servers: one server for the whole test session, one ledger on it for each test.

Every conftest may use them through tests/conftest.py. How a server is started is in the file of its name.
"""

from collections.abc import Iterator
from itertools import count

import pytest

from tests.services import wanted
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


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Cluster]:
    """A PostgreSQL server of this session's own."""
    try:
        server = Cluster()
    except NotHere as missing:
        if wanted.must_be_there():
            pytest.fail(str(missing), pytrace=False)
        pytest.skip(str(missing))
    yield server
    server.remove()


@pytest.fixture
def postgres(postgres_server: Cluster) -> Place:
    """Room for a ledger of this test's own."""
    return Place(postgres_server)
