"""An outside system that runs commands reports on its job: it holds the token, and needs neither code nor run id."""

import pytest


@pytest.fixture
def desk(started, lived, tmp_path):
    """A file with the token of a job that a run waits for."""
    desk = tmp_path / "token"
    assert lived(started("render", str(desk))) == "waiting"
    return f"@{desk}"


def test_a_job_says_that_it_is_alive_and_then_that_it_is_done(fencepost, db, desk, lived):
    ended = fencepost("callback", desk, '{"frames": 7}', "--heartbeat", "--db", db)
    assert (ended.code, ended.out) == (0, "the wait has its time once more\n")
    shown = fencepost("show", "run-1", "--db", db).out
    assert "the report 'film' on a job of hand_over, heard of last at " in shown
    assert '({"frames": 7})' in shown
    ended = fencepost("callback", desk, '"a film"', "--db", db, "--json")
    assert (ended.code, ended.json["name"], ended.json["state"]) == (0, "film", "kept")
    assert lived("run-1", until=("succeeded", "held", "failed")) == "succeeded"
    assert fencepost("show", "run-1", "--db", db, "--json").json["run"]["result"] == "a film"
    assert fencepost("callback", desk, '"a film"', "--db", db).out == "the report on film is applied\n"
    ended = fencepost("callback", desk, '"another"', "--db", db)
    assert (ended.code, ended.err.splitlines()[0].partition("[")[0].strip()) == (
        1, "fencepost: refused: this token has brought another answer before"
    )  # fmt: skip


def test_a_job_says_that_it_has_failed(fencepost, db, desk, lived):
    assert fencepost("callback", desk, "--failed", "no disk", "--db", db).code == 0
    assert lived("run-1", until=("succeeded", "held", "failed")) == "failed"
    assert "no disk" in fencepost("show", "run-1", "--db", db).out


def test_a_strange_token_is_refused(fencepost, db, desk):
    ended = fencepost("callback", "fpc_" + "A" * 43, "1", "--db", db)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("fencepost: refused: nobody has given out this token")


@pytest.mark.parametrize(
    "more", [("--heartbeat", "--failed", "x"), ("1", "--failed", "x"), ("{",)], ids=["both", "value and why", "no JSON"]
)
def test_what_cannot_be_meant_is_a_usage_error(fencepost, db, desk, more):
    assert fencepost("callback", desk, *more, "--db", db).code == 2


def test_a_file_that_is_not_there_is_a_usage_error(fencepost, db, desk):
    assert fencepost("callback", f"{desk}.gone", "--db", db).code == 2
