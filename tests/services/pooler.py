"""A pooler between the tests and their server: PgBouncer, which lends a server connection per transaction.

Started like the server, in a temporary folder, on a Unix socket, as an unprivileged user. Which server it stands
before is the fixture's matter.
"""

import os
import shutil
import signal
import subprocess

from tests.polling import until
from tests.services.postgres import Cluster, NotHere, room, unprivileged

HOW_TO_GET_IT = "`apt-get install -y pgbouncer` brings it on Debian"


class Pooler:
    """A running PgBouncer before `server`, with two server connections for everybody."""

    def __init__(self, server: Cluster) -> None:
        program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
        if program is None:
            raise NotHere(f"PgBouncer is not on this machine; {HOW_TO_GET_IT}")
        as_user = unprivileged()
        self.folder = room("fencepost-pooler-", as_user)
        settings = {
            "listen_addr": "", "unix_socket_dir": self.folder, "listen_port": 6432, "auth_type": "any",
            "pool_mode": "transaction", "default_pool_size": 2, "max_client_conn": 100,
            "ignore_startup_parameters": "extra_float_digits,options", "pidfile": self.folder / "pid",
        }  # fmt: skip
        lines = [
            "[databases]", f"* = host={server.folder} user=fencepost", "[pgbouncer]",
            *(f"{name} = {value}" for name, value in settings.items()),
        ]  # fmt: skip
        file = self.folder / "pgbouncer.ini"
        file.write_text("\n".join(lines), "utf-8")
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen([*as_user, program, "-q", str(file)], stdout=log, stderr=log)
        until(self._is_ready, "PgBouncer to listen")

    def _is_ready(self) -> bool:
        if self._process.poll() is not None:
            raise NotHere(f"PgBouncer did not start: {(self.folder / 'log').read_text('utf-8')[-2_000:]}")
        return (self.folder / ".s.PGSQL.6432").exists()

    def url(self, schema: str, **parameters: str | int) -> str:
        """The url of a ledger behind it."""
        more = "".join(f"&{name}={value}" for name, value in parameters.items())
        return f"postgresql:///postgres?host={self.folder}&port=6432&user=fencepost&schema={schema}{more}"

    def remove(self) -> None:
        """Stop it and delete its folder."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(30)
        shutil.rmtree(self.folder, ignore_errors=True)
