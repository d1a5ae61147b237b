"""The mail server of the outside world: a small, correct subset of RFC 5321 that keeps each message before it says 250.

EHLO, HELO, MAIL, RCPT, DATA with dot-stuffing, RSET, NOOP, VRFY and QUIT; no authentication, no TLS. A message ends at
a dot between two CRLFs and nowhere else. Mail knows no idempotency keys: the header X-Operation-Key only serves to find
a message later, which is done over HTTP (`web`).
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from email.header import decode_header, make_header
from email.parser import BytesHeaderParser

from fencepost.testing.world import wire
from fencepost.testing.world.conduct import Conduct, Outcome
from fencepost.testing.world.request import Reply, Request, Value

MESSAGE_BYTES_MAX = 32 * 1024 * 1024
"""What EHLO announces as SIZE; longer messages get 552."""

CLOSING = 421
"""After this status the server closes the connection (RFC 5321, 3.8)."""

_OK = "OK"
_MADE = frozenset({200, 201})
_IN_SMTP = {200: 250, 201: 250, 409: 451, 422: 554}  # what the services say to HTTP, in the words of SMTP


class _Ended(Exception):
    """The conversation is over: by QUIT, by a fault or because the client went away."""


def serve(conduct: Conduct) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    """Return the handler of one connection."""

    async def serve_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(_Ended):
            await _Conversation(conduct, reader, writer).run()

    return serve_connection


class _Conversation:
    def __init__(self, conduct: Conduct, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._conduct = conduct
        self._reader = reader
        self._writer = writer
        self._greeted = False
        self._forget()

    def _forget(self) -> None:
        self._sender: str | None = None
        self._recipients: list[str] = []

    async def run(self) -> None:
        """Talk until one side ends it."""
        await self._say_unless_struck("CONNECT", "", 220, "fencepost world ESMTP")
        while True:
            line = (await self._line()).decode("utf-8", "replace").strip()
            verb, _, argument = line.partition(" ")
            await self._obey(verb.upper(), argument.strip())

    async def _obey(self, verb: str, argument: str) -> None:
        match verb:
            case "EHLO" | "HELO":
                self._greeted = True
                self._forget()
                await self._greet(verb)
            case "MAIL":
                await self._mail(argument)
            case "RCPT":
                await self._recipient(argument)
            case "DATA":
                await self._data()
            case "RSET":
                self._forget()
                await self._say(250, _OK)
            case "NOOP":
                await self._say(250, _OK)
            case "VRFY":
                await self._say(252, "cannot verify, send the message")
            case "QUIT":
                await self._say(221, "bye")
                raise _Ended
            case _:
                await self._say(500, "command not known")

    # -- commands

    async def _greet(self, verb: str) -> None:
        if verb == "HELO":
            await self._say(250, "localhost")
            return
        for extension in ("localhost", "8BITMIME", "SMTPUTF8", "PIPELINING"):
            self._writer.write(f"250-{extension}\r\n".encode())
        await self._say(250, f"SIZE {MESSAGE_BYTES_MAX}")

    async def _mail(self, argument: str) -> None:
        address = _address(argument, "FROM:")
        if not self._greeted or self._sender is not None:
            await self._say(503, "say EHLO first, and MAIL once for each message")
        elif address is None:
            await self._say(501, "MAIL FROM:<address> is expected")
        elif await self._say_unless_struck("MAIL", address, 250, _OK):
            self._sender = address

    async def _recipient(self, argument: str) -> None:
        address = _address(argument, "TO:")
        if self._sender is None:
            await self._say(503, "say MAIL first")
        elif not address:
            await self._say(501, "RCPT TO:<address> is expected")
        elif await self._say_unless_struck("RCPT", address, 250, _OK):
            self._recipients.append(address)

    async def _data(self) -> None:
        if not self._recipients:
            await self._say(503, "say RCPT first")
            return
        await self._say(354, "end with a dot on a line of its own")
        try:
            raw = await self._message()
        except _Ended:
            self._conduct.service.broke_off("/messages")
            raise
        if len(raw) > MESSAGE_BYTES_MAX:
            await self._say(552, "message is too large")
        else:
            await self._deliver(raw)
        self._forget()

    async def _message(self) -> bytes:
        """Read up to the lone dot; of a message over the limit only so much is kept as proves it."""
        raw = bytearray()
        before = b"\r\n"
        while True:
            line = await self._line()
            if line == b".\r\n" and before == b"\r\n":
                return bytes(raw)
            # A line that begins with a dot had one put before it by the sender (RFC 5321, 4.5.2).
            if len(raw) <= MESSAGE_BYTES_MAX:
                raw += line[1:] if line.startswith(b".") and before == b"\r\n" else line
            before = (before + line)[-2:]

    async def _deliver(self, raw: bytes) -> None:
        named = [(name, _decoded(text)) for name, text in BytesHeaderParser().parsebytes(raw).items()]
        headers = {name.lower(): text for name, text in named}
        request = Request("DATA", "/messages", (), headers, raw)
        value: Value = {
            "message_id": headers.get("message-id"),
            "from": self._sender,
            "to": [*self._recipients],
            "subject": headers.get("subject"),
            "headers": [[name, text] for name, text in named],
            "raw": raw.decode("utf-8", "replace"),
        }
        await self._finish(await self._conduct(self._conduct.service.arrive(request), value))

    # -- the wire

    async def _line(self) -> bytes:
        """Return the next line with its end, or a piece of one that is longer than what is read at a time."""
        try:
            return await self._reader.readuntil(b"\n")
        except asyncio.LimitOverrunError as overrun:
            return await self._reader.readexactly(overrun.consumed)
        except asyncio.IncompleteReadError as error:
            raise _Ended from error

    async def _say(self, status: int, text: str) -> None:
        self._writer.write(f"{status} {' '.join(text.split())}\r\n".encode())
        await self._writer.drain()
        if status == CLOSING:
            raise _Ended

    async def _say_unless_struck(self, verb: str, address: str, status: int, text: str) -> bool:
        """Say what is usual after this command, unless a fault strikes it; returns whether the usual was said."""
        service = self._conduct.service
        fault = service.choose_early(verb, "messages", address, "", frozenset({"before", "after"}))
        if fault is not None:
            await self._conduct.holds.pause(fault)
        match fault.do if fault is not None else "wait":
            case "wait":
                await self._say(status, text)
                return True
            case "answer" if fault is not None:
                await self._finish(Outcome(service.answer(fault, "messages")))
            case "malformed" if fault is not None:
                await self._finish(Outcome(Reply(status, fault.text or "?"), "garbled"))
            case "half-close":
                await self._finish(Outcome(None, "half-close"))
            case _:
                await self._finish(Outcome(None, "reset"))
        return False

    async def _finish(self, outcome: Outcome) -> None:
        """Put over the wire what a message or a struck command ends in."""
        reply = outcome.reply
        if outcome.ending == "half-close":
            await wire.half_close(self._reader, self._writer)
            raise _Ended
        if outcome.ending == "reset" or reply is None:
            wire.reset(self._writer)
            raise _Ended
        if outcome.ending == "garbled":
            self._writer.write(reply.text.encode() + b"\r\n")
            await self._writer.drain()
            return
        await self._say(_IN_SMTP.get(reply.status, reply.status), _OK if reply.status in _MADE else reply.text)


def _address(argument: str, prefix: str) -> str | None:
    """Return the address of `FROM:<a@b> SIZE=12`, which may be empty, or None where there is none."""
    if not argument.upper().startswith(prefix):
        return None
    address, found, _ = argument[len(prefix) :].strip().partition(">")
    return address[1:] if found and address.startswith("<") else None


def _decoded(text: object) -> str:
    """Return a header's text with its encoded words (RFC 2047) read, or as it came where they cannot be."""
    try:
        return str(make_header(decode_header(str(text)))).strip()
    except (LookupError, ValueError):
        return str(text).strip()
