"""A few seconds of what `make chaos` does for longer: counted at the world, and the ledger that is left is checked."""

from contextlib import closing
from pathlib import Path

import pytest

from fencepost.store.open import open_store
from tests.chaos.__main__ import chaos, checked
from tests.services.postgres import Cluster
from tests.store import build

SEED = 207
"""Its first strikes are of every kind: a commit that is cut off, a kill, a restart and a crash of the server."""


@pytest.mark.timeout(300)
def test_five_seconds_of_chaos_double_and_lose_nothing_and_leave_no_contradiction(
    own_server: Cluster, tmp_path: Path
) -> None:
    ended = chaos(own_server, 5.0, SEED, tmp_path)
    assert ended.wrong == []
    assert ended.counted["contradictions"] == 0
    for strikes in ("workers killed", "commits cut off", "server crashes and restarts"):
        assert ended.counted[strikes] >= 1, strikes
    assert ended.counted["objects"] == 3 * ended.counted["started"] >= 15


def test_control_a_contradiction_in_the_ledger_that_is_left_is_told(url: str) -> None:
    with closing(open_store(url)) as store:
        assert checked(url) == (0, [])
        store.start_run(build.new_run(fingerprint="of another input"))
    seen = checked(url)
    assert seen.runs == 1
    assert seen.found[0].startswith("input_of_another_print: run-1")
