"""What the errors of provider libraries prove. By stand-ins for each shape of an error, and by the libraries.

A stand-in has the module, function and variable names that the reader looks for in a traceback, and nothing else; the
same reader is held against the real libraries at the end.
"""

import asyncio
import calendar
import importlib
import sys
import types
from collections.abc import Callable, Iterator
from email.utils import formatdate

import boto3
import botocore.exceptions
import httpx2
import psycopg
import pytest
import requests
import urllib3
from botocore.config import Config
from requests.adapters import HTTPAdapter

from fencepost.core.classify import Reading
from fencepost.core.contract import DEFINITE_STATUSES, Contract
from fencepost.core.duration import SECOND
from fencepost.core.states import Outcome
from fencepost.effects.classifiers import read_client_error
from tests.effects.peer import Peer, peer, read_request
from tests.effects.test_classifiers import NOW, answer_once, answering, error_of, refusing

CONTRACT = Contract("charge")
NOTHING_LEFT = Reading(Outcome.NOT_APPLIED, retryable=True)
REFUSED_FOR_GOOD = Reading(Outcome.NOT_APPLIED, retryable=False)
UNRESOLVED = Reading(Outcome.UNRESOLVED, retryable=True)

__all__ = ["refusing"]  # a fixture


def read(error: BaseException, contract: Contract = CONTRACT) -> Reading | None:
    return read_client_error(error, contract, now=NOW)


@pytest.fixture
def target() -> Iterator[Peer]:
    with peer(holds=65536) as it:
        yield it


def refusal(status: str, *headers: str, body: bytes = b"{}") -> bytes:
    lines = "".join(f"{header}\r\n" for header in headers)
    head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{lines}content-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def in_turn(*texts: bytes) -> Callable[..., None]:
    """Answer one request after the other, over all connections; an empty text: hang up."""
    left = list(texts)

    def answer(connection) -> None:
        while read_request(connection):
            text = left.pop(0)
            if not text:
                connection.close()
                return
            connection.sendall(text)

    return answer


# -- boto3 ------------------------------------------------------------------------------------------------------------


def queue(url: str, attempts: int = 1, **more: object):
    return boto3.client(
        "sqs",
        endpoint_url=url,
        region_name="eu-north-1",
        aws_access_key_id="made-up",
        aws_secret_access_key="made-up",
        config=Config(retries={"total_max_attempts": attempts, "mode": "standard"}, read_timeout=1, **more),
    )


def put(client) -> BaseException:
    return error_of(lambda: client.send_message(QueueUrl="http://q.example/1", MessageBody="hi"))


def aws(code: str, status: str = "400 Bad", *headers: str) -> bytes:
    return refusal(status, *headers, body=f'{{"__type":"{code}","message":"no"}}'.encode())


def test_boto3_that_cannot_connect_has_sent_nothing(refusing):
    assert read(put(queue(refusing))) == NOTHING_LEFT


def test_boto3_that_was_told_nonsense_has_sent_nothing(refusing):
    assert read(error_of(lambda: queue(refusing).send_message(QueueUrl=7))) == REFUSED_FOR_GOOD


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (aws("InvalidMessageContents"), REFUSED_FOR_GOOD),
        (aws("ThrottlingException"), NOTHING_LEFT),
        (aws("RequestTimeout"), UNRESOLVED),
        (aws("ConflictException", "409 Conflict"), UNRESOLVED),
        (aws("ServiceUnavailable", "503 Later"), UNRESOLVED),
        (b"", UNRESOLVED),
    ],
)
def test_boto3_refusals_of_the_only_send_are_proof_where_the_contract_counts_them(target, answer, expected):
    target.serve(in_turn(answer))
    assert read(put(queue(target.url))) == expected


def test_a_refusal_of_boto3s_second_send_proves_nothing(target):
    target.serve(in_turn(b"", aws("InvalidMessageContents")))
    assert read(put(queue(target.url, attempts=2))).outcome is Outcome.UNRESOLVED


