"""Whatever is done to an audit afterwards is found with the row where it was done; its end, by an anchor (law 11)."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from fencepost.core.errors import Misuse
from fencepost.core.records import Audit
from fencepost.runtime.checking import verify_audit
from fencepost.store.chain import Anchor, Break, chained, verify
from tests.store import build
from tests.store.conftest import Ledger
from tests.store.tamper import Tampering, tampering

ROWS = 6
COLUMNS = "at, actor, verb, namespace, run_id, step, item, reason, outcome, before, after, previous, hash"
VERBS = ("resume", "settle", "cancel", "retry", "terminate", "reopen")


@pytest.fixture
def audited(ledger: Ledger) -> Ledger:
    """A ledger with six audit rows."""
    for number, verb in enumerate(VERBS):
        ledger.store.audit(
            build.audit(verb, run_id=f"run-{number}", reason="naïve, “quoted”", step="pay" if number else None)
        )
    return ledger


def one_byte_changed(inside: Tampering) -> None:
    assert inside.do("UPDATE audit SET reason = replace(reason, 'naïve', 'native') WHERE no = 3") == 1


def its_hash_changed(inside: Tampering) -> None:
    assert inside.do("UPDATE audit SET hash = replace(hash, substr(hash, 1, 1), 'g') WHERE no = 3") == 1


def its_link_changed(inside: Tampering) -> None:
    assert inside.do("UPDATE audit SET previous = 'somewhere else' WHERE no = 3") == 1


def a_null_changed_to_nothing(inside: Tampering) -> None:
    assert inside.do("UPDATE audit SET step = '' WHERE no = 1") == 1


def a_row_taken_out(inside: Tampering) -> None:
    assert inside.do("DELETE FROM audit WHERE no = 3") == 1


def the_first_row_taken_out(inside: Tampering) -> None:
    assert inside.do("DELETE FROM audit WHERE no = 1") == 1


def two_rows_swapped(inside: Tampering) -> None:
    for old, new in ((3, -1), (4, 3), (-1, 4)):
        assert inside.do("UPDATE audit SET no = ? WHERE no = ?", new, old) == 1


def a_row_put_in(inside: Tampering) -> None:
    """Chained as the third row was, so that it fits by itself."""
    inside.do("UPDATE audit SET no = no + 10 WHERE no > 3")
    [(last,)] = inside.rows("SELECT hash FROM audit WHERE no = 3")
    forged = chained(build.audit("settle", run_id="run-3", reason="forged"), previous=last)
    values = [getattr(forged, name.strip()) for name in COLUMNS.split(",")]
    inside.do(f"INSERT INTO audit (no, {COLUMNS}) VALUES (4, {', '.join('?' * len(values))})", *values)  # noqa: S608 - the names of columns


TAMPERED: dict[Callable[[Tampering], None], tuple[int, Break]] = {
    one_byte_changed: (3, Break.CHANGED),
    its_hash_changed: (3, Break.CHANGED),
    its_link_changed: (3, Break.CHANGED),
    a_null_changed_to_nothing: (1, Break.CHANGED),
    a_row_taken_out: (4, Break.REMOVED),
    the_first_row_taken_out: (2, Break.REMOVED),
    two_rows_swapped: (3, Break.MOVED),
    a_row_put_in: (4, Break.INSERTED),
}


def overriding(change: Callable[[Tampering], None], inside: Tampering, dialect: str) -> None:
    """PostgreSQL gives out the numbers of rows itself, unless it is told otherwise."""
    if dialect == "postgres":
        inside.do("ALTER TABLE audit ALTER COLUMN no DROP IDENTITY")
    change(inside)


@pytest.mark.parametrize("change", TAMPERED, ids=lambda change: change.__name__)
def test_what_was_done_to_a_chain_is_named_with_its_row(
    audited: Ledger, url: str, dialect: str, change: Callable[[Tampering], None]
) -> None:
    anchor = verify_audit(audited.store).last
    with tampering(url) as inside:
        overriding(change, inside, dialect)
    for known in (None, anchor):
        broken = verify_audit(audited.store, known).broken
        assert broken is not None
        assert (broken.at, broken.how) == TAMPERED[change]


def test_an_untouched_chain_is_intact_and_unanchored_without_an_anchor(audited: Ledger) -> None:
    verdict = verify_audit(audited.store)
    assert (verdict.rows, verdict.broken, verdict.anchored, verdict.last.no) == (ROWS, None, False, ROWS)
    assert verify_audit(audited.store, verdict.last).anchored
    audited.store.audit(build.audit("cancel"))
    grown = verify_audit(audited.store, verdict.last)
    assert (grown.rows, grown.broken, grown.anchored) == (ROWS + 1, None, True)


def test_an_end_that_was_cut_off_is_seen_by_its_anchor_alone(audited: Ledger, url: str) -> None:
    anchor = verify_audit(audited.store).last
    with tampering(url) as inside:
        inside.do("DELETE FROM audit WHERE no > 4")
    assert verify_audit(audited.store).broken is None
    broken = verify_audit(audited.store, anchor).broken
    assert broken is not None
    assert (broken.at, broken.how, broken.expected) == (ROWS, Break.CUT, anchor.hash)
    audited.store.audit(build.audit("cancel"))
    assert verify_audit(audited.store, anchor).broken is not None


def test_a_chain_that_was_written_anew_from_some_row_on_is_seen_by_its_anchor_alone(audited: Ledger) -> None:
    rows = audited.store.audits(None, None)
    anchor = Anchor(rows[-1].no, rows[-1].hash)
    forged = [*rows[:2], *rechained([replace(rows[2], actor="nobody"), *rows[3:]], previous=rows[1].hash)]
    assert verify(forged).broken is None
    broken = verify(forged, anchor=anchor).broken
    assert broken is not None
    assert (broken.at, broken.how) == (ROWS, Break.REWRITTEN)


def rechained(rows: list[Audit], previous: str) -> list[Audit]:
    made = []
    for row in rows:
        made.append(chained(row, previous=previous))
        previous = made[-1].hash
    return made


def test_an_empty_audit_is_intact_by_the_anchor_of_an_empty_one(ledger: Ledger) -> None:
    verdict = verify_audit(ledger.store, Anchor())
    assert (verdict.rows, verdict.broken, verdict.anchored, verdict.last) == (0, None, True, Anchor())


def test_an_anchor_reads_back_as_it_was_written_and_nothing_else_is_one() -> None:
    assert Anchor.from_text(Anchor(7, "beef").as_text()) == Anchor(7, "beef")
    for text in ("", "{}", "[]", '{"audit row": "x", "hash": ""}', "null"):
        with pytest.raises(Misuse, match="no anchor"):
            Anchor.from_text(text)


def test_rows_are_read_a_page_at_a_time_and_none_is_kept() -> None:
    alive = 0
    most = 0

    class Row(Audit):
        def __init__(self, **facts: object) -> None:
            nonlocal alive, most
            super().__init__(**facts)  # type: ignore[arg-type]  # the facts of another
            alive += 1
            most = max(most, alive)

        def __del__(self) -> None:
            nonlocal alive
            alive -= 1

    def many():
        previous = ""
        for number in range(1, 2_001):
            row = chained(build.audit("cancel", no=number), previous=previous)
            previous = row.hash
            facts = {name: getattr(row, name) for name in Audit.__slots__}
            del row
            yield Row(**facts)

    assert verify(many()).rows == 2_000
    assert most <= 3
