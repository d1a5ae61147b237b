"""`with receipt(connection):` on each kind of connection, called as it should be and as it should not."""

import pytest

from fencepost.core.errors import AlreadyAnswered, Misuse
from fencepost.receiving import IdempotentASGI, Receipts, Terms, receipt
from tests.runtime.callers import KINDS, calling, driver, make_table, names
from tests.runtime.stage import played
from tests.services.fixtures import DIALECTS

ATOMIC = Terms(caller=lambda _: "ann", atomic=True, answer_max=100)


async def ask(application, key: str = "k", body: bytes = b"{}") -> tuple[int, bytes]:
    """Status and body of one request, without a server between."""
    scope = {
        "type": "http", "method": "POST", "path": "/orders", "query_string": b"",
        "headers": [(b"idempotency-key", key.encode())],
    }  # fmt: skip
    sent: list[dict] = []

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message):
        sent.append(message)

    await application(scope, receive, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])


def behind(handler, receipts: Receipts, terms: Terms = ATOMIC) -> IdempotentASGI:
    """An endpoint whose handler answers 204 unless it raises."""

    async def application(scope, receive, send):
        await handler()
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    return IdempotentASGI(application, receipts, terms)


@pytest.mark.parametrize(("dialect", "kind"), [(dialect, kind) for dialect in DIALECTS for kind in KINDS[dialect]])
@played
async def test_the_receipt_is_in_the_callers_transaction_whatever_the_connection(url, kind):
    make_table(url)
    ends = iter(["rollback", "commit", "commit"])

    async def handler():
        async with calling(kind, url) as caller:
            await caller.write("work")
            if kind.startswith("async"):
                async with receipt(caller.connection) as taken:
                    taken.answer(201, {"key": taken.key})
            else:
                with receipt(caller.connection) as taken:
                    taken.answer(201, {"key": taken.key})
            await getattr(caller, next(ends))()

    with Receipts(url) as receipts:
        endpoint = behind(handler, receipts)
        assert (await ask(endpoint))[0] == 500, "what was not committed is told to nobody"
        assert names(url) == []
        for _ in range(3):
            assert await ask(endpoint) == (201, b'{"key": "k"}')
        assert (await ask(endpoint, body=b"{1}"))[0] == 422
    assert names(url) == ["work"]


@played
async def test_handlers_that_swallow_the_refusal_cannot_change_what_is_told(url):
    make_table(url)

    async def handler():
        with driver(url) as connection:
            try:
                with receipt(connection) as taken:
                    connection.execute("INSERT INTO business (name) VALUES ('work')")
                    taken.answer(201, "made")
                connection.commit()
            except AlreadyAnswered:
                connection.rollback()

    with Receipts(url) as receipts:
        endpoint = behind(handler, receipts)
        first = await ask(endpoint)
        assert (first, await ask(endpoint)) == ((201, b'"made"'), (201, b'"made"'))
    assert names(url) == ["work"]


@played
async def test_a_receipt_outside_of_its_place_is_refused(url):
    with Receipts(url) as receipts:
        with pytest.raises(Misuse, match="no request"):
            receipt(None)

        async def handler():
            receipt(None)

        with pytest.raises(Misuse, match="not atomic"):
            await ask(behind(handler, receipts, Terms(caller=lambda _: "ann")))


@pytest.mark.parametrize(("answer", "match"), [(None, "without an answer"), ("x" * 200, "are kept")])
@played
async def test_a_block_without_an_answer_or_with_one_that_is_too_large_does_nothing(url, answer, match):
    make_table(url)

    async def handler():
        with driver(url) as connection:
            with receipt(connection) as taken:
                connection.execute("INSERT INTO business (name) VALUES ('work')")
                if answer:
                    taken.answer(201, answer)
            connection.commit()

    with Receipts(url) as receipts:
        with pytest.raises(Misuse, match=match):
            await ask(behind(handler, receipts))
        assert receipts.unsettled() == []
    assert names(url) == []


@played
async def test_a_handler_that_takes_no_receipt_answers_by_itself(url):
    done = []

    async def handler():
        done.append("looked at it, and found nothing to do")

    with Receipts(url) as receipts:
        endpoint = behind(handler, receipts)
        assert [await ask(endpoint) for _ in range(2)] == [(204, b""), (204, b"")]
    assert len(done) == 2
