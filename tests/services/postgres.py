"""A PostgreSQL server of one's own: a throwaway cluster in a temporary folder, on a Unix socket, with fsync on.

PostgreSQL refuses to run as root, so that root starts it as the user `postgres`, or as `nobody`. `start` says in one
sentence what is missing where it cannot. Who uses it is `fixtures`' matter.
"""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psycopg

from tests.polling import until

# Debian keeps the server's programs out of PATH, one folder per version.
DEBIAN = Path("/usr/lib/postgresql")
HOW_TO_GET_IT = "`apt-get install -y postgresql` brings it on Debian; any PATH with initdb and postgres will do"


class NotHere(Exception):
    """This machine has no PostgreSQL server that could be started; the message says what is missing."""


def programs() -> Path:
    """The folder of `initdb` and `postgres`; the newest version's."""
    if found := shutil.which("initdb"):
        folder = Path(found).resolve().parent
        if all((folder / program).exists() for program in ("postgres", "pg_isready")):
            return folder
    versions = [folder for folder in DEBIAN.glob("*/bin") if (folder / "initdb").exists()]
    if not versions:
        raise NotHere(f"PostgreSQL's server programs are not on this machine; {HOW_TO_GET_IT}")
    return max(versions, key=lambda folder: int(folder.parent.name))


def unprivileged() -> list[str]:
    """What to put before a command so that PostgreSQL accepts its user: nothing, unless this is root."""
    if os.geteuid() != 0:
        return []
    for name in ("postgres", "nobody"):
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        if setpriv := shutil.which("setpriv"):
            return [setpriv, f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "--"]
    raise NotHere("PostgreSQL does not run as root, and there is neither setpriv nor a user to run it as")


def room(prefix: str, as_user: Sequence[str]) -> Path:
    """A new temporary folder that belongs to whoever will work in it."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    if as_user:
        uid, gid = (int(part.partition("=")[2]) for part in as_user[1:3])
        os.chown(folder, uid, gid)
    return folder


class Cluster:
    """A running server; `url(name)` names a database on it, `remove` ends it and removes its folder.

    `environment` is what its processes find in theirs beside this one's.
    """

    def __init__(self, settings: Sequence[str] = (), environment: Mapping[str, str] | None = None) -> None:
        self._bin, self._as_user = programs(), unprivileged()
        self.folder = room("fencepost-pg-", self._as_user)
        self.settings = list(settings)
        self._environment = {**os.environ, **(environment or {})}
        self._server: subprocess.Popen[bytes] | None = None
        try:
            self._fill()
            self.start()
        except BaseException:
            self.remove()
            raise

    def _fill(self) -> None:
        """Make the data folder."""
        self.run(
            "initdb", "--pgdata", str(self.data), "--username=fencepost", "--auth=trust", "--encoding=UTF8",
            "--locale=C.UTF-8", "--no-instructions",
        )  # fmt: skip

    @property
    def data(self) -> Path:
        """The data folder."""
        return self.folder / "data"

    port = 5432
    """Of the Unix socket, whose name it is a part of; nothing else listens, unless `settings` says so."""

    def url(self, database: str = "postgres", *, user: str = "fencepost", more: str = "") -> str:
        """The url of a database on this server; `more` is appended to its parameters."""
        return f"postgresql:///{database}?host={self.folder}&port={self.port}&user={user}{more}"

    def start(self) -> None:
        """Start the server and wait until it takes connections."""
        command = [str(self._bin / "postgres"), "-D", str(self.data), "-k", str(self.folder)]
        options = ["listen_addresses=", f"port={self.port}", "fsync=on", "max_connections=200", *self.settings]
        log = (self.folder / "log").open("ab")
        with log:
            self._server = subprocess.Popen(
                [*self._as_user, *command, *(part for option in options for part in ("-c", option))],
                stdout=log, stderr=log, cwd=self.folder, start_new_session=True, env=self._environment,
            )  # fmt: skip
        until(self.is_ready, "PostgreSQL to take connections", seconds_max=60)

    def is_ready(self) -> bool:
        """Whether it takes connections; raises `NotHere` once it has ended."""
        assert self._server is not None
        if self._server.poll() is not None:
            raise NotHere(f"PostgreSQL did not start: {(self.folder / 'log').read_text('utf-8')[-2_000:]}")
        asked = [str(self._bin / "pg_isready"), "--quiet", "--host", str(self.folder), "--port", str(self.port)]
        return subprocess.run(asked, check=False).returncode == 0

    def has_ended(self) -> bool:
        """Whether the server has stopped by itself."""
        return self._server is not None and self._server.poll() is not None

    def ask(self, question: str, *values: object) -> list[tuple[Any, ...]]:
        """What the server answers on a connection of its own."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            asked = connection.execute(question.encode(), values or None)
            return asked.fetchall() if asked.description else []

    def connections(self, application: str) -> int:
        """How many connections of this application_name there are."""
        question = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"
        return int(self.ask(question, application)[0][0])

    def kill_connections(self, application: str) -> int:
        """End the connections of this application_name from the server's side; how many there were."""
        question = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"
        return len(self.ask(question, application))

    def stop(self, how: int = signal.SIGINT) -> None:
        """Stop the server: SIGINT lets it write its checkpoint, SIGQUIT stops it as a crash would."""
        if self._server is not None:
            self._server.send_signal(how)
            self._server.wait(60)
            self._server = None

    def restart(self, how: int = signal.SIGQUIT) -> None:
        """Stop and start it again; by default as after a crash."""
        self.stop(how)
        self.start()

    def remove(self) -> None:
        """Stop the server and delete everything."""
        self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, program: str, *arguments: str) -> None:
        """Run one of PostgreSQL's programs as the server's user."""
        command = [*self._as_user, str(self._bin / program), *arguments]
        done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=self.folder)
        if done.returncode:
            raise NotHere(f"{program} failed: {done.stderr.strip()}")


class Standby(Cluster):
    """A copy of a running server that follows it, and answers reads, until it is promoted."""

    def __init__(self, primary: Cluster) -> None:
        self._primary = primary
        super().__init__(primary.settings)

    def _fill(self) -> None:
        self.run(
            "pg_basebackup", "--pgdata", str(self.data), "--host", str(self._primary.folder), "--username=fencepost",
            "--checkpoint=fast", "--write-recovery-conf",
        )  # fmt: skip

    def falls_behind(self) -> None:
        """Follow no more: what the primary commits from now on is not here."""
        self.ask("ALTER SYSTEM SET primary_conninfo = ''")
        self.ask("SELECT pg_reload_conf()")
        until(lambda: not self.ask("SELECT 1 FROM pg_stat_wal_receiver"), "the standby to follow no more")

    def catches_up(self) -> None:
        """Wait until everything that the primary has committed is here."""
        there = self._primary.ask("SELECT pg_current_wal_lsn()")[0][0]
        until(lambda: self.ask("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", there)[0][0], "the standby to catch up")

    def promote(self) -> None:
        """Take writes from now on."""
        self.ask("SELECT pg_promote()")
