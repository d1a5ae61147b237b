"""Health and metrics over HTTP: what is answered to whom, mounted as ASGI and by the small server alike."""

import asyncio
import urllib.error
import urllib.request
from types import SimpleNamespace

import pytest

from fencepost.core.errors import Misuse, StoreUnavailable
from fencepost.runtime.app import App
from fencepost.telemetry import endpoint, serving
from fencepost.telemetry.endpoint import answer
from fencepost.telemetry.exposition import CONTENT_TYPE
from tests.runtime.stage import played


async def asked(app, path, method="GET"):
    sent = []

    async def receive():
        raise AssertionError("a request's body is of no interest")

    async def send(message):
        sent.append(message)

    await endpoint(app)({"type": "http", "method": method, "path": path}, receive, send)
    return sent[0]["status"], dict(sent[0]["headers"]), sent[1]["body"]


@played
async def test_it_answers_wherever_it_is_mounted(db):
    async with App(db, workflows=[]) as app:
        for prefix in ("", "/telemetry", "/a/b"):
            status, headers, body = await asked(app, f"{prefix}/metrics")
            assert (status, headers[b"content-type"]) == (200, CONTENT_TYPE.encode())
            assert body.endswith(b"# EOF\n")
            assert (await asked(app, f"{prefix}/health/"))[0] == 200
        assert (await asked(app, "/metrics", "HEAD"))[2] == b""
        assert (await asked(app, "/metrics", "POST"))[0] == 405
        assert (await asked(app, "/"))[0] == (await asked(app, "/healthy"))[0] == 404


@played
async def test_a_ledger_that_does_not_answer_is_a_503_and_no_traceback(db, monkeypatch):
    async with App(db, workflows=[]) as app:
        gone = StoreUnavailable("the server is gone", hint="wait")

        def refuse(*_, **__):
            raise gone

        with monkeypatch.context() as broken:
            broken.setattr(app.host, "store", SimpleNamespace(now=refuse))
            status, _, body = await asked(app, "/health")
            assert status == 503
            assert b"the ledger does not answer: the server is gone" in body
            assert (await asked(app, "/metrics"))[::2] == (503, b"the server is gone\n")


@played
async def test_it_lives_and_ends_with_its_server_and_takes_no_websocket(db):
    events, said = ["lifespan.startup", "lifespan.shutdown"], []

    async def receive():
        return {"type": events.pop(0)}

    async def send(message):
        said.append(message["type"])

    async with App(db, workflows=[]) as app:
        await endpoint(app)({"type": "lifespan"}, receive, send)
        with pytest.raises(Misuse, match="speaks HTTP"):
            await endpoint(app)({"type": "websocket"}, receive, send)
    assert said == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


@played
async def test_the_small_server_answers_on_loopback_and_is_gone_afterwards(db):
    async with App(db, workflows=[]) as app:
        assert answer(app, "GET", "/health").status == 200
        with serving(app, 0) as port:
            url = f"http://127.0.0.1:{port}/health"
            with await asyncio.to_thread(urllib.request.urlopen, url, timeout=10) as said:
                assert said.status == 200
            with pytest.raises(Misuse, match="nothing can be served"), serving(app, port):
                pass
        with pytest.raises(urllib.error.URLError):
            await asyncio.to_thread(urllib.request.urlopen, url, timeout=10)
