"""One process of `test_queue_claims`: claims from a queue until it is empty, and notes how many are in work then.

Prints one JSON line: the most that it saw in work at a time, the most of one key, and how many it completed. It tests
nothing by itself.
"""

import json
import sys
from collections import Counter

from fencepost.store.api import RunFilter
from fencepost.store.journal import Journal
from fencepost.store.open import open_store
from tests.store import build


def main(path: str, name: str) -> None:
    store = open_store(path, patience=60.0)
    journal = Journal(store, patience=60.0)
    store.take_lease(build.lease(name, at=store.now(), ttl=3_600 * build.SECOND))
    most = most_of_key = completed = 0
    while True:
        wanted = {"namespace": "default", "now": store.now(), "margin": 0, "limit": 4, "queues": True, "asks": False}
        claimed = store.claim(name, build.WORKFLOWS, **wanted)
        running = store.runs(RunFilter("default", state="running", limit=1_000))
        most = max(most, len(running))
        most_of_key = max(most_of_key, *Counter(run.queue_key for run in running).values(), 0)
        for run in claimed:
            journal.commit(build.group(run, build.move_run(run, "succeed", "succeeded")))
            completed += 1
        if not claimed and not store.runs(RunFilter("default", state="ready", limit=1)):
            break
    journal.close()
    store.close()
    sys.stdout.write(json.dumps({"most": most, "most of key": most_of_key, "completed": completed}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
