"""Another client's tries are counted by its own hook, as many as reach the target; a refusal of one proves little."""

import asyncio
import importlib
import threading
import types

import boto3
import httpx2
import pytest
import requests
import urllib3
from botocore.config import Config
from requests.adapters import HTTPAdapter

from fencepost.cli.timeline import timeline
from fencepost.console.story import story
from fencepost.core.contract import Retry
from fencepost.core.errors import RunFailed, RunHeld
from fencepost.core.states import OperationState
from fencepost.effects.call import Call, SyncCall
from fencepost.effects.counting import counting
from fencepost.effects.declare import effect
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.effects.scripted import LOST, scripted, status
from tests.runtime.stage import working

ONCE = Retry(attempts=1, within="1m")


@pytest.fixture
def target():
    with scripted() as it:
        yield it


def queue(url: str, attempts: int):
    config = Config(retries={"total_max_attempts": attempts, "mode": "standard"})
    return boto3.client(
        "sqs", endpoint_url=url, region_name="x", aws_access_key_id="a", aws_secret_access_key="b", config=config
    )


def session(again: int) -> requests.Session:
    made = requests.Session()
    retry = urllib3.Retry(again, allowed_methods=None, status_forcelist=[500], backoff_factor=0)
    made.mount("http://", HTTPAdapter(max_retries=retry))
    return made


def by_boto3(client, _url: str) -> None:
    client.send_message(QueueUrl="http://q.example/1", MessageBody="hi")


def by_requests(client, url: str) -> None:
    client.post(url, data=b"x", timeout=5).raise_for_status()


CLIENTS = {"boto3": (queue, by_boto3), "requests": (lambda _url, attempts: session(attempts - 1), by_requests)}


def performed(tmp_path, body, raises=RunHeld):
    """Perform an effect with this body: how often it says it was sent, its state, and what the screen shows."""
    send = effect(on_unknown="hold", retry=ONCE, name="send")(body)

    @workflow(name="one")
    async def one(run: Run) -> None:
        await run.do(send())

    async def play():
        async with working(f"sqlite:///{tmp_path / 'ledger.db'}", one) as app:
            handle = await app.start(one, id="r")
            if raises is None:
                await handle.result(within="20s")
            else:
                with pytest.raises(raises):
                    await handle.result(within="20s")
            history = await app.show("r")
            (operation,) = history.operations
            told = story(history, app.store.leases(), ())
            ((attempt,),) = [step["attempts"] for step in told["steps"]]
            return attempt["sends"], operation.state, "\n".join(timeline(told))

    return asyncio.run(play())


@pytest.mark.parametrize("name", CLIENTS)
def test_each_try_that_reaches_the_target_is_counted_and_the_run_says_who_retries(name, tmp_path, target):
    make, send = CLIENTS[name]
    client = make(target.url, 3)
    target.answers = [status("500 Oops"), LOST, status("200 Ok")]

    def body(call: SyncCall) -> None:
        with call.sending(client=client):
            send(client, target.url)

    sends, state, screen = performed(tmp_path, body, raises=None)
    assert (sends, len(target.requests), state) == (3, 3, OperationState.SUCCEEDED)
    assert "3 sent: a second layer retries" in screen


@pytest.mark.parametrize("name", CLIENTS)
def test_a_refusal_of_the_last_try_proves_nothing_of_the_first(name, tmp_path, target):
    make, send = CLIENTS[name]
    client = make(target.url, 2)
    target.answers = [LOST, status("400 Bad")]

    def body(call: SyncCall) -> None:
        with call.sending(client=client):
            send(client, target.url)

    sends, state, _ = performed(tmp_path, body)
    assert (sends, len(target.requests), state) == (2, 2, OperationState.UNKNOWN)


@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_that_sends_once_is_proved_refused(name, tmp_path, target):
    make, send = CLIENTS[name]
    client = make(target.url, 1)
    target.answers = [status("400 Bad")]

    def body(call: SyncCall) -> None:
        with call.sending(client=client):
            send(client, target.url)

    sends, state, screen = performed(tmp_path, body, raises=RunFailed)
    assert (sends, len(target.requests), state) == (1, 1, OperationState.FAILED)
    assert "second layer" not in screen


def test_a_loop_of_the_body_itself_is_a_second_layer_too(tmp_path, target):
    """Refused for good at last; and what became of the first request, nobody knows."""
    target.answers = [LOST, status("400 Bad")]

    async def body(call: Call) -> None:
        async with httpx2.AsyncClient(trust_env=False) as client:
            with call.sending(client=client):
                for _ in range(2):
                    try:
                        (await client.post(target.url, content=b"x")).raise_for_status()
                    except httpx2.TransportError:
                        continue

    sends, state, screen = performed(tmp_path, body)
    assert (sends, len(target.requests), state) == (2, 2, OperationState.UNKNOWN)
    assert "2 sent: a second layer retries" in screen


def test_a_client_without_a_hook_is_not_countable(tmp_path, target):
    target.answers = [status("200 Ok")]
    pool = urllib3.PoolManager(retries=False)

    def body(call: SyncCall) -> None:
        with call.sending(client=pool):
            pool.request("POST", target.url, body=b"x")

    sends, _, screen = performed(tmp_path, body, raises=None)
    assert sends is None
    assert "sends not countable" in screen


def test_a_read_before_the_write_is_no_send_of_the_effect(tmp_path, target):
    target.answers = [status("200 Ok"), status("201 Created")]

    async def body(call: Call) -> None:
        await call.http.get(target.url)
        await call.http.post(target.url, json={})

    sends, _, screen = performed(tmp_path, body, raises=None)
    assert (sends, len(target.requests)) == (1, 2)
    assert "second layer" not in screen


def test_a_client_is_counted_only_where_it_is_told_to_and_by_whom(target):
    """The hook stays on the client; two threads that share it count apart."""
    client = httpx2.Client(trust_env=False)
    counts = {}

    def send(name: str, times: int) -> None:
        told = []
        with counting(client, lambda: told.append(name)) as countable:
            assert countable
            for _ in range(times):
                client.post(target.url, content=b"x")
        counts[name] = len(told)

    target.answers = [status("200 Ok")] * 8
    threads = [threading.Thread(target=send, args=args) for args in (("a", 2), ("b", 3))]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    client.post(target.url, content=b"x")
    assert counts == {"a": 2, "b": 3}
    assert len(client.event_hooks["request"]) == 1
    client.close()


def test_stand_in_for_a_transport_that_repeats_below_the_hook_is_not_countable():
    retrying = type("RetryTransport", (), {"retry": types.SimpleNamespace(total=2)})()
    client = httpx2.Client(trust_env=False)
    client._transport.close()
    client._transport = retrying
    with counting(client, lambda: None) as countable:
        assert not countable


@pytest.mark.parametrize("name", ["openai", "anthropic"])
def test_openai_and_anthropic(name, target):
    sdk = importlib.import_module(name)
    make = sdk.OpenAI if name == "openai" else sdk.Anthropic
    client = make(api_key="made-up", base_url=target.url, max_retries=2)
    target.answers = [status("500 Oops", "retry-after-ms: 1")] * 3
    told = []
    with counting(client, lambda: told.append(1)) as countable, pytest.raises(sdk.InternalServerError):
        client.post("/v1/x", body={}, cast_to=object)
    assert countable
    assert (len(told), len(target.requests)) == (3, 3)
