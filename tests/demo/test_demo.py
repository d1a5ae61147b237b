"""The demo as a user runs it: a real command with real kills, and nothing left behind, however it ends."""

import re
import signal
import subprocess
import sys

import pytest

from fencepost.core.errors import Misuse
from fencepost.demo import main
from fencepost.demo.tally import Injected, Row
from tests.demo.processes import mentioning
from tests.polling import until

COMMAND = [sys.executable, "-c", "import sys; from fencepost.cli.main import main; sys.exit(main())", "demo"]


def demo(folder, *, invoices):
    return subprocess.Popen(
        [*COMMAND, "--seed", "5", "--invoices", str(invoices), "--folder", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def until_struck(process, how):
    """Read what the demo says until it has sent such a signal to a worker."""
    for line in process.stdout:
        if how in line:
            return
    raise AssertionError("the demo ended without a blow")


def test_the_demo_ends_right_and_leaves_a_ledger_without_a_contradiction_and_no_process(tmp_path):
    folder = tmp_path / "kept"
    process = demo(folder, invoices=5)
    said, _ = process.communicate(timeout=110)
    assert process.returncode == 0, said
    assert "What the outside world holds" in said
    assert "naive retry" in said
    assert "takeovers" in said
    events = [line.split("s  ", 1)[1] for line in said.splitlines() if "SIGKILL" in line or "SIGSTOP" in line]
    assert {event.partition(":")[0] for event in events} == {"naive retry", "Fencepost"}
    # It ends with the one trace of a run that lost two workers: three owners, each with a generation of its own.
    tree = said.partition("that lost two workers")[2].splitlines()[1:]
    assert tree[0].startswith("trace "), said
    generations = {word for line in tree for word in re.findall(r"generation (\d+)", line)}
    assert len(generations) >= 3, said
    ledger = folder / "fencepost.db"
    for looked in (("check",), ("audit", "verify")):
        ended = subprocess.run([*COMMAND[:-1], *looked, "--db", ledger], capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stdout
    assert not mentioning(folder)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_demo_ends_everything_that_it_started(tmp_path, number):
    process = demo(tmp_path / "kept", invoices=8)
    until_struck(process, "SIGKILL")
    process.send_signal(number)
    said, _ = process.communicate(timeout=30)
    assert process.returncode == 130, said
    assert not mentioning(tmp_path)


def test_nothing_outlives_a_demo_that_is_killed_itself_not_even_a_paused_worker(tmp_path):
    process = demo(tmp_path / "kept", invoices=8)
    until_struck(process, "SIGSTOP")
    process.kill()
    process.communicate(timeout=30)
    until(lambda: not mentioning(tmp_path), "the children of the killed demo to end")


def struck_plenty():
    return Injected(kills=99, pauses=99, dropped_replies=99, takeovers=99)


@pytest.mark.parametrize(
    ("naive_duplicates", "made", "kills"), [(3, 4, 99), (3, 5, 99), (0, 4, 99), (3, 4, 0)], ids=str
)
def test_the_exit_code_follows_the_verdict(tmp_path, monkeypatch, naive_duplicates, made, kills):
    naive = Row(4, 4 + naive_duplicates, 4, 4, 4, duplicates=naive_duplicates, lost=0)
    fenced = Row(4, made, 4, 4, 4, duplicates=made - 4, lost=0)
    struck = Injected(kills, 99, 99, 99)

    async def live(side, *_):
        return (naive if side.name == "naive retry" else fenced), struck, []

    monkeypatch.setattr(main, "_live", live)
    is_right = (naive_duplicates, made, kills) == (3, 4, 99)
    code = main.run_demo(seed=1, invoices=4, folder=tmp_path / "kept")
    assert code == (main.EXIT_RIGHT if is_right else main.EXIT_WRONG)


def test_a_run_that_did_not_get_through_makes_the_demo_wrong(tmp_path, monkeypatch, capsys):
    right, wrong = Row(4, 4, 4, 4, 4, duplicates=0, lost=0), Row(4, 5, 4, 4, 4, duplicates=1, lost=0)

    async def live(side, *_):
        return (
            (wrong, struck_plenty(), []) if side.name == "naive retry" else (right, struck_plenty(), ["Run x is held."])
        )

    monkeypatch.setattr(main, "_live", live)
    assert main.run_demo(seed=1, invoices=4, folder=tmp_path / "kept") == main.EXIT_WRONG
    assert "Run x is held." in capsys.readouterr().out


@pytest.mark.parametrize("invoices", [0, 3, 1_001])
def test_too_few_or_too_many_invoices_are_refused(tmp_path, invoices):
    with pytest.raises(Misuse, match="invoices"):
        main.run_demo(seed=1, invoices=invoices, folder=tmp_path / "kept")


def test_a_folder_with_something_in_it_is_refused_and_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("keep", encoding="utf-8")
    with pytest.raises(Misuse, match="not empty"):
        main.run_demo(seed=1, invoices=4, folder=tmp_path)
    assert (tmp_path / "mine.txt").read_text(encoding="utf-8") == "keep"
