"""What becomes of the texts of moves and records on their way into a ledger, and on their way out of it.

In: notes are scrubbed, everything is sealed if there is a codec, and what is too large for its row is parted from it.
Out: the same backwards, in the records themselves; values that are kept apart are read only where the caller wants them
whole. Which fields hold what says `texts`; which verb takes and gives what is `passage`'s matter.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from fencepost.core.bulk import Bulk, BulkRun
from fencepost.core.containment import Containment
from fencepost.core.contradictions import Whole
from fencepost.core.errors import KeyUnavailable, StoreUnavailable
from fencepost.core.proposals import Proposal
from fencepost.core.queue import QueueStanding
from fencepost.core.records import Audit, History, Run, Signal
from fencepost.core.schedule import Plan
from fencepost.core.standin import APART, told_by
from fencepost.store.apart import is_large, set_apart
from fencepost.store.api import Group, NewRun, Store
from fencepost.store.moves import KeepPiece, Move, Observe, Piece
from fencepost.store.sealed import Sealing
from fencepost.store.texts import CLEAR, FIELDS, HEARD, NOTHING, WHY_REFUSED, Field, owner_of, place_of, scrubbed

R = TypeVar("R")
Owner = tuple[str, str]
"""Namespace and id of the run whose text it is."""

Texts = dict[str, str]
"""Values that are kept apart and were read, by their digests."""

OWNERS_KEPT = 65_536
"""So many runs' names are remembered by their numbers; a worker lives far fewer at a time."""


class _Wanted(Exception):
    """A value that is kept apart must be read first, outside of any transaction; then everything begins anew."""

    def __init__(self, namespace: str, run_id: str, digest: str) -> None:
        super().__init__(digest)
        self.where = (namespace, run_id, digest)


