"""The network between a process and what it talks to: TCP wires that can be cut, keep what was sent, and be healed.

A cut wire takes bytes and delivers none, as a network does that is split: whoever sends learns nothing. Healed, it
delivers what it kept, also for a sender that has long given up; that is how an old request arrives late. A *severed*
wire ends its connections and takes no new one. All wires share one thread with a loop of its own.
"""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, Self
from urllib.parse import urlsplit

READ_BYTES = 65_536


class Wire:
    """One address that leads to another; made by `Wires`."""

    def __init__(self, target: str) -> None:
        self._host, self._port = _address(target)
        self.port = 0
        self._flows = asyncio.Event()
        self._flows.set()
        self.is_severed = False
        self._writers: set[asyncio.StreamWriter] = set()
        self._going: set[asyncio.Task[None]] = set()

    async def listen(self) -> None:
        self._server = server = await asyncio.start_server(
            lambda *ends: self._begin(self._carry(*ends)), "127.0.0.1", 0
        )
        self.port = server.sockets[0].getsockname()[1]

    def end(self) -> None:
        self._server.close()
        self.sever()

    def cut(self) -> None:
        self._flows.clear()

    def heal(self) -> None:
        self.is_severed = False
        self._flows.set()

    def sever(self) -> None:
        self.is_severed = True
        for writer in list(self._writers):
            writer.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_severed:
            writer.transport.abort()
            return
        out: asyncio.Queue[bytes] = asyncio.Queue()
        back: asyncio.Queue[bytes] = asyncio.Queue()
        self._writers.add(writer)
        self._begin(_take_in(reader, out))
        await self._flows.wait()
        try:
            there_reader, there_writer = await asyncio.open_connection(self._host, self._port)
        except OSError:
            writer.transport.abort()
            return
        self._writers.add(there_writer)
        self._begin(_take_in(there_reader, back))
        await asyncio.gather(self._deliver(out, there_writer), self._deliver(back, writer))
        self._writers -= {writer, there_writer}

    def _begin(self, what: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(what)
        self._going.add(task)
        task.add_done_callback(self._going.discard)

    async def _deliver(self, kept: asyncio.Queue[bytes], writer: asyncio.StreamWriter) -> None:
        """Deliver one direction, when the wire is whole, to its end."""
        try:
            while data := await kept.get():
                await self._flows.wait()
                writer.write(data)
                await writer.drain()
        except OSError:
            pass  # whoever was to have it is gone
        await self._flows.wait()
        writer.close()


async def _take_in(reader: asyncio.StreamReader, kept: asyncio.Queue[bytes]) -> None:
    """Take what is sent at once, so that it is under way even if its sender resets the connection after that."""
    try:
        while data := await reader.read(READ_BYTES):
            kept.put_nowait(data)
    except OSError:
        pass
    kept.put_nowait(b"")


class Wires:
    """Every wire of one play; a context manager that ends them."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="wires", daemon=True)
        self._wires: list[Wire] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def to(self, url: str) -> str:
        """A new wire that leads to where a URL does; the URL of its near end."""
        wire = Wire(url)
        self._wires.append(wire)
        self._do(wire.listen())
        host, port = _address(url)
        return url.replace(f"{host}:{port}", f"127.0.0.1:{wire.port}")

    def cut(self) -> None:
        """Deliver nothing any more; keep what is sent."""
        self._each(Wire.cut)

    def heal(self) -> None:
        """Deliver what was kept, and everything that comes."""
        self._each(Wire.heal)

    def sever(self) -> None:
        """End every connection and take no new one, until healed."""
        self._each(Wire.sever)

    def _each(self, action: Any) -> None:
        async def act() -> None:
            for wire in self._wires:
                action(wire)

        self._do(act())

    def _do(self, what: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(what, self._loop).result(10)

    async def _end(self) -> None:
        for wire in self._wires:
            wire.end()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _address(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    assert parts.hostname is not None, url
    assert parts.port is not None, url
    return parts.hostname, parts.port
