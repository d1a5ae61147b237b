"""A socket that is handed to `call.sending()` keeps the deadline, whatever becomes of its client and its process."""

import contextlib
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from fencepost.core.contract import Contract
from fencepost.core.errors import DeadlinePassed, Unresolved
from fencepost.effects.attempting import Attempting
from fencepost.effects.call import SyncCall
from fencepost.effects.deadline import boot_now, deadline_assumption
from fencepost.effects.outside import Outside
from fencepost.effects.site import Site
from tests.effects.peer import client_tls, peer, read_to_the_end, server_tls
from tests.polling import until

ENFORCED = pytest.mark.skipif(deadline_assumption() is not None, reason=f"{deadline_assumption()}")
IN_THE_KERNEL = 60_000  # bytes: fits the sender's kernel whole, and only in part the peer's
LONG = 10_000_000
ROOT = Path(__file__).parents[2]


def attempting(microseconds):
    site = Site(Outside(), permission=lambda: None, now=lambda: 0, generation=1, principal=None)
    return Attempting(site, "/mail", 1, boot_now() + microseconds, Contract("mail"))


@contextlib.contextmanager
def connected():
    with peer() as target:
        host, _, port = target.url[7:].partition("/")[0].partition(":")
        mine = socket.create_connection((host, int(port)), timeout=20)
        with mine:
            yield mine, target.accept()


def own_timers():
    return Path("/proc/self/timers").read_text().count("ClockID:")


STOPPED = """
import os, signal, socket, sys
from tests.effects.test_span import IN_THE_KERNEL, SyncCall, attempting
mine = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
with SyncCall(attempting(400_000)).sending() as guard:
    guard.watch(mine)
    mine.sendall(b"x" * (IN_THE_KERNEL - 4) + b"LAST")
    os.kill(os.getpid(), signal.SIGSTOP)
"""


def send(one, mine, data=b"", *, then=lambda: None):
    """Send inside of a watched block, then do what is given."""
    with SyncCall(one).sending() as guard:
        guard.watch(mine)
        mine.sendall(data)
        then()


@ENFORCED
def test_a_process_stopped_inside_the_block_delivers_nothing_after_its_deadline():
    with peer() as target:
        port = target.url.rpartition(":")[2].partition("/")[0]
        process = subprocess.Popen([sys.executable, "-c", STOPPED, port], cwd=ROOT)
        try:
            connection = target.accept()
            assert process.wait(timeout=20) == -signal.SIGKILL
        finally:
            process.kill()
            process.wait()
        arrived, end = read_to_the_end(connection)
    assert end == "reset"
    assert b"LAST" not in arrived
    assert 0 < len(arrived) < IN_THE_KERNEL


@ENFORCED
def test_a_client_that_is_too_slow_is_reset_and_the_process_lives():
    one = attempting(200_000)
    with connected() as (mine, other):
        with pytest.raises(OSError, match=r"reset|pipe"):
            send(one, mine, then=lambda: mine.recv(1))
        assert boot_now() < one.deadline
        assert read_to_the_end(other) == (b"", "reset")
    assert own_timers() == 0


def test_a_client_that_heard_its_reply_is_disturbed_in_nothing():
    with connected() as (mine, other):
        with SyncCall(attempting(LONG)).sending() as guard:
            guard.watch(mine)
            mine.sendall(b"all of it")
            other.sendall(b"taken")
            assert mine.recv(5) == b"taken"
        mine.close()
        assert read_to_the_end(other) == (b"all of it", "end")
    assert own_timers() == 0


def test_a_client_that_closes_its_socket_inside_the_block_still_ends_politely():
    with connected() as (mine, other):
        with SyncCall(attempting(LONG)).sending() as guard:
            guard.watch(mine)
            mine.sendall(b"all of it")
            other.sendall(b"taken")
            assert mine.recv(5) == b"taken"
            mine.close()
        assert read_to_the_end(other) == (b"all of it", "end")


@ENFORCED
def test_bytes_that_nobody_confirmed_at_the_end_of_the_block_are_discarded_and_unresolved():
    one = attempting(LONG)
    with connected() as (mine, other):
        with pytest.raises(Unresolved, match="before the target's kernel confirmed") as caught:
            send(one, mine, b"x" * (IN_THE_KERNEL - 4) + b"LAST")
        arrived, end = read_to_the_end(other)
    assert (end, b"LAST" in arrived) == ("reset", False)
    assert one.proof_in(caught.value) is None


def test_what_comes_too_late_to_be_watched_is_refused_and_left_alone():
    one = attempting(200_000)
    with connected() as (mine, _), SyncCall(one).sending() as guard:
        until(lambda: boot_now() > one.deadline, "the deadline")
        with pytest.raises(DeadlinePassed):
            guard.watch(mine)
    assert own_timers() == 0


def test_a_default_timeout_of_the_process_does_not_reach_the_client():
    with connected() as (mine, other):
        mine.settimeout(None)
        socket.setdefaulttimeout(5)
        try:
            with SyncCall(attempting(LONG)).sending() as guard:
                guard.watch(mine)
                assert mine.fileno() >= 0
                other.sendall(b"late")
                assert mine.recv(4) == b"late"
        finally:
            socket.setdefaulttimeout(None)


def test_a_tls_socket_can_be_watched_too():
    with peer() as target:

        def answer(connection):
            with server_tls().wrap_socket(connection, server_side=True) as secured:
                secured.sendall(secured.recv(100).upper())
                secured.recv(1)

        target.serve(answer)
        host, _, port = target.url[7:].partition("/")[0].partition(":")
        plain = socket.create_connection((host, int(port)), timeout=20)
        heard = []
        with client_tls().wrap_socket(plain, server_hostname="localhost") as mine:
            send(attempting(LONG), mine, b"said", then=lambda: heard.append(mine.recv(4)))
        assert heard == [b"SAID"]
