"""HTTP/1.1 for the services of the outside world, with the faults that only a socket can show.

h11 says what the bytes mean; this module reads and writes them, slowly or incompletely where a fault wants it. What a
request does is decided in `conduct`, the endpoint that configures the world is in `admin`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

import h11

from fencepost.testing.world import wire
from fencepost.testing.world.behaviour import Fault
from fencepost.testing.world.catalog import ELSEWHERE
from fencepost.testing.world.conduct import Conduct, Outcome
from fencepost.testing.world.request import Request

BODY_BYTES_MAX = 64 * 1024 * 1024
"""Requests with more than this are cut off; nobody's test needs more, and a mistake should not eat the memory."""


class Site(Protocol):
    """Who answers: a service of the world, or its admin endpoint."""

    def at_head(self, request: Request) -> Fault | None:
        """Say which fault strikes before the body is read."""

    async def pause(self, fault: Fault) -> None:
        """Wait as long as the fault says."""

    async def answer(self, request: Request) -> Outcome:
        """Answer a whole request."""

    def broke_off(self, path: str) -> None:
        """Take note of a request that never became whole."""


class ServiceSite:
    """A service as HTTP sees it."""

    def __init__(self, conduct: Conduct) -> None:
        self._conduct = conduct
        self._service = conduct.service

    def at_head(self, request: Request) -> Fault | None:
        """Choose and count the fault that strikes at the head."""
        collection, _, _ = self._service.route(request.path)
        key = self._service.key_of(collection, request) or ""
        name = collection.name if collection else ELSEWHERE
        return self._service.choose_early(request.method, name, request.path, key, frozenset({"head"}))

    async def pause(self, fault: Fault) -> None:
        """Wait as long as the fault says."""
        await self._conduct.holds.pause(fault)

    async def answer(self, request: Request) -> Outcome:
        """Count the request and take it through the order of events."""
        return await self._conduct(self._service.arrive(request))

    def broke_off(self, path: str) -> None:
        """Count it."""
        self._service.broke_off(path)


class _Reset(Exception):
    """The connection is to be reset, now."""


def serve(site: Site) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    """Return the handler of one connection: exchange after exchange, as long as both sides keep it alive."""

    async def serve_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        exchange = _Connection(site, reader, writer)
        try:
            while await exchange.once():
                pass
        except _Reset:
            wire.reset(writer)
        except h11.ProtocolError:
            pass  # what came is no HTTP; it was counted as broken off where it was a request at all

    return serve_connection


class _Connection:
    def __init__(self, site: Site, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._site = site
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.SERVER)

    async def once(self) -> bool:
        """Read a request, answer it; returns whether another may follow."""
        head = await self._event(None)
        if not isinstance(head, h11.Request):
            return False
        request = await self._whole(head)
        outcome = await self._site.answer(request)
        return await self._send(outcome)

    async def _event(self, slowly: Fault | None) -> h11.Event | None:
        """Return what comes next, or None where nothing may come before the reply is sent."""
        while not isinstance(event := self._http.next_event(), h11.Event):
            if event is h11.PAUSED:
                return None
            if self._http.they_are_waiting_for_100_continue:
                self._writer.write(self._http.send(h11.InformationalResponse(status_code=100, headers=[])))
            if slowly is not None:
                await self._site.pause(slowly)
            self._http.receive_data(await self._reader.read(wire.READ_BYTES if slowly is None else slowly.size))
        return event

    async def _whole(self, head: h11.Request) -> Request:
        request = _request(head, b"")
        fault = self._site.at_head(request)
        if fault is not None and fault.do == "reset":
            await self._site.pause(fault)
            self._site.broke_off(request.path)
            raise _Reset
        if fault is not None and fault.hold:
            await self._site.pause(fault)
            fault = None  # released, and read like any other
        body = bytearray()
        try:
            while isinstance(event := await self._event(fault), h11.Data):
                body += event.data
                if len(body) > BODY_BYTES_MAX:
                    raise _Reset  # noqa: TRY301  counted below like every request that is not whole
        except (h11.RemoteProtocolError, OSError, _Reset):
            self._site.broke_off(request.path)
            raise
        return request._replace(body=bytes(body))

    async def _send(self, outcome: Outcome) -> bool:
        if outcome.ending == "half-close":
            await wire.half_close(self._reader, self._writer)
            return False
        if outcome.ending == "reset" or outcome.reply is None:
            raise _Reset
        reply = outcome.reply
        text = reply.text.encode()
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(text))), *reply.headers]
        reason = _reason(reply.status)
        self._writer.write(self._http.send(h11.Response(status_code=reply.status, headers=headers, reason=reason)))
        if outcome.ending == "truncate":
            self._writer.write(text[: len(text) // 2])
            return False
        self._writer.write(self._http.send(h11.Data(data=text)))
        self._writer.write(self._http.send(h11.EndOfMessage()))
        await self._writer.drain()
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return True


def _request(head: h11.Request, body: bytes) -> Request:
    url = urlsplit(head.target.decode("ascii", "replace"))
    headers = {name.decode("ascii"): value.decode("latin-1") for name, value in head.headers}
    query = tuple(parse_qsl(url.query, keep_blank_values=True))
    return Request(head.method.decode("ascii"), unquote(url.path), query, headers, body)


def _reason(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Status"
