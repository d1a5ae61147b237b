"""Which clients and functions send again by themselves, how often at most, and how to switch that off.

One small function per library, found by the name of a class and the package that defines it, so that nothing is
imported to look. What a client keeps to itself (a gRPC channel its service config, a broker its redelivery) cannot be
seen here: its user declares it as a `Layer`. Multiplying them out is `layers`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any, TypeVar

from fencepost.core.errors import DeclarationError

T = TypeVar("T")


UNREADABLE = "cannot be read"
"""What stands for the requests that a client repeats, where its settings are not found."""


@dataclass(frozen=True, slots=True)
class Layer:
    """Something under an effect, or around all of them, that may send one request several times by itself.

    `sends`: how often at most, the first time included; None: without end. `off`: how to switch it off. `only`: the
    requests to which it does that, if not to all. Declare one for what cannot be seen from here:
    `Layer("celery", sends=4, off="@app.task(max_retries=0, acks_late=False)")`.
    """

    name: str
    sends: int | None
    off: str
    only: str = ""

    @property
    def cannot_be_read(self) -> bool:
        """Whether it is a client whose settings were not found where they were looked for: it may repeat or not."""
        return self.only == UNREADABLE

    def __post_init__(self) -> None:
        """Refuse what cannot be meant: who sends at all sends once."""
        if self.sends is not None and self.sends < 1:
            raise DeclarationError(
                f"layer {self.name} sends {self.sends} times", hint="count the first send too; None is without end"
            )


def layers_in(client: Any) -> list[Layer]:
    """The layers that repeat in this client, function, module or declared `Layer`; none if it sends once.

    Clients inside of clients are looked into. One whose inside looks otherwise than it did when this was written is a
    layer of which nobody can tell how often it sends: `cannot_be_read`.
    """
    look = nearest(type(client), _LOOKS)
    try:
        return [] if look is None else [layer for layer in look(client) if layer.sends != 1]
    except Exception:  # noqa: BLE001 - another version of the library keeps its settings elsewhere
        return [Layer(_named(client), None, "look into its own documents; this version is not known here", UNREADABLE)]


def nearest(kind: type, table: Mapping[str, T]) -> T | None:
    """What the table has for the nearest of the classes of `kind`, written "package.Class"; None if for none."""
    for each in kind.__mro__:
        found = table.get(f"{str(each.__module__).partition('.')[0]}.{each.__name__}")
        if found is not None:
            return found
    return None


def _declared(layer: Layer) -> Iterator[Layer]:
    yield layer


def _named(client: Any) -> str:
    kind = type(client)
    return f"{kind.__module__.partition('.')[0]}.{kind.__qualname__}"


# -- provider libraries -----------------------------------------------------------------------------------------------


def _openai(client: Any) -> Iterator[Layer]:
    name = _named(client)
    yield Layer(name, client.max_retries + 1, f"{name.rpartition('.')[2]}(max_retries=0)")
    yield from layers_in(client._client)  # noqa: SLF001 - its HTTP client has no other name


def _stripe(client: Any) -> Iterator[Layer]:
    again = client._requestor._options.max_network_retries  # noqa: SLF001 - it tells it nowhere else
    yield Layer("stripe.StripeClient", (again or 0) + 1, "StripeClient(max_network_retries=0)")


def _module(module: ModuleType) -> Iterator[Layer]:
    again = getattr(module, "max_network_retries", 0) if module.__name__ == "stripe" else 0
    if isinstance(again, int) and again > 0:
        yield Layer("stripe", again + 1, "stripe.max_network_retries = 0")


_AWS_ATTEMPTS = {"legacy": 5, "standard": 3, "adaptive": 3}


def _botocore(client: Any) -> Iterator[Layer]:
    retries, service = client.meta.config.retries, client.meta.service_model.service_name
    usual = 10 if (retries["mode"], service) == ("legacy", "dynamodb") else _AWS_ATTEMPTS[retries["mode"]]
    sends = retries.get("total_max_attempts", usual)
    yield Layer(f"boto3 {service}", sends, 'Config(retries={"total_max_attempts": 1})')


def _boto3_resource(resource: Any) -> Iterator[Layer]:
    yield from _botocore(resource.meta.client)


# -- HTTP libraries ---------------------------------------------------------------------------------------------------


def _requests(session: Any) -> Iterator[Layer]:
    seen: set[int] = set()
    for prefix, adapter in session.adapters.items():
        if id(adapter) not in seen:
            seen.add(id(adapter))
            yield from _adapter(adapter, f"requests.Session on {prefix}")


def _adapter(adapter: Any, name: str = "requests.HTTPAdapter") -> Iterator[Layer]:
    yield _urllib3_retry(adapter.max_retries, name, "HTTPAdapter(max_retries=0)")


def _urllib3(manager: Any) -> Iterator[Layer]:
    given = manager.connection_pool_kw.get("retries")
    name, off = "urllib3.PoolManager", "PoolManager(retries=False)"
    if hasattr(given, "total"):
        yield _urllib3_retry(given, name, off)
    elif given is not False:
        yield Layer(name, (3 if given is None else given) + 1, off, _USUAL_METHODS)


_USUAL_METHODS = "DELETE, GET, HEAD, OPTIONS, PUT, TRACE"


def _urllib3_retry(retry: Any, name: str, off: str) -> Layer:
    """How often a `urllib3.Retry` lets a request out; connects that fail send nothing, and are not counted."""
    again: float = sum(float("inf") if each is None else int(each) for each in (retry.read, retry.status, retry.other))
    if retry.total is not None:
        again = min(again, int(retry.total))
    only = ", ".join(sorted(retry.allowed_methods)) if retry.allowed_methods else ""
    return Layer(name, None if again == float("inf") else int(again) + 1, off, only)


def _httpx(client: Any) -> Iterator[Layer]:
    """Transports that retry; httpx's own connects again at most, which sends nothing twice."""
    for transport in (client._transport, *client._mounts.values()):  # noqa: SLF001 - a client does not show them
        total = getattr(getattr(transport, "retry", None), "total", None)  # as in httpx-retries
        if isinstance(total, int):
            yield Layer(_named(transport), total + 1, "a client without this transport")


