"""A wire between a ledger and its server that can be cut, held or made a black hole at a chosen moment.

It stands before the server's Unix socket with one of its own, and passes bytes on, one thread a connection. What is to
happen at which bytes is the test's choice; the server and the store know nothing of it.
"""

import select
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from enum import Enum, auto
from pathlib import Path

from tests.services.fixtures import Place

SOCKET = ".s.PGSQL.5432"


class At(Enum):
    """What becomes of the connection on which some bytes came from the client."""

    PASSED = auto()
    CUT_BEFORE = auto()
    """The server never sees them; both ends are closed."""
    CUT_AFTER = auto()
    """The server sees them, and its answer is lost."""
    HELD = auto()
    """The client's end is closed now; the server sees them when `release` is called."""
    UNANSWERED = auto()
    """The server sees them, and its answer goes no further; the client's end stays open."""
    SWALLOWED = auto()
    """From now on nothing is passed on, in either direction, and nobody is told."""


class Wire:
    """Passes on what `choose` does not want otherwise; it is asked about the bytes of each client's every message."""

    def __init__(self, place: Place) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="fencepost-wire-"))
        self.choose: Callable[[bytes], At] = lambda sent: At.PASSED
        self.refuses = False
        """Whether new connections are closed at once."""
        self.opened = 0
        self._place = place
        self._server = str(place.server.folder / SOCKET)
        self._held: list[tuple[socket.socket, bytes]] = []
        self._ends: list[socket.socket] = []
        self._door = socket.socket(socket.AF_UNIX)
        self._door.bind(str(self.folder / SOCKET))
        self._door.listen()
        self._closing = False
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, **parameters: str | int) -> str:
        """The ledger's url by way of this wire."""
        direct, mine = f"host={self._place.server.folder}", f"host={self.folder}"
        return self._place.url(**parameters).replace(direct, mine)

    def once(self, part: bytes, what: At) -> threading.Event:
        """Do this to the next connection on which `part` is sent; the event is set when it was done."""
        done = threading.Event()

        def choose(sent: bytes) -> At:
            if part not in sent or done.is_set():
                return At.PASSED
            done.set()
            return what

        self.choose = choose
        return done

    def release(self) -> None:
        """Let the server see what was held, and hang up after it has had its time."""
        held, self._held = self._held, []
        for server, sent in held:
            with suppress(OSError):  # the server may have gone meanwhile
                server.sendall(sent)
                while server.recv(65_536):  # until the server has answered and sees that nobody is there
                    server.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._closing = True
        self._door.close()
        for end in self._ends:
            end.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _accept(self) -> None:
        while not self._closing:
            try:
                client, _ = self._door.accept()
            except OSError:
                return
            if self.refuses:
                client.close()
                continue
            self.opened += 1
            server = socket.socket(socket.AF_UNIX)
            try:
                server.connect(self._server)
            except OSError:  # the server is not there just now
                client.close()
                server.close()
                continue
            self._ends += [client, server]
            threading.Thread(target=self._pass_on, args=(client, server), daemon=True).start()

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        try:
            while True:
                ready, _, _ = select.select([client, server], [], [])
                if server in ready and not self._forward(server, client):
                    break
                if client in ready and not self._take(client, server):
                    return
        except (OSError, ValueError):
            pass
        client.close()
        server.close()

    def _forward(self, start: socket.socket, end: socket.socket) -> bool:
        sent = start.recv(65_536)
        end.sendall(sent)
        return bool(sent)

    def _take(self, client: socket.socket, server: socket.socket) -> bool:
        """Pass on what the client has sent, or do with it what was chosen; whether the connection goes on."""
        sent = client.recv(65_536)
        what = self.choose(sent) if sent else At.CUT_BEFORE
        if what is At.SWALLOWED:
            return False  # both ends stay open, and nobody reads
        if what in (At.PASSED, At.CUT_AFTER, At.UNANSWERED):
            server.sendall(sent)
        if what is At.PASSED:
            return True
        if what is At.UNANSWERED:
            server.recv(65_536)  # it has answered, so it has done it
            return False
        if what is At.HELD:
            self._held.append((server, sent))
        elif what is At.CUT_AFTER:
            server.recv(65_536)  # it has answered, so it has done it
            server.close()
        else:
            server.close()
        client.close()
        return False
