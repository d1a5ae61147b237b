"""What a tracer provider is told: the spans of the ledger's trace, each once while no worker is lost, under its ids."""

import json
import sys
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry import trace as api
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased

from fencepost.core.errors import VerbRefused
from fencepost.core.states import RunState
from fencepost.core.trace import Ids
from fencepost.effects.call import Call, SyncCall
from fencepost.effects.declare import compute, effect
from fencepost.effects.outside import Target
from fencepost.effects.promises import KeyHeader, Stands
from fencepost.runtime import tracing, verbs
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import once, operation, played, reaches, target, until, verb, working

KEY = {"send_key": KeyHeader("Idempotency-Key", window="24h"), "compensate": Stands("it is a test")}


@effect(target="desk", **KEY)
async def post(call: Call, name: str) -> str:
    with api.get_tracer("own").start_as_current_span("own"):
        await call.http.get("/seen")
        reply = await call.http.post("/made", json={"name": name})
    return reply.json()["id"]


@effect(target="desk", **KEY)
def post_plainly(call: SyncCall, name: str) -> str:
    return call.http.post("/made", json={"name": name}, headers={"Traceparent": "its own"}).json()["id"]


@compute(version=1)
async def think(call: Call, name: str) -> str:
    return f"{name} {api.get_current_span().get_span_context().span_id:016x}"


@workflow(version=1)
async def ordinary(run: Run, name: str) -> str:
    await run.do(think(name))
    await run.do(post(name))
    await run.do(post_plainly(name))
    return await run.wait("go", str)


@workflow(version=1)
async def held(run: Run, name: str) -> str:
    return await run.do(once(name))


class Desk(BaseHTTPRequestHandler):
    """A target that keeps the headers of what it gets."""

    def do_GET(self):
        self.server.seen.append((self.path, self.headers.get_all("traceparent", [])))
        self.answer()

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    def answer(self):
        self.send_response(200)
        body = json.dumps({"id": "1"}).encode()
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def desk():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Desk)
    server.seen = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def options(desk):
    return {"targets": {"desk": Target(f"http://127.0.0.1:{desk.server_port}")}}


class Told:
    """A provider whose spans can be counted."""

    def __init__(self, **options):
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(**options)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    @property
    def spans(self):
        return self.exporter.get_finished_spans()

    @property
    def ids(self):
        return Counter(f"{one.context.span_id:016x}" for one in self.spans if one.name != "own")


@pytest.fixture
def told(monkeypatch):
    told = Told()
    one = tracing.Tracing(told.provider)
    monkeypatch.setattr(tracing, "configured", lambda: one)
    monkeypatch.setattr("fencepost.runtime.host.configured", tracing.configured)
    return told


async def all_told(app, told, run_id):
    """Wait until everything that the ledger holds of a run was told, and return its trace."""
    run = (await app.show(run_id)).run
    trace = tracing.read_trace(app.store, run)
    await until(lambda: told.ids.keys() >= {one.id for one in trace.spans}, "every span to be told")
    return trace


@played
async def test_over_two_lives_and_a_verb_each_span_is_told_once_and_in_one_trace(db, told, options):
    async with working(db, ordinary, **options) as app:
        await app.start(ordinary, "a", id="r")
        await reaches(app, "r", RunState.WAITING)
    async with working(db, ordinary, **options) as app:
        with pytest.raises(VerbRefused):
            await verb(app, verbs.resume, "r")
        await app.signal("r", "go", "on")
        await reaches(app, "r", RunState.SUCCEEDED)
        trace = await all_told(app, told, "r")
    assert told.ids == Counter(one.id for one in trace.spans)
    ours = [one for one in told.spans if one.name != "own"]
    assert {f"{one.context.trace_id:032x}" for one in ours} == {trace.id}
    assert "verb resume" in {one.name for one in ours}


@played
async def test_a_request_carries_the_span_of_its_attempt_and_a_header_of_the_bodys_own_is_left_alone(
    db, told, options, desk
):
    async with working(db, ordinary, **options) as app:
        await app.start(ordinary, "a", id="r")
        await reaches(app, "r", RunState.WAITING)
    ids = Ids("default", "r")
    wanted = ids.traceparent(ids.attempt("post", 1))
    assert desk.seen == [("/seen", [wanted]), ("/made", [wanted]), ("/made", ["its own"])]


