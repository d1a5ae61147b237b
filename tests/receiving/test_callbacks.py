"""Reports on jobs and providers' events over HTTP, as ASGI and as WSGI: what is answered, and what the run got."""

import asyncio
import base64
import hashlib
import hmac
import io
import json
from contextlib import asynccontextmanager
from typing import Any

import pytest

from fencepost import CallbackRefused, DeclarationError
from fencepost.core.states import RunState, SignalState
from fencepost.receiving import CallbackEndpoint, Event, WebhookEndpoint
from fencepost.runtime.app import App
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import played, reaches, target, until
from tests.runtime.test_jobs import SECRET, farm, handed_over, rendering, telling

SIGNING = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
NOW = 1_614_265_330


@pytest.fixture(autouse=True)
def forgetful():
    farm.tokens, farm.answers, farm.asked = [], [], 0
    target.reset()


@workflow()
async def paid(run: Run, charge: str) -> str:
    return await run.wait(f"paid {charge}", str)


@asynccontextmanager
async def shop(url):
    app = App(url, workflows=[rendering, telling, paid], callback_secret=SECRET)
    async with app, app.worker():
        yield app


Sent = tuple[int, dict[str, str], bytes]


async def by_asgi(endpoint, path: str, body: bytes, headers: dict[str, str], method: str = "POST") -> Sent:
    said: list[Any] = []

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message):
        said.append(message)

    scope = {
        "type": "http", "method": method, "path": path, "query_string": b"",
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
    }  # fmt: skip
    await endpoint.asgi(scope, receive, send)
    return said[0]["status"], {k.decode(): v.decode() for k, v in said[0]["headers"]}, said[1]["body"]


async def by_wsgi(endpoint, path: str, body: bytes, headers: dict[str, str], method: str = "POST") -> Sent:
    said: list[Any] = []
    environ = {
        "REQUEST_METHOD": method, "SCRIPT_NAME": "", "PATH_INFO": path, "CONTENT_LENGTH": str(len(body)),
        "wsgi.input": io.BytesIO(body),
        **{f"HTTP_{name.upper().replace('-', '_')}": value for name, value in headers.items()},
    }  # fmt: skip
    parts = await asyncio.to_thread(lambda: b"".join(endpoint.wsgi(environ, lambda *given: said.append(given))))
    status, given = said[0]
    return int(status[:3]), dict(given), parts


@pytest.fixture(params=[by_asgi, by_wsgi])
def post(request):
    return request.param


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def test_a_report_is_taken_in_by_header_or_by_path(url, post):
    @played
    async def play() -> None:
        async with shop(url) as app:
            endpoint = CallbackEndpoint(app)
            handle = await app.start(rendering, "video", id="r")
            token = await handed_over(app)
            assert await post(endpoint, "/jobs/heartbeat", b'{"frames": 7}', bearer(token)) == (
                200, {"content-type": "application/json", "content-length": "17"}, b'{"waiting": true}'
            )  # fmt: skip
            status, _, body = await post(endpoint, f"/jobs/{token}/done", b'"a film"', {})
            assert (status, json.loads(body)["state"]) in {(202, "kept"), (202, "applied")}
            assert (await post(endpoint, "/jobs/done", b'"a film"', bearer(token)))[0] == 202
            assert await handle.result(within="20s") == "a film, made after"
            assert (await post(endpoint, "/jobs/done", b'"a film"', bearer(token)))[0] == 202
            assert (await post(endpoint, "/jobs/done", b'"another"', bearer(token)))[0] == 409
            assert (await post(endpoint, "/jobs/heartbeat", b"", bearer(token)))[0] == 410

    play()


def test_a_job_says_that_it_failed(url, post):
    @played
    async def play() -> None:
        async with shop(url) as app:
            handle = await app.start(telling, "video", id="r")
            token = await handed_over(app)
            endpoint = CallbackEndpoint(app)
            assert (await post(endpoint, "/failed", b"{}", bearer(token)))[0] == 400
            assert (await post(endpoint, "/failed", b'{"why": "no disk"}', bearer(token)))[0] == 202
            assert await handle.result(within="20s") == "failed: no disk"

    play()


