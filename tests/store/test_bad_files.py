"""A disk that is full, cannot be written or fails to sync is named, and nothing acknowledged is lost.

The faults come from below SQLite, at every write in turn, so that SQLite itself decides what a failed commit leaves
behind. Files that are foreign, newer, damaged or locked are in `test_open`.
"""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from fencepost.core.errors import FencepostError, StoreFailed, StoreUnavailable
from fencepost.store.api import Answer
from fencepost.store.journal import Journal
from fencepost.store.open import open_store
from tests.store import build, crash
from tests.store.images import SmallLog, Tape, drop, keep, last_image, write_image

INTENTS = 12


class Disk:
    """A ledger on a taped disk, one run, and what was acknowledged and refused."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "ledger.db"
        self.tape = Tape()
        self.store = open_store(str(self.path), connect=lambda path: SmallLog(path, self.tape.name))
        self.store.take_lease(build.lease())
        self.run = self.store.start_run(build.new_run(lease="lease-1"))[0]
        self.journal = Journal(self.store)
        self.told: set[str] = set()
        self.refused: dict[str, FencepostError] = {}

    def commit(self, step: str) -> None:
        fact = crash.fact(self.run, step)
        try:
            assert self.journal.commit(crash.intent(self.run, step)) is Answer.MOVED
        except FencepostError as error:
            self.refused[fact] = error
            return
        self.told.add(fact)
        self.tape.tell(fact)

    def intents(self) -> set[str]:
        return intents_among(crash.facts_of(self.store, [self.run.id]))

    def close(self) -> None:
        self.tape.fault = None
        self.journal.close()
        self.store.close()

    def intents_in_the_file(self) -> set[str]:
        """What a new process finds."""
        return intents_among(crash.found_in(self.path, [self.run.id]))


def intents_among(facts: set[str]) -> set[str]:
    return {fact for fact in facts if fact.startswith("intent")}


def failing_from(first: int, kind: str, make: Callable[[], apsw.Error]) -> Callable[[str, str], None]:
    """Every event of this kind fails from the `first` on."""
    seen = 0

    def fault(happened: str, file: str) -> None:
        nonlocal seen
        seen += happened == kind
        if happened == kind and seen > first:
            raise make()

    return fault


def coded(kind: type[apsw.Error], code: int) -> apsw.Error:
    error = kind("injected")
    error.extendedresult = code
    return error


NO_SPACE = 13  # SQLITE_FULL
FAILED_SYNC = 1034  # SQLITE_IOERR_FSYNC
FAILED_WRITE = 778  # SQLITE_IOERR_WRITE


@pytest.mark.parametrize("first", range(0, 40, 3))
def test_a_disk_that_fills_up_at_any_write_refuses_and_goes_on_when_there_is_space(first: int, tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    disk.tape.fault = failing_from(first, "write", lambda: coded(apsw.FullError, NO_SPACE))
    for number in range(INTENTS):
        disk.commit(f"full-{number}")
    full = dict(disk.refused)
    disk.tape.fault = None
    for number in range(INTENTS):
        disk.commit(f"free-{number}")

    assert full, "the disk was full for some"
    assert all("full" in str(error) and "free some space" in error.hint for error in full.values())
    assert disk.refused == full, "with space, every intent is accepted, by the same store and journal"
    # Refused is refused: what was not acknowledged is not there, now and for whoever opens the file next.
    assert disk.intents() == disk.told
    disk.close()
    assert disk.intents_in_the_file() == disk.told


@pytest.mark.parametrize(("kind", "code"), [("sync", FAILED_SYNC), ("write", FAILED_WRITE)])
@pytest.mark.parametrize("first", [0, 1, 4, 9])
def test_after_a_commit_that_failed_on_the_way_to_the_disk_nothing_is_dispatched_any_more(
    kind: str, code: int, first: int, tmp_path: Path
) -> None:
    disk = Disk(tmp_path)
    disk.tape.fault = failing_from(first, kind, lambda: coded(apsw.IOError, code))
    for number in range(INTENTS):
        disk.commit(f"bad-{number}")
    # The disk may be well again: what the failed commit left is not known, so this process does not go on.
    disk.tape.fault = None
    disk.commit("after")

    assert disk.refused, "some commit failed"
    assert isinstance(disk.refused[crash.fact(disk.run, "after")], StoreFailed)
    assert "after" not in str(disk.told)
    events = list(disk.tape.events)
    disk.close()
    # Acknowledged is there; of what is not known, at most the one commit that failed.
    assert disk.told <= (found := disk.intents_in_the_file())
    assert len(found - disk.told) <= 1
    for fate in (drop, keep):
        write_image(last_image(events, fate), tmp_path / "image")
        assert disk.told <= crash.found_in(tmp_path / "image" / "ledger.db", [disk.run.id])


def test_a_process_that_meets_a_limit_of_the_system_ends_and_keeps_what_it_promised(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))"
    with crash.start_life(path, "limited", limit) as process:
        said, complaint = process.communicate(timeout=60)
    promised = crash.promises(said.splitlines(keepends=True))

    assert process.returncode == 1
    assert "StoreFailed" in complaint
    assert "look at the disk" in complaint
    assert promised
    assert promised <= crash.found_in(path, crash.life_runs("limited"))
    with crash.start_life(path, "free") as process:
        assert process.stdout.readline().startswith("intent run-free"), "with room again, the ledger goes on"
        process.kill()


class ReadOnly(Tape):
    """A file that this user may read only. (A test's own user may be root, whom permissions do not stop.)"""

    def xOpen(self, name, flags):  # noqa: N802 - SQLite's name
        if flags[0] & apsw.SQLITE_OPEN_MAIN_DB:
            flags[0] &= ~(apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
            flags[0] |= apsw.SQLITE_OPEN_READONLY
        return super().xOpen(name, flags)


class NoLog(Tape):
    """A folder in which no write-ahead log can be created."""

    def xOpen(self, name, flags):  # noqa: N802 - SQLite's name
        if flags[0] & apsw.SQLITE_OPEN_WAL:
            raise coded(apsw.CantOpenError, CANNOT_OPEN)
        return super().xOpen(name, flags)


CANNOT_OPEN = 14  # SQLITE_CANTOPEN


@pytest.mark.parametrize(("tape", "words"), [(ReadOnly, "read-only"), (NoLog, "cannot be opened")])
def test_a_ledger_that_cannot_be_written_is_refused_and_left_as_it_was(
    tape: type[Tape], words: str, tmp_path: Path
) -> None:
    disk = Disk(tmp_path)
    disk.commit("before")
    disk.close()
    before = disk.path.read_bytes()

    with (
        pytest.raises(StoreUnavailable, match=words) as refusal,
        closing(open_store(str(disk.path), connect=tape().connect)) as store,
    ):
        store.start_run(build.new_run("other"))

    assert "folder" in refusal.value.hint
    assert disk.path.read_bytes() == before
    assert disk.intents_in_the_file() == disk.told