class Transit:
    """The texts' side of a `Passage`."""

    def __init__(
        self, inner: Store, *, inline: int, sealing: Sealing | None, scrub: Callable[[str], str] | None
    ) -> None:
        self.inner = inner
        self._inline = inline
        self._scrub = scrub
        self._sealing = sealing
        self._owners: OrderedDict[int, Owner] = OrderedDict()

    # -- on the way in --------------------------------------------------------------------------------------------

    def _sealed(self, text: str, field: Field, owner: Owner, place: str) -> str:
        if self._scrub and field.is_note:
            text = scrubbed(text, self._scrub, spared=CLEAR.get(field.column, NOTHING))
        return text if self._sealing is None else self._sealing.seal(text, field.column, *_bound(field, owner, place))

    def _stored(self, one: Any, owner: Owner, pieces: list[Piece]) -> Any:
        """A move or new row as it is stored, with the pieces of its values appended to `pieces`."""
        place = place_of(one)
        changed = {}
        for field in FIELDS.get(type(one), ()):
            text = getattr(one, field.name)
            if text is None:
                continue
            stored = self._sealed(text, field, owner, place)
            if field.is_value and is_large(stored, self._inline):
                stored, parts = set_apart(stored, *owner)
                pieces += parts
            changed[field.name] = stored
        return one._replace(**changed) if changed else one

    def _moves(self, moves: Sequence[Move]) -> list[Move]:
        stored: list[Move] = []
        for move in moves:
            if type(move) not in FIELDS:
                stored.append(move)
                continue
            namespace, run_id = self._owner(move.run)
            pieces: list[Piece] = []
            written = self._stored(move, (namespace, owner_of(move, run_id)), pieces)
            stored += [
                KeepPiece(move.run, move.generation, piece.run_id, piece.digest, piece.number, piece.text)
                for piece in pieces
            ]
            stored.append(written)
        return stored

    def _seen(self, observations: Sequence[Observe]) -> list[Observe]:
        return [self._stored(seen, self._owner(seen.run), []) for seen in observations]

    def _group(self, group: Group) -> Group:
        return replace(
            group,
            moves=self._moves(group.moves),
            observations=self._seen(group.observations),
            if_refused=self._seen(group.if_refused),
            audits=[self._audit(row) for row in group.audits],
        )

    def _new(self, new: NewRun) -> NewRun:
        pieces: list[Piece] = []
        stored: NewRun = self._stored(new, (new.namespace, new.id), pieces)
        return stored._replace(pieces=tuple(pieces)) if pieces else stored

    def _audit(self, row: Audit) -> Audit:
        (field,) = FIELDS[Audit]
        return replace(row, reason=self._sealed(row.reason, field, (row.namespace, row.run_id), ""))

    def _signal(self, signal: Signal, owner: Owner) -> Signal:
        texts: dict[str, Any] = {
            field.name: self._sealed(text, field, owner, signal.id)
            for field in FIELDS[Signal]
            if (text := getattr(signal, field.name)) is not None
        }
        return replace(signal, **texts)

    def _plan(self, plan: Plan) -> Plan:
        return replace(plan, definition=self._stored_definition(plan))

    def _stored_definition(self, plan: Plan) -> Any:
        texts: dict[str, Any] = {
            field.name: self._sealed(text, field, (plan.namespace, ""), "")
            for field in FIELDS[type(plan.definition)]
            if (text := getattr(plan.definition, field.name)) is not None
        }
        return plan.definition._replace(**texts)

    def _proposal(self, new: Proposal) -> Proposal:
        return replace(new, **self._sealed_texts(new, (new.namespace, new.run_id)))

    def _containment(self, wanted: Containment) -> Containment:
        return replace(wanted, **self._sealed_texts(wanted, (wanted.namespace, wanted.mark)))

    def _bulk(self, new: Bulk) -> Bulk:
        return replace(new, **self._sealed_texts(new, (new.namespace, "")))

    def _sealed_texts(self, record: Any, owner: Owner) -> dict[str, Any]:
        return {
            field.name: self._sealed(getattr(record, field.name), field, owner, "") for field in FIELDS[type(record)]
        }

    def _owner(self, run: int) -> Owner:
        found = self._owners.get(run)
        if found is None:
            return self._known(self.inner.load(run).run)
        self._owners.move_to_end(run)
        return found

    def _known(self, run: Run) -> Owner:
        owner = self._owners[run.no] = run.namespace, run.id
        if len(self._owners) > OWNERS_KEPT:
            self._owners.popitem(last=False)
        return owner

    # -- on the way out -------------------------------------------------------------------------------------------

    def _opened(self, text: str, field: Field, owner: Owner, place: str, texts: Texts | None) -> str:
        if field.is_value and texts is not None and (apart := told_by(text, APART)) is not None:
            digest = str(apart["digest"])
            if digest not in texts:
                raise _Wanted(*owner, digest)
            text = texts[digest]
        return text if self._sealing is None else self._sealing.open(text, field.column, *_bound(field, owner, place))

    def _open(self, record: Any, owner: Owner, place: str, texts: Texts | None = None) -> None:
        """Give a record its own texts; those kept apart from `texts`, and where that is None they stay apart."""
        for field in FIELDS[type(record)]:
            text = getattr(record, field.name)
            if text is not None and text.startswith("{ "):
                setattr(record, field.name, self._opened(text, field, owner, place, texts))

    def _run(self, run: Run, texts: Texts | None = None) -> Run:
        self._open(run, self._known(run), "", texts)
        return run

    def _history(self, history: History, texts: Texts | None) -> History:
        owner = self._known(history.run)
        self._open(history.run, owner, "", texts)
        for step in history.steps:
            self._open(step, owner, step.position, texts)
            if step.progress is not None:
                step.progress = self._opened(step.progress, HEARD, owner, step.name, None)
        for operation in history.operations:
            place = place_of(operation)
            self._open(operation, owner, place, texts)
            for seen in (*operation.attempts, *operation.observations):
                self._open(seen, owner, place)
        for signal in history.signals:
            self._open(signal, owner, signal.id)
        for child in history.children:
            self._run(child, texts)
        return history

    def _whole(self, reading: Callable[[Texts], R]) -> R:
        """Read with every value that is kept apart; nothing is read twice, and most of the time nothing is apart."""
        texts: Texts = {}
        while True:
            try:
                return reading(texts)
            except _Wanted as wanted:
                texts[wanted.where[2]] = self.inner.kept_apart(*wanted.where)

    def _read_audit(self, row: Audit) -> Audit:
        self._open(row, (row.namespace, row.run_id), "")
        return row

    def _read_proposal(self, found: Proposal) -> Proposal:
        return replace(found, **self._opened_texts(found, (found.namespace, found.run_id)))

    def _read_containment(self, found: Containment) -> Containment:
        return replace(found, **self._opened_texts(found, (found.namespace, found.mark)))

    def _read_bulk(self, found: Bulk) -> Bulk:
        return replace(found, **self._opened_texts(found, (found.namespace, "")))

    def _read_bulk_run(self, found: BulkRun) -> BulkRun:
        run = self._run(found.run)
        says = found.says and self._opened(found.says, WHY_REFUSED, (run.namespace, run.id), "", None)
        return found._replace(run=run, says=says)

    def _read_standing(self, namespace: str, found: QueueStanding) -> QueueStanding:
        """A queue's pause says what its audit row says, and was sealed with it."""
        if found.paused_because is None:
            return found
        (field,) = FIELDS[Audit]
        said = self._opened(found.paused_because, field, (namespace, f"queue:{found.name}"), "", None)
        return found._replace(paused_because=said)

    def _opened_texts(self, record: Any, owner: Owner) -> dict[str, Any]:
        return {
            field.name: self._opened(getattr(record, field.name), field, owner, "", None)
            for field in FIELDS[type(record)]
        }

    def _read_plan(self, plan: Plan) -> Plan:
        definition = plan.definition
        texts: dict[str, Any] = {
            field.name: self._opened(text, field, (plan.namespace, ""), "", None)
            for field in FIELDS[type(definition)]
            if (text := getattr(definition, field.name)) is not None
        }
        return replace(plan, definition=definition._replace(**texts))

    def read_whole(self, whole: Whole) -> Whole | str:
        """What a walk has found of a run, with its own texts; a text where one of its values is not there."""
        try:
            history = self._whole(lambda texts: self._history(whole.history, texts))
        except KeyUnavailable:
            raise
        except StoreUnavailable as error:
            return error.message
        kin = whole.kin
        if kin is not None and kin.print_before is not None:
            field = next(field for field in FIELDS[Run] if field.name == "fingerprint")
            owner = history.run.namespace, history.run.id
            kin = replace(kin, print_before=self._opened(kin.print_before, field, owner, "", None))
        return replace(whole, history=history, kin=kin)


def _bound(field: Field, owner: Owner, place: str) -> tuple[str, ...]:
    """What a text is bound to. A child takes over its parent's principal, so that it is bound to no run."""
    return owner[:1] if field.column == "principal" else (*owner, place)
