"""The store and an independent model of the ledger agree, answer by answer and row by row, on random histories."""

import pytest

from tests.store.blank import MakeBlanks
from tests.store.oracle_histories import Histories
from tests.store.oracle_moves import RIGHT

BLOCKS, HISTORIES = 5, 100


@pytest.mark.parametrize("block", range(BLOCKS))
def test_the_store_does_what_the_oracle_says(block: int, blanks: MakeBlanks) -> None:
    histories = Histories(blanks())

    for seed in range(block * HISTORIES, (block + 1) * HISTORIES):
        histories.play(seed)

    assert histories.lone == set(RIGHT), "each kind of move came alone, stale and right in all else"
    assert histories.answers == {"moved", "stale", "illegal", "duplicate", "evidence"}
