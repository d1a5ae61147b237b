"""Jobs on many runs on the command line: listed, looked at, paused from elsewhere, gone on with; no app's code."""

import signal
import subprocess

import pytest

from tests.cli.test_processes import FENCEPOST
from tests.polling import until

WHY = ("--reason", "the desk is open again", "--by", "ada")


@pytest.fixture
def stopped(db, started, fencepost):
    """A job on three runs that was stopped after the first one."""
    for number in range(3):
        started("greet", f"ann {number}", run=f"r{number}")
    bulk = [*FENCEPOST, "bulk", "cancel", "--state", "ready", "--pace", "60s", "--db", db, *WHY]
    process = subprocess.Popen(bulk, stderr=subprocess.PIPE, text=True)
    until(lambda: fencepost("audit", "--db", db, "--json").json["rows"], "the first run to be done")
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130
    process.stderr.close()
    return db


def test_a_job_is_listed_shown_paused_and_gone_on_with(fencepost, stopped):
    (job,) = fencepost("bulks", "--db", stopped, "--json").json["jobs"]
    assert (job["verb"], job["actor"], job["reason"]) == ("cancel", "ada", "the desk is open again")
    assert (job["state"], job["runs"], job["done"], job["refused"], job["left"]) == ("running", 3, 1, 0, 2)
    assert fencepost("bulks", "--db", stopped).out.splitlines()[1].split()[:3] == ["1", "cancel", "ada"]

    paused = fencepost("bulks", "pause", "1", "--reason", "wait", "--by", "bob", "--db", stopped)
    assert paused.out == "job 1, cancel by ada, is paused: 1 of 3 done, 0 refused, 2 left\n"
    shown = fencepost("bulks", "show", "1", "--db", stopped, "--json").json
    assert [(one["run"], one["was"], one["is"], one["outcome"]) for one in shown["each"]] == [
        ("r2", "ready", "cancelling", "done"), ("r1", "ready", "ready", None), ("r0", "ready", "ready", None),
    ]  # fmt: skip
    assert "r1" in fencepost("bulks", "show", "1", "--db", stopped).out
    assert fencepost("terminate", "r1", "--db", stopped, *WHY).code == 0

    ended = fencepost("bulks", "resume", "1", "--reason", "go on", "--by", "bob", "--db", stopped, "--json")
    assert [(one["run"], one["refused"] is None) for one in ended.json["runs"]] == [("r1", False), ("r0", True)]
    assert ended.code == 1
    assert fencepost("bulks", "--db", stopped).err == "no jobs\n"
    (done,) = fencepost("bulks", "--all", "--db", stopped, "--json").json["jobs"]
    assert (done["state"], done["done"], done["refused"]) == ("done", 2, 1)
    assert fencepost("bulks", "pause", "1", "--reason", "wait", "--db", stopped).code == 1
    assert fencepost("bulks", "show", "7", "--db", stopped).code == 1
    check = fencepost("check", "--db", stopped)
    assert check.code == 0, check.out
    assert fencepost("audit", "verify", "--db", stopped).code == 0
