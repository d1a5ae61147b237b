"""`fencepost console`: a process that serves over loopback, says where, and refuses to hand out tokens in the clear."""

import os
import signal
import subprocess

import httpx2
import pytest

from tests.cli.conftest import SHOP
from tests.cli.test_processes import FENCEPOST

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
