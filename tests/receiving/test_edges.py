"""What a server, a sender or an application may do besides answering: each called in this process, without a server."""

import asyncio
import io

import pytest

from fencepost.core.errors import Misuse
from fencepost.receiving import Answer, IdempotentASGI, IdempotentWSGI, NotDone, Receipts, Terms
from tests.receiving.test_receipt import ask
from tests.runtime.stage import Gate, played

START = {"type": "http.response.start", "status": 200, "headers": []}
UNKNOWN = b"is not known"


def terms(**more) -> Terms:
    return Terms(caller=lambda _: "ann", **more)


@pytest.fixture
def receipts(tmp_path):
    with Receipts(f"sqlite:///{tmp_path / 'receipts.db'}") as receipts:
        yield receipts


class Application:
    """An ASGI application that counts its calls and does what it is told."""

    def __init__(self, do) -> None:
        self._do = do
        self.calls = 0

    async def __call__(self, scope, receive, send) -> None:
        self.calls += 1
        await self._do(scope, receive, send)


async def answer(scope, receive, send) -> None:
    await send(START)
    await send({"type": "http.response.body", "body": b"made"})


# -- ASGI -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_async", [True, False])
@played
async def test_a_look_up_may_be_async_or_plain(receipts, is_async):
    async def break_off(scope, receive, send):
        raise RuntimeError("a fault")

    async def asked(request):
        return Answer.json(200, request.path)

    look_up = asked if is_async else lambda request: Answer.json(200, request.path)
    app = Application(break_off)
    endpoint = IdempotentASGI(app, receipts, terms(look_up=look_up))
    with pytest.raises(RuntimeError, match="a fault"):
        await ask(endpoint)
    assert await ask(endpoint) == (200, b'"/orders"')
    assert app.calls == 1


@played
async def test_a_look_up_that_fails_proves_nothing(receipts):
    def fail(request):
        raise OSError("the table is locked")

    async def break_off(scope, receive, send):
        raise RuntimeError("a fault")

    endpoint = IdempotentASGI(break_off, receipts, terms(look_up=fail, within="1us"))
    with pytest.raises(RuntimeError, match="a fault"):
        await ask(endpoint)
    for _ in range(2):
        status, text = await ask(endpoint)
        assert status == 409
        assert UNKNOWN in text


@played
async def test_a_sender_that_is_gone_before_its_body_is_whole_has_sent_nothing(receipts):
    app = Application(answer)

    async def receive():
        return {"type": "http.disconnect"}

    scope = {
        "type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": [(b"idempotency-key", b"k")],
    }  # fmt: skip
    await IdempotentASGI(app, receipts, terms())(scope, receive, None)
    assert app.calls == 0
    assert (await ask(IdempotentASGI(app, receipts, terms())))[0] == 200


@played
async def test_other_protocols_are_passed_on(receipts):
    seen = []

    async def look(scope, receive, send):
        seen.append(scope["type"])

    endpoint = IdempotentASGI(look, receipts, terms())
    for protocol in ("lifespan", "websocket"):
        await endpoint({"type": protocol}, None, None)
    assert seen == ["lifespan", "websocket"]


@played
async def test_work_after_the_response_is_not_waited_for_and_cannot_take_it_back(receipts):
    gate = Gate()

    async def answer_and_go_on(scope, receive, send):
        await answer(scope, receive, send)
        await gate.wait()
        raise RuntimeError("a fault in what was left for later")

    app = Application(answer_and_go_on)
    endpoint = IdempotentASGI(app, receipts, terms())
    first = asyncio.create_task(ask(endpoint))
    await gate.reached.wait()
    assert await ask(endpoint) == (200, b"made")
    gate.opened.set()
    with pytest.raises(RuntimeError, match="left for later"):
        await first
    assert await ask(endpoint) == (200, b"made")
    assert app.calls == 1


@pytest.mark.parametrize("atomic", [False, True])
@played
async def test_a_handler_that_is_cancelled_or_answers_nothing_has_broken_off(receipts, atomic):
    gate = Gate()

    async def wait(scope, receive, send):
        if app.calls == 1:
            await gate.wait()

    app = Application(wait)
    endpoint = IdempotentASGI(app, receipts, terms(atomic=atomic))
    first = asyncio.create_task(ask(endpoint))
    await gate.reached.wait()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    for _ in range(2):
        status, text = await ask(endpoint)
        # With a receipt in its transaction, what was not committed was not done: it runs again.
        assert (status, UNKNOWN in text) == ((500, False) if atomic else (409, True))
    assert app.calls == (3 if atomic else 1)