def test_a_connect_that_fails_after_boto3_had_sent_proves_nothing(target):
    answer_once(target, b"")
    error = put(queue(target.url, attempts=2))
    assert isinstance(error, botocore.exceptions.EndpointConnectionError)
    assert read(error) == UNRESOLVED


def test_boto3_carries_the_pause_that_the_target_asks_for(target):
    target.serve(in_turn(aws("Throttled", "429 Slow", "retry-after: 7")))
    assert read(put(queue(target.url))) == Reading(Outcome.NOT_APPLIED, retryable=True, retry_after=7 * SECOND)


# -- HTTP clients: what all replies share -----------------------------------------------------------------------------


def post(url: str) -> BaseException:
    return error_of(lambda: requests.post(url, data=b"x", timeout=5).raise_for_status())


def dates_in_all_forms() -> list[str]:
    then = formatdate((NOW + 40 * SECOND) / SECOND, usegmt=True)  # Sun, 06 Nov 1994 08:49:37 GMT
    day, (number, month, year, clock, _) = then[:3], then[5:].split()
    longer = next(name for name in calendar.day_name if name.startswith(day))
    return [
        then,
        f"{longer}, {number}-{month}-{year[2:]} {clock} GMT",
        f"{day} {month} {int(number):2d} {clock} {year}",
    ]


@pytest.mark.parametrize("header", dates_in_all_forms())
def test_a_pause_is_read_in_each_form_that_a_date_may_have(target, header):
    target.serve(answering(refusal("429 Slow", f"Retry-After: {header}")))
    assert read(post(target.url)).retry_after == 40 * SECOND


@pytest.mark.parametrize("status", ["425 Early", "429 Slow", "503 Later"])
def test_a_status_that_asks_to_come_back_is_proof_only_where_the_contract_says_so(target, status):
    target.serve(answering(refusal(status, "Retry-After: 3")))
    for definite in (frozenset(), DEFINITE_STATUSES | {425, 503}):
        found = read(post(target.url), Contract("charge", definite=definite))
        outcome = Outcome.NOT_APPLIED if definite else Outcome.UNRESOLVED
        assert found == Reading(outcome, retryable=True, retry_after=3 * SECOND)


@pytest.mark.parametrize(
    ("answer", "waits"),
    [
        (refusal("409 Conflict", "Retry-After: 1"), True),
        (refusal("409 Conflict", body=b'{"error":{"code":"idempotency_key_in_use"}}'), True),
        (refusal("409 Conflict", body=b'{"error":"version conflict"}'), False),
    ],
)
@pytest.mark.parametrize("send", [post, lambda url: error_of(lambda: _post_httpx2(url))])
def test_a_conflict_with_a_request_in_progress_waits_and_any_other_is_looked_up(target, send, answer, waits):
    target.serve(answering(answer))
    found = read(send(target.url))
    assert (found.outcome, found.in_progress) == (Outcome.UNRESOLVED, waits)


def _post_httpx2(url: str) -> None:
    httpx2.post(url, content=b"x", trust_env=False).raise_for_status()


@pytest.mark.parametrize("status", ["400 Bad", "500 Oops"])
def test_a_stored_failure_that_is_replayed_is_recognised(target, status):
    target.serve(answering(refusal(status, "Idempotent-Replayed: true")))
    assert read(post(target.url)).replayed


def test_a_refusal_after_urllib3_had_repeated_the_request_proves_nothing(target):
    """The first DELETE was received, and may well be why there is nothing to delete."""
    target.serve(in_turn(b"", refusal("404 Missing")))
    with requests.Session() as session:
        session.mount("http://", HTTPAdapter(max_retries=urllib3.Retry(2, backoff_factor=0)))
        error = error_of(lambda: session.delete(target.url, timeout=5).raise_for_status())
    assert error.response.status_code == 404
    assert read(error).outcome is Outcome.UNRESOLVED


