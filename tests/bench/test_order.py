"""The frame interleaves its contestants, stays within its budget, and loses only the figures of one that fails."""

import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.child import Contestant, Job, run
from bench.frame import Bench, Plan, contestants, file_system, jobs_of_round, jobs_once, main
from bench.modes import MODES, SERVED
from bench.peers import contestants as on_server

HERE = Path(sys.executable)
FLOOR = Contestant("floor", "floor", HERE, modes=("machine",))
PLAN = Plan("test", rounds=2, seconds=0.0, budget=3600.0, variants=False)


def test_a_round_asks_each_contestant_in_turn():
    everyone = contestants(HERE, variants=True)
    peers = [job.contestant.peer for job in jobs_of_round(everyone, 1)]
    assert list(dict.fromkeys(peers)) == ["floor", "fencepost", "dbos", "dbos-wal", "langgraph"]
    assert peers == sorted(peers, key=list(dict.fromkeys(peers)).index)


def test_the_default_settings_alone_are_measured_unless_variants_are_wanted():
    assert "dbos-wal" not in {who.peer for who in contestants(HERE, variants=False)}


def test_every_mode_is_asked_of_someone_and_each_job_comes_once():
    asked = set()
    for everyone in (contestants(HERE, variants=True), on_server(HERE, variants=True)):
        jobs = [*jobs_of_round(everyone, 1), *jobs_once(everyone)]
        assert len(set(jobs)) == len(jobs)
        asked |= {job.mode for job in jobs}
    assert asked == MODES.keys() - set(SERVED)


def test_rounds_follow_each_other_and_the_lines_carry_their_number(tmp_path):
    bench = Bench(PLAN, [FLOOR], tmp_path)
    bench.measure()
    assert [line["round"] for line in bench.lines] == [1, 2]
    assert bench.skipped == {}
    assert list(tmp_path.iterdir()) == []


def test_each_child_has_an_empty_database_of_its_own(tmp_path):
    lent, given_back = [], []

    @contextmanager
    def database():
        lent.append(f"postgresql:///bench_{len(lent)}")
        yield lent[-1]
        given_back.append(lent[-1])

    bench = Bench(PLAN, [FLOOR], tmp_path, database)
    bench.measure()
    assert lent == given_back == ["postgresql:///bench_0", "postgresql:///bench_1"]
    assert [line["round"] for line in bench.lines] == [1, 2]


def test_a_peer_on_the_server_is_asked_only_for_what_it_can_answer():
    for who in on_server(HERE, variants=True):
        arguments = Job(who, "ten", 1).arguments(Path("state"), 1.0, "postgresql:///bench")
        assert arguments[-2:] == ["--server", "postgresql:///bench"]
        assert set(who.modes) <= MODES.keys() - set(SERVED)


def test_a_spent_budget_leaves_out_what_does_not_fit(tmp_path):
    bench = Bench(PLAN._replace(budget=0.0), [FLOOR], tmp_path)
    bench.measure()
    assert bench.lines == []
    assert bench.skipped == {"floor machine": "the time was up before it"}


def test_a_contestant_that_is_not_installed_is_left_out_with_a_word(tmp_path):
    absent = Contestant("absent", "absent", HERE, package="no_such_package", modes=("ten", "import"))
    bench = Bench(PLAN, [absent, FLOOR], tmp_path)
    bench.measure()
    assert "No module named bench.absent" in bench.skipped["absent ten"]
    assert "no_such_package" in bench.skipped["absent import"]
    assert {line["peer"] for line in bench.lines} == {"floor"}


def test_an_environment_that_was_never_made_is_named(tmp_path):
    absent = Contestant("absent", "floor", tmp_path / "python", modes=("machine",))
    assert "make bench" in (run(Job(absent, "machine", 1), tmp_path, 0.0, 60.0).refusal or "")


def test_a_child_that_does_not_end_is_ended_from_outside(tmp_path):
    endless = Contestant("floor", "floor", HERE)
    answer = run(Job(endless, "machine", 1), tmp_path, seconds=3600.0, patience=1.0)
    assert answer.lines == []
    assert "ended from outside" in (answer.refusal or "")


def test_an_unknown_mode_is_the_childs_usage_error(tmp_path):
    assert "invalid choice" in (run(Job(FLOOR, "ten", 1), tmp_path, 0.0, 60.0).refusal or "")


def test_a_benchmark_without_a_figure_of_fencepost_exits_1(tmp_path, capsys):
    report = tmp_path / "report.json"
    arguments = ["--only", "floor", "--rounds", "1", "--seconds", "0", "--state", str(tmp_path / "state")]
    assert main([*arguments, "--json", str(report)]) == 1
    assert "plain SQL" in capsys.readouterr().out
    assert '"fdatasync_per_s"' in report.read_text(encoding="utf-8")


@pytest.mark.skipif(not Path("/proc/mounts").exists(), reason="only Linux lists its mounts there")
def test_the_file_system_of_a_folder_is_that_of_its_nearest_mount():
    assert file_system(Path("/proc/self")) == "proc"
