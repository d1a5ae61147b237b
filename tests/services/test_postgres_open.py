"""Opening a ledger on a server: what it refuses, what it warns of, what it shares, and what nobody gets to read."""

import logging
import subprocess
import sys
import threading

import psycopg
import pytest

from fencepost.cli import doctor
from fencepost.core.errors import ForeignDatabase, Misuse, StoreUnavailable
from fencepost.runtime.app import App
from fencepost.store.open import open_store, schema_at
from fencepost.store.postgres_url import place_of, without_password
from tests.polling import until
from tests.services.fixtures import Place
from tests.services.postgres import Cluster
from tests.store import build

SECRET = "s3cr%65t"


def by_hand(place: Place, *statements: str) -> None:
    with psycopg.connect(place.server.url(), autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.format(schema=place.schema).encode())


def test_many_processes_that_find_nothing_make_one_ledger(postgres: Place) -> None:
    stores = []
    threads = [
        threading.Thread(target=lambda: stores.append(open_store(postgres.url(connections=1)))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(stores) == 8
    assert schema_at(postgres.url()) == 1
    for store in stores:
        store.close()


def test_a_ledger_lives_in_a_database_beside_other_tables(postgres: Place) -> None:
    by_hand(postgres, "CREATE TABLE IF NOT EXISTS public.run (id text)")
    store = open_store(postgres.url())
    store.start_run(build.new_run())
    other = open_store(Place(postgres.server).url())

    assert store.find("default", "run-1") is not None
    assert other.find("default", "run-1") is None
    store.close()
    other.close()


def test_a_schema_that_was_made_for_a_user_without_more_rights_is_used(postgres: Place) -> None:
    by_hand(postgres, "CREATE ROLE limited_{schema} LOGIN", "CREATE SCHEMA {schema} AUTHORIZATION limited_{schema}")
    store = open_store(postgres.url().replace("user=fencepost", f"user=limited_{postgres.schema}"))

    assert store.start_run(build.new_run()).is_new
    store.close()


def test_a_schema_with_other_tables_is_refused_and_left_alone(postgres: Place) -> None:
    by_hand(postgres, "CREATE SCHEMA {schema}", "CREATE TABLE {schema}.invoice (id int)")
    for opening in (open_store, schema_at):
        with pytest.raises(ForeignDatabase, match="not a Fencepost ledger"):
            opening(postgres.url())

    tables = "SELECT tablename FROM pg_tables WHERE schemaname = %s"
    assert postgres.server.ask(tables, postgres.schema) == [("invoice",)]


def test_a_ledger_of_a_newer_version_is_refused_by_its_number(postgres: Place) -> None:
    open_store(postgres.url()).close()
    by_hand(postgres, "UPDATE {schema}.meta SET value = '7' WHERE name = 'schema'")

    with pytest.raises(ForeignDatabase, match="number 7, this version knows up to 1"):
        open_store(postgres.url())


def test_a_server_that_does_not_sync_is_refused(own_server: Cluster) -> None:
    own_server.stop()
    own_server.settings += ["fsync=off"]
    own_server.start()

    with pytest.raises(StoreUnavailable, match="fsync=off"):
        open_store(own_server.url())


def test_a_user_who_does_not_wait_for_the_disk_is_warned(postgres: Place, caplog: pytest.LogCaptureFixture) -> None:
    open_store(postgres.url(options="-c%20synchronous_commit%3Doff")).close()

    assert "synchronous_commit is off" in caplog.text


def test_defaults_of_a_database_change_nothing(postgres: Place) -> None:
    url = postgres.url(options="-c%20default_transaction_isolation%3Dserializable")
    open_store(postgres.url()).close()
    store = open_store(url)
    assert store.start_run(build.new_run()).is_new
    store.close()


def test_a_database_that_was_set_to_read_only_is_not_written_to(own_server: Cluster) -> None:
    """As before a move to another server, or by a provider whose disk is nearly full."""
    store = open_store(own_server.url(), patience=0.5)
    store.take_lease(build.lease())
    by_hand(Place(own_server), "ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()")
    until(lambda: own_server.ask("SHOW default_transaction_read_only") == [("on",)], "the setting")

    for verb in (
        lambda: store.start_run(build.new_run()),
        lambda: store.renew_lease("lease-1", now=build.NOW, expires_at=build.NOW + 1),
        lambda: open_store(own_server.url()),
    ):
        with pytest.raises(StoreUnavailable, match="was set to read-only"):
            verb()
    with psycopg.connect(own_server.url(), autocommit=True) as connection:
        for statement in (
            "SET default_transaction_read_only = off",
            "ALTER SYSTEM RESET ALL",
            "SELECT pg_reload_conf()",
        ):
            connection.execute(statement)
    until(lambda: store.renew_lease("lease-1", now=build.NOW, expires_at=build.NOW + 1), "writes are taken again")
    assert store.start_run(build.new_run()).is_new
    store.close()


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://ann:{SECRET}@localhost:1/ledger",
        f"postgres://ann:{SECRET}@localhost:1,localhost:2/ledger?connect_timeout=1",
        f"postgresql://localhost:1/ledger?user=ann&password={SECRET}",
        f"postgresql://ann:{SECRET}@localhost:port/ledger",
        f"postgresql://ann:{SECRET}/@localhost:1/ledger",
    ],
)
def test_no_error_no_log_and_no_screen_shows_a_password(url: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises((StoreUnavailable, Misuse)) as refusal:
        open_store(url, patience=1.0)
    told = [str(refusal.value), repr(refusal.value.ids), caplog.text, without_password(url)]
    told += [f"{check.says} {check.hint}" for check in doctor.checks(App(url, workflows=[]), has_code=False)]

    for text in told:
        assert "s3cr" not in text


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ("schema=Upper", "schema"),
        ("schema=pg_x", "schema"),
        ("connections=0", "connections"),
        ("connections=many", "connections"),
        ("pooler=maybe", "pooler"),
        ("no_such_parameter=1", "cannot be read"),
    ],
)
def test_what_a_url_cannot_mean_is_named(parameters: str, says: str) -> None:
    with pytest.raises(Misuse, match=says):
        open_store(f"postgresql://localhost/ledger?{parameters}")


