"""One process of `test_many_processes`: claims a run, performs one effect in it, completes it, and again.

Prints one JSON line: how many runs it completed, and what it was refused. It tests nothing by itself.
"""

import json
import sys
from collections import Counter

from fencepost.core.errors import FencepostError
from fencepost.store.api import Answer
from fencepost.store.journal import Journal
from fencepost.store.open import open_store
from tests.store import build


def main(path: str, name: str, rounds: int) -> None:
    store = open_store(path, patience=60.0)
    journal = Journal(store, patience=60.0)
    store.take_lease(build.lease(name, at=store.now(), ttl=3_600 * build.SECOND))
    seen: Counter[str] = Counter()
    for _ in range(rounds):
        try:
            seen[complete_one(store, journal, name)] += 1
        except FencepostError as error:
            seen[repr(error)] += 1
    journal.close()
    store.close()
    sys.stdout.write(json.dumps(seen) + "\n")


def complete_one(store, journal, name: str) -> str:
    found = store.claim(name, build.WORKFLOWS, namespace="default", now=store.now(), margin=0, limit=1)
    if not found:
        return "found nothing"
    (run,) = found
    begun = journal.commit(build.group(run, build.new_operation(run, lease=name)))
    ended = journal.commit(
        build.group(run, build.applied(run), build.settle(run), build.move_run(run, "succeed", "succeeded"))
    )
    return "completed" if (begun, ended) == (Answer.MOVED, Answer.MOVED) else f"{begun}, {ended}"


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
