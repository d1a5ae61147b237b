"""A process that sends is stopped, killed or forked at the worst moment; what arrives at the other end is counted."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.effects.deadline import boot_now, deadline_assumption
from tests.effects.peer import Peer, peer, read_request, read_to_the_end, reply
from tests.polling import until

pytestmark = pytest.mark.skipif(deadline_assumption() is not None, reason=f"{deadline_assumption()}")

DOORS = pytest.mark.parametrize("door", ["sync", "async"])
IN_THE_KERNEL = 60_000  # bytes: fits the sender's kernel whole, and only in part the peer's
ROOT = Path(__file__).parents[2]


class Sender:
    def __init__(self, door: str, to: Peer, *, milliseconds: int, size: int, moments: str) -> None:
        command = [sys.executable, "-m", "tests.effects.sender", door, to.url, str(milliseconds), str(size), moments]
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ}
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def reaches(self, moment: str) -> int:
        """Wait for this moment; the boot clock of the sender then."""
        said, _, at = self.line().rstrip().rpartition(" ")
        assert said == moment
        return int(at)

    def is_stopped(self) -> bool:
        return Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

    def timers(self) -> int:
        return Path(f"/proc/{self.process.pid}/timers").read_text().count("ID:")

    def says(self) -> dict[str, object]:
        return dict(json.loads(self.line()))


@contextlib.contextmanager
def sender(door: str, to: Peer, *, milliseconds: int = 20_000, size: int = 100, moments: str = "") -> Iterator[Sender]:
    it = Sender(door, to, milliseconds=milliseconds, size=size, moments=moments)
    try:
        yield it
    finally:
        it.process.kill()
        it.process.communicate()


@DOORS
def test_a_stopped_process_delivers_nothing_after_its_deadline_not_even_what_the_kernel_holds(door: str) -> None:
    moments = "stop at http:last byte out"
    with peer() as target, sender(door, target, milliseconds=400, size=IN_THE_KERNEL, moments=moments) as it:
        connection = target.accept()
        it.reaches("http:last byte out")
        assert it.process.wait(timeout=20) == -signal.SIGKILL
        arrived, end = read_to_the_end(connection)
    assert end == "reset"
    assert b"LAST" not in arrived
    assert 0 < len(arrived) < IN_THE_KERNEL


@DOORS
def test_a_pause_between_permission_and_send_makes_the_send_refuse_itself(door: str) -> None:
    with peer() as target, sender(door, target, milliseconds=100, moments="stop at permission") as it:
        deadline = it.reaches("permission") + 100_000
        until(it.is_stopped, "the sender to stop")
        until(lambda: boot_now() > deadline, "the deadline")
        it.process.send_signal(signal.SIGCONT)
        assert it.says() == {"outcome": "DeadlinePassed: nothing left", "bytes_out": 0, "sends": 0}
        assert target.nobody_came()


@DOORS
def test_a_pause_between_connect_and_first_byte_makes_the_send_refuse_itself(door: str) -> None:
    with peer() as target, sender(door, target, milliseconds=300, moments="stop at http:connect") as it:
        connection = target.accept()
        deadline = it.reaches("http:connect") + 300_000
        until(it.is_stopped, "the sender to stop")
        until(lambda: boot_now() > deadline, "the deadline")
        it.process.send_signal(signal.SIGCONT)
        assert it.says() == {"outcome": "DeadlinePassed: nothing left", "bytes_out": 0, "sends": 0}
        assert read_to_the_end(connection)[0] == b""


@DOORS
def test_a_process_stopped_after_the_peer_has_every_byte_is_not_killed(door: str) -> None:
    with peer() as target, sender(door, target, milliseconds=1_500, moments="http:last byte out") as it:
        connection = target.accept()
        read_request(connection)
        deadline = it.reaches("http:last byte out") + 1_500_000
        until(lambda: it.timers() == 0, "the kernel timer to go")
        assert boot_now() < deadline - 500_000
        it.process.send_signal(signal.SIGSTOP)
        until(lambda: boot_now() > deadline, "the deadline")
        it.process.send_signal(signal.SIGCONT)
        assert it.says()["outcome"] == "Unresolved: unresolved"


@DOORS
def test_a_killed_process_resets_its_connection_instead_of_draining_it(door: str) -> None:
    with peer() as target, sender(door, target, size=IN_THE_KERNEL, moments="http:last byte out") as it:
        connection = target.accept()
        it.reaches("http:last byte out")
        it.process.kill()
        it.process.wait(timeout=20)
        arrived, end = read_to_the_end(connection)
    assert end == "reset"
    assert b"LAST" not in arrived


def test_a_forked_child_does_not_keep_a_killed_parents_bytes_flowing() -> None:
    moments = "fork at http:last byte out"
    with peer() as target, sender("sync", target, size=IN_THE_KERNEL, moments=moments) as it:
        connection = target.accept()
        it.reaches("http:last byte out")
        os.kill(it.process.pid, signal.SIGKILL)  # not the child, which waits for its input to end
        it.process.wait(timeout=20)
        arrived, end = read_to_the_end(connection)
    assert end == "reset"
    assert b"LAST" not in arrived


FORKING = """
import os, sys, threading
from fencepost.effects.deadline import boot_now
from fencepost.effects.transport import DoorOptions, SyncDoor

reached = threading.Event()
door = SyncDoor(DoorOptions(connections_max=int(sys.argv[2]), probe=lambda point: "last" in point and reached.set()))

def send(path):
    return door.request("POST", sys.argv[1] + path, deadline=boot_now() + 5_000_000).status

if sys.argv[2] == "1":  # the only connection is busy at the fork, in a thread that the child does not have
    threading.Thread(target=send, args=("/held",)).start()
    reached.wait()
else:
    send("/idle")
child = os.fork()
if child == 0:
    os._exit(send("/child") != 201)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
sys.exit(status or send("/parent") != 201)
"""


@pytest.mark.parametrize("connections_max", [1, 10])
def test_a_forked_child_speaks_on_connections_of_its_own(connections_max: int) -> None:
    spoken: list[list[bytes]] = []
    child_spoke = threading.Event()

    def answer(connection: socket.socket) -> None:
        mine: list[bytes] = []
        spoken.append(mine)
        while request := read_request(connection):
            mine.append(request.split()[1].rpartition(b"/")[2])
            if mine[-1] == b"child":
                child_spoke.set()
            if mine[-1] == b"held":
                child_spoke.wait(20)
            connection.sendall(reply())

    with peer() as target:
        target.serve(answer)
        command = [sys.executable, "-c", FORKING, target.url, str(connections_max)]
        ended = subprocess.run(command, check=False, timeout=60, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert spoken == [[b"held" if connections_max == 1 else b"idle", b"parent"], [b"child"]]
