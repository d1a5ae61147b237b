"""Several processes claim from one queue: no more are ever in work than its limits allow, and no run is lost."""

import json
import subprocess
import sys

import pytest

from fencepost.core.queue import Queue
from fencepost.core.states import RunState
from fencepost.store.api import RunFilter
from fencepost.store.open import open_store
from tests.store import build

PROCESSES, RUNS, SLOTS, OF_KEY = 4, 240, 5, 2


@pytest.mark.timeout(300)
def test_four_processes_that_claim_from_one_queue_never_overshoot(url: str) -> None:
    store = open_store(url)
    store.declare_queues("default", [Queue("mail", concurrency=SLOTS, per_key=OF_KEY)])
    for number in range(RUNS):
        store.start_run(build.new_run(f"run-{number}", queue="mail", queue_key=f"key-{number % 6}", at=store.now()))
    children = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.store.queue_claimer", url, f"worker-{number}"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for number in range(PROCESSES)
    ]  # fmt: skip
    reports = [child.communicate(timeout=240) for child in children]
    assert [err for _, err in reports] == [""] * PROCESSES
    seen = [json.loads(out) for out, _ in reports]
    assert sum(one["completed"] for one in seen) == RUNS
    assert 1 < max(one["most"] for one in seen) <= SLOTS
    assert max(one["most of key"] for one in seen) <= OF_KEY
    runs = store.runs(RunFilter("default", limit=RUNS))
    assert {(run.state, run.generation) for run in runs} == {(RunState.SUCCEEDED, 1)}
    assert store.queues("default")[0].owned == 0
    store.close()
