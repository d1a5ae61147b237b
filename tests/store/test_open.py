"""Opening: what is not a ledger is refused by name and left as it was, and durability is proved, not assumed."""

import sqlite3
import threading
from pathlib import Path

import pytest

from fencepost.core.errors import FencepostError, ForeignDatabase, Misuse, StoreBusy, StoreUnavailable
from fencepost.store import queries
from fencepost.store.connection import SqliteError, StandardConnection
from fencepost.store.open import open_store, path_of
from tests.store import build
from tests.store.faulty import FULL, READONLY, Faults


def test_a_missing_file_is_created_and_opened_again(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    first = open_store(url)
    first.start_run(build.new_run())
    first.close()

    second = open_store(url)
    assert second.find("default", "run-1") is not None
    second.close()


def test_a_ledger_says_what_it_is(tmp_path: Path) -> None:
    open_store(str(tmp_path / "ledger.db")).close()
    inside = sqlite3.connect(tmp_path / "ledger.db")

    assert dict(inside.execute("SELECT name, value FROM meta")) == {
        "marker": "fencepost ledger", "schema": "1",
    }  # fmt: skip
    assert inside.execute("PRAGMA application_id").fetchone() == (int.from_bytes(b"FNCP", "big"),)
    inside.close()


def test_durability_is_set_on_every_connection_and_read_back(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "ledger.db"))
    store.find("default", "nobody")

    for connection in (store._connection, store._watch, *store._readers):
        assert connection.execute("PRAGMA synchronous") == [(2,)]
        assert connection.execute("PRAGMA journal_mode") == [("wal",)]
        assert connection.execute("PRAGMA foreign_keys") == [(1,)]
    store.close()


@pytest.mark.parametrize("pragma", ["synchronous = FULL", "journal_mode = WAL", "foreign_keys = ON"])
def test_a_connection_that_does_not_keep_a_pragma_is_refused(tmp_path: Path, pragma: str) -> None:
    class Forgetful(StandardConnection):
        def execute(self, statement, parameters=(), /):
            if statement == f"PRAGMA {pragma}":
                return [("as before",)]
            return super().execute(statement, parameters)

    def connect(path: str) -> Forgetful:
        connection = Forgetful(path)
        StandardConnection.execute(connection, "PRAGMA synchronous = NORMAL")
        return connection

    with pytest.raises(StoreUnavailable, match=pragma.partition(" ")[0]) as refusal:
        open_store(str(tmp_path / "ledger.db"), connect=connect)
    assert refusal.value.hint


def refused(path: Path, kind: type[FencepostError], words: str) -> FencepostError:
    with pytest.raises(kind, match=words) as refusal:
        open_store(f"sqlite:///{path}", patience=0.05)
    assert refusal.value.hint
    assert refusal.value.ids == {"ledger": str(path)}
    return refusal.value


def test_a_folder_and_a_path_without_a_folder_are_named(tmp_path: Path) -> None:
    refused(tmp_path, StoreUnavailable, "is a folder")
    refused(tmp_path / "nowhere" / "ledger.db", StoreUnavailable, "folder of the ledger does not exist")
    refused(Path("/dev/null"), StoreUnavailable, "not a plain file")


@pytest.mark.parametrize("content", [b"hello", b"hello, this is a text" * 1000, b"\x00" * 5000, bytes(range(256)) * 40])
def test_a_file_of_something_else_is_refused_and_kept(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)

    refused(path, ForeignDatabase, "not an SQLite database")
    assert path.read_bytes() == content


def test_a_foreign_sqlite_database_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    foreign = sqlite3.connect(path)
    foreign.execute("CREATE TABLE customer (name TEXT)")
    foreign.commit()
    foreign.close()
    before = path.read_bytes()

    refused(path, ForeignDatabase, "not a Fencepost ledger")
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["app.db"]


def test_a_ledger_of_a_newer_version_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    open_store(str(path)).close()
    newer = sqlite3.connect(path)
    newer.execute("PRAGMA user_version = 7")
    newer.close()

    refused(path, ForeignDatabase, "schema is number 7, this version knows up to 1")