# -- psycopg ----------------------------------------------------------------------------------------------------------


def test_psycopg_that_cannot_connect_has_sent_nothing(refusing):
    port = refusing.split(":")[2].rstrip("/")
    assert read(error_of(lambda: psycopg.connect(f"postgresql://127.0.0.1:{port}/x"))) == NOTHING_LEFT


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (psycopg.errors.UniqueViolation, REFUSED_FOR_GOOD),
        (psycopg.errors.UndefinedTable, REFUSED_FOR_GOOD),
        (psycopg.errors.SerializationFailure, NOTHING_LEFT),
        (psycopg.errors.DeadlockDetected, NOTHING_LEFT),
        (psycopg.errors.LockNotAvailable, NOTHING_LEFT),
        (psycopg.errors.StatementCompletionUnknown, UNRESOLVED),
        (psycopg.errors.AdminShutdown, UNRESOLVED),
        (psycopg.errors.ConnectionFailure, UNRESOLVED),
        (psycopg.OperationalError, UNRESOLVED),
    ],
)
def test_psycopg_says_what_the_server_gave_up(error, expected):
    def fails() -> None:
        raise error("no")

    assert read(error_of(fails)) == expected


# -- stand-ins --------------------------------------------------------------------------------------------------------


@pytest.fixture
def stand_in() -> Iterator[Callable[[str, str], types.ModuleType]]:
    """Makes a module of the given name from source, known to nobody else."""
    made: list[str] = []

    def make(name: str, source: str) -> types.ModuleType:
        module = types.ModuleType(name)
        exec(source, module.__dict__)  # noqa: S102 - the source is below
        made.append(name)
        return module

    yield make
    assert not any(name in sys.modules and not hasattr(sys.modules[name], "__file__") for name in made)


SDK = """
class APIStatusError(Exception):
    def __init__(self, response): self.response = response
class APIConnectionError(Exception): pass
def request(send, retries_taken=0, chain=None):
    try:
        response = send()
    except Exception as err:
        raise APIConnectionError() from err
    raise APIStatusError(response)
"""


