"""Which services the outside world has and what each can do: tasks, books and mail are three settings of one mechanism.

A service is a set of named collections. A collection holds objects; an *action* on an object either changes its state
(cancelling a task twice leaves it cancelled) or makes one more object elsewhere (each refund of a payment is a new
refund). How a collection treats keys, look-ups and faults is not said here but in `behaviour`.
"""

from typing import NamedTuple


class Action(NamedTuple):
    """What `POST /{collection}/{id}/{verb}` does: sets `state`, and makes an object in `makes` if that is named."""

    verb: str
    state: str
    makes: str | None = None


class Collection(NamedTuple):
    """A named set of objects.

    `singular` begins their ids, `by_name` means PUT by name, `posted` means POST over HTTP. The last three are how the
    collection behaves until somebody configures it otherwise.
    """

    name: str
    singular: str
    actions: tuple[Action, ...] = ()
    by_name: bool = False
    posted: bool = True
    identity: tuple[str, ...] = ()
    keyed: bool = True
    key_header: str = "Idempotency-Key"

    def action(self, verb: str) -> Action | None:
        """Return the action of that verb, or None where the collection has none."""
        return next((action for action in self.actions if action.verb == verb), None)


SERVICES: dict[str, tuple[Collection, ...]] = {
    "tasks": (
        Collection("tasks", "task", actions=(Action("cancel", "cancelled"),)),
        Collection("records", "record", by_name=True, posted=False, keyed=False),
    ),
    "books": (
        Collection("entries", "entry", actions=(Action("reverse", "reversed", makes="reversals"),)),
        Collection("reversals", "reversal", posted=False, identity=("of",)),
        Collection("payments", "payment", actions=(Action("refund", "refunded", makes="refunds"),)),
        Collection("refunds", "refund", posted=False, identity=("of",)),
    ),
    "mail": (Collection("messages", "message", posted=False, keyed=False, key_header="X-Operation-Key"),),
}
"""Every service by name, with its collections; the names of collections are unique across services."""

ELSEWHERE = "elsewhere"
"""The collection under which requests are counted whose path leads to no collection."""
