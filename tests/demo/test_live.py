"""`make console` as a user runs it: a console that answers over runs that move, and nothing left after Ctrl-C."""

import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from fencepost.testing import WorldFiles
from tests.demo.processes import mentioning
from tests.polling import until

ANSWER_SECONDS_MAX = 10


def live(folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "fencepost.demo.live", "--port", "0", "--every", "0.2", "--folder", str(folder)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def link_of(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Where its console is, and the link by which one comes in."""
    told = []
    for line in process.stdout:
        told.append(line)
        found = re.search(r"(http://127\.0\.0\.1:\d+)(/sign-in\?link=\S+)", line)
        if found:
            return found[1], found[0]
    raise AssertionError("".join(told))


def get(address: str) -> tuple[int, str]:
    with urllib.request.urlopen(address, timeout=ANSWER_SECONDS_MAX) as reply:  # noqa: S310 - our own console
        return reply.status, reply.read().decode()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda one: one.name)
def test_the_console_answers_over_live_traffic_and_ends_in_order(tmp_path: Path, number: signal.Signals) -> None:
    folder = tmp_path / "kept"
    process = live(folder)
    try:
        where, link = link_of(process)
        assert get(f"{where}/health")[0] == 200
        assert get(link)[0] == 200
        until(lambda: WorldFiles(folder / "world").objects("messages"), "an invoice to get as far as its mail")
        process.send_signal(number)
        said, _ = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 0, said
    assert not mentioning(folder)


def test_nothing_outlives_it_when_it_is_killed_itself(tmp_path: Path) -> None:
    process = live(tmp_path / "kept")
    link_of(process)
    process.kill()
    process.communicate(timeout=30)
    until(lambda: not mentioning(tmp_path), "the children of the killed console to end")


def test_a_port_that_is_taken_is_said_and_nothing_is_left(tmp_path: Path) -> None:
    first = live(tmp_path / "first")
    try:
        where, _ = link_of(first)
        command = [sys.executable, "-m", "fencepost.demo.live", "--port", where.rpartition(":")[2]]
        ended = subprocess.run(
            [*command, "--folder", str(tmp_path / "second")], capture_output=True, text=True, timeout=60, check=False
        )
    finally:
        first.send_signal(signal.SIGINT)
        first.communicate(timeout=30)
    assert ended.returncode == 2
    assert "Address already in use" in ended.stdout
    assert not mentioning(tmp_path)