@pytest.mark.parametrize("package", ["openai", "anthropic"])
@pytest.mark.parametrize(("retries", "first"), [(0, True), (1, False)])
def test_stand_in_for_openai_and_anthropic_proves_only_without_retry(stand_in, package, retries, first, refusing):
    sdk = stand_in(f"{package}._base_client", SDK)
    response = httpx2.Response(429, headers={"retry-after-ms": "1500"}, content=b"{}")
    found = read(error_of(lambda: sdk.request(lambda: response, retries)))
    outcome = Outcome.NOT_APPLIED if first else Outcome.UNRESOLVED
    assert found == Reading(outcome, retryable=True, retry_after=3 * SECOND // 2)
    error = error_of(lambda: sdk.request(lambda: httpx2.post(refusing, content=b"x", trust_env=False), retries))
    assert read(error) == (NOTHING_LEFT if first else UNRESOLVED)


def test_stand_in_for_anthropic_with_middleware_proves_nothing(stand_in):
    sdk = stand_in("anthropic._base_client", SDK)
    error = error_of(lambda: sdk.request(lambda: httpx2.Response(400, content=b"{}"), chain=[print]))
    assert read(error).outcome is Outcome.UNRESOLVED


STRIPE = """
class StripeError(Exception):
    def __init__(self, http_status, headers=None, http_body=None):
        self.http_status, self.headers, self.http_body = http_status, headers or {}, http_body
class Options:
    def __init__(self, max_network_retries): self.max_network_retries = max_network_retries
class Requestor:
    def __init__(self, retries): self._options = Options(retries)
def request(error, retries, options=None):
    requestor = Requestor(retries)
    raise error
"""


@pytest.mark.parametrize(("retries", "options", "proves"), [
    (0, None, True), (2, None, False), (2, {"max_network_retries": 0}, True), (0, {"max_network_retries": 1}, False),
])  # fmt: skip
def test_stand_in_for_stripe_proof_only_where_it_may_not_repeat(stand_in, retries, options, proves):
    stripe = stand_in("stripe._api_requestor", STRIPE)
    found = read(error_of(lambda: stripe.request(stripe.StripeError(400), retries, options)))
    assert found.outcome is (Outcome.NOT_APPLIED if proves else Outcome.UNRESOLVED)


def test_stand_in_for_stripe_conflicts_and_replays(stand_in):
    stripe = stand_in("stripe._api_requestor", STRIPE)
    busy = stripe.StripeError(409, http_body='{"error": {"code": "idempotency_key_in_use"}}')
    assert read(error_of(lambda: stripe.request(busy, 0))).in_progress
    stored = stripe.StripeError(500, {"Idempotent-Replayed": "true"})
    found = read(error_of(lambda: stripe.request(stored, 0)))
    assert (found.outcome, found.replayed) == (Outcome.UNRESOLVED, True)


AIOHTTP = """
class ClientConnectorError(OSError): pass
class ServerDisconnectedError(Exception): pass
class ClientResponseError(Exception):
    def __init__(self, method, status, history=(), headers=None):
        self.request_info = type("Info", (), {"method": method})
        self.status, self.history, self.headers = status, history, headers
def _request(error, method="POST", history=(), effective_middlewares=(), retry_persistent_connection=False):
    raise error
"""


def test_stand_in_for_aiohttp(stand_in):
    aio = stand_in("aiohttp.client", AIOHTTP)
    unsent = aio.ClientConnectorError()
    again = {"method": "PUT", "retry_persistent_connection": False}
    for arguments, expected in (
        ({}, NOTHING_LEFT),
        ({"history": ["a redirect"]}, UNRESOLVED),
        ({"effective_middlewares": [print]}, UNRESOLVED),
        (again, UNRESOLVED),
        (again | {"retry_persistent_connection": True}, NOTHING_LEFT),
    ):
        unsent.__traceback__ = None
        assert read(error_of(lambda arguments=arguments: aio._request(unsent, **arguments))) == expected
    assert read(unsent.with_traceback(None)) == UNRESOLVED
    assert read(error_of(lambda: aio._request(aio.ServerDisconnectedError()))) == UNRESOLVED
    refused = aio.ClientResponseError("POST", 429, headers={"Retry-After": "5"})
    assert read(refused) == Reading(Outcome.NOT_APPLIED, retryable=True, retry_after=5 * SECOND)
    assert read(aio.ClientResponseError("DELETE", 404)).outcome is Outcome.UNRESOLVED  # perhaps its own second
    assert read(aio.ClientResponseError("POST", 404, history=("303",))).outcome is Outcome.UNRESOLVED


GRPC = """
class _InactiveRpcError(Exception):
    def __init__(self, code, details="", trailing=()):
        self._code, self._details, self._trailing = code, details, trailing
    def code(self): return type("Code", (), {"name": self._code})
    def details(self): return self._details
    def trailing_metadata(self): return self._trailing
def __call__(error): raise error
"""


@pytest.mark.parametrize(
    ("code", "details", "expected"),
    [
        ("INVALID_ARGUMENT", "", REFUSED_FOR_GOOD),
        ("RESOURCE_EXHAUSTED", "quota", NOTHING_LEFT),
        ("RESOURCE_EXHAUSTED", "CLIENT: Received message larger than max (5 vs. 4)", UNRESOLVED),
        ("ABORTED", "", UNRESOLVED),
        ("UNAVAILABLE", "failed to connect to all addresses", UNRESOLVED),
        ("DEADLINE_EXCEEDED", "", UNRESOLVED),
        ("CANCELLED", "", UNRESOLVED),
    ],
)
def test_stand_in_for_grpc(stand_in, code, details, expected):
    channel = stand_in("grpc._channel", GRPC)
    error = channel._InactiveRpcError(code, details)
    assert read(error_of(lambda: channel.__call__(error))) == expected


def test_stand_in_for_grpc_pause_and_interceptor(stand_in):
    channel = stand_in("grpc._channel", GRPC)
    pushed = channel._InactiveRpcError("RESOURCE_EXHAUSTED", trailing=(("grpc-retry-pushback-ms", "2000"),))
    assert read(error_of(lambda: channel.__call__(pushed))).retry_after == 2 * SECOND
    between = stand_in("grpc._interceptor", "def continuation(call): call()")
    refused = channel._InactiveRpcError("NOT_FOUND")
    error = error_of(lambda: between.continuation(lambda: channel.__call__(refused)))
    assert read(error).outcome is Outcome.UNRESOLVED


def test_stand_in_for_tenacity_an_error_that_passed_a_repeater_proves_nothing(stand_in, refusing):
    tenacity = stand_in("tenacity", "def call(function): return function()")
    error = error_of(lambda: tenacity.call(lambda: requests.post(refusing, data=b"x", timeout=5)))
    assert read(error) == UNRESOLVED


# -- the same readers with the real libraries -------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["openai", "anthropic"])
@pytest.mark.parametrize("retries", [0, 1])
def test_openai_and_anthropic(name, retries, target, refusing):
    sdk = importlib.import_module(name)
    kind = sdk.OpenAI if name == "openai" else sdk.Anthropic

    def ask(url: str) -> BaseException:
        client = kind(api_key="made-up", base_url=url, max_retries=retries, timeout=5)
        return error_of(lambda: client.post("/v1/x", body={}, cast_to=object))

    alone = retries == 0
    assert read(ask(refusing)) == (NOTHING_LEFT if alone else UNRESOLVED)
    target.serve(in_turn(*[b""] * retries, refusal("400 Bad")))
    assert read(ask(target.url)) == (REFUSED_FOR_GOOD if alone else UNRESOLVED)


@pytest.mark.parametrize("retries", [0, 1])
def test_stripe(retries, target, refusing):
    import stripe

    def charge(url: str) -> BaseException:
        client = stripe.StripeClient(
            "sk_test_made_up",
            base_addresses={"api": url.rstrip("/")},
            max_network_retries=retries,
            http_client=stripe.RequestsClient(timeout=5),
        )
        return error_of(lambda: client.v1.charges.create({"amount": 1, "currency": "eur"}))

    alone = retries == 0
    assert read(charge(refusing)) == (NOTHING_LEFT if alone else UNRESOLVED)
    target.serve(answering(refusal("400 Bad", body=b'{"error": {"message": "no", "type": "invalid_request_error"}}')))
    assert read(charge(target.url)) == (REFUSED_FOR_GOOD if alone else UNRESOLVED)


def test_aiohttp(target, refusing):
    import aiohttp

    def post(url: str) -> BaseException:
        async def send() -> None:
            async with aiohttp.ClientSession() as session, session.post(url, data=b"x") as answer:
                answer.raise_for_status()

        return error_of(lambda: asyncio.run(send()))

    assert read(post(refusing)) == NOTHING_LEFT
    target.serve(in_turn(refusal("422 No"), b""))
    assert read(post(target.url)) == REFUSED_FOR_GOOD
    assert read(post(target.url)) == UNRESOLVED


def test_grpc():
    from concurrent import futures

    import grpc

    def refuse(_request: bytes, context) -> bytes:
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, "no")

    server = grpc.server(futures.ThreadPoolExecutor(1))
    handlers = {"Charge": grpc.unary_unary_rpc_method_handler(refuse)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("shop.Till", handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            error = error_of(lambda: channel.unary_unary("/shop.Till/Charge")(b"x", timeout=10))
            missing = error_of(lambda: channel.unary_unary("/shop.Till/Refund")(b"x", timeout=10))
    finally:
        server.stop(None)
    assert read(error) == REFUSED_FOR_GOOD
    assert read(missing) == UNRESOLVED  # UNIMPLEMENTED is 501
