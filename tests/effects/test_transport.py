"""One request leaves at most once, its facts are counted per attempt, and its end leaves nothing behind."""

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpcore2
import pytest

from fencepost.core.errors import DeadlinePassed, Misuse, Transient, Unresolved
from fencepost.effects import wire
from fencepost.effects.deadline import Guard, boot_now, deadline_assumption
from fencepost.effects.exchange import FAULT_POINTS
from fencepost.effects.transport import (
    AsyncDoor,
    DoorOptions,
    RawReply,
    SendFacts,
    SyncDoor,
    is_write,
    outcome_of_failure,
)
from tests.effects.peer import (
    Peer,
    answer_each,
    client_tls,
    peer,
    read_request,
    read_to_the_end,
    reply,
    server_tls,
)
from tests.polling import until

MEGABYTE = 1_048_576
LONG = 10_000_000  # microseconds
SHORT = 300_000


class Doors:
    """Either door behind one blocking call, so that each test is written once."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._runner = asyncio.Runner()
        self._opened: list[SyncDoor | AsyncDoor] = []

    def open(self, **options: Any) -> Callable[..., RawReply]:
        if self.kind == "sync":
            door = SyncDoor(DoorOptions(**options))
            self._opened.append(door)
            return door.request
        async_door = AsyncDoor(DoorOptions(**options))
        self._opened.append(async_door)
        return lambda *args, **kwargs: self._runner.run(async_door.request(*args, **kwargs))

    def close(self) -> None:
        for door in self._opened:
            if isinstance(door, AsyncDoor):
                self._runner.run(door.aclose())
            else:
                door.close()
        self._runner.close()


@pytest.fixture(params=["sync", "async"])
def doors(request: pytest.FixtureRequest) -> Iterator[Doors]:
    it = Doors(request.param)
    yield it
    it.close()


@pytest.fixture
def target() -> Iterator[Peer]:
    with peer() as it:
        yield it


def soon() -> int:
    return boot_now() + LONG


def ends_by_reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


# -- what a request looks like, and what is counted ------------------------------------------------------------------


def test_a_request_is_sent_as_given_and_the_raw_reply_comes_back(doors: Doors, target: Peer) -> None:
    seen: list[bytes] = []

    def answer(connection: socket.socket) -> None:
        seen.append(read_request(connection))
        connection.sendall(reply(b'{"id": "t-1"}', "409 Conflict"))

    target.serve(answer)
    facts = SendFacts()
    got = doors.open()(
        "post",
        target.url,
        deadline=soon(),
        headers={"Idempotency-Key": "k"},
        params={"q": "ü"},
        content=b"{}",
        facts=facts,
    )
    assert (got.status, got.body, got.trouble) == (409, b'{"id": "t-1"}', None)
    assert got.digest == sha256(got.body).hexdigest()
    assert seen[0].startswith(b"POST /things?q=%C3%BC HTTP/1.1\r\n")
    assert b"Idempotency-Key: k\r\n" in seen[0]
    assert b"accept-encoding: identity\r\n" in seen[0].lower()
    assert facts == SendFacts(len(seen[0]), 1, all_out=True, first_byte_in=True, guarded=facts.guarded, status=409)


def test_a_redirect_is_returned_and_not_followed(doors: Doors, target: Peer) -> None:
    seen: list[bytes] = []

    def answer(connection: socket.socket) -> None:
        while request := read_request(connection):
            seen.append(request)
            connection.sendall(b"HTTP/1.1 307 Elsewhere\r\nlocation: /other\r\ncontent-length: 0\r\n\r\n")

    target.serve(answer)
    assert doors.open()("POST", target.url, deadline=soon()).status == 307
    assert len(seen) == 1


def test_fault_points_are_passed_in_their_order(doors: Doors, target: Peer) -> None:
    target.serve(answer_each)
    reached: list[str] = []
    send = doors.open(probe=reached.append)
    send("POST", target.url, deadline=soon())
    assert reached == list(FAULT_POINTS)
    send("POST", target.url, deadline=soon())
    assert reached[3:] == list(FAULT_POINTS[1:])


def test_pooled_connections_do_not_mix_the_facts_of_attempts(doors: Doors, target: Peer) -> None:
    target.serve(answer_each)
    send = doors.open(connections_max=2)
    for size in (0, 10, 100_000):
        facts = SendFacts()
        got = send("POST", target.url, deadline=soon(), content=b"x" * size, facts=facts)
        assert (facts.bytes_out, facts.sends) == (int(got.body), 1)


def test_threads_that_share_a_door_count_each_their_own(target: Peer) -> None:
    target.serve(answer_each)

    def one(size: int) -> None:
        facts = SendFacts()
        got = door.request("POST", target.url, deadline=soon(), content=b"x" * size, facts=facts)
        assert (facts.bytes_out, facts.sends) == (int(got.body), 1)

    with SyncDoor(DoorOptions(connections_max=3)) as door, ThreadPoolExecutor(8) as threads:
        list(threads.map(one, range(0, 20_000, 100)))


def test_tasks_that_share_a_door_count_each_their_own(target: Peer) -> None:
    async def one(door: AsyncDoor, size: int) -> None:
        facts = SendFacts()
        got = await door.request("POST", target.url, deadline=soon(), content=b"x" * size, facts=facts)
        assert (facts.bytes_out, facts.sends) == (int(got.body), 1)

    async def scenario() -> None:
        async with AsyncDoor(DoorOptions(connections_max=3)) as door, asyncio.TaskGroup() as tasks:
            for size in range(0, 20_000, 100):
                tasks.create_task(one(door, size))

    target.serve(answer_each)
    asyncio.run(scenario())


def test_many_sends_leave_no_timer_and_no_descriptor_behind(doors: Doors, target: Peer) -> None:
    target.serve(answer_each)
    send = doors.open()
    send("POST", target.url, deadline=soon())
    open_before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(500):
        send("POST", target.url, deadline=soon(), content=b"hello")
    assert Path("/proc/self/timers").read_text() == ""
    assert len(list(Path("/proc/self/fd").iterdir())) == open_before


# -- the deadline ----------------------------------------------------------------------------------------------------


def test_a_peer_that_reads_too_slowly_is_reset_before_the_deadline(doors: Doors, target: Peer) -> None:
    facts = SendFacts()
    deadline = boot_now() + SHORT
    with pytest.raises(Unresolved, match="bytes of the request had left"):
        doors.open()("POST", target.url, deadline=deadline, content=b"x" * 8 * MEGABYTE + b"LAST", facts=facts)
    assert boot_now() < deadline
    assert 0 < facts.bytes_out < 8 * MEGABYTE
    assert not facts.all_out
    arrived, end = read_to_the_end(target.accept())
    assert end == "reset"
    assert b"LAST" not in arrived


def test_bytes_that_still_wait_in_the_kernel_are_discarded_at_the_deadline(doors: Doors, target: Peer) -> None:
    facts = SendFacts()
    with pytest.raises(Unresolved):
        doors.open()("POST", target.url, deadline=boot_now() + SHORT, content=b"x" * 60_000 + b"LAST", facts=facts)
    assert facts.all_out
    arrived, end = read_to_the_end(target.accept())
    assert end == "reset"
    assert b"LAST" not in arrived


def test_a_deadline_that_has_passed_sends_nothing(doors: Doors, target: Peer) -> None:
    facts = SendFacts()
    with pytest.raises(DeadlinePassed):
        doors.open()("POST", target.url, deadline=boot_now() - 1, facts=facts)
    assert facts == SendFacts()
    assert target.nobody_came()


def test_a_read_is_bounded_by_its_deadline_too(doors: Doors, target: Peer) -> None:
    with pytest.raises(Transient):
        doors.open()("GET", target.url, deadline=boot_now() + SHORT)


def test_a_read_that_is_late_before_its_first_byte_sends_none(doors: Doors, target: Peer) -> None:
    deadline = boot_now() + SHORT
    send = doors.open(probe=lambda _: bool(until(lambda: boot_now() > deadline, "the deadline")))
    facts = SendFacts()
    with pytest.raises(DeadlinePassed):
        send("GET", target.url, deadline=deadline, facts=facts)
    assert facts.bytes_out == 0


def test_waiting_for_a_free_connection_is_bounded_and_proves_that_nothing_left(target: Peer) -> None:
    waits = threading.Event()
    with SyncDoor(DoorOptions(connections_max=1, probe=lambda _: waits.set())) as door:
        first = threading.Thread(target=_swallowing(door, target, SHORT * 2))
        first.start()
        waits.wait(20)
        facts = SendFacts()
        with pytest.raises(httpcore2.PoolTimeout) as caught:
            door.request("POST", target.url, deadline=boot_now() + SHORT // 3, facts=facts)
        assert outcome_of_failure(facts, caught.value).says == "nothing left"
        first.join()


def _swallowing(door: SyncDoor, target: Peer, microseconds: int) -> Callable[[], None]:
    def run() -> None:
        with pytest.raises(Unresolved):
            door.request("POST", target.url, deadline=boot_now() + microseconds)

    return run


# -- connections that die --------------------------------------------------------------------------------------------


def test_a_refused_connection_proves_that_nothing_left(doors: Doors) -> None:
    with peer() as gone:
        pass
    facts = SendFacts()
    with pytest.raises(httpcore2.ConnectError) as caught:
        doors.open()("POST", gone.url, deadline=soon(), facts=facts)
    assert outcome_of_failure(facts, caught.value).says == "nothing left"


def test_a_connection_that_its_server_closed_while_idle_is_not_written_to(doors: Doors, target: Peer) -> None:
    send = doors.open()
    served = _serve_first_then(target, lambda connection: connection.close())
    send("POST", target.url, deadline=soon())
    served.wait(20)
    facts = SendFacts()
    target.serve(answer_each)
    assert send("POST", target.url, deadline=soon(), facts=facts).status == 201
    assert facts.sends == 1


@pytest.mark.parametrize("pool_looks", [True, False])
def test_a_connection_on_which_the_server_spoke_unasked_is_not_written_to(
    doors: Doors, target: Peer, monkeypatch: pytest.MonkeyPatch, pool_looks: bool
) -> None:
    if not pool_looks:  # the server spoke between the pool's look and our write
        monkeypatch.setattr(wire.Wire, "info", lambda *_: None)
    read = threading.Event()

    def say_408(connection: socket.socket) -> None:
        read.wait(20)
        connection.sendall(reply(b"", "408 Request Timeout"))

    send = doors.open()
    served = _serve_first_then(target, say_408)
    send("POST", target.url, deadline=soon())
    read.set()
    served.wait(20)
    target.serve(answer_each)
    facts = SendFacts()
    assert send("POST", target.url, deadline=soon(), facts=facts).status == 201
    assert facts.sends == 1


def test_a_surplus_reply_is_not_taken_for_the_reply_to_the_next_request(doors: Doors, target: Peer) -> None:
    def answer_twice(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(reply() + reply(b"", "422 Surplus"))

    target.serve(answer_twice)
    send = doors.open()
    send("POST", target.url, deadline=soon())
    facts = SendFacts()
    with pytest.raises(httpcore2.RemoteProtocolError, match="before its question") as caught:
        send("POST", target.url, deadline=soon(), facts=facts)
    assert outcome_of_failure(facts, caught.value).says == "unresolved"
    assert facts.status is None


def test_losing_the_race_with_a_closing_server_before_the_first_byte_takes_another_connection(
    doors: Doors, target: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The server's reset arrives between our look at the idle connection and our write: play it by not looking.
    monkeypatch.setattr(wire, "is_readable", lambda _: False)
    send = doors.open()
    served = _serve_first_then(target, ends_by_reset)
    send("POST", target.url, deadline=soon())
    served.wait(20)
    target.serve(answer_each)
    facts = SendFacts()
    got = send("POST", target.url, deadline=soon(), content=b"once", facts=facts)
    assert (facts.sends, facts.bytes_out) == (1, int(got.body))


def test_losing_that_race_after_the_first_byte_is_unresolved_and_sends_nothing_again(
    doors: Doors, target: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "is_readable", lambda _: False)
    send = doors.open()
    served = _serve_first_then(target, lambda connection: connection.close())
    send("POST", target.url, deadline=soon())
    served.wait(20)
    facts = SendFacts()
    with pytest.raises((httpcore2.ReadError, httpcore2.RemoteProtocolError)) as caught:
        send("POST", target.url, deadline=soon(), content=b"once", facts=facts)
    assert outcome_of_failure(facts, caught.value).says == "unresolved"
    assert facts.sends == 1
    assert target.nobody_came()


def test_a_server_that_dies_after_it_read_the_request_sees_it_once(doors: Doors, target: Peer) -> None:
    seen: list[bytes] = []

    def answer(connection: socket.socket) -> None:
        connection.sendall(reply() if read_request(connection) else b"")
        seen.append(read_request(connection))
        ends_by_reset(connection)

    target.serve(answer)
    send = doors.open()
    send("POST", target.url, deadline=soon())
    facts = SendFacts()
    with pytest.raises(httpcore2.ReadError) as caught:
        send("POST", target.url, deadline=soon(), content=b"once", facts=facts)
    assert [request.count(b"once") for request in seen] == [1]
    assert outcome_of_failure(facts, caught.value) == ("unresolved", outcome_of_failure(facts, caught.value).why)
    assert "the whole request left" in outcome_of_failure(facts, caught.value).why


def _serve_first_then(target: Peer, then: Callable[[socket.socket], None]) -> threading.Event:
    done = threading.Event()

    def run() -> None:
        connection = target.accept()
        read_request(connection)
        connection.sendall(reply())
        then(connection)
        done.set()

    threading.Thread(target=run, daemon=True).start()
    return done


# -- replies ---------------------------------------------------------------------------------------------------------


def test_a_reply_that_is_too_long_is_cut_and_says_so(doors: Doors, target: Peer) -> None:
    target.serve(lambda connection: connection.sendall(reply(b"y" * 5_000)) if read_request(connection) else None)
    got = doors.open(reply_bytes_max=1_000)("POST", target.url, deadline=soon())
    assert (got.status, got.body, got.is_truncated) == (201, b"y" * 1_000, True)


def test_a_reply_that_breaks_off_keeps_its_status_as_evidence(doors: Doors, target: Peer) -> None:
    def answer(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(reply(b"hello")[:-2])
        connection.close()

    target.serve(answer)
    facts = SendFacts()
    got = doors.open()("POST", target.url, deadline=soon(), facts=facts)
    assert (got.status, got.body, facts.status) == (201, b"hel", 201)
    assert got.trouble is not None


def test_a_reply_that_is_not_whole_at_the_deadline_keeps_its_status_too(doors: Doors, target: Peer) -> None:
    target.serve(lambda connection: connection.sendall(reply(b"hello")[:-2]) if read_request(connection) else None)
    got = doors.open()("POST", target.url, deadline=boot_now() + SHORT)
    assert (got.status, got.body) == (201, b"hel")
    assert got.trouble is not None
    assert "deadline" in got.trouble


# -- cancelling ------------------------------------------------------------------------------------------------------


def test_cancelling_a_task_resets_its_connection_and_leaves_the_door_usable(target: Peer) -> None:
    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        written = asyncio.Event()
        probe = {"http:last byte out": written.set}
        async with AsyncDoor(DoorOptions(probe=lambda point: probe.get(point, int)(), connections_max=1)) as door:
            facts = SendFacts()
            task = asyncio.create_task(door.request("POST", target.url, deadline=soon(), facts=facts))
            await written.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError) as caught:
                await task
            assert outcome_of_failure(facts, caught.value).says == "unresolved"
            connection = await loop.run_in_executor(None, target.accept)
            assert await loop.run_in_executor(None, lambda: read_to_the_end(connection)[1]) == "reset"
            target.serve(answer_each)
            assert (await door.request("POST", target.url, deadline=soon())).status == 201

    asyncio.run(scenario())


# -- TLS -------------------------------------------------------------------------------------------------------------


def _answer_over_tls(connection: socket.socket) -> None:
    with server_tls().wrap_socket(connection, server_side=True) as secured:
        answer_each(secured)


def test_over_tls_the_bytes_of_the_request_are_counted_and_not_those_of_the_handshake(
    doors: Doors, target: Peer
) -> None:
    target.serve(_answer_over_tls)
    send = doors.open(ssl_context=client_tls())
    for size in (3, 100_000, 0):
        facts = SendFacts()
        url = target.url.replace("http:", "https:")
        got = send("POST", url, deadline=soon(), content=b"x" * size, facts=facts)
        assert (facts.bytes_out, facts.sends) == (int(got.body), 1)


def test_a_certificate_that_does_not_fit_proves_that_nothing_left(doors: Doors, target: Peer) -> None:
    target.serve(_answer_over_tls)
    facts = SendFacts()
    with pytest.raises(httpcore2.ConnectError, match="certificate") as caught:
        doors.open()("POST", target.url.replace("http:", "https:"), deadline=soon(), facts=facts)
    assert outcome_of_failure(facts, caught.value).says == "nothing left"


def test_over_tls_the_deadline_resets_too(doors: Doors, target: Peer) -> None:
    ended: list[str] = []

    def answer(connection: socket.socket) -> None:
        with server_tls().wrap_socket(connection, server_side=True) as secured:
            secured.recv(1)
            until(lambda: facts.bytes_out > 100_000, "the kernel to fill")
            finished.wait(20)
            # Below TLS, which would call a reset an end.
            with socket.socket(fileno=secured.detach()) as below:
                ended.append(read_to_the_end(below)[1])

    finished = threading.Event()
    facts = SendFacts()
    target.serve(answer)
    send = doors.open(ssl_context=client_tls())
    url = target.url.replace("http:", "https:")
    with pytest.raises(Unresolved):
        send("POST", url, deadline=boot_now() + SHORT, content=b"x" * 8 * MEGABYTE, facts=facts)
    finished.set()
    assert until(lambda: ended, "the peer to see the end") == ["reset"]


# -- a declared proxy ------------------------------------------------------------------------------------------------


def test_a_declared_proxy_is_used_and_printed_as_an_assumption(doors: Doors, target: Peer) -> None:
    seen: list[bytes] = []

    def answer(connection: socket.socket) -> None:
        seen.append(read_request(connection))
        connection.sendall(reply())

    target.serve(answer)
    proxy = target.url.removesuffix("/things")
    assert doors.open(proxy=proxy)("POST", "http://far.invalid/x", deadline=soon()).status == 201
    assert seen[0].startswith(b"POST http://far.invalid/x HTTP/1.1\r\n")
    assert "proxy" in (DoorOptions(proxy=proxy).assumption() or "")
    assert DoorOptions().assumption() == deadline_assumption()


def test_a_write_through_a_tunnel_is_guarded_to_its_own_last_byte(
    doors: Doors, target: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(connection: socket.socket) -> None:
        assert read_request(connection).startswith(b"CONNECT localhost:443 ")
        connection.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
        _answer_over_tls(connection)

    target.serve(answer)
    points: list[str] = []
    goes_on = Guard.goes_on
    monkeypatch.setattr(Guard, "goes_on", lambda guard: (points.append("guarded again"), goes_on(guard)))
    send = doors.open(proxy=target.url.removesuffix("/things"), ssl_context=client_tls(), probe=points.append)
    facts = SendFacts()
    got = send("POST", "https://localhost/x", deadline=soon(), content=b"x" * 50_000, facts=facts)
    assert facts.bytes_out > int(got.body)  # the request for the tunnel counts too: never too low
    assert (facts.sends, facts.all_out) == (1, True)
    assert points == [*FAULT_POINTS, "guarded again", *FAULT_POINTS[1:]]
    assert Path("/proc/self/timers").read_text() == ""


# -- refused before anything is sent ---------------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["/things", "ftp://host/x", "http://", "http://user:secret@localhost/", "http://[::1/"])
def test_an_address_that_cannot_be_used_is_refused(doors: Doors, url: str) -> None:
    with pytest.raises(Misuse) as caught:
        doors.open()("POST", url, deadline=soon())
    assert "secret" not in str(caught.value)
    assert caught.value.hint


def test_a_write_is_whatever_is_not_declared_safe_by_its_method() -> None:
    assert [m for m in ("GET", "head", "OPTIONS", "POST", "put", "PATCH", "DELETE", "FROB") if is_write(m)] == [
        "POST",
        "put",
        "PATCH",
        "DELETE",
        "FROB",
    ]


def test_only_the_byte_counter_decides_what_a_failure_proves() -> None:
    assert outcome_of_failure(SendFacts(), KeyboardInterrupt()).says == "nothing left"
    assert outcome_of_failure(SendFacts(bytes_out=1), httpcore2.ConnectError("refused")).says == "unresolved"