def test_whoever_guesses_learns_nothing(url, post):
    @played
    async def play() -> None:
        async with shop(url) as app:
            await app.start(rendering, "video", id="r")
            token = await handed_over(app)
            endpoint = CallbackEndpoint(app)
            strange = [token[:-1], token.lower(), "fpc_" + "A" * 43, "x", "é"]
            said = [await post(endpoint, "/jobs/done", b'"a film"', bearer(one)) for one in strange[:-1]]
            assert len({(status, body) for status, _, body in said}) == 1
            assert (said[0][0], json.loads(said[0][2])["detail"]) == (404, "nothing was taken in")
            assert (await post(endpoint, "/jobs/done", b'"a film"', {}))[0] == 404
            strangers = await app.strange_tokens()
            assert (await post(endpoint, "/done", b'"a film"', {}))[0] == 404
            assert await app.strange_tokens() == strangers, "without a token nobody is a stranger"
            assert (await post(endpoint, "/jobs/other", b'"a film"', bearer(token)))[0] == 404
            assert (await post(endpoint, "/jobs/done", b"", {}, "GET"))[0] == 405
            assert (await post(endpoint, "/jobs/done", b"{nothing", bearer(token)))[0] == 400
            assert (await post(endpoint, "/jobs/done", b"NaN", bearer(token)))[0] == 400
            assert (await post(endpoint, "/jobs/done", b"7", bearer(token)))[0] == 422
            small = CallbackEndpoint(app, body_max=10)
            assert (await post(small, "/jobs/done", b'"far too long"', bearer(token)))[0] == 413
            assert (await app.show("r")).signals == []

    play()


def test_a_ledger_that_cannot_be_written_asks_to_come_again(url, post, monkeypatch):
    @played
    async def play() -> None:
        async with shop(url) as app:
            from fencepost.core.errors import StoreBusy

            def busy(*_: object) -> None:
                raise StoreBusy("locked")

            monkeypatch.setattr(app.store, "handed_out", busy)
            status, headers, _ = await post(CallbackEndpoint(app), "/done", b"1", bearer("fpc_" + "A" * 43))
            assert (status, headers["retry-after"]) == (503, "1")

    play()


# -- webhooks ---------------------------------------------------------------------------------------------------------


def signed(id: str, body: bytes, *, at: int = NOW, secret: str = SIGNING) -> dict[str, str]:
    key = base64.b64decode(secret.removeprefix("whsec_"))
    mac = hmac.new(key, f"{id}.{at}.".encode() + body, hashlib.sha256).digest()
    signature = f"v1,bm9wZQ== v1a,AAAA v1,{base64.b64encode(mac).decode()}"
    return {"webhook-id": id, "webhook-timestamp": str(at), "webhook-signature": signature}


def events_of(app, **options) -> WebhookEndpoint:
    def route(event):
        if event["type"] != "paid":
            return None
        return Event(f"paid {event['charge']}", event["by"], run=event.get("run"))

    return WebhookEndpoint(app, **({"secrets": SIGNING, "route": route, "now": lambda: NOW} | options))


def test_the_published_vector_of_standard_webhooks_is_accepted(url, post):
    @played
    async def play() -> None:
        async with shop(url) as app:
            seen = []
            endpoint = events_of(app, route=seen.append)
            headers = {
                "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
                "webhook-timestamp": "1614265330",
                "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
            }
            assert (await post(endpoint, "/", b'{"test": 2432232314}', headers))[0] == 204
            assert seen == [{"test": 2432232314}]

    play()


def test_an_event_finds_the_run_that_waits_for_what_it_is_about_and_counts_once(url, post):
    @played
    async def play() -> None:
        async with shop(url) as app:
            endpoint, body = events_of(app), b'{"type": "paid", "charge": "c1", "by": "ann"}'
            status, headers, _ = await post(endpoint, "/", body, signed("m1", body))
            assert (status, headers["retry-after"]) == (503, "5")
            handle = await app.start(paid, "c1", id="r")
            await app.start(paid, "c2", id="other")
            await until(lambda: _waits(app, "r"), "the wait")
            for _ in range(3):
                assert (await post(endpoint, "/", body, signed("m1", body)))[0] == 202
            assert await handle.result(within="20s") == "ann"
            again = await post(endpoint, "/", body, signed("m1", body, at=NOW + 60))
            assert (again[0], json.loads(again[2])) == (202, {"state": "applied"})
            late = await post(endpoint, "/", body, signed("m2", body))
            assert (late[0], json.loads(late[2])["state"]) == (202, "refused")
            assert [one.state for one in (await app.show("r")).signals] == [SignalState.APPLIED, SignalState.REFUSED]
            assert (await app.show("other")).signals == []
            assert [row.outcome for row in await app.audit(run="r")] == ["refused"]

    play()


