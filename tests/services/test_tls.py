"""A server behind TLS: its certificate is checked before anything is said to it, and what is wrong with it is said."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from fencepost import Run, workflow
from fencepost.core.errors import StoreUnavailable
from fencepost.store import postgres_open
from fencepost.store.open import open_store, schema_at
from tests.cli.conftest import SHOP
from tests.polling import until
from tests.runtime.stage import asked, keyed, once, played, target, working
from tests.services.encrypted import ELSEWHERE, HOST, SECRET, Authority, Encrypted
from tests.services.fixtures import started


@workflow()
async def three(run: Run, name: str) -> str:
    await run.do(keyed(f"{name} keyed"))
    await run.do(once(f"{name} once"))
    return await run.do(asked(f"{name} asked"))


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority("one")


@pytest.fixture(scope="module")
def server(authority: Authority) -> Iterator[Encrypted]:
    server = started(lambda: Encrypted(authority))
    yield server
    server.remove()


@pytest.fixture
def root(authority: Authority, tmp_path: Path) -> Path:
    """The file of the authority that has signed the server's certificate."""
    file = tmp_path / "root.crt"
    file.write_bytes(authority.certificate)
    return file


def test_a_server_that_is_trusted_is_spoken_to_under_tls(server: Encrypted, root: Path) -> None:
    open_store(server.trusting(root)).close()

    assert postgres_open.facts_at(server.trusting(root)).is_encrypted


def test_a_server_that_is_not_trusted_is_told_nothing_and_what_is_wrong_is_said(
    server: Encrypted, root: Path, tmp_path: Path, fencepost, caplog
) -> None:
    caplog.set_level(logging.DEBUG)
    foreign = tmp_path / "foreign.crt"
    foreign.write_bytes(Authority("two").certificate)
    trusted = server.trusting(root)
    wrong = {
        server.trusting(foreign): ("not trusted", "certificate verify failed"),
        server.trusting(root, ELSEWHERE): ("not trusted", f'"{HOST}" does not match host name "{ELSEWHERE}"'),
        server.trusting(tmp_path / "nowhere.crt"): ("not trusted", "nowhere.crt"),
        trusted.replace("sslmode=verify-full", "sslmode=disable"): ("does not let this user in", "no encryption"),
        trusted.replace(SECRET, "anothers3cr"): ("does not let this user in", "password authentication failed"),
        trusted.replace("/postgres?", "/nowhere?"): ("does not let this user in", 'database "nowhere" does not exist'),
    }
    for url, says in wrong.items():
        for command in (["runs"], ["worker", SHOP], ["doctor"]):
            ended = fencepost(*command, "--db", url)
            assert ended.code == (3 if command == ["doctor"] else 5)
            said = ended.err + ended.out
            assert [part for part in says if part not in said] == []
            assert "s3cr" not in said + caplog.text


def test_a_server_that_speaks_no_tls_any_more_is_not_trusted(server: Encrypted, root: Path, fencepost) -> None:
    server.ask("ALTER SYSTEM SET ssl = off")
    server.ask("SELECT pg_reload_conf()")
    try:
        until(lambda: "does not support SSL" in fencepost("runs", "--db", server.trusting(root)).err, "TLS to be off")
        assert "not trusted" in fencepost("runs", "--db", server.trusting(root)).err
    finally:
        server.ask("ALTER SYSTEM RESET ssl")
        server.ask("SELECT pg_reload_conf()")


def is_trusted(url: str) -> bool:
    with suppress(StoreUnavailable):
        return schema_at(url) is not None
    return False


@played
async def test_workers_send_nothing_while_the_server_shows_another_certificate_and_then_go_on(
    server: Encrypted, authority: Authority, root: Path
) -> None:
    target.reset()
    async with working(server.trusting(root) + "&application_name=wary", three, patience="1s") as app:
        assert await (await app.start(three, "a", id="a")).result(within="10s") == "made a asked"
        server.present(Authority("two").sign(HOST))
        await asyncio.to_thread(until, lambda: not is_trusted(server.trusting(root)), "the other certificate")
        server.kill_connections("wary")
        with pytest.raises(StoreUnavailable, match=r"'b' still waits|not trusted"):
            await app.start(three, "b", id="b")
        assert len(target.requests) == 3
        server.present(authority.sign(HOST))
        assert await (await app.start(three, "b", id="b")).result(within="20s") == "made b asked"
    assert sorted(target.objects) == sorted(f"{name} {step}" for name in "ab" for step in ("keyed", "once", "asked"))
