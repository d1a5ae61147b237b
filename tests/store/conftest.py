"""The `ledger` fixture: one store under a clock that the test sets, once per backend."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost.core.errors import FencepostError
from fencepost.core.records import History, Run
from fencepost.store.api import Answer, Store
from fencepost.store.moves import Move, Observe
from fencepost.store.open import open_store
from tests.store import build


class Ledger:
    """A store, its clock, and the few steps that most tests begin with."""

    def __init__(self, connect: Callable[..., Store]) -> None:
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


def _sqlite(folder: Path) -> Callable[..., Store]:
    return lambda **options: open_store(f"sqlite:///{folder / 'ledger.db'}", **options)


BACKENDS: dict[str, Callable[[Path], Callable[..., Store]]] = {"sqlite": _sqlite}


@pytest.fixture(params=sorted(BACKENDS))
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    made = Ledger(BACKENDS[request.param](tmp_path))
    yield made
    made.close()
