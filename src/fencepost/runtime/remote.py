"""The app of a service that has no access to the ledger: it starts, signals and waits over a console's HTTP API.

`App("https://…", workflows=[...], token=...)` makes one. Arguments and results are written and read by the same doors
as at the ledger, so they are as typed, and errors are those that an app at the ledger raises. It works on no run and
reads no ledger: whatever needs one says so. The other end is `fencepost.console`.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import secrets
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlsplit

import httpx2

from fencepost.core import errors
from fencepost.core.duration import SECOND, microseconds, spelled
from fencepost.core.errors import FencepostError, Misuse, NotPermitted, StoreUnavailable
from fencepost.core.identity import canonical, check_name, check_run_id
from fencepost.core.records import Run, Signal
from fencepost.core.states import RunState, SignalState
from fencepost.effects.values import Door
from fencepost.runtime.app import App
from fencepost.runtime.handle import Handle
from fencepost.runtime.workflow import Workflow

if TYPE_CHECKING:
    from fencepost.effects.declare import Duration
    from fencepost.runtime.host import Host

R = TypeVar("R")

API = "/api/v1"

LOOK_WITHIN = 20
"""Seconds for which one request waits at the console for a run to be over."""

TIMEOUT = httpx2.Timeout(10, read=LOOK_WITHIN + 20)

_PROBLEMS = {
    kind.__name__.lower(): kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, FencepostError)
}
_NO_TOKEN = 401
_FORBIDDEN = 403
_OUR_FAULT = range(400, 500)


class RemoteApp(App):
    """An app over HTTP; see `App`. What stands in `workflows` is started and read by it, and worked on elsewhere."""

    _client: httpx2.AsyncClient | None = None
    _loop: asyncio.AbstractEventLoop | None = None

    @property
    def host(self) -> Host:
        """There is none.

        Raises:
            Misuse: always.
        """
        raise Misuse(
            f"the app on {self.url} has no ledger of its own",
            hint="over HTTP it starts, signals and waits; do the rest with an app on the ledger's own url, or over "
            "the API itself",
        )

    async def close(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    # -- runs ---------------------------------------------------------------------------------------------------------

    async def start(
        self,
        workflow: Workflow[..., R],
        *args: Any,
        id: str,
        on_behalf_of: str | None = None,
        connection: Any = None,
        queue: str | None = None,
        queue_key: str | None = None,
        priority: int = 0,
        delay: str | timedelta | None = None,
        dedup: str | None = None,
        **kwargs: Any,
    ) -> Handle[R]:
        """`App.start`, by the console. A reply that is lost leaves nothing in doubt: the same start is the same run."""
        if connection is not None:
            raise Misuse("a transaction of yours does not reach over HTTP", hint="leave connection= out")
        if self.workflows.get((workflow.name, workflow.version)) is not workflow:
            raise Misuse(f"{workflow!r} is not one of this app's workflows", hint="pass it to App(workflows=[...])")
        text, _ = workflow.encode(args, kwargs)
        form = {
            "workflow": workflow.name,
            "version": workflow.version,
            "id": check_run_id(id),
            "input": json.loads(text),
            "on_behalf_of": on_behalf_of,
            "queue": queue,
            "queue_key": queue_key,
            "priority": priority,
            "delay": None if delay is None else spelled(microseconds(delay, what="delay")),
            "dedup": dedup,
        }
        told = await self._asked("POST", "/runs", form)
        return RemoteHandle(self, _begun(told["run"]), workflow.results)

    async def signal(
        self,
        run_id: str,
        name: str,
        value: Any,
        *,
        id: str | None = None,
        sender: str = "",
        by: str | None = None,
        reason: str = "",
    ) -> Signal:
        """`App.signal`, by the console: in the name of the token's holder, whatever `sender` or `by` would say."""
        del sender, by
        payload = Door(Any if value is None else type(value), where=f"signal {name}").encode(value)
        form = {
            "name": check_name(name, what="signal name"),
            "value": json.loads(payload),
            "id": id or secrets.token_hex(16),
            "reason": reason,
        }
        told = await self._asked("POST", f"/runs/{_part(run_id)}/signal", form)
        return Signal(told["signal"], told["name"], payload, SignalState(told["state"]), 0)

    async def handle(self, run_id: str) -> Handle[Any]:
        """`App.handle`."""
        run = await self._find(run_id)
        declared = self.workflows.get((run.workflow, run.workflow_version))
        return RemoteHandle(self, run, None if declared is None else declared.results)

    async def _find(self, run_id: str) -> Run:
        return await self.look(run_id, within=0)

    async def look(self, run_id: str, *, within: int) -> Run:
        """The run once it is over or held, or as it is after so many seconds. Raises `RunNotFound`."""
        return _outcome(await self._asked("GET", f"/outcomes/{_part(run_id)}?within={within}"))

    # -- HTTP ---------------------------------------------------------------------------------------------------------

    async def _asked(self, method: str, path: str, form: Mapping[str, Any] | None = None) -> Any:
        """The answer of the console.

        Raises:
            FencepostError: what the console says is wrong, as the error that an app at the ledger raises.
            StoreUnavailable: it cannot be reached, or failed.
        """
        body = None if form is None else canonical(dict(form)).encode()
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self.token or ''}"}
        try:
            reply = await self._connections().request(method, f"{API}{path}", content=body, headers=headers)
        except httpx2.TransportError as error:
            raise StoreUnavailable(
                f"the console does not answer: {type(error).__name__}: {error}".rstrip(": "),
                hint="a start or signal that is sent again under its id counts once",
                ids={"console": self.url},
            ) from error
        if not reply.is_success:
            raise _raised(reply, self.url)
        return reply.json()

    def _connections(self) -> httpx2.AsyncClient:
        """The client, of the event loop that runs: `app.sync` has another one than a service."""
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            self._client = httpx2.AsyncClient(base_url=_checked(self.url, self.token), timeout=TIMEOUT)
            self._loop = loop
        return self._client


