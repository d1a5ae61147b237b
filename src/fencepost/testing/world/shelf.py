"""The objects of one collection: making, changing and overwriting them as values, and what a look-up can see of them.

Nothing here is remembered by itself: every method that makes a value returns it as a `Write`, which takes effect when
`service` has put it on the disk and hands it back to `apply`.
"""

from collections import Counter
from collections.abc import Iterable

from fencepost.testing.world.behaviour import Keys, LookUp
from fencepost.testing.world.catalog import Collection
from fencepost.testing.world.lines import Write
from fencepost.testing.world.request import Refusal, Value

SEQUENCE_FIELDS = ("generation", "sequence")
"""What tells an older write of a record from a newer one; the first field that both have as a number is compared."""


class Shelf:
    """One collection's objects in the order in which they were made, and how the collection behaves now."""

    def __init__(self, collection: Collection) -> None:
        self.collection = collection
        self.keys = Keys(honoured=collection.keyed, header=collection.key_header)
        self.look_up = LookUp()
        self.identity = collection.identity
        self._objects: dict[str, Value] = {}
        self._made_at: dict[str, int] = {}
        self._misses: Counter[str] = Counter()

    # -- reading

    def existing(self, identifier: str) -> Value:
        """Return the object of that id; raises `Refusal` with 404."""
        if identifier not in self._objects:
            raise Refusal(404, "not_found", f"{self.collection.name} has no {identifier!r}")
        return self._objects[identifier]

    def external_key(self, identifier: str) -> str:
        """Return the object's external key, or the id itself where there is no such object or it has no key."""
        return str(self._objects.get(identifier, {}).get(self.look_up.field) or identifier)

    def must_offer_look_up(self) -> None:
        """Raise `Refusal` with 405 where the collection cannot be asked."""
        if not self.look_up.offered:
            raise Refusal(405, "not_offered", f"{self.collection.name} cannot be looked up")

    def found(self, query: Iterable[tuple[str, str]], now: int) -> tuple[list[Value], tuple[str, ...]]:
        """Return the objects whose fields equal the query's, and the ids of those that are still too new to be seen."""
        wanted = tuple(query)
        matching = [
            identifier
            for identifier, value in self._objects.items()
            if all(str(value.get(name)) == text for name, text in wanted)
        ]
        hidden = tuple(identifier for identifier in matching if self._is_hidden(identifier, now))
        return [self._objects[identifier] for identifier in matching if identifier not in hidden], hidden

    def _is_hidden(self, identifier: str, now: int) -> bool:
        seen_from = self._made_at[identifier] + int(self.look_up.lag_seconds * 1_000_000)
        return now < seen_from or self._misses[identifier] < self.look_up.lag_lookups

    # -- values for new lines

    def made(self, body: Value, key: str | None) -> Write:
        """Return a new object with the next id, in state 'open'."""
        return self._write(f"{self.collection.singular}-{len(self._objects) + 1}", {"state": "open", **body}, key)

    def changed(self, identifier: str, state: str) -> Write:
        """Return the object in another state."""
        return self._write(identifier, {**self._objects[identifier], "state": state}, None)

    def overwritten(self, name: str, body: Value, key: str | None) -> Write:
        """Return the record with this body, whatever it held before; `stale` if what it held was newer."""
        before = self._objects.get(name)
        write = self._write(name, body, key)
        stale = before is not None and _is_older(body, before)
        return write.model_copy(update={"overwrites": before is not None, "stale": stale})

    def _write(self, identifier: str, body: Value, key: str | None) -> Write:
        field = self.look_up.field
        external = key if body.get(field) is None else body[field]
        value = {**body, "id": identifier} | ({} if external is None else {field: external})
        parts = [value.get(name) for name in self.identity or (field,)]
        identity = None if None in parts else "|".join(str(part) for part in parts)
        return Write(collection=self.collection.name, id=identifier, value=value, identity=identity)

    # -- what is on the disk

    def apply(self, write: Write, at: int) -> None:
        """Take in an object that is on the disk."""
        self._objects[write.id] = write.value
        self._made_at.setdefault(write.id, at)

    def missed(self, identifiers: Iterable[str]) -> None:
        """Count a look-up that could not see these objects yet."""
        self._misses.update(identifiers)


def _is_older(body: Value, before: Value) -> bool:
    for name in SEQUENCE_FIELDS:
        new, old = body.get(name), before.get(name)
        if isinstance(new, int | float) and isinstance(old, int | float):
            return new < old
    return False
