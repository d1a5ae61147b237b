"""What the outside world does to a connection beyond sending: resetting it, ending only its sending side, listening.

Shared by `web` and `smtp`, which speak the protocols; this module knows none.
"""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Awaitable, Callable

READ_BYTES = 4096
"""How much is read at a time; asyncio holds back twice that. Small, so that slow reading is felt outside."""

_KERNEL_BUFFER_BYTES = 32 * 1024
_DRAIN_SECONDS_MAX = 30.0

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def listen(serve: Serve) -> int:
    """Serve each connection on a loopback port that the kernel chooses, as long as the loop runs; returns the port."""
    # The protocol is named because asyncio turns Nagle's delay off only where it sees TCP.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    # Connections inherit it: a client that is read slowly then blocks after kilobytes, not after megabytes.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _KERNEL_BUFFER_BYTES)
    listener.bind(("127.0.0.1", 0))

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            # The client went away, or the world ends. Anything else (a full disk) is said on stderr by asyncio.
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await serve(reader, writer)
        finally:
            writer.close()

    await asyncio.start_server(served, sock=listener, limit=READ_BYTES)
    return int(listener.getsockname()[1])


def reset(writer: asyncio.StreamWriter) -> None:
    """Reset the connection: whatever is unsent is thrown away and the client sees ECONNRESET."""
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def half_close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """End the sending side, then read and drop what comes until the client ends its own, for a bounded time."""
    writer.write_eof()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_DRAIN_SECONDS_MAX):
            while await reader.read(READ_BYTES):
                pass