class RemoteHandle(Handle[R]):
    """One run, from outside, over HTTP."""

    async def left(self, *, within: Duration | None) -> Run:
        """The run once it has ended or is held; as it is when the time is over."""
        app = self._app
        assert isinstance(app, RemoteApp), "it has made this handle"
        loop = asyncio.get_running_loop()
        until = None if within is None else loop.time() + microseconds(within, what="within") / SECOND
        while True:
            rest = LOOK_WITHIN if until is None else min(LOOK_WITHIN, max(0, round(until - loop.time() + 0.5)))
            run = await app.look(self.id, within=rest)
            if run.ended_at is not None or run.state is RunState.HELD or (until is not None and loop.time() >= until):
                return run


def is_remote(url: str) -> bool:
    """Whether an app's url leads to a console, and not to a ledger."""
    return url.lower().startswith(("https://", "http://"))


def _checked(url: str, token: str | None) -> str:
    """The url, if a token may be sent there."""
    parts = urlsplit(url)
    if not token:
        raise Misuse(
            "no token to call with", hint="pass token=, or set FENCEPOST_TOKEN; `fencepost token make` shows one"
        )
    if parts.scheme.lower() == "http" and not _is_here(parts.hostname or ""):
        raise Misuse(
            f"tokens are not sent to {parts.hostname} in the clear", hint="use https://, or a console on this machine"
        )
    return url.rstrip("/")


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _part(run_id: str) -> str:
    return quote(check_run_id(run_id), safe="")


def _raised(reply: httpx2.Response, url: str) -> FencepostError:
    """The error that a problem document tells of."""
    try:
        told = reply.json()
        name = str(told.get("type", "")).rpartition(":")[2].replace("-", "")
    except (ValueError, AttributeError):
        told, name = {}, ""
    message = str(told.get("detail") or f"the console answers {reply.status_code}")
    hint, ids = str(told.get("hint", "")), {str(key): str(value) for key, value in dict(told.get("ids", {})).items()}
    for flaw in told.get("errors", ()):
        message += f"; {flaw['at']}: {flaw['what']}"
    kind = _PROBLEMS.get(name)
    if kind is None:
        status = reply.status_code
        kind = (
            NotPermitted if status in (_NO_TOKEN, _FORBIDDEN) else Misuse if status in _OUR_FAULT else StoreUnavailable
        )
    return kind(message, hint=hint, ids=ids or {"console": url})


def _begun(row: Mapping[str, Any]) -> Run:
    """The run of a row, as far as a handle needs it."""
    return Run(
        0, "", row["id"], row["workflow"], row["workflow_version"], "", "", RunState(row["state"]), row["generation"],
        row["version"], 0, 0, turn=row["turn"],
    )  # fmt: skip


def _outcome(told: Mapping[str, Any]) -> Run:
    """The run as it was left, as far as a handle reads it: texts are JSON again."""
    run = _begun(told["run"])
    run.ended_at = 0 if told["over"] else None
    run.result = None if told["result"] is None else json.dumps(told["result"]["value"])
    run.error = None if told["error"] is None else json.dumps(told["error"])
    run.hold = None if told["run"]["hold"] is None else json.dumps(told["run"]["hold"])
    run.cancel = None if not told["cancelled"] else "{}"
    return run