def _aiohttp(session: Any) -> Iterator[Layer]:
    connector = session.connector
    if session._retry_connection and not (connector is not None and connector.force_close):  # noqa: SLF001 - as above
        off = "TCPConnector(force_close=True), or POST"
        yield Layer("aiohttp.ClientSession", 2, off, f"{_USUAL_METHODS} on a kept connection")


def _aiohttp_retry(client: Any) -> Iterator[Layer]:
    yield Layer("aiohttp_retry.RetryClient", client.retry_options.attempts, "aiohttp.ClientSession in its place")


# -- functions that are called again ----------------------------------------------------------------------------------


def _function(function: FunctionType) -> Iterator[Layer]:
    """The repeating decorators around a function, outermost first."""
    seen: set[int] = set()
    here: Any = function
    while isinstance(here, FunctionType) and id(here) not in seen:
        seen.add(id(here))
        yield from _decorator(here)
        here = getattr(here, "__wrapped__", None)


def _decorator(function: FunctionType) -> Iterator[Layer]:
    made_by = str(function.__globals__.get("__name__", "")).partition(".")[0]
    if made_by not in ("tenacity", "backoff", "stamina"):
        return
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    kept = {name: cell.cell_contents for name, cell in cells}
    name, off = f"{made_by} around {function.__name__}", f"leave the {made_by} decorator out"
    if made_by == "tenacity":
        yield Layer(name, _stops_after(getattr(getattr(function, "retry", None), "stop", None)), off)
    elif made_by == "stamina":
        yield Layer(name, _stops_after(kept["retry_ctx"]._t_kw["stop"]), off)  # noqa: SLF001 - it shows it nowhere
    else:
        tries = kept.get("max_tries")
        yield Layer(name, tries if isinstance(tries, int) else None, off)


def _retrying(controller: Any) -> Iterator[Layer]:
    yield Layer("tenacity.Retrying", _stops_after(controller.stop), "leave it out")


def _stops_after(stop: Any) -> int | None:
    """After how many calls tenacity stops for sure; None: it need not, or only a clock stops it."""
    limit = getattr(stop, "max_attempt_number", None)
    if isinstance(limit, int):
        return limit
    limits = [_stops_after(one) for one in getattr(stop, "stops", ())]
    known = [one for one in limits if one is not None]
    if type(stop).__name__ == "stop_all":
        return max(known) if known and len(known) == len(limits) else None
    return min(known, default=None)


_LOOKS: dict[str, Callable[[Any], Iterator[Layer]]] = {
    "aiohttp.ClientSession": _aiohttp,
    "aiohttp_retry.RetryClient": _aiohttp_retry,
    "anthropic.BaseClient": _openai,
    "boto3.ServiceResource": _boto3_resource,
    "botocore.BaseClient": _botocore,
    "builtins.function": _function,
    "builtins.module": _module,
    "fencepost.Layer": _declared,
    "httpx.BaseClient": _httpx,
    "httpx2.BaseClient": _httpx,
    "openai.BaseClient": _openai,
    "requests.HTTPAdapter": _adapter,
    "requests.Session": _requests,
    "stripe.StripeClient": _stripe,
    "tenacity.BaseRetrying": _retrying,
    "urllib3.PoolManager": _urllib3,
}
