"""What the outside world has seen, counted from its files alone: also after its process was killed.

Requests and objects are counted apart, since one says what was sent and the other what became of it. Two objects with
the same business identity are a duplicate. Nothing here asks a running process; that is `handle`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fencepost.core.errors import Misuse
from fencepost.testing.world.catalog import ELSEWHERE, SERVICES
from fencepost.testing.world.lines import (
    Arrived,
    Broken,
    Committed,
    Line,
    Refused,
    Replayed,
    Struck,
    Write,
    file_of,
    read,
)
from fencepost.testing.world.request import Value


@dataclass(frozen=True)
class CollectionSummary:
    """The counts of one collection.

    `requests`: whole requests to make an object (POST, PUT, a mail's DATA), refused and replayed ones among them.
    `actions`: whole requests for an action on an object, by verb. `lookups`: whole GET requests.
    `objects`: objects that exist; `duplicates`: those beyond the first of each identity; `unidentified`: those that
    name no identity, and so cannot be told from a duplicate. `overwrites`: PUTs that replaced a record;
    `stale_overwrites`: those that replaced a newer one.
    `bodies_per_key`: how many different bodies, byte for byte, came under each key at one endpoint.
    `replays`: stored results given again. `refusals`: replies that said no, by status. `faults`: how often each fault
    struck, by its name, or else by what it does and when. `broken`: requests that never became whole.
    """

    requests: int
    actions: Mapping[str, int]
    lookups: int
    objects: int
    duplicates: int
    unidentified: int
    overwrites: int
    stale_overwrites: int
    bodies_per_key: Mapping[str, int]
    replays: int
    refusals: Mapping[int, int]
    faults: Mapping[str, int]
    broken: int

    @property
    def keys(self) -> int:
        """How many different keys came."""
        return len(self.bodies_per_key)


class WorldFiles:
    """The files of a world's folder; reading needs no process, and nothing is kept between two calls."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)

    def lines(self, service: str) -> list[Line]:
        """Return everything that happened at a service, in order.

        Raises:
            Misuse: there is no such service, or no world was ever started on the folder.
        """
        if service not in SERVICES:
            raise Misuse(f"there is no service {service!r}", hint=f"the services and collections are {_names()}")
        if not any(file_of(self.folder, known).exists() for known in SERVICES):
            raise Misuse(
                "the folder holds no world",
                hint="name the folder that World.start was given",
                ids={"folder": str(self.folder)},
            )
        return list(read(file_of(self.folder, service)))

    def requests(self, collection: str) -> list[Arrived]:
        """Return the whole requests that reached a collection, in order."""
        seen = self.lines(_service_of(collection))
        return [line for line in seen if isinstance(line, Arrived) and line.collection == collection]

    def objects(self, collection: str) -> list[Value]:
        """Return the objects of a collection as they are now, in the order in which they were made."""
        current: dict[str, Value] = {}
        for write in _writes(self.lines(_service_of(collection)), collection):
            current[write.id] = write.value
        return list(current.values())

    def summary(self) -> dict[str, CollectionSummary]:
        """Return the counts of every collection by its name, and of what led to none under 'elsewhere'."""
        counted: dict[str, CollectionSummary] = {}
        everything: list[Line] = []
        for service, collections in SERVICES.items():
            seen = self.lines(service)
            everything += seen
            counted |= {collection.name: _counted(seen, collection.name) for collection in collections}
        return counted | {ELSEWHERE: _counted(everything, ELSEWHERE)}


def _service_of(collection: str) -> str:
    for service, collections in SERVICES.items():
        if any(collection == known.name for known in collections):
            return service
    raise Misuse(f"there is no collection {collection!r}", hint=f"the services and collections are {_names()}")


def _names() -> dict[str, list[str]]:
    return {service: [collection.name for collection in collections] for service, collections in SERVICES.items()}


def _writes(seen: Iterable[Line], collection: str) -> list[Write]:
    committed = (line for line in seen if isinstance(line, Committed))
    return [write for line in committed for write in line.writes if write.collection == collection]


def _counted(seen: list[Line], collection: str) -> CollectionSummary:
    writes = _writes(seen, collection)
    here = [line for line in seen if line.collection == collection]
    arrived = [line for line in here if isinstance(line, Arrived)]
    writing = [line for line in arrived if line.method != "GET"]
    made = {write.id: write.identity for write in reversed(writes)}  # the identity that it was made with
    identities = Counter(identity for identity in made.values() if identity is not None)
    bodies = {(line.method, line.path, line.key, line.digest) for line in writing if line.key is not None}
    replaced = [write for write in writes if write.overwrites]
    return CollectionSummary(
        requests=sum(not line.action for line in writing),
        actions=Counter(line.action for line in writing if line.action),
        lookups=len(arrived) - len(writing),
        objects=len(made),
        duplicates=identities.total() - len(identities),
        unidentified=len(made) - identities.total(),
        overwrites=len(replaced),
        stale_overwrites=sum(write.stale for write in replaced),
        bodies_per_key=_most_bodies(bodies),
        replays=sum(isinstance(line, Replayed) for line in here),
        refusals=Counter(line.status for line in here if isinstance(line, Refused)),
        faults=Counter(line.label for line in here if isinstance(line, Struck)),
        broken=sum(isinstance(line, Broken) for line in here),
    )


def _most_bodies(bodies: set[tuple[str, str, str, str]]) -> dict[str, int]:
    at_endpoint = Counter((method, path, key) for method, path, key, _ in bodies)
    most: dict[str, int] = {}
    for (_, _, key), count in at_endpoint.items():
        most[key] = max(count, most.get(key, 0))
    return most
