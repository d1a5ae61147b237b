"""The outside world from Python: starts its process, steers it, and reads its counts.

    with World.start(folder) as world:
        world.configure("tasks", faults=[Fault(do="reset", when="after")])
        ...
        assert world.counts()["tasks"].duplicates == 0

Everything is synchronous and for one thread; only loopback is used. The process ends with the handle, or with the
process that holds it. What the services do is in `service`; what the counts mean is in `counts`.
"""

import http.client
import json
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fencepost.core.duration import microseconds
from fencepost.core.errors import Misuse
from fencepost.testing.world.behaviour import Configure, Fault, Keys, LookUp
from fencepost.testing.world.counts import CollectionSummary, WorldFiles
from fencepost.testing.world.process import Addresses

_ADMIN_SECONDS_MAX = 10.0
_END_SECONDS_MAX = 10.0


@dataclass(frozen=True)
class HttpService:
    """Where a service listens: the base URL, without a slash at its end."""

    url: str


@dataclass(frozen=True)
class MailService:
    """Where the mail server listens: `address` is `host:port` for SMTP, `url` the base URL for look-ups."""

    address: str
    url: str

    @property
    def host(self) -> str:
        """The host of the address."""
        return self.address.rpartition(":")[0]

    @property
    def port(self) -> int:
        """The port of the address."""
        return int(self.address.rpartition(":")[2])


class World:
    """A running outside world; a context manager that ends it."""

    def __init__(self, folder: Path, process: subprocess.Popen[str], addresses: Addresses) -> None:
        self.files = WorldFiles(folder)
        self.tasks = HttpService(addresses.tasks)
        self.books = HttpService(addresses.books)
        self.mail = MailService(addresses.mail_smtp, addresses.mail)
        self._admin = addresses.admin
        self._process = process

    @classmethod
    def start(
        cls,
        folder: Path | str,
        *,
        seed: int = 0,
        settings: Sequence[Configure] = (),
        within: timedelta | str = "20s",
    ) -> Self:
        """Start the process on a folder (made if needed; one that was used before keeps its objects and keys).

        Raises `Misuse` if there can be no such folder, and, with what the process said, if it does not listen `within`
        that time.
        """
        folder = Path(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Misuse(
                f"the world needs a folder of its own: {error.strerror}",
                hint="name a folder that exists or can be made, and no file",
                ids={"folder": str(folder)},
            ) from error
        arguments = ["--folder", str(folder), "--seed", str(seed), "--with-parent"]
        if settings:
            file = folder / "settings.json"
            file.write_text(json.dumps([change.model_dump() for change in settings]), encoding="utf-8")
            arguments += ["--settings", str(file)]
        complaints = folder / "world.stderr"
        with complaints.open("w", encoding="utf-8") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-m", "fencepost.testing.world", *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
            )
        said = _first_line(process, microseconds(within) / 1_000_000)
        if not said:
            _end(process)
            hint = complaints.read_text(encoding="utf-8").strip() or "it said nothing in time"
            raise Misuse("the world did not start", hint=hint, ids={"folder": str(folder)})
        return cls(folder, process, Addresses.model_validate_json(said))

    @property
    def pid(self) -> int:
        """The id of the world's process."""
        return self._process.pid

    # -- steering

    def configure(
        self,
        service: str,
        collection: str = "*",
        *,
        keys: Keys | None = None,
        look_up: LookUp | None = None,
        identity: Sequence[str] | None = None,
        faults: Sequence[Fault] | None = None,
    ) -> None:
        """Change a service's behaviour as `Configure` says; what is None stays. Raises `Misuse` if that cannot be."""
        change = Configure(
            service=service,
            collection=collection,
            keys=keys,
            look_up=look_up,
            identity=None if identity is None else tuple(identity),
            faults=None if faults is None else tuple(faults),
        )
        self._ask("POST", "/configure", change.model_dump())

    def release(self, name: str) -> int:
        """Let all requests go on that are held under this name, and hold no more; returns how many went on."""
        return int(self._ask("POST", "/release", {"name": name})["released"])

    def waiting(self, name: str) -> int:
        """Return how many requests are held under this name now."""
        return int(self._ask("GET", "/waiting").get(name, 0))

    def until_waiting(self, name: str, requests: int = 1, *, within: timedelta | str = "10s") -> None:
        """Return once so many requests are held under this name; raises `TimeoutError`."""
        give_up_at = time.monotonic() + microseconds(within) / 1_000_000
        pause = threading.Event()  # never set: waiting on it passes a moment between two questions
        while (now := self.waiting(name)) < requests:
            if time.monotonic() > give_up_at:
                raise TimeoutError(f"{now} of {requests} requests are held under {name!r} after {within}")
            pause.wait(0.01)

    def advance(self, service: str, by: timedelta | str) -> None:
        """Move a service's clock forward; key windows and look-up lags see it at once."""
        self._ask("POST", "/clock", {"service": service, "seconds": microseconds(by) / 1_000_000})

    # -- reading

    def counts(self) -> dict[str, CollectionSummary]:
        """Return the counts of every collection by its name."""
        return self.files.summary()

    # -- ending

    def kill(self) -> None:
        """End the process with SIGKILL, as a power cut would; its files and their counts remain."""
        self._process.kill()
        _end(self._process)

    def close(self) -> None:
        """End the process with SIGTERM and wait for it; again does nothing."""
        self._process.terminate()
        _end(self._process)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, method: str, path: str, value: object = None) -> dict[str, Any]:
        if self._process.poll() is not None:
            raise Misuse(
                "this world has ended, and cannot be steered any more",
                hint="World.start on the same folder goes on with its objects and keys; counts() can still be read",
                ids={"folder": str(self.files.folder), "pid": str(self.pid)},
            )
        # http.client rather than a client with settings: no proxy from the environment, no retries, no pool.
        connection = http.client.HTTPConnection(self._admin.removeprefix("http://"), timeout=_ADMIN_SECONDS_MAX)
        try:
            connection.request(method, path, None if value is None else json.dumps(value))
            reply = connection.getresponse()
            said: dict[str, Any] = json.loads(reply.read())
        finally:
            connection.close()
        if reply.status != http.HTTPStatus.OK:
            raise Misuse("the world refused", hint=said["error"]["message"], ids={"request": f"{method} {path}"})
        return said


def _first_line(process: subprocess.Popen[str], seconds: float) -> str:
    """Return the process's first line, or '' if it ended or the time is up."""
    said: list[str] = []
    assert process.stdout is not None
    reader = threading.Thread(target=lambda stdout: said.append(stdout.readline()), args=(process.stdout,), daemon=True)
    reader.start()
    reader.join(seconds)
    return said[0] if said else ""


def _end(process: subprocess.Popen[str]) -> None:
    try:
        process.wait(_END_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            stream.close()