def test_a_damaged_ledger_is_called_damaged(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    store = open_store(str(path))
    for number in range(200):
        store.start_run(build.new_run(f"run-{number}", input='"' + "x" * 500 + '"'))
    store.close()
    content = bytearray(path.read_bytes())
    for page in range(20, len(content) // 4096):
        content[page * 4096 : page * 4096 + 512] = b"\xff" * 512
    path.write_bytes(content)

    assert "backup" in refused(path, StoreUnavailable, "damaged").hint


def test_a_locked_ledger_is_waited_for_and_then_called_locked(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    store = open_store(str(path), patience=0.05)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(StoreBusy, match="locked by another process"):
        store.start_run(build.new_run())
    assert store.find("default", "run-1") is None
    other.execute("ROLLBACK")
    assert store.start_run(build.new_run())[1]
    other.close()
    store.close()


def test_a_ledger_that_is_read_only_is_called_so(tmp_path: Path) -> None:
    faults = Faults()
    store = open_store(str(tmp_path / "ledger.db"), connect=faults.connect)
    faults.refuse["BEGIN IMMEDIATE"] = READONLY

    with pytest.raises(StoreUnavailable, match="read-only"):
        store.start_run(build.new_run())
    store.close()


def test_a_disk_that_is_full_changes_nothing_and_is_over_when_there_is_space(tmp_path: Path) -> None:
    faults = Faults()
    store = open_store(str(tmp_path / "ledger.db"), connect=faults.connect)
    store.start_run(build.new_run())
    pages = store._connection.execute("PRAGMA page_count")[0][0]
    store._connection.execute(f"PRAGMA max_page_count = {pages}")

    with pytest.raises(StoreUnavailable, match="full"):
        store.start_run(build.new_run("big", input='"' + "x" * 100_000 + '"'))
    faults.refuse["COMMIT"] = FULL
    with pytest.raises(StoreUnavailable, match="full"):
        store.start_run(build.new_run("small"))
    faults.refuse.clear()
    assert store.find("default", "small") is None
    store._connection.execute("PRAGMA max_page_count = 1000000")
    assert store.start_run(build.new_run("big", input='"' + "x" * 100_000 + '"'))[1]
    store.close()


@pytest.mark.parametrize(
    "url", ["mysql://host/db", "sqlite://ledger.db", "sqlite:///:memory:", "sqlite:///", ":memory:"]
)
def test_a_url_that_names_no_file_is_refused(url: str) -> None:
    with pytest.raises(Misuse) as refusal:
        open_store(url)
    assert refusal.value.hint


def test_a_url_names_a_path_relative_or_absolute() -> None:
    assert path_of("sqlite:///ledger.db") == "ledger.db"
    assert path_of("sqlite:////var/ledger.db") == "/var/ledger.db"
    assert path_of("some/ledger.db") == "some/ledger.db"


def test_one_new_file_opened_by_many_at_once_is_one_ledger(tmp_path: Path) -> None:
    path = str(tmp_path / "ledger.db")
    gate = threading.Barrier(6)
    problems: list[Exception] = []

    def work(number: int) -> None:
        gate.wait()
        try:
            store = open_store(path)
            store.start_run(build.new_run(f"run-{number}"))
            store.close()
        except Exception as error:  # noqa: BLE001 - whatever it is, the test shows it
            problems.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert problems == []
    store = open_store(path)
    assert all(store.find("default", f"run-{number}") for number in range(6))
    store.close()


def test_a_migration_that_fails_leaves_an_empty_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = queries.migrations("sqlite")
    broken = [(1, "ledger", whole[0][2] + "\nCREATE TABLE run (no INTEGER);\n")]
    monkeypatch.setattr(queries, "migrations", lambda dialect: broken)
    with pytest.raises(StoreUnavailable):
        open_store(str(tmp_path / "ledger.db"))

    monkeypatch.setattr(queries, "migrations", lambda dialect: whole)
    open_store(str(tmp_path / "ledger.db")).close()


def test_a_closed_store_says_that_it_is_closed(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "ledger.db"))
    store.close()

    with pytest.raises(StoreUnavailable, match="closed"):
        store.find("default", "run-1")
    with pytest.raises(StoreUnavailable, match="closed"):
        store.start_run(build.new_run())
    store.close()


def test_the_adapter_tells_a_bad_value_from_a_closed_connection(tmp_path: Path) -> None:
    connection = StandardConnection(str(tmp_path / "plain.db"))
    with pytest.raises(SqliteError) as bad:
        connection.execute("SELECT ?", (object(),))
    connection.close()
    with pytest.raises(SqliteError) as closed:
        connection.execute("SELECT 1")

    assert (bad.value.primary, closed.value.primary) == (20, 21)
