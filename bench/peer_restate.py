"""Measures Restate: its server from npm, and a service of its Python SDK that hypercorn serves in a process of its own.

Each step is a `run` of the handler; clients call the handler over the server's HTTP ingress and wait for its result.
The server pushes, so that nothing can be enqueued without being worked on: mode `queue` times sending and working
together. Several processes are hypercorn's workers. Its recovery and what it writes are not measured here.
"""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
import restate

from bench import ports
from bench.child import ROOT
from bench.load import by_tasks, emit_history, emit_ten, emit_wake
from bench.modes import BODY_SECONDS, CONCURRENCIES, STEPS, emit, parser, request

PEER = "restate"
_PROGRAM = "node_modules/.bin/restate-server"
_AWAITED = "BENCH_RESTATE_AWAITED"
_RUNS = 150
_WAKES = 30
_REST_SECONDS = 0.1
_LOOK_AGAIN_SECONDS = 0.005
_PATIENCE_SECONDS = 120.0

service = restate.Service("Bench")


def _counted(number: int) -> Callable[[], Awaitable[int]]:
    async def count() -> int:
        return number + 1

    return count


def _waited(number: int) -> Callable[[], Awaitable[int]]:
    async def wait() -> int:
        await asyncio.sleep(BODY_SECONDS)
        return number + 1

    return wait


@service.handler()
async def ten(context: restate.Context, steps: int) -> int:
    """One run of as many steps, each fed with the result of the one before it."""
    number = 0
    for position in range(steps):
        number = await context.run_typed(f"count-{position}", _counted(number))
    return number


@service.handler()
async def waiting(context: restate.Context, steps: int) -> int:
    """The same with steps that wait."""
    number = 0
    for position in range(steps):
        number = await context.run_typed(f"wait-{position}", _waited(number))
    return number


@service.handler()
async def woken(context: restate.Context) -> float:
    """Waits for its awakeable, whose id it writes into a file, and returns when it went on."""
    awaited, woken_up = context.awakeable()

    async def tell() -> int:
        await asyncio.to_thread(Path(os.environ[_AWAITED]).write_text, awaited, "utf-8")
        return 0

    await context.run_typed("tell", tell)
    await woken_up
    return time.time()


app = restate.app([service])
"""What hypercorn serves."""


class Restate:
    """A running server with the service registered."""

    def __init__(self, state: Path, ingress: int, admin: int) -> None:
        self.state = state
        self._ingress = f"http://127.0.0.1:{ingress}"
        self._admin = f"http://127.0.0.1:{admin}"

    @property
    def awaited(self) -> Path:
        """Where a waiting handler leaves the id of its awakeable."""
        return self.state / "awaited"

    def register(self, port: int) -> None:
        """Tell the server of a service."""
        body = {"uri": f"http://127.0.0.1:{port}", "force": True}
        httpx.post(f"{self._admin}/deployments", json=body, timeout=_PATIENCE_SECONDS).raise_for_status()

    @asynccontextmanager
    async def clients(self) -> AsyncIterator[Callable[..., Awaitable[Any]]]:
        """`call(path, argument)`: one call, awaited; without `asks` it is a POST."""
        limits = httpx.Limits(max_connections=300)
        async with httpx.AsyncClient(base_url=self._ingress, timeout=_PATIENCE_SECONDS, limits=limits) as client:

            async def call(path: str, argument: object = None, *, asks: bool = False) -> Any:
                body = {} if argument is None else {"json": argument}
                answer = await client.request("GET" if asks else "POST", path, **body)
                answer.raise_for_status()
                return answer.json() if answer.content else None

            yield call


@contextmanager
def running(state: Path) -> Iterator[Restate]:
    """Restate's server on an empty folder."""
    ingress, admin, node = (ports.free() for _ in range(3))
    settings = {
        "RESTATE_INGRESS__BIND_ADDRESS": f"127.0.0.1:{ingress}",
        "RESTATE_ADMIN__BIND_ADDRESS": f"127.0.0.1:{admin}",
        "RESTATE_LOG_FILTER": "error",
        "DO_NOT_TRACK": "1",
    }
    where = ["--base-dir", str(state / "restate"), "--listen-mode", "tcp", "--bind-ip", "127.0.0.1"]
    program = str(Path(sys.executable).parent.parent / _PROGRAM)
    arguments = [program, "--no-logo", *where, "--bind-port", str(node)]
    with ports.serving(arguments, ingress, state / "server.log", {**os.environ, **settings}):
        yield Restate(state, ingress, admin)


