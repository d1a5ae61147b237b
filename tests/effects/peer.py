"""The other end of a connection, in the test's own hands: it reads and answers exactly when it is told to."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

CERTIFICATE = Path(__file__).with_name("localhost.pem")
PATIENCE = 20.0  # seconds until a peer that hears nothing fails its test


class Peer:
    """A listener on loopback whose connections hold only a few kilobytes, so that most bytes wait at the sender."""

    def __init__(self, *, holds: int = 8192) -> None:
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, holds)
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen()
        self._listener.settimeout(PATIENCE)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/things"
        self._connections: list[socket.socket] = []

    def accept(self) -> socket.socket:
        """The next connection."""
        connection, _ = self._listener.accept()
        connection.settimeout(PATIENCE)
        self._connections.append(connection)
        return connection

    def nobody_came(self) -> bool:
        """Whether no connection waits to be accepted."""
        self._listener.settimeout(0)
        try:
            self.accept()
        except BlockingIOError:
            return True
        finally:
            self._listener.settimeout(PATIENCE)
        return False

    def serve(self, answer: Callable[[socket.socket], None]) -> None:
        """Call `answer` with each connection, in a thread each, until the peer is closed."""

        def listen() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection = self.accept()
                    threading.Thread(target=_guarded, args=(answer, connection), daemon=True).start()

        threading.Thread(target=listen, daemon=True).start()

    def close(self) -> None:
        """Close the listener and every connection."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes a thread that waits in accept
        self._listener.close()
        for connection in self._connections:
            connection.close()


def _guarded(answer: Callable[[socket.socket], None], connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        answer(connection)


@contextlib.contextmanager
def peer(*, holds: int = 8192) -> Iterator[Peer]:
    """A `Peer` for one test."""
    it = Peer(holds=holds)
    try:
        yield it
    finally:
        it.close()


def read_to_the_end(connection: socket.socket) -> tuple[bytes, str]:
    """All that arrives, and how it ended: "end" (drained, then closed) or "reset"."""
    got = bytearray()
    try:
        while data := connection.recv(65536):
            got += data
    except ConnectionResetError:
        return bytes(got), "reset"
    return bytes(got), "end"


def read_request(connection: socket.socket) -> bytes:
    """One whole request with a content length (or without a body); b"" if the connection ended before one began."""
    got = b""
    while b"\r\n\r\n" not in got:
        data = connection.recv(65536)
        if not data:
            return b""
        got += data
    head, _, body = got.partition(b"\r\n\r\n")
    length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
    while len(body) < length:
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


def reply(body: bytes = b"ok", status: str = "201 Created") -> bytes:
    """A whole reply."""
    return f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


def answer_each(connection: socket.socket) -> None:
    """Answer every request with the number of its bytes."""
    while request := read_request(connection):
        connection.sendall(reply(str(len(request)).encode()))


def server_tls() -> ssl.SSLContext:
    """TLS for a peer, with the certificate made for these tests."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    return context


def client_tls() -> ssl.SSLContext:
    """TLS for a door that trusts that certificate and no other."""
    return ssl.create_default_context(cafile=str(CERTIFICATE))
