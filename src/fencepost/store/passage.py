"""A store through which texts pass in another form: large ones are kept apart, and all are sealed if there is a codec.

Whoever writes and whoever reads knows nothing of it: what goes in comes out equal. Without a codec only a value that is
too large for its row costs more than a look at its length. What becomes of the texts is `transit`'s matter. The
statements, and what is committed with what, stay the inner store's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar, cast

from fencepost.core.bulk import Tick
from fencepost.core.callback import HandedOut
from fencepost.core.contradictions import Whole
from fencepost.core.epoch import Epoch
from fencepost.core.errors import KeyUnavailable
from fencepost.core.proposals import Closing
from fencepost.core.records import Audit, History, Lease, Run, Signal
from fencepost.core.schedule import Firing, Plan
from fencepost.core.standin import ENCRYPTED, told_by
from fencepost.store.apart import BYTES_A_CHARACTER_MAX, INLINE_BYTES
from fencepost.store.api import (
    Audited,
    Change,
    Changed,
    Decision,
    Declaration,
    Group,
    NewRun,
    Prepared,
    Redeclared,
    RunFilter,
    Started,
    Store,
)
from fencepost.store.changes import Signalled
from fencepost.store.moves import Move
from fencepost.store.passage_governing import GoverningPassage
from fencepost.store.sealed import Codec, Sealing
from fencepost.store.texts import HEARD, LENGTHS
from fencepost.store.transit import Texts
from fencepost.store.walk import Walk

R = TypeVar("R")
_MARK_COLUMN, _MARK_TEXT = "meta.codec", "fencepost"

AS_THEY_ARE = frozenset({
    "is_remote", "now", "latest", "renew_lease", "has_gone_back", "epoch", "end_lease", "next_wake", "kept_apart",
    "unknown_below", "pinned", "ahead_of", "codec_mark", "mark_codec", "issue_token", "signalled", "leases",
    "changes", "close", "ended", "purgeable", "strangers", "count_stranger", "measure", "lately", "waits_named",
    "turns_with_effects", "write_nothing", "finish_bulk", "ended_by_hand", "wake_forgotten", "declare_queues",
    "queue_lengths", "policy", "policies", "taken_event", "let_through", "api_token", "api_tokens",
    "account", "accounts", "invitation", "session", "note_session", "first_look", "was_anybody_invited",
})  # fmt: skip
"""What the inner store is asked directly: no text of these is in any list of `texts`."""


def passage(
    inner: Store, *, inline: int = INLINE_BYTES, codec: Codec | None = None, scrub: Callable[[str], str] | None = None
) -> Store:
    """The store through which an app writes and reads its ledger.

    Raises:
        KeyUnavailable: the ledger was written with a codec, and this one has not its key, or another under its id.
    """
    return cast("Store", Passage(inner, inline=inline, codec=codec, scrub=scrub))


class Passage(GoverningPassage):
    """See `passage`; whatever is asked of it that is not here is asked of the inner store."""

    def __init__(self, inner: Store, *, inline: int, codec: Codec | None, scrub: Callable[[str], str] | None) -> None:
        super().__init__(inner, inline=inline, sealing=None if codec is None else Sealing(codec), scrub=scrub)
        self._small = inline // BYTES_A_CHARACTER_MAX
        self.now = inner.now
        self.latest = inner.latest
        mark = inner.codec_mark()
        self._locked = None if codec is not None or mark is None else told_by(mark, ENCRYPTED)
        if codec is not None and self._sealing is not None:
            if mark is not None:
                self._sealing.open(mark, _MARK_COLUMN)  # raises where it is not the right key
            if mark is None or told_by(mark, ENCRYPTED)["key"] != codec.key:
                inner.mark_codec(self._sealing.seal(_MARK_TEXT, _MARK_COLUMN))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    @property
    def probe(self) -> Callable[[str], None] | None:
        """See `Store.probe`."""
        return self.inner.probe

    @probe.setter
    def probe(self, probe: Callable[[str], None] | None) -> None:
        self.inner.probe = probe

    # -- the journal ----------------------------------------------------------------------------------------------

    def prepare(self, entries: Sequence[Group | NewRun], *, patience: float) -> Prepared:
        """See `Store.prepare`."""
        if self._sealing is None and not self._scrub and self._locked is None and not self._has_large(entries):
            return self.inner.prepare(entries, patience=patience)
        stored = [self._allowed(one) if isinstance(one, NewRun) else self._group(one) for one in entries]
        return _Passing(self, entries, self.inner.prepare(stored, patience=patience))

    def commit(self, entries: Sequence[Group | NewRun], *, patience: float) -> list[Any]:
        """See `Store.commit`."""
        return self.prepare(entries, patience=patience).commit(patience=patience)

    def _has_large(self, entries: Sequence[Group | NewRun]) -> bool:
        # Asked of every commit: the lengths alone answer it nearly always.
        for entry in entries:
            for one in entry.moves if type(entry) is Group else (entry,):
                length = LENGTHS.get(type(one))
                if length is not None and length(one) > self._small:
                    return True
        return False

    def started(self, started: Started, new: NewRun) -> Started:
        """A run that was just started; its input need not be read again if it was this start that made it."""
        run = self._run(started.run)
        if started.is_new:
            run.input = new.input
        return started

    def _allowed(self, new: NewRun) -> NewRun:
        if self._locked is not None:
            raise _no_codec(self._locked)
        return self._new(new)

    # -- verbs ----------------------------------------------------------------------------------------------------

    def take_lease(self, lease: Lease) -> None:
        """See `Store.take_lease`. Raises `KeyUnavailable`: without the key nobody can work on these runs."""
        if self._locked is not None:
            raise _no_codec(self._locked)
        self.inner.take_lease(lease)

    def begin_epoch(self, audit: Callable[[Epoch], Audit]) -> Epoch:
        """See `Store.begin_epoch`."""
        return self.inner.begin_epoch(lambda epoch: self._audit(audit(epoch)))

    def close_lost_span(self, audit: Callable[[Epoch], Audit]) -> Epoch | None:
        """See `Store.close_lost_span`."""
        return self.inner.close_lost_span(lambda epoch: self._audit(audit(epoch)))

    def start_run(self, new: NewRun) -> Started:
        """See `Store.start_run`."""
        return self.started(self.inner.start_run(self._allowed(new)), new)

    async def start_within(self, connection: Any, new: NewRun) -> Started:
        """See `Store.start_within`."""
        return self.started(await self.inner.start_within(connection, self._allowed(new)), new)

    def claim(self, *args: Any, **kwargs: Any) -> list[Run]:
        """See `Store.claim`."""
        return [self._run(run) for run in self.inner.claim(*args, **kwargs)]

    def load(self, run: int) -> History:
        """See `Store.load`."""
        history = self.inner.load(run)
        return self._whole(lambda texts: self._history(history, texts))

    def load_all(self, runs: Sequence[int]) -> list[History]:
        """See `Store.load_all`."""
        found = self.inner.load_all(runs)
        return [self._whole(lambda texts, one=one: self._history(one, texts)) for one in found]  # type: ignore[misc]  # bound early

    def find(self, namespace: str, run_id: str) -> Run | None:
        """See `Store.find`."""
        return self._one(self.inner.find(namespace, run_id))

    def turn(self, namespace: str, run_id: str, turn: int) -> Run | None:
        """See `Store.turn`."""
        return self._one(self.inner.turn(namespace, run_id, turn))

    def _one(self, run: Run | None) -> Run | None:
        return None if run is None else self._whole(lambda texts: self._run(run, texts))

    def children(self, run: int) -> list[Run]:
        """See `Store.children`. Values that are kept apart stay so."""
        return [self._run(child) for child in self.inner.children(run)]

    def runs(self, wanted: RunFilter) -> list[Run]:
        """See `Store.runs`. Values that are kept apart stay so."""
        return [self._run(run) for run in self.inner.runs(wanted)]

    def schedules(self, namespace: str) -> list[Plan]:
        """See `Store.schedules`."""
        return [self._read_plan(plan) for plan in self.inner.schedules(namespace)]

    def due_schedules(self, namespace: str, names: Sequence[str], now: int) -> list[Plan]:
        """See `Store.due_schedules`."""
        return [self._read_plan(plan) for plan in self.inner.due_schedules(namespace, names, now)]

    def declare_schedules(
        self, namespace: str, lease: str, declaration: Declaration, audit: Redeclared | None = None
    ) -> list[Plan]:
        """See `Store.declare_schedules`. A plan that stays as it is keeps its very row."""

        def declared(before: list[Plan], now: int) -> list[Plan]:
            read = [self._read_plan(plan) for plan in before]
            plans = declaration(list(read), now)
            return [before[read.index(plan)] if plan in read else self._plan(plan) for plan in plans]

        def audited(before: Plan, after: Plan) -> Audit | None:
            row = None if audit is None else audit(self._read_plan(before), self._read_plan(after))
            return None if row is None else self._audit(row)

        return [self._read_plan(plan) for plan in self.inner.declare_schedules(namespace, lease, declared, audited)]

    def fire_schedule(self, firing: Firing, starts: Sequence[NewRun]) -> list[Started] | None:
        """See `Store.fire_schedule`."""
        fired = self.inner.fire_schedule(
            replace(firing, plan=self._plan(firing.plan)), [self._allowed(new) for new in starts]
        )
        return None if fired is None else [self.started(*pair) for pair in zip(fired, starts, strict=True)]

    def change_schedule(self, namespace: str, name: str, change: Change) -> Plan | None:
        """See `Store.change_schedule`."""

        def changed(before: Plan, now: int) -> Changed:
            plan, audit, start = change(self._read_plan(before), now)
            return Changed(
                None if plan is None else self._plan(plan),
                self._audit(audit),
                None if start is None else self._allowed(start),
            )

        plan = self.inner.change_schedule(namespace, name, changed)
        return None if plan is None else self._read_plan(plan)

    def signal(self, namespace: str, run_id: str, signal: Signal, audit: Audited | None = None) -> Signal:
        """See `Store.signal`."""
        if self._locked is not None:
            raise _no_codec(self._locked)
        owner = namespace, run_id
        kept = self.inner.signal(
            namespace, run_id, self._signal(signal, owner), None if audit is None else self._audited(audit)
        )
        self._open(kept, owner, kept.id)
        return kept

    def heard_by(self, namespace: str, run_id: str, name: str, id: str = "") -> History | None:
        """See `Store.heard_by`."""
        found = self.inner.heard_by(namespace, run_id, name, id)
        return None if found is None else self._whole(lambda texts: self._history(found, texts))

    def signal_at_once(self, namespace: str, run_id: str, signal: Signal, *, takes: str | None = None) -> Signal | None:
        """See `Store.signal_at_once`. What a wait takes is sealed too, and then there is always more to say."""
        if self._locked is not None:
            raise _no_codec(self._locked)
        owner = namespace, run_id
        kept = self.inner.signal_at_once(namespace, run_id, self._signal(signal, owner), takes=takes)
        if kept is not None:
            self._open(kept, owner, kept.id)
        return kept

    def claim_signalled(
        self, woken: Signalled, lease: str, workflows: Sequence[tuple[str, int]], *, namespace: str, now: int
    ) -> History | None:
        """See `Store.claim_signalled`."""
        found = self.inner.claim_signalled(woken, lease, workflows, namespace=namespace, now=now)
        return None if found is None else self._whole(lambda texts: self._history(found, texts))

    def audit_left(self, audit: Audited) -> int:
        """See `Store.audit_left`."""
        return self.inner.audit_left(self._audited(audit))

    def _audited(self, audit: Audited) -> Audited:
        def audited(run: Run, stored: Signal) -> Audit | None:
            read = replace(stored)
            self._open(read, (run.namespace, run.id), stored.id)
            row = audit(self._run(run), read)
            return None if row is None else self._audit(row)

        return audited

    def decide(
        self, run: int, decision: Decision, *, confirms: Closing | None = None, ticks: Tick | None = None
    ) -> History:
        """See `Store.decide`."""

        def decided(texts: Texts) -> History:
            def choose(history: History, now: int) -> Any:
                moves, seen, audits = decision(self._history(history, texts), now)
                return self._moves(moves), self._seen(seen), [self._audit(row) for row in audits]

            return self.inner.decide(run, choose, confirms=confirms, ticks=ticks)

        history = self._whole(decided)
        return self._whole(lambda texts: self._history(history, texts))

    def find_settled(self, namespace: str, run_id: str) -> Run | None:
        """See `Store.find_settled`."""
        return self._one(self.inner.find_settled(namespace, run_id))

    def handed_out(self, digest: str) -> HandedOut | None:
        """See `Store.handed_out`."""
        found = self.inner.handed_out(digest)
        return None if found is None else found._replace(run=self._run(found.run))

    def beat(self, namespace: str, run_id: str, name: str, progress: str | None) -> bool:
        """See `Store.beat`."""
        said = None if progress is None else self._sealed(progress, HEARD, (namespace, run_id), name)
        return self.inner.beat(namespace, run_id, name, said)

    @contextmanager
    def walk(self) -> Iterator[Walk]:
        """See `Store.walk`."""
        with self.inner.walk() as walk:
            yield cast("Walk", _Walking(self, walk))

    def transact(self, run: int, work: Callable[[Any], tuple[R, Sequence[Move]]], *, patience: float) -> R:
        """See `Store.transact`."""
        self._owner(run)  # inside of the transaction, which may keep the only connection, it could not be asked for

        def worked(connection: Any) -> tuple[R, Sequence[Move]]:
            value, moves = work(connection)
            return value, self._moves(moves)

        return self.inner.transact(run, worked, patience=patience)


def _no_codec(told: Any) -> KeyUnavailable:
    key = str(told["key"])
    return KeyUnavailable(
        f"this ledger is encrypted by key {key!r}, and the app has no codec",
        hint="pass App(codec=AesGcm({...})) with that key; what needs no value can be read and done without it",
        ids={"key": key},
    )


class _Passing:
    """Entries that are written and not yet committed."""

    def __init__(self, through: Passage, entries: Sequence[Group | NewRun], prepared: Prepared) -> None:
        self._through = through
        self._entries = entries
        self._prepared = prepared
        self.watched = prepared.watched

    def commit(self, *, patience: float) -> list[Any]:
        """See `Prepared.commit`."""
        answers = self._prepared.commit(patience=patience)
        return [
            self._through.started(answer, entry)
            if isinstance(answer, Started) and isinstance(entry, NewRun)
            else answer
            for answer, entry in zip(answers, self._entries, strict=True)
        ]


class _Walking:
    """A walk on which each run has its own texts; audit rows stay as they were chained."""

    def __init__(self, through: Passage, walk: Walk) -> None:
        self._through = through
        self._walk = walk

    def __getattr__(self, name: str) -> Any:
        return getattr(self._walk, name)

    def runs(self) -> Iterator[Whole | str]:
        """See `Walk.runs`."""
        return (one if isinstance(one, str) else self._through.read_whole(one) for one in self._walk.runs())
