"""A store with its journal and a few running runs, for the tests of the journal on each database."""

from fencepost.core.records import Run
from fencepost.store.api import Store
from fencepost.store.journal import Journal
from tests.store import build


class Bench:
    """Twenty runs that one lease owns, and a journal on their store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.store.take_lease(build.lease())
        self.runs = [self.store.start_run(build.new_run(f"run-{n}", lease="lease-1"))[0] for n in range(20)]
        self.journal = Journal(self.store)

    def states(self) -> list[list[str]]:
        return [[found.state.value for found in self.store.load(run.no).operations] for run in self.runs]

    def close(self) -> None:
        self.journal.close()
        self.store.close()


def intent(run: Run, step: str = "pay"):
    return build.group(run, build.new_operation(run, step))