@contextmanager
def served(server: Restate, processes: int = 1) -> Iterator[None]:
    """The service in so many processes, registered; one is served by hypercorn's own process."""
    port = ports.free()
    workers = str(0 if processes == 1 else processes)
    arguments = [sys.executable, "-m", "hypercorn", "--bind", f"127.0.0.1:{port}", "--workers", workers]
    surroundings = {**os.environ, _AWAITED: str(server.awaited), "PYTHONPATH": str(ROOT)}
    log = server.state / f"service-{processes}.log"
    with ports.serving([*arguments, "bench.peer_restate:app"], port, log, surroundings):
        server.register(port)
        yield


async def measure(server: Restate, seconds: float) -> None:
    """Prints the lines of mode `ten`."""
    async with server.clients() as call:

        async def one_run() -> None:
            assert await call("/Bench/ten", STEPS) == STEPS

        await one_run()
        for concurrency in CONCURRENCIES:
            emit_ten(PEER, concurrency, await by_tasks(one_run, concurrency, seconds))
    emit(PEER, "about", version=f"{version('restate-sdk')} (SDK)", settings="server's defaults, own log")


async def timed(server: Restate, handler: str, runs: int) -> tuple[float, float]:
    """Seconds to send so many calls, ten at a time, and from the first sending to the last end."""
    async with server.clients() as call:
        numbers, sent = iter(range(runs)), list[str]()

        async def client() -> None:
            for _ in numbers:
                sent.append((await call(f"/Bench/{handler}/send", STEPS))["invocationId"])

        begun = time.perf_counter()
        await asyncio.gather(*(client() for _ in range(10)))
        sending = time.perf_counter() - begun
        attached = (call(f"/restate/invocation/{invocation}/attach", asks=True) for invocation in sent)
        results = await asyncio.gather(*attached)
        assert results == [STEPS] * runs
        return sending, time.perf_counter() - begun


async def wake_ups(server: Restate) -> list[float]:
    """Seconds from resolving an awakeable to the moment when its handler goes on."""
    seconds = []
    async with server.clients() as call:
        for _ in range(_WAKES):
            server.awaited.unlink(missing_ok=True)
            handler = asyncio.create_task(call("/Bench/woken"))  # type: ignore[arg-type]  # an awaitable of our own
            while not server.awaited.exists() or not server.awaited.read_text("utf-8"):  # noqa: ASYNC110 - a file
                await asyncio.sleep(_LOOK_AGAIN_SECONDS)
            await asyncio.sleep(_REST_SECONDS)
            awakeable, sent = server.awaited.read_text("utf-8"), time.time()
            await call(f"/restate/awakeables/{awakeable}/resolve", 1)
            seconds.append(await handler - sent)
    return seconds


def history(server: Restate) -> None:
    """Prints the lines of mode `history`."""

    async def run_of(steps: int) -> None:
        async with server.clients() as call:
            assert await call("/Bench/ten", steps) == steps

    emit_history(PEER, lambda steps: asyncio.run(run_of(steps)))


def main() -> None:
    """Prints the lines of the mode that the command line names."""
    asked = request(parser("peer_restate", ("ten", "history", "queue", "processes", "wake")))
    with ExitStack() as stack:
        server = stack.enter_context(running(asked.state))
        if asked.mode == "processes":
            for processes in (1, 2):
                with served(server, processes):
                    _, seconds = asyncio.run(timed(server, "waiting", _RUNS))
                rate = _RUNS * STEPS / seconds
                emit(PEER, "processes", processes=processes, runs=_RUNS, steps_per_s=rate)
            return
        stack.enter_context(served(server))
        if asked.mode == "ten":
            asyncio.run(measure(server, asked.seconds))
        elif asked.mode == "wake":
            emit_wake(PEER, asyncio.run(wake_ups(server)))
        elif asked.mode == "history":
            history(server)
        else:
            sending, seconds = asyncio.run(timed(server, "ten", _RUNS))
            emit(PEER, "queue", runs=_RUNS, enqueue_per_s=_RUNS / sending, steps_per_s=_RUNS * STEPS / seconds)


if __name__ == "__main__":
    main()