@played
async def test_two_keys_in_one_request_are_none(receipts):
    app = Application(answer)
    scope = {
        "type": "http", "method": "POST", "path": "/", "query_string": b"",
        "headers": [(b"idempotency-key", b"k"), (b"idempotency-key", b"l")],
    }  # fmt: skip
    sent = []

    async def send(message):
        sent.append(message)

    await IdempotentASGI(app, receipts, terms())(scope, None, send)
    assert (sent[0]["status"], app.calls) == (400, 0)


@played
async def test_a_caller_that_is_no_text_is_a_mistake_in_the_terms(receipts):
    endpoint = IdempotentASGI(Application(answer), receipts, Terms(caller=lambda _: None))
    with pytest.raises(Misuse, match="caller= gave None"):
        await ask(endpoint)


# -- WSGI -------------------------------------------------------------------------------------------------------------


def call(endpoint, **environ) -> tuple[str, bytes]:
    said = []
    given = {
        "REQUEST_METHOD": "POST", "PATH_INFO": "/orders", "HTTP_IDEMPOTENCY_KEY": "k", "wsgi.input": io.BytesIO(b"{}"),
        "CONTENT_LENGTH": "2",
    }  # fmt: skip
    parts = endpoint(given | environ, lambda status, headers, exc_info=None: said.append(status) or said.append)
    body = b"".join(parts)
    if hasattr(parts, "close"):
        parts.close()
    return said[0], body


class Parts:
    """A response that says whether it was closed."""

    def __init__(self, *parts: bytes) -> None:
        self._parts = parts
        self.closed = 0

    def __iter__(self):
        return iter(self._parts)

    def close(self) -> None:
        self.closed += 1


@pytest.mark.parametrize("answer_max", [10, 3])
def test_a_response_is_closed_whether_it_is_kept_or_streamed(receipts, answer_max):
    made = Parts(b"ab", b"cd", b"ef")

    def application(environ, start_response):
        start_response("201 Created", [])
        return made

    endpoint = IdempotentWSGI(application, receipts, terms(answer_max=answer_max))
    assert call(endpoint) == ("201 Created", b"abcdef")
    assert made.closed == 1
    assert call(endpoint)[0] == ("201 Created" if answer_max == 10 else "409 Conflict")


def test_what_is_written_in_the_old_way_is_part_of_the_response(receipts):
    def application(environ, start_response):
        write = start_response("200 OK", [])
        write(b"a")
        return [b"b"]

    endpoint = IdempotentWSGI(application, receipts, terms())
    assert [call(endpoint) for _ in range(2)] == [("200 OK", b"ab"), ("200 OK", b"ab")]


def test_a_body_without_a_length_is_read_where_the_server_ends_it(receipts):
    bodies = []

    def application(environ, start_response):
        bodies.append(environ["wsgi.input"].read())
        start_response("200 OK", [])
        return []

    endpoint = IdempotentWSGI(application, receipts, terms(body_max=4))
    ended = {"CONTENT_LENGTH": "", "wsgi.input_terminated": True}
    assert call(endpoint, **ended)[0] == "200 OK"
    too_long = ended | {"wsgi.input": io.BytesIO(b"12345"), "HTTP_IDEMPOTENCY_KEY": "l"}
    assert call(endpoint, **too_long)[0].startswith("413")
    assert bodies == [b"{}"]


def test_an_async_look_up_behind_wsgi_is_a_mistake(receipts):
    async def asked(request):
        return NotDone()

    def break_off(environ, start_response):
        raise RuntimeError("a fault")

    endpoint = IdempotentWSGI(break_off, receipts, terms(look_up=asked))
    with pytest.raises(RuntimeError, match="a fault"):
        call(endpoint)
    with pytest.raises(Misuse, match="async look-up"):
        call(endpoint)


def test_a_database_that_cannot_be_reached_does_nothing_and_says_so(tmp_path):
    calls = []
    with Receipts(f"sqlite:///{tmp_path / 'nowhere' / 'receipts.db'}") as receipts:
        endpoint = IdempotentWSGI(lambda *_: calls.append(1), receipts, terms())
        assert call(endpoint)[0].startswith("503")
    assert calls == []
