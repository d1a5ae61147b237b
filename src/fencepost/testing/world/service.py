"""One service of the outside world: what it remembers under a key, what it does, and the line that it writes first.

A service is what its file says. Every change is first a line on the disk (`lines`) and then applied here, by the same
code that folds the file when a service starts again: a restart keeps objects, keys, ordinals and the clock, but not
the configured behaviour and not the requests in progress. The order of events around a fault is decided in `conduct`.
"""

import hashlib
import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from fencepost.testing.world import lines
from fencepost.testing.world.behaviour import Configure, Fault, FaultMoment, Keys
from fencepost.testing.world.catalog import SERVICES, Action, Collection
from fencepost.testing.world.faults import Faults, Target
from fencepost.testing.world.request import Arrival, Refusal, Reply, Request, Value, as_text, error_text
from fencepost.testing.world.shelf import Shelf

MAIL_FAULTS = frozenset({"wait", "reset", "answer", "malformed", "half-close"})
"""What the mail server can be told to do: SMTP has no bodies in its replies that could be huge or cut short."""


class _Remembered(NamedTuple):
    stored: lines.Stored
    at: int


class _Stamp(NamedTuple):
    at: int
    wall: int


class Service:
    """The tasks, books or mail service on one folder; not safe for threads, it lives on one event loop."""

    def __init__(self, name: str, folder: Path, seed: int) -> None:
        self.name = name
        self.faults = Faults(name, seed)
        self._shelves = {collection.name: Shelf(collection) for collection in SERVICES[name]}
        self._remembered: dict[str, _Remembered] = {}
        self._ordinals: Counter[str] = Counter()
        self._in_progress: set[str] = set()
        self._offset = 0
        path = lines.file_of(folder, name)
        for line in lines.read(path):
            self._apply(line)
        self._file = lines.LineFile(path)

    # -- clock, behaviour

    def now(self) -> int:
        """Return the service's clock: the real one plus however far it was moved, in microseconds."""
        return self._stamp().at

    def advance(self, microseconds: int) -> None:
        """Move the service's clock, forward or (negative) back."""
        at, wall = self._stamp()
        self._write(lines.ClockMoved(at=at, wall=wall, collection="", offset=self._offset + microseconds))

    def configure(self, change: Configure) -> None:
        """Change the behaviour; raises `ValueError`, and changes nothing, for what this service cannot do."""
        shelves = [shelf for name, shelf in self._shelves.items() if fnmatchcase(name, change.collection)]
        if not shelves:
            raise ValueError(f"{self.name} has no collection {change.collection!r}, only {sorted(self._shelves)}")
        impossible = {fault.do for fault in change.faults or ()} - MAIL_FAULTS
        if self.name == "mail" and impossible:
            raise ValueError(f"mail cannot do {sorted(impossible)}, only {sorted(MAIL_FAULTS)}")
        for shelf in shelves:
            shelf.keys = change.keys or shelf.keys
            shelf.look_up = change.look_up or shelf.look_up
            shelf.identity = shelf.identity if change.identity is None else change.identity
        if change.faults is not None:
            self.faults.replace(change.faults)

    # -- a request arrives

    def route(self, path: str) -> tuple[Collection | None, str | None, str]:
        """Return the collection, object id and action that a path names: `/tasks/task-1/cancel`."""
        parts = path.strip("/").split("/")
        shelf = self._shelves.get(parts[0])
        if shelf is None or len(parts) > 3:  # noqa: PLR2004  collection, id, action
            return None, None, ""
        _, identifier, action = [*parts, "", ""][:3]
        return shelf.collection, identifier or None, action

    def key_of(self, collection: Collection | None, request: Request) -> str | None:
        """Return the key that a request carries in the header, or in the body's field if one is named, or None."""
        keys = self._shelves[collection.name].keys if collection else Keys()
        key: object = request.headers.get(keys.header.lower())
        if key is None and keys.argument is not None:
            try:
                key = request.value().get(keys.argument)
            except Refusal:
                key = None  # what is wrong with the body is answered when the request is performed
        return None if key is None else str(key)

    def arrive(self, request: Request) -> Arrival:
        """Count a whole request that reached the service, durably, before anything else is done with it."""
        collection, identifier, action = self.route(request.path)
        key = self.key_of(collection, request)
        digest = hashlib.sha256(request.body).hexdigest()
        asked = "&".join(f"{name}={text}" for name, text in request.query)
        about = asked if request.method == "GET" else key or digest
        subject = f"{request.method} {self._place(collection, identifier, action, request.path)} {about}"
        ordinal = self._ordinals[subject] + 1
        slot = self._slot(request, collection, key)
        arrival = Arrival(request, collection, identifier, action, key, slot, digest, subject, ordinal)
        at, wall = self._stamp()
        size = len(request.body)
        line = lines.Arrived(
            at=at,
            wall=wall,
            collection=arrival.name,
            method=request.method,
            path=request.path,
            action=action,
            key=key,
            subject=subject,
            digest=digest,
            size=size,
            body=request.body.decode("utf-8", "replace") if size <= lines.KEPT_BODY_BYTES else None,
        )
        self._write(line)
        return arrival

    def broke_off(self, path: str) -> None:
        """Count a request that never became whole."""
        at, wall = self._stamp()
        collection, _, _ = self.route(path)
        self._write(lines.Broken(at=at, wall=wall, collection=collection.name if collection else ""))

    def _place(self, collection: Collection | None, identifier: str | None, action: str, path: str) -> str:
        if collection is None or identifier is None:
            return path
        # Ids are given in the order of arrival; what is drawn from the seed must not depend on it.
        known_as = identifier if collection.by_name else self._shelves[collection.name].external_key(identifier)
        return f"/{collection.name}/{known_as}/{action}"

    def _slot(self, request: Request, collection: Collection | None, key: str | None) -> str | None:
        if collection is None or key is None or request.method == "GET":
            return None
        keys = self._shelves[collection.name].keys
        scope = [request.headers.get(name.lower(), "") for name in keys.scope]
        return json.dumps([request.method, request.path, *scope, key]) if keys.honoured else None

    # -- what is known under its key

    def known(self, arrival: Arrival) -> Reply | None:
        """Return the stored result of the request's key, or None.

        Raises `Refusal` while the first request with that key is worked on, and for another body under a known key.
        """
        if arrival.slot is None:
            return None
        if arrival.slot in self._in_progress:
            raise Refusal(409, "in_progress", f"a request with key {arrival.key} is in progress; ask again")
        keys = self._shelves[arrival.name].keys
        remembered = self._remembered.get(arrival.slot)
        if remembered is None or self._is_forgotten(remembered, keys):
            return None
        stored = remembered.stored
        if stored.digest != arrival.digest:
            raise Refusal(keys.mismatch, "key_reused", f"key {arrival.key} came before with another body")
        at, wall = self._stamp()
        key = arrival.key or ""
        self._write(lines.Replayed(at=at, wall=wall, collection=arrival.name, key=key, status=stored.status))
        mark = () if keys.replayed_header is None else ((keys.replayed_header, "true"),)
        return Reply(stored.status, stored.text, mark)

    def _is_forgotten(self, remembered: _Remembered, keys: Keys) -> bool:
        window = keys.window_seconds
        return window is not None and self.now() >= remembered.at + int(window * 1_000_000)

    @contextmanager
    def working(self, arrival: Arrival) -> Iterator[None]:
        """Keep the request's key in progress for as long as the service works on it."""
        if arrival.slot is not None:
            self._in_progress.add(arrival.slot)
        try:
            yield
        finally:
            self._in_progress.discard(arrival.slot or "")

    # -- the effect

    def perform(self, arrival: Arrival) -> Reply:
        """Do what the request asks, durably, and return the reply; raises `Refusal` and has then changed nothing."""
        request, collection = arrival.request, arrival.collection
        if collection is None:
            raise Refusal(404, "not_found", f"{self.name} has nothing at {request.path}")
        shelf = self._shelves[collection.name]
        match (request.method, arrival.id, arrival.action):
            case ("GET", None, _):
                return self._look_up(shelf, request.query)
            case ("GET", str(identifier), ""):
                shelf.must_offer_look_up()
                return Reply(200, as_text(shelf.existing(identifier)))
            case ("POST", None, _) if collection.posted:
                return self.make(arrival, request.value())
            case ("PUT", str(name), "") if collection.by_name:
                return self._commit(arrival, 200, (shelf.overwritten(name, request.value(), arrival.key),))
            case ("POST", str(identifier), verb) if action := collection.action(verb):
                return self._act(arrival, shelf, identifier, action)
        raise Refusal(405, "not_offered", f"{self.name} does not offer {request.method} {request.path}")

    def make(self, arrival: Arrival, body: Value) -> Reply:
        """Make a new object of the arrival's collection; a mail is made by this too."""
        return self._commit(arrival, 201, (self._shelves[arrival.name].made(body, arrival.key),))

    def _look_up(self, shelf: Shelf, query: tuple[tuple[str, str], ...]) -> Reply:
        shelf.must_offer_look_up()
        at, wall = self._stamp()
        found, hidden = shelf.found(query, at)
        if hidden:
            self._write(lines.Hidden(at=at, wall=wall, collection=shelf.collection.name, ids=hidden))
        return Reply(200, as_text(found))

    def _act(self, arrival: Arrival, shelf: Shelf, identifier: str, action: Action) -> Reply:
        before = shelf.existing(identifier)
        changed = shelf.changed(identifier, action.state)
        if action.makes is None:
            return self._commit(arrival, 200, () if before == changed.value else (changed,), changed.value)
        made = self._shelves[action.makes].made({**arrival.request.value(), "of": identifier}, arrival.key)
        return self._commit(arrival, 201, (made, changed))

    def _commit(
        self, arrival: Arrival, status: int, writes: tuple[lines.Write, ...], shown: Value | None = None
    ) -> Reply:
        reply = Reply(status, as_text(writes[0].value if shown is None else shown))
        at, wall = self._stamp()
        stored = _stored(arrival, reply)
        self._write(lines.Committed(at=at, wall=wall, collection=arrival.name, writes=writes, stored=stored))
        return reply

    # -- refusals, faults

    def refuse(self, arrival: Arrival, refusal: Refusal) -> Reply:
        """Count a refusal and return it as a reply."""
        reply = Reply(refusal.status, error_text(refusal.code, refusal.message))
        return self._say_no(arrival.name, refusal.code, reply, None)

    def answer(self, fault: Fault, collection: str, arrival: Arrival | None = None) -> Reply:
        """Return what an 'answer' fault says, counted as a refusal if it is one and stored if the fault says so."""
        code = fault.code or f"status_{fault.status}"
        text = error_text(code, "as configured") if fault.text is None else fault.text
        retry = () if fault.retry_after is None else (("Retry-After", fault.retry_after),)
        reply = Reply(fault.status, text, (*fault.headers.items(), *retry))
        if fault.status < 400:  # noqa: PLR2004  what is below is no refusal, in HTTP and in SMTP
            return reply
        stored = _stored(arrival, reply) if fault.stored and arrival is not None else None
        return self._say_no(collection, code, reply, stored)

    def strike(self, fault: Fault, collection: str) -> None:
        """Count a fault that is about to strike."""
        at, wall = self._stamp()
        label, moment = fault.label, fault.moment
        self._write(lines.Struck(at=at, wall=wall, collection=collection, label=label, do=fault.do, when=moment))

    def choose_early(
        self, method: str, collection: str, path: str, key: str, moments: frozenset[FaultMoment]
    ) -> Fault | None:
        """Return, counted, the fault that strikes what is no whole request yet: a head, or a command before DATA."""
        subject = f"early {method} {key or path}"
        self._ordinals[subject] += 1  # not in the file: after a restart these begin again
        target = Target(method, collection, path, key, "", subject, self._ordinals[subject])
        fault = self.faults.choose(target, moments)
        if fault is not None:
            self.strike(fault, collection)
        return fault

    def _say_no(self, collection: str, code: str, reply: Reply, stored: lines.Stored | None) -> Reply:
        at, wall = self._stamp()
        status = reply.status
        self._write(lines.Refused(at=at, wall=wall, collection=collection, status=status, code=code, stored=stored))
        return reply

    # -- lines

    def _stamp(self) -> _Stamp:
        wall = time.time_ns() // 1000
        return _Stamp(wall + self._offset, wall)

    def _write(self, line: lines.Line) -> None:
        self._file.append(line)  # first on the disk, then in memory: what memory holds, a restart finds
        self._apply(line)

    def _apply(self, line: lines.Line) -> None:
        match line:
            case lines.Arrived(subject=subject):
                self._ordinals[subject] += 1
            case lines.Committed(writes=writes, stored=stored, at=at):
                for write in writes:
                    self._shelves[write.collection].apply(write, at)
                self._remember(stored, at)
            case lines.Refused(stored=stored, at=at):
                self._remember(stored, at)
            case lines.Hidden(collection=collection, ids=ids):
                self._shelves[collection].missed(ids)
            case lines.ClockMoved(offset=offset):
                self._offset = offset
            case lines.Broken() | lines.Replayed() | lines.Struck():
                pass  # counted only

    def _remember(self, stored: lines.Stored | None, at: int) -> None:
        if stored is not None:
            self._remembered[stored.slot] = _Remembered(stored, at)


def _stored(arrival: Arrival, reply: Reply) -> lines.Stored | None:
    if arrival.slot is None:
        return None
    return lines.Stored(slot=arrival.slot, digest=arrival.digest, status=reply.status, text=reply.text)