@played
async def test_what_a_body_traces_itself_is_inside_of_its_attempt(db, monkeypatch, told, options):
    monkeypatch.setattr(api, "get_tracer", told.provider.get_tracer)
    async with working(db, ordinary, **options) as app:
        await app.start(ordinary, "a", id="r")
        await reaches(app, "r", RunState.WAITING)
        [own] = [one for one in told.spans if one.name == "own"]
        ids = Ids("default", "r")
        assert f"{own.context.trace_id:032x}" == ids.trace
        assert f"{own.parent.span_id:016x}" == ids.attempt("post", 1)
        thought = json.loads((await app.show("r")).steps[0].result)
        assert thought == f"a {ids.step('/think')}"


@played
async def test_without_a_provider_nothing_is_asked_for_and_no_request_names_a_trace(db, monkeypatch, options, desk):
    monkeypatch.setattr(tracing.Tracing, "__init__", lambda *_: pytest.fail("nobody traces"))
    assert tracing.configured() is None
    async with working(db, ordinary, **options) as app:
        await app.start(ordinary, "a", id="r")
        await reaches(app, "r", RunState.WAITING)
    assert [headers for _, headers in desk.seen] == [[], [], ["its own"]]


def test_a_provider_that_somebody_has_set_is_found_and_one_that_only_stands_in_is_not(monkeypatch):
    told = Told()
    monkeypatch.setattr(api, "get_tracer_provider", lambda: told.provider)
    assert tracing.configured() is tracing.configured() is not None
    monkeypatch.setattr(api, "get_tracer_provider", api.NoOpTracerProvider)
    assert tracing.configured() is None
    monkeypatch.delitem(sys.modules, "opentelemetry.trace")
    assert tracing.configured() is None


@played
async def test_a_trace_that_the_sampler_leaves_out_is_left_out_whole_and_says_so_to_others(
    db, monkeypatch, options, desk
):
    told = Told(sampler=ParentBased(ALWAYS_OFF))
    monkeypatch.setattr("fencepost.runtime.host.configured", lambda: tracing.Tracing(told.provider))
    async with working(db, ordinary, **options) as app:
        await app.start(ordinary, "a", id="r")
        await reaches(app, "r", RunState.WAITING)
    assert told.spans == ()
    assert desk.seen[0][1][0].endswith("-00")


@played
async def test_what_nobody_knows_is_told_when_a_person_settles_it_and_not_before(db, told):
    target.plan("a", "lose")
    async with working(db, held) as app:
        await app.start(held, "a", id="r")
        await reaches(app, "r", RunState.HELD)
        attempt = Ids("default", "r").attempt("once", 1)
        assert attempt not in told.ids
        await verb(app, verbs.settle, "r", step="once", happened=True, result='"made a"', override=True)
        await reaches(app, "r", RunState.SUCCEEDED)
        trace = await all_told(app, told, "r")
        assert (await operation(app, "r", "once")).attempts[0].sends is None
    [one] = [one for one in told.spans if f"{one.context.span_id:016x}" == attempt]
    assert (one.status.status_code.name, one.status.description) == ("ERROR", "ended unknown; applied by statement")
    assert one.attributes["fencepost.learnt.by"] == "statement"
    assert told.ids[attempt] == 1
    assert told.ids.keys() == {one.id for one in trace.spans}


@played
async def test_an_exporter_that_breaks_breaks_no_run(db, told, options, monkeypatch, caplog):
    def broken(*_):
        raise RuntimeError("the collector is gone")

    monkeypatch.setattr(tracing.Tracing, "hand_over", broken)
    async with working(db, ordinary, **options) as app:
        await app.start(ordinary, "a", id="r")
        await reaches(app, "r", RunState.WAITING)
        await app.signal("r", "go", "on")
        await reaches(app, "r", RunState.SUCCEEDED)
        await until(lambda: "the collector is gone" in caplog.text, "the trouble to be logged")