def test_what_is_libpqs_is_left_to_libpq(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGAPPNAME", "mine")
    place = place_of(
        "postgresql://ann:p%40ss@db.example:6432/ledger?sslmode=verify-full&sslrootcert=/etc/ca%20s.pem&schema=steps"
    )

    assert (place.name, place.schema, place.connections) == ("postgresql://ann@db.example:6432/ledger", "steps", 5)
    for part in (b"sslmode=verify-full", b"sslrootcert='/etc/ca s.pem'", b"password=p@ss"):
        assert part in place.conninfo
    assert b"application_name" not in place.conninfo


def test_without_psycopg_a_line_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from fencepost.store.open import open_store\n"
        "try: open_store('postgresql://localhost/ledger')\n"
        "except Exception as error: print(error)"
    )
    told = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout

    assert "pip install 'fencepost[postgres]'" in told


def test_a_ledger_on_a_file_needs_no_psycopg() -> None:
    program = "import sys, fencepost, fencepost.store.open, fencepost.cli.main; print('psycopg' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout

    assert told.strip() == "False"


def test_doctor_says_what_rests_on_the_server(postgres: Place) -> None:
    app = App(postgres.url(), workflows=[])
    (missing,) = [check for check in doctor.checks(app, has_code=False) if check.name == "ledger"]
    open_store(postgres.url()).close()
    found = {check.name: check for check in doctor.checks(app, has_code=False)}

    assert "there is no ledger" in missing.says
    assert "fsync=on" in found["durability"].says
    assert "takes up to 5" in found["connections"].says
    assert "a round trip" in found["distance"].says
    assert found["encryption"].says.startswith("none")
    assert found["schema"].says.startswith("number 1")
    assert {check.verdict for name, check in found.items() if name != "deadline"} == {"ok"}
