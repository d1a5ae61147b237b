"""Counts what another client really sends while a `call.sending(client=...)` block is open in this task or thread.

It uses what each client offers for looking on: botocore's `before-send` event, the request hooks of httpx and httpx2
(also inside of openai's and anthropic's clients), the adapters of a requests session with their `urllib3.Retry`. The
hook stays on the client and does nothing outside of such a block. Counted are tries, so a connect that failed may be
among them. A client without a hook is not countable; which of them repeat at all is `repeaters`.
"""

from __future__ import annotations

import copy
import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from fencepost.effects.http_errors import is_connect_failure
from fencepost.effects.repeaters import layers_in, nearest

_hooking = threading.Lock()
"""Held while a hook is put on: two threads that share a client must not put on two."""

_told: ContextVar[Callable[[], None] | None] = ContextVar("fencepost_sends", default=None)


@contextmanager
def counting(client: Any, tell: Callable[[], None]) -> Iterator[bool]:
    """Call `tell` for each try of this client to send while inside; False if it offers no way to look on."""
    hook = nearest(type(client), _HOOKS)
    try:
        with _hooking:
            countable = hook is not None and hook(client)
    except Exception:  # noqa: BLE001 - another version of the library is built otherwise
        countable = False
    token = _told.set(tell)
    try:
        yield countable
    finally:
        _told.reset(token)


def _sent() -> None:
    tell = _told.get()
    if tell is not None:
        tell()


# -- botocore ---------------------------------------------------------------------------------------------------------


def _botocore(client: Any) -> bool:
    client.meta.events.register("before-send", _before_send, unique_id="fencepost-sends")  # twice does nothing
    return True


def _before_send(**_about: Any) -> None:
    _sent()


def _boto3_resource(resource: Any) -> bool:
    return _botocore(resource.meta.client)


# -- httpx, httpx2, and what is built on them -------------------------------------------------------------------------


def _on_request(_request: Any) -> None:
    _sent()


async def _on_request_async(_request: Any) -> None:
    _sent()


def _httpx(client: Any) -> bool:
    hook = _on_request_async if hasattr(client, "aclose") else _on_request
    hooks = client.event_hooks["request"]
    if hook not in hooks:
        hooks.append(hook)
    return not layers_in(client)  # a transport that repeats does it below the hook


def _openai(client: Any) -> bool:
    return _httpx(client._client)  # noqa: SLF001 - its HTTP client has no other name


# -- requests ---------------------------------------------------------------------------------------------------------


def _requests(session: Any) -> bool:
    adapters = {id(adapter): adapter for adapter in session.adapters.values()}.values()
    for adapter in adapters:
        if not hasattr(adapter.send, "__wrapped__"):
            adapter.max_retries = _telling(adapter.max_retries)
            adapter.send = _telling_send(adapter.send)
    return True


def _telling_send(send: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(send)
    def telling(*args: Any, **kwargs: Any) -> Any:
        _sent()
        return send(*args, **kwargs)

    return telling


def _telling(retry: Any) -> Any:
    """The same `urllib3.Retry`, which says so each time that it has a request sent once more."""
    kind = type(retry)

    def increment(self: Any, *args: Any, **kwargs: Any) -> Any:
        again = kind.increment(self, *args, **kwargs)  # raises where it is not to be sent again
        if not is_connect_failure(again.history[-1].error):
            _sent()
        return again

    told = copy.copy(retry)
    told.__class__ = type(kind.__name__, (kind,), {"increment": increment})
    return told


_HOOKS: dict[str, Callable[[Any], bool]] = {
    "anthropic.BaseClient": _openai,
    "boto3.ServiceResource": _boto3_resource,
    "botocore.BaseClient": _botocore,
    "httpx.BaseClient": _httpx,
    "httpx2.BaseClient": _httpx,
    "openai.BaseClient": _openai,
    "requests.Session": _requests,
}