def test_an_event_that_comes_again_is_nothing_new_to_the_next_run_that_waits_under_its_name(url, post):
    @played
    async def play() -> None:
        async with shop(url) as app:
            endpoint, body = events_of(app), b'{"type": "paid", "charge": "c1", "by": "ann"}'
            first = await app.start(paid, "c1", id="r")
            await until(lambda: _waits(app, "r"), "the wait")
            assert (await post(endpoint, "/", body, signed("m1", body)))[0] == 202
            assert await first.result(within="20s") == "ann"
            second = await app.start(paid, "c1", id="s")
            await reaches(app, "s", RunState.WAITING)
            again = await post(endpoint, "/", body, signed("m1", body, at=NOW + 60))
            assert (again[0], json.loads(again[2])) == (202, {"state": "applied"})
            assert (await app.show("s")).signals == []
            assert (await app.show("s")).run.state is RunState.WAITING
            assert (await post(endpoint, "/", body, signed("m2", body)))[0] == 202
            assert await second.result(within="20s") == "ann"

    play()


async def _waits(app, run):
    return [one for one in (await app.show(run)).steps if one.kind == "wait"]


def test_an_event_that_names_its_run_may_come_before_the_wait(url, post):
    @played
    async def play() -> None:
        app = App(url, workflows=[paid])
        async with app:
            handle = await app.start(paid, "c1", id="r")
            body = b'{"type": "paid", "charge": "c1", "by": "ann", "run": "r"}'
            assert (await post(events_of(app), "/", body, signed("m1", body)))[0] == 202
            async with app.worker():
                assert await handle.result(within="20s") == "ann"

    play()


def test_an_event_for_which_several_runs_wait_is_for_none_of_them(url, post):
    @played
    async def play() -> None:
        async with shop(url) as app:
            for run in ("r1", "r2"):
                await app.start(paid, "c1", id=run)
                await reaches(app, run, RunState.WAITING)
            body = b'{"type": "paid", "charge": "c1", "by": "ann"}'
            status, _, said = await post(events_of(app), "/", body, signed("m1", body))
            assert (status, json.loads(said)["state"]) == (202, "refused")
            assert [row.run_id for row in await app.audit(outcome="refused")] == ["r2", "r1"]

    play()


@pytest.mark.parametrize(
    "spoil",
    [
        {"webhook-signature": "v1,bm9wZQ=="},
        {"webhook-signature": "v1,%%%"},
        {"webhook-signature": ""},
        {"webhook-id": "m2"},
        {"webhook-id": ""},
        {"webhook-timestamp": str(NOW + 1)},
        {"webhook-timestamp": "soon"},
        "another body",
        "another secret",
        "old",
        "of the future",
    ],
    ids=str,
)
def test_what_is_not_signed_by_the_sender_for_now_is_refused(url, post, spoil):
    @played
    async def play() -> None:
        async with shop(url) as app:
            body = b'{"type": "paid", "charge": "c1", "by": "ann", "run": "r"}'
            await app.start(paid, "c1", id="r")
            headers = signed("m1", body)
            if isinstance(spoil, dict):
                headers |= spoil
            elif spoil == "another body":
                body = body.replace(b"ann", b"bob")
            elif spoil == "another secret":
                headers = signed("m1", body, secret="whsec_" + base64.b64encode(b"x" * 24).decode())
            else:
                headers = signed("m1", body, at=NOW + (301 if spoil == "of the future" else -301))
            assert (await post(events_of(app), "/", body, headers))[0] == 401
            assert (await app.show("r")).signals == []

    play()


def test_a_secret_may_be_changed_while_events_come(url, post):
    @played
    async def play() -> None:
        async with shop(url) as app:
            other = "whsec_" + base64.b64encode(b"y" * 24).decode()
            endpoint = events_of(app, secrets=(other, SIGNING), route=lambda _: None)
            for secret in (other, SIGNING):
                assert (await post(endpoint, "/", b"{}", signed("m", b"{}", secret=secret)))[0] == 204

    play()


@pytest.mark.parametrize("secrets", [[], "whsec_not base64", "whsec_c2hvcnQ="])
def test_a_secret_that_is_none_is_refused_at_once(url, secrets):
    with pytest.raises(DeclarationError):
        WebhookEndpoint(App(url, workflows=[]), secrets=secrets, route=lambda _: None)


def test_a_report_under_a_strange_token_is_a_refusal_in_code_too(url):
    @played
    async def play() -> None:
        async with shop(url) as app:
            with pytest.raises(CallbackRefused):
                await app.callback("fpc_" + "A" * 43)

    play()
