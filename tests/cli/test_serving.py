"""`fencepost console`: a process that serves over loopback, says where, and refuses to hand out tokens in the clear."""

import os
import signal
import subprocess
from contextlib import contextmanager

import httpx2
import pytest

from tests.cli.conftest import SHOP
from tests.cli.test_processes import FENCEPOST
from tests.polling import until

CONSOLE = (*FENCEPOST, "console", SHOP)


def test_the_console_says_where_it_is_and_serves_whoever_has_a_token(fencepost, db, started):
    started("greet", "you")
    made = fencepost("token", "make", "ann", "--role", "viewer", "--db", db, "--reason", "to look", "--by", "ann")
    with subprocess.Popen(
        [*CONSOLE, "--db", db, "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as served:
        try:
            told = served.stdout.readline().decode()
            place = told.split()[-1]
            assert place.startswith("http://127.0.0.1:")
            reply = httpx2.get(f"{place}/runs", headers={"Authorization": f"Bearer {made.out.strip()}"})
            assert [run["id"] for run in reply.json()["runs"]] == ["run-1"]
            assert httpx2.get(f"{place}/runs/SECRET").status_code == 401
        finally:
            os.kill(served.pid, signal.SIGINT)
        written = b"".join(served.communicate(timeout=20))
    assert served.returncode == 0, written
    assert b"SECRET" not in written
    assert made.out.strip().encode() not in written


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "example.org"])  # noqa: S104 - it is refused
def test_another_address_is_refused_without_tls_or_a_proxy(fencepost, db, started, host):
    started("greet", "you")
    refused = fencepost("console", SHOP, "--db", db, "--port", "0", "--host", host)
    assert refused.code == 1
    assert "tokens would pass in the clear" in refused.err


def test_the_first_start_prints_a_link_and_later_there_are_invitations(fencepost, db, started, tmp_path):
    started("greet", "you")
    with served_into(tmp_path / "first", db) as (place, said):
        link = said[-1].split()[-1]
        assert link.startswith(f"{place}/sign-in?link=")
        assert come_in(link) == "/"
        assert come_in(link) == "/sign-in"
    assert fencepost("account", "--db", db).out == ""
    who = ("--reason", "why not", "--by", "ann", "--db", db)
    with served_into(tmp_path / "second", db) as (place, said):
        assert len(said) == 1
        invited = fencepost("account", "invite", "vic", "--role", "viewer", "--at", place, *who).out.strip()
        assert come_in(invited, "a password of vic") == "/"
    assert "vic" in fencepost("account", "--db", db).out
    assert fencepost("account", "close", "vic", *who).code == 0
    assert fencepost("account", "close", "vic", *who).code != 0


@contextmanager
def served_into(file, db):
    """A console whose words go into a file: where it is, and what it has said once it serves."""
    with file.open("w") as words, subprocess.Popen([*CONSOLE, "--db", db, "--port", "0"], stdout=words) as console:
        try:
            place = until(file.read_text, "its first word").split()[4].removesuffix("/api/v1")
            assert until(lambda: _answers(place), "it to serve")
            yield place, file.read_text().splitlines()
        finally:
            os.kill(console.pid, signal.SIGINT)
            assert console.wait(20) == 0


def _answers(place):
    try:
        return httpx2.get(f"{place}/health").status_code == 200
    except httpx2.TransportError:
        return False


def come_in(link, password=""):
    """Use a link as a browser does; where that leads."""
    origin, _, secret = link.partition("/sign-in?link=")
    with httpx2.Client(follow_redirects=True, timeout=20) as browser:
        fields = {"link": secret, "new_password": password}
        return browser.post(f"{origin}/sign-in", data=fields, headers={"Origin": origin}).url.path
