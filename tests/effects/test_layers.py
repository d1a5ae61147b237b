"""Each layer under a step that retries by itself is named, with how often it sends, and multiplied out.

Stand-ins have the names and attributes of the libraries' classes; the real ones are looked into at the end.
"""

import asyncio
import functools
import importlib
import types

import boto3
import httpx2
import pytest
import requests
import urllib3
from botocore.config import Config
from requests.adapters import HTTPAdapter

from fencepost.core.contract import Retry
from fencepost.effects.call import SyncCall
from fencepost.effects.declare import effect, read
from fencepost.effects.layers import stack_of
from fencepost.effects.repeaters import Layer, layers_in


def sends(client) -> list[int | None]:
    return [layer.sends for layer in layers_in(client)]


def on(adapter: HTTPAdapter) -> requests.Session:
    session = requests.Session()
    session.mount("https://", adapter)
    return session


def aws(**config):
    kept = {"region_name": "eu-north-1", "aws_access_key_id": "made-up", "aws_secret_access_key": "made-up"}
    return boto3.client("sqs", config=Config(**config), **kept)


# -- what each client does by itself ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("client", "expected"),
    [
        (aws(), [3]),
        (aws(retries={"mode": "legacy"}), [5]),
        (aws(retries={"max_attempts": 6}), [7]),
        (aws(retries={"total_max_attempts": 1}), []),
        (requests.Session(), []),
        (on(HTTPAdapter(max_retries=3)), [4]),
        (on(HTTPAdapter(max_retries=urllib3.Retry(total=None, read=2, status=1, other=0))), [4]),
        (on(HTTPAdapter(max_retries=urllib3.Retry(total=None))), [None]),
        (on(HTTPAdapter(max_retries=urllib3.Retry(connect=5, read=0, status=0, other=0))), []),  # sends nothing twice
        (urllib3.PoolManager(), [4]),
        (urllib3.PoolManager(retries=False), []),
        (urllib3.PoolManager(retries=urllib3.Retry(1)), [2]),
        (httpx2.Client(trust_env=False), []),
        (httpx2.Client(transport=httpx2.HTTPTransport(retries=4)), []),  # it connects again, and sends once
        (Layer("tool server", 3, "its own settings"), [3]),
        (Layer("broker", None, "acks"), [None]),
        (Layer("gone", 1, ""), []),
        (object(), []),
        (boto3, []),
    ],
)
def test_a_client_sends_this_often_by_itself(client, expected):
    assert sends(client) == expected


def test_what_is_named_says_how_to_switch_it_off_and_for_which_requests():
    (layer,) = layers_in(on(HTTPAdapter(max_retries=2)))
    assert (layer.name, layer.off) == ("requests.Session on https://", "HTTPAdapter(max_retries=0)")
    assert "POST" not in layer.only


def test_one_adapter_on_two_prefixes_is_one_layer():
    session, adapter = requests.Session(), HTTPAdapter(max_retries=1)
    session.mount("https://", adapter)
    session.mount("http://", adapter)
    assert sends(session) == [2]


# -- stand-ins --------------------------------------------------------------------------------------------------------


def stand_in(module: str, name: str, **attributes: object) -> object:
    """An object of a class of that name in that module."""
    return type(name, (), {"__module__": module, **attributes})()


def test_stand_in_for_openai_and_anthropic_is_looked_into_with_its_http_client():
    retrying = stand_in("httpx_retries", "RetryTransport", retry=types.SimpleNamespace(total=4))
    http = stand_in("httpx", "BaseClient", _transport=retrying, _mounts={})
    for package in ("openai", "anthropic"):
        client = stand_in(f"{package}._base_client", "BaseClient", max_retries=2, _client=http)
        assert sends(client) == [3, 5]
        quiet = stand_in(f"{package}._base_client", "BaseClient", max_retries=0, _client=None)
        assert sends(quiet) == []


def test_stand_in_for_stripe_as_a_module_and_as_a_client():
    module = types.ModuleType("stripe")
    module.max_network_retries = 2
    assert sends(module) == [3]
    module.max_network_retries = 0
    assert sends(module) == []
    options = types.SimpleNamespace(_options=types.SimpleNamespace(max_network_retries=4))
    assert sends(stand_in("stripe._stripe_client", "StripeClient", _requestor=options)) == [5]


def test_stand_in_for_a_library_whose_inside_has_changed_is_said_not_to_be_read():
    (layer,) = layers_in(stand_in("openai._base_client", "BaseClient"))
    assert (layer.sends, layer.cannot_be_read, layer.name) == (None, True, "openai.BaseClient")


REPEATERS = {
    "tenacity": """
def repeated(f, stop):
    @wraps(f)
    def wrapped_f(*args, **kwargs): return f(*args, **kwargs)
    wrapped_f.retry = SimpleNamespace(stop=stop)
    return wrapped_f
""",
    "backoff": """
def repeated(f, max_tries):
    @wraps(f)
    def retry(*args, **kwargs): return f(max_tries)
    return retry
""",
    "stamina": """
def repeated(f, stop):
    retry_ctx = SimpleNamespace(_t_kw={"stop": stop})
    @wraps(f)
    def sync_inner(*args, **kwargs): return f(retry_ctx)
    return sync_inner
""",
}


