"""Eight processes and a reader on one ledger: nothing is locked out, lost, or claimed twice (case C23).

Where servers are wanted (`make test-services`) it has the case's full size, 200 rounds a process, on both databases.
"""

import json
import subprocess
import sys
from collections import Counter

import pytest

from fencepost.core.states import OperationState, Outcome, RunState
from fencepost.store.api import RunFilter
from fencepost.store.open import open_store
from tests.services import wanted
from tests.store import build

PROCESSES = 8
ROUNDS = 200 if wanted.are_wanted() else 50


@pytest.mark.timeout(600)
def test_eight_processes_claim_and_complete_on_one_ledger_while_a_reader_pages(url: str) -> None:
    store = open_store(url)
    for number in range(PROCESSES * ROUNDS):
        store.start_run(build.new_run(f"run-{number}"))

    children = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.store.claimer", url, f"worker-{number}", str(ROUNDS)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for number in range(PROCESSES)
    ]  # fmt: skip
    pages = 0
    while any(child.poll() is None for child in children):
        after = None
        while page := store.runs(RunFilter("default", after=after, limit=50)):
            after = page[-1].no
            pages += 1
    reports = [child.communicate(timeout=60) for child in children]

    seen: Counter[str] = Counter()
    for out, err in reports:
        assert err == ""
        seen.update(json.loads(out))
    assert dict(seen) == {"completed": PROCESSES * ROUNDS}
    assert pages > 10
    for run in store.runs(RunFilter("default", limit=PROCESSES * ROUNDS)):
        history = store.load(run.no)
        # Claimed once, completed once: a lost or doubled update would leave another generation or version.
        assert (run.state, run.generation, run.version) == (RunState.SUCCEEDED, 1, 2)
        assert [operation.state for operation in history.operations] == [OperationState.SUCCEEDED]
        assert [attempt.outcome for attempt in history.operations[0].attempts] == [Outcome.APPLIED]
    store.close()
