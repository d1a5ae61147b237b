"""Health fails while the working loop is stuck, though the process, its threads and its web server live: real ones."""

import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from fencepost.core.duration import SECOND
from fencepost.runtime.app import App
from fencepost.telemetry import health
from fencepost.telemetry.health import progress
from tests.polling import until
from tests.runtime.stage import expire, played, working
from tests.telemetry.clogged import talk

FENCEPOST = [sys.executable, "-c", "import sys; from fencepost.cli.main import main; sys.exit(main())"]
CLOGGED = f"{Path(__file__).parent / 'clogged.py'}:app"


@pytest.fixture
def ledger(tmp_path):
    return f"sqlite:///{tmp_path / 'ledger.db'}"


@pytest.fixture
def worker(ledger):
    process = subprocess.Popen(
        [*FENCEPOST, "worker", CLOGGED, "--db", ledger, "--telemetry", "0", "--log", "json"],
        stderr=subprocess.PIPE,
        text=True,
    )
    yield process
    process.kill()
    process.communicate()


def asked(port, what):
    """Status, and the answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{what}", timeout=10) as said:
            return said.status, said.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def fencepost(*arguments):
    return subprocess.run([*FENCEPOST, *arguments], capture_output=True, text=True, check=False)


def test_a_loop_that_is_stuck_is_unwell_while_its_process_answers_and_well_again_afterwards(tmp_path, ledger, worker):
    lines = [json.loads(worker.stderr.readline()) for _ in range(2)]
    port = int(re.search(r":(\d+)$", lines[1]["message"])[1])
    working = (200, '{"well": true, "works": true, "troubles": []}')
    until(lambda: asked(port, "health") == working, "the worker to begin")
    assert fencepost("health", "--db", ledger).returncode == 0

    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    begun = fencepost("start", CLOGGED, "talk", "--id", "r", "--input", json.dumps(str(pipe)), "--db", ledger)
    assert begun.returncode == 0, begun.stderr
    status, said = until(lambda: (found := asked(port, "health"))[0] != 200 and found, "the stuck loop to be said")
    assert status == 503
    assert "the working loop has not moved" in json.loads(said)["troubles"][0]
    assert worker.poll() is None
    stuck = re.search(r"^fencepost_worker_stuck_seconds (\S+)$", asked(port, "metrics")[1], re.MULTILINE)
    assert stuck is None or float(stuck[1]) > 0  # none once the lease is over
    seen = until(lambda: (one := fencepost("health", "--db", ledger, "--json")).returncode == 3 and one, "the ledger")
    [one] = json.loads(seen.stdout)["workers"]
    assert (one["pid"], one["overdue"] > 0) == (worker.pid, True)

    assert pipe.read_text() == "said"
    until(lambda: asked(port, "health")[0] == 200, "a new life")
    until(lambda: fencepost("health", "--db", ledger).returncode == 0, "the ledger to see it")


@played
async def test_a_process_without_a_worker_is_well_if_its_ledger_answers(db):
    async with App(db, workflows=[talk]) as app:
        found = health(app)
    assert (found.does_work, found.is_well, progress(app._host) if app._host else None) == (False, True, None)


@played
async def test_the_announced_time_is_that_of_the_longest_step_and_not_a_moment_less(db):
    async with working(db, talk) as app:
        lease = app.host.lease
        lease.tick(40 * SECOND)
        lease.ticked_at -= 39 * SECOND
        assert health(app).is_well
        lease.tick(40 * SECOND)
        lease.ticked_at -= 41 * SECOND
        [said] = health(app).troubles
    assert said == "the working loop has not moved for 41s, 1s longer than announced"


@played
async def test_a_lost_lease_and_a_journal_that_has_stopped_are_troubles(db):
    async with working(db, talk) as app:
        expire(app)
        app.host.lease.give_up("gone")
        assert [one[:23] for one in health(app).troubles] == ["the worker's lease is o"]
