"""The `ledger` fixture: one store under a clock that the test sets, once per database (`tests.services.fixtures`)."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fencepost.core.errors import FencepostError
from fencepost.core.records import History, Run
from fencepost.store.api import Answer, Store
from fencepost.store.moves import Move, Observe
from fencepost.store.open import open_store
from tests.store import build
from tests.store.blank import BlankFiles, Blanks, BlankSchemas, MakeBlanks

Connect = Callable[..., Store]


class Ledger:
    """A store, its clock, and the few steps that most tests begin with."""

    def __init__(self, connect: Connect) -> None:
        self.now = build.NOW
        self._connect = connect
        self._open: list[Store] = []
        self.store = self.another()

    def another(self, **options: Any) -> Store:
        """One more store on the same ledger, as another process would have."""
        store = self._connect(clock=lambda: self.now, **options)
        self._open.append(store)
        return store

    def running(self, name: str = "run-1", lease: str = "lease-1", **changes: Any) -> Run:
        """A run that is owned by a live lease from its first row on."""
        if lease not in {found.id for found in self.store.leases()}:
            self.store.take_lease(build.lease(lease, at=self.now))
        return self.store.start_run(build.new_run(name, lease=lease, **changes))[0]

    def claim(self, lease: str = "lease-1", **changes: Any) -> list[Run]:
        wanted = {"namespace": "default", "now": self.now, "margin": 0, "limit": 10, **changes}
        return self.store.claim(lease, build.WORKFLOWS, **wanted)

    def answer(self, run: Run, *moves: Move, **seen: list[Observe]) -> Answer | FencepostError:
        return self.store.commit([build.group(run, *moves, **seen)], patience=1.0)[0]

    def do(self, run: Run, *moves: Move) -> None:
        assert self.answer(run, *moves) is Answer.MOVED

    def load(self, run: Run) -> History:
        return self.store.load(run.no)

    def run(self, run: Run) -> Run:
        return self.store.load(run.no).run

    def close(self) -> None:
        for store in self._open:
            store.close()


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    made = Ledger(lambda **options: open_store(url, **options))
    yield made
    made.close()


def _blank_files(request: pytest.FixtureRequest) -> Blanks:
    return BlankFiles(request.getfixturevalue("tmp_path"))


def _blank_schemas(request: pytest.FixtureRequest) -> Blanks:
    return BlankSchemas(request.getfixturevalue("postgres"))


BLANKS: dict[str, Callable[[pytest.FixtureRequest], Blanks]] = {"sqlite": _blank_files, "postgres": _blank_schemas}


@pytest.fixture
def blanks(request: pytest.FixtureRequest, dialect: str) -> Iterator[MakeBlanks]:
    """Makes empty ledgers for histories, on stores that are opened when it is called."""
    made: list[Blanks] = []

    def make() -> Blanks:
        made.append(BLANKS[dialect](request))
        return made[-1]

    yield make
    for one in made:
        one.close()
