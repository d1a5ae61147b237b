"""An etcd of one's own: a throwaway server on a port that the kernel chose, with its data in a temporary folder.

`start` says in one sentence what is missing where it cannot. Which tests run on it is the matter of their conftest.
"""

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2

from tests.polling import until

HOW_TO_GET_IT = "`apt-get install -y etcd-server` brings it on Debian; any PATH with etcd will do"


@contextmanager
def started(folder: Path) -> Iterator[str]:
    """A running server's address; LookupError says what is missing."""
    program = shutil.which("etcd")
    if program is None:
        raise LookupError(f"etcd is not on this machine; {HOW_TO_GET_IT}")
    clients, peers = _free_address(), _free_address()
    with (folder / "etcd.log").open("wb") as log:
        server = subprocess.Popen(
            [
                program, "--name", "one", "--data-dir", str(folder / "etcd"),
                "--listen-client-urls", clients, "--advertise-client-urls", clients,
                "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers,
                "--initial-cluster", f"one={peers}",
            ],
            stdout=log, stderr=log,
        )  # fmt: skip
    try:
        until(lambda: _is_healthy(clients) or server.poll() is not None, "etcd to be healthy", seconds_max=30)
        if server.poll() is not None:
            raise LookupError(f"etcd did not start: {(folder / 'etcd.log').read_text('utf-8')[-1_000:]}")
        yield clients
    finally:
        server.kill()
        server.wait()


def _free_address() -> str:
    """An address that nobody listens at; etcd does not take port 0."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"http://127.0.0.1:{free.getsockname()[1]}"


def _is_healthy(address: str) -> bool:
    try:
        return httpx2.get(f"{address}/health", trust_env=False, timeout=1).json().get("health") == "true"
    except httpx2.HTTPError:
        return False