def repeated_by(library: str, function, how):
    made = types.ModuleType(library)
    made.__dict__.update(wraps=functools.wraps, SimpleNamespace=types.SimpleNamespace)
    exec(REPEATERS[library], made.__dict__)  # noqa: S102 - the source is above
    return made.repeated(function, how)


def charge_by_hand() -> None:
    """What a decorator stands around."""


AT_THREE = types.SimpleNamespace(max_attempt_number=3)
BY_CLOCK = types.SimpleNamespace(max_delay=30.0)
EITHER = types.SimpleNamespace(stops=(AT_THREE, BY_CLOCK))
BOTH = stand_in("tenacity.stop", "stop_all", stops=(AT_THREE, BY_CLOCK))


@pytest.mark.parametrize(
    ("library", "how", "expected"),
    [
        ("tenacity", AT_THREE, [3]),
        ("tenacity", EITHER, [3]),
        ("tenacity", BOTH, [None]),
        ("tenacity", BY_CLOCK, [None]),
        ("backoff", 4, [4]),
        ("backoff", None, [None]),
        ("stamina", EITHER, [3]),
    ],
)
def test_stand_in_for_a_decorator_that_repeats(library, how, expected):
    assert sends(repeated_by(library, charge_by_hand, how)) == expected
    twice = repeated_by("backoff", repeated_by(library, charge_by_hand, how), 2)
    assert sends(twice) == [2, *expected]


# -- what is under a step ---------------------------------------------------------------------------------------------

QUEUE = aws()
TWICE = on(HTTPAdapter(max_retries=1))


def post_invoice() -> None:
    TWICE.get("https://invoices.example")


@effect(on_unknown="hold", retry=Retry(attempts=5, within="1m"))
def send(call: SyncCall, text: str) -> None:
    QUEUE.send_message(QueueUrl="q", MessageBody=text)
    post_invoice()


@effect(on_unknown="hold", retry=Retry(attempts=4, within="1m"), clients=[QUEUE, Layer("tool server", 2, "its flag")])
def declared(call: SyncCall, text: str) -> None:
    """Mentions nothing."""


@read()
def count(call: SyncCall) -> int:
    return TWICE.get("https://invoices.example").status_code


def test_what_a_body_mentions_is_found_also_through_functions_of_its_package():
    stack = stack_of(send)
    assert stack.sends == 5 * 3 * 2
    assert str(stack).startswith("5 attempts × ")
    assert str(stack).endswith(" = 30 sends per operation at most")
    assert 'boto3 sqs: Config(retries={"total_max_attempts": 1})' in stack.off


def test_what_is_declared_is_multiplied_and_a_client_named_twice_counts_once():
    assert str(stack_of(declared, around=[QUEUE])) == (
        "4 attempts × 3 (boto3 sqs) × 2 (tool server) = 24 sends per operation at most"
    )


def test_what_stands_around_effects_is_not_around_a_read():
    assert stack_of(count, around=[Layer("broker", None, "")]).sends == 5 * 2
    assert stack_of(send, around=[Layer("broker", None, "")]).sends is None


# -- the real libraries -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["openai.OpenAI", "openai.AsyncOpenAI", "anthropic.Anthropic"])
def test_openai_and_anthropic(name):
    package, _, kind = name.partition(".")
    make = getattr(importlib.import_module(package), kind)
    (layer,) = layers_in(make(api_key="made-up"))
    assert (layer.name, layer.sends, layer.off) == (name, 3, f"{kind}(max_retries=0)")
    assert sends(make(api_key="made-up", max_retries=0)) == []


def test_stripe():
    import stripe

    assert sends(stripe) == [3]
    assert sends(stripe.StripeClient("made-up", max_network_retries=4)) == [5]


def test_tenacity_backoff_and_stamina():
    import backoff
    import stamina
    import tenacity

    async def charge_async() -> None:
        pass

    for function in (charge_by_hand, charge_async):
        assert sends(tenacity.retry(stop=tenacity.stop_after_attempt(3))(function)) == [3]
        assert sends(tenacity.retry(function)) == [None]
        assert sends(backoff.on_exception(backoff.expo, OSError, max_tries=4)(function)) == [4]
        assert sends(stamina.retry(on=OSError, attempts=6)(function)) == [6]
    assert sends(tenacity.Retrying(stop=tenacity.stop_after_attempt(2))) == [2]


def test_aiohttp():
    import aiohttp

    async def look() -> list[list[int | None]]:
        async with aiohttp.ClientSession() as one:
            kept = sends(one)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as one:
            return [kept, sends(one)]

    assert asyncio.run(look()) == [[2], []]
