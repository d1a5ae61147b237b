"""Real processes: a worker drains on the first signal and ends at once on the second; pipes break quietly."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fencepost.cli.exits import Exit
from tests.cli.conftest import SHOP
from tests.polling import until

FENCEPOST = (sys.executable, "-c", "import sys; from fencepost.cli.main import main; sys.exit(main())")

DEAF = f"{Path(__file__).with_name('deaf.py')}:app"


@pytest.fixture
def worker(db):
    """Start workers; whatever is left of them is killed afterwards."""
    begun = []

    def start(*options, app=SHOP):
        process = subprocess.Popen(
            [*FENCEPOST, "worker", app, "--db", db, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        begun.append(process)
        assert "Ctrl-C drains" in process.stderr.readline()
        return process

    yield start
    for process in begun:
        process.kill()
        process.communicate()


@pytest.fixture
def ringing(started, worker, tmp_path):
    """A worker that is in the middle of an effect: (process, run, gate)."""
    gate = tmp_path / "gate"
    run = started("ring_twice", str(gate))
    process = worker()
    until(gate.with_suffix(".begun").exists, "the effect to begin")
    return process, run, gate


def told(fencepost, db, run):
    return fencepost("show", run, "--db", db, "--json").json


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_finishes_what_is_in_flight_and_gives_the_rest_back(fencepost, db, ringing, number):
    process, run, gate = ringing
    process.send_signal(number)
    assert "finishing what is in flight" in process.stderr.readline()
    assert process.poll() is None
    gate.touch()
    _, err = process.communicate(timeout=20)
    assert process.returncode == 0, err
    assert "has drained; it claimed a run 1 time\n" in err
    seen = told(fencepost, db, run)
    assert [(step["position"], step["state"]) for step in seen["steps"]] == [("ring[1]", "succeeded")]
    assert (seen["run"]["state"], seen["run"]["owner"]) == ("ready", None)


def test_what_was_given_back_is_finished_by_the_next_worker(fencepost, db, ringing, lived):
    process, run, gate = ringing
    process.send_signal(signal.SIGINT)
    assert "finishing" in process.stderr.readline()
    gate.touch()
    process.communicate(timeout=20)
    assert lived(run) == "succeeded"
    seen = told(fencepost, db, run)
    assert [len(step["attempts"]) for step in seen["steps"]] == [1, 1]


def test_the_second_signal_ends_at_once_and_leaves_the_effect_in_flight(fencepost, db, ringing):
    process, run, _ = ringing
    process.send_signal(signal.SIGINT)
    assert "finishing" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "ended at once" in err
    seen = told(fencepost, db, run)
    assert [(step["state"], step["attempts"][0]["outcome"]) for step in seen["steps"]] == [("dispatched", "unresolved")]
    assert seen["run"]["owner"]["pid"] == process.pid


def test_a_body_that_no_cancel_ends_keeps_no_worker_from_draining(fencepost, db, worker, tmp_path):
    gate = tmp_path / "gate"
    begun = fencepost("start", DEAF, "ring_for_ever", "--id", "r", "--input", json.dumps(str(gate)), "--db", db)
    assert begun.code == 0, begun.err
    process = worker(app=DEAF)
    until(gate.exists, "the effect to begin")
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 0, err
    assert "ended without 1 run whose body no cancel ends" in err
    seen = told(fencepost, db, "r")
    assert (seen["run"]["state"], seen["steps"][0]["state"]) == ("ready", "unknown")


def test_an_idle_worker_drains_at_once(worker):
    process = worker("--runs-max", "3")
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 0
    assert "it claimed a run 0 times" in err


def test_a_worker_without_its_ledgers_folder_says_so(tmp_path):
    ended = subprocess.run(
        [*FENCEPOST, "worker", SHOP, "--db", f"sqlite:///{tmp_path}/no/such/ledger.db"],
        capture_output=True, text=True, check=False, timeout=20,
    )  # fmt: skip
    assert ended.returncode == 5
    assert ended.stderr.startswith("fencepost: ledger: the folder of the ledger does not exist")
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("command", [("show", "run-1"), ("show", "run-1", "--json"), ("runs",)])
def test_a_reader_that_goes_away_is_no_error(db, started, command):
    started("order_ticket", {"id": "x" * 500_000})
    process = subprocess.Popen([*FENCEPOST, *command, "--db", db], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()  # long before the child has started to write
    assert (process.stderr.read(), process.wait(timeout=20)) == (b"", 141)
    process.stderr.close()


def test_json_is_read_back_by_a_script_whatever_the_locale(db, started):
    run = started("greet", "Ада 請求書")
    ended = subprocess.run(
        [*FENCEPOST, "show", run, "--db", db, "--json"],
        capture_output=True, check=True, timeout=20, env={**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"},
    )  # fmt: skip
    assert json.loads(ended.stdout)["run"]["input"] == {"name": "Ада 請求書"}
    text = subprocess.run(
        [*FENCEPOST, "show", run, "--db", db],
        capture_output=True, check=False, timeout=20, env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    assert text.returncode == 0, text.stderr
    assert b"\\u0410" in text.stdout


def test_a_script_is_installed_under_the_projects_name():
    script = Path(sys.executable).with_name("fencepost")
    ended = subprocess.run([script, "--version"], capture_output=True, text=True, check=False, timeout=20)
    assert (ended.returncode, ended.stdout.split()[0]) == (0, "fencepost")


FAILING_SYNC = """
import sys
from fencepost.cli.main import main
from fencepost.runtime import app
from fencepost.store.open import open_store
from tests.store.faulty import IOERR_FSYNC, Faults

wrong, commits = Faults(), []

def count():
    commits.append(1)
    if len(commits) > 2:  # the lease and the claim are written; what the run does is not
        wrong.refuse["COMMIT"] = IOERR_FSYNC

wrong.before["COMMIT"] = count
app.open_store = lambda url, **options: open_store(url, connect=wrong.connect, **options)
sys.exit(main())
"""


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)  # the fault is a file's
def test_a_worker_whose_ledger_failed_to_sync_says_so_and_ends_with_the_ledgers_code(db, started):
    started("greet", "ann")
    command = [sys.executable, "-c", FAILING_SYNC, "worker", SHOP, "--db", db]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == Exit.LEDGER
    assert "CRITICAL fencepost.worker: this worker has ended" in ended.stderr
    assert ended.stderr.splitlines()[-1].startswith("fencepost: ledger: committing to the ledger failed")
