"""The blocking face of something async: the same methods, run to their end on an event loop in a thread of its own.

No method is written twice. One loop thread serves a whole process; it is a daemon and starts at the first use. What
takes a caller's connection never waits, and is run on the caller's own thread.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from functools import wraps
from typing import Any, Self, TypeVar

from fencepost.store.callers import at_once

T = TypeVar("T")


class Portal:
    """An event loop in a daemon thread, to which other threads hand coroutines."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and return its result, or raise its error, on this thread."""
        return asyncio.run_coroutine_threadsafe(work, self._running()).result()

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="fencepost-portal", daemon=True).start()
            return self._loop


_PORTAL = Portal()


class Blocking:
    """`x.sync`: every async method of `x`, blocking; async context managers become plain ones."""

    def __init__(self, served: Any) -> None:
        self._served = served

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(name for name in dir(self._served) if not name.startswith("_"))})

    def __repr__(self) -> str:
        return f"<blocking {self._served!r}>"

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._served, name)
        if not callable(found):
            return found.sync if hasattr(type(found), "sync") else found  # what groups more methods, as schedules do
        return _blocking(found)

    def __enter__(self) -> Self:
        _PORTAL.run(self._served.__aenter__())
        return self

    def __exit__(self, *exc: object) -> None:
        _PORTAL.run(self._served.__aexit__(*exc))


class _BlockingContext:
    def __init__(self, served: AbstractAsyncContextManager[Any]) -> None:
        self._served = served

    def __enter__(self) -> Any:
        return _PORTAL.run(self._enter())

    async def _enter(self) -> Any:
        return await self._served.__aenter__()

    def __exit__(self, *exc: object) -> None:
        _PORTAL.run(self._leave(*exc))

    async def _leave(self, *exc: object) -> None:
        await self._served.__aexit__(*exc)  # type: ignore[arg-type]  # what a with statement hands on


def _blocking(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        made = method(*args, **kwargs)
        if inspect.iscoroutine(made):
            made = at_once(made) if kwargs.get("connection") is not None else _PORTAL.run(made)
        if isinstance(made, AbstractAsyncContextManager) and not hasattr(made, "sync"):
            return _BlockingContext(made)
        return Blocking(made) if _has_async(made) else made

    return call


def _has_async(made: object) -> bool:
    """Whether what came back has async methods of its own (a handle)."""
    return any(inspect.iscoroutinefunction(getattr(type(made), name, None)) for name in ("result", "perform"))
