"""`call.model` returns the step's output type or a typed error, whoever answers; over real HTTP for an endpoint."""

import asyncio
from collections.abc import Callable
from enum import StrEnum
from typing import Any

import pytest
from pydantic import BaseModel, GetCoreSchemaHandler
from pydantic_core import core_schema

from fencepost.core.contract import Contract, Retry
from fencepost.core.duration import SECOND
from fencepost.core.errors import (
    DeadlinePassed,
    DeclarationError,
    LeaseLost,
    Misuse,
    Permanent,
    RateLimited,
    Transient,
    ValueRefused,
)
from fencepost.effects.attempting import Attempting
from fencepost.effects.call import Call, SyncCall
from fencepost.effects.deadline import boot_now
from fencepost.effects.declare import compute
from fencepost.effects.endpoint import Endpoint
from fencepost.effects.model import ModelStep, Source, configured, model
from fencepost.effects.outside import Outside
from fencepost.effects.question import MalformedAnswer, Question
from fencepost.effects.rules import Rule, RuleBased
from fencepost.effects.site import Site
from tests.effects.answers_of_models import ModelServer, completion, model_server, refusal

NOW = 1_790_000_000 * SECOND


class Kind(StrEnum):
    INVOICE = "invoice"
    OTHER = "other"


class Classification(BaseModel):
    kind: Kind
    sure: float = 1.0


@model(output=Classification)
async def classify(call: Call, text: str) -> Classification:
    return await call.model.ask("What is it?", text)


@model(output=Classification)
def classify_in_a_thread(call: SyncCall, text: str) -> Classification:
    return call.model.ask("What is it?", text)


@model(output=Classification)
async def classify_stub(call: Call, text: str, hints: list[str]) -> Classification:
    """Say what kind of letter it is.

    The hints come from the sender.
    """
    raise NotImplementedError


@model(output=Classification)
def classify_stub_in_a_thread(call: SyncCall, text: str, hints: list[str]) -> Classification:
    """Say what kind of letter it is."""
    raise NotImplementedError


@model(output=str)
async def summarise(call: Call, text: str) -> str:
    return await call.model.ask("Sum it up.", text)


each_face = pytest.mark.parametrize("step", [classify, classify_in_a_thread])


def attempting(
    source: Source | None, *, deadline: int | None = None, permission: Callable[[], None] = lambda: None
) -> Attempting:
    site = Site(Outside(model=source), permission=permission, now=lambda: NOW, generation=1, principal="ann")
    return Attempting(site, "/classify", 1, deadline or boot_now() + 20 * SECOND, Contract("classify"))


def run(step: ModelStep[..., Any], source: Source | None, *args: Any, **changes: Any) -> Any:
    """Run the step's body as the engine does."""
    return run_within(attempting(source, **changes), step, *args)


def run_within(one: Attempting, step: ModelStep[..., Any], *args: Any) -> Any:
    async def with_open_doors() -> Any:
        try:
            return await step.body(Call(one), *args)
        finally:
            await one.site.outside.aclose()

    if step.is_async:
        return asyncio.run(with_open_doors())
    try:
        return step.body(SyncCall(one), *args)
    finally:
        one.site.outside.close()


@pytest.fixture
def server():
    with model_server() as it:
        yield it


# -- an endpoint ------------------------------------------------------------------------------------------------------


@each_face
def test_an_endpoint_is_asked_with_prompt_text_and_form(server: ModelServer, step):
    server.answers('{"kind": "invoice"}')
    endpoint = server.endpoint(api_key=lambda: "secret", options={"temperature": 0})
    assert run(step, endpoint, "Rechnung 17") == Classification(kind=Kind.INVOICE)
    (asked,) = server.requests
    assert asked["model"] == "small-1"
    assert asked["temperature"] == 0
    system, user = asked["messages"]
    assert system["content"].startswith("What is it?\n\nAnswer with one JSON value")
    assert '"enum": ["invoice", "other"]' in system["content"]
    assert user == {"role": "user", "content": "Rechnung 17"}
    assert server.heads[0].startswith("POST /v1/chat/completions HTTP/1.1")
    assert "authorization: bearer secret" in server.heads[0].lower()


def test_the_key_is_asked_for_each_time_and_never_kept(server: ModelServer):
    keys = iter(["first", "second"])
    endpoint = server.endpoint(api_key=lambda: next(keys))
    server.answers('{"kind": "invoice"}')
    one = attempting(endpoint)
    run_within(one, classify, "x")
    run(classify, endpoint, "x")
    assert [head.lower().partition("bearer ")[2].split()[0] for head in server.heads] == ["first", "second"]
    assert one.evidence == {"kind": "model", "endpoint": f"small-1 at {server.url}"}


@pytest.mark.parametrize(
    ("raw", "kind", "pause"),
    [
        (refusal("429 Slow", "Retry-After: 30"), RateLimited, 30 * SECOND),
        (refusal("429 Slow"), RateLimited, None),
        (refusal("503 Later", "Retry-After: 2"), RateLimited, 2 * SECOND),
        (refusal("503 Later"), Transient, None),
        (refusal("500 Oops"), Transient, None),
        (refusal("408 Slow"), Transient, None),
        (refusal("401 Who"), Permanent, None),
        (refusal("404 No such model"), Permanent, None),
        (refusal("302 Elsewhere", "location: /v2"), Permanent, None),
        (refusal("200 OK"), Transient, None),
        (completion(None), Transient, None),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{", Transient, None),  # and nothing more
    ],
)
@each_face
def test_each_reply_without_an_answer_is_a_typed_error(server: ModelServer, step, raw, kind, pause):
    server.answers(raw)
    with pytest.raises(kind) as raised:
        run(step, server.endpoint(), "x", deadline=boot_now() + SECOND)
    assert type(raised.value) is kind
    assert getattr(raised.value, "pause", None) == pause
    assert len(server.requests) == 1  # nothing below the step retries


@each_face
def test_an_endpoint_that_is_not_there_is_asked_again_later(server: ModelServer, step):
    server.peer.close()
    with pytest.raises(Transient, match="did not answer"):
        run(step, server.endpoint(), "x")


@each_face
def test_a_deadline_is_a_reason_to_ask_again(server: ModelServer, step):
    with pytest.raises(Transient, match="deadline") as raised:
        run(step, server.endpoint(), "x", deadline=boot_now())
    assert isinstance(raised.value.__cause__, DeadlinePassed)
    assert server.requests == []


def test_a_worker_without_its_lease_does_not_ask(server: ModelServer):
    def lost() -> None:
        raise LeaseLost("expired")

    with pytest.raises(LeaseLost):
        run(classify, server.endpoint(), "x", permission=lost)
    assert server.requests == []


def test_a_model_that_refuses_to_answer_gave_a_malformed_answer(server: ModelServer):
    server.answers(completion(None, refusal="I cannot help with that"))
    with pytest.raises(MalformedAnswer, match="refused to answer") as raised:
        run(summarise, server.endpoint(), "x")
    assert raised.value.text == "I cannot help with that"


@pytest.mark.parametrize(
    ("url", "posted"),
    [
        ("https://m.example/v1", "https://m.example/v1/chat/completions"),
        ("https://m.example/v1/", "https://m.example/v1/chat/completions"),
        ("https://m.example/v1/chat/completions", "https://m.example/v1/chat/completions"),
        ("https://m.example/v1?api-version=3", "https://m.example/v1/chat/completions?api-version=3"),
    ],
)
def test_where_a_question_is_posted(url, posted):
    assert Endpoint(url, "m").posting(Question("s", "p", "t")).url == posted


def test_provenance_leaves_out_the_query():
    assert Endpoint("https://m.example/v1?key=secret", "m").provenance == "m at https://m.example/v1"


@pytest.mark.parametrize(
    ("url", "name"),
    [("m.example/v1", "m"), ("https://", "m"), ("https://a:b@m.example", "m"), ("https://m.example", "")],
)
def test_an_endpoint_that_cannot_be_used_is_refused_at_once(url, name):
    with pytest.raises(DeclarationError) as raised:
        Endpoint(url, name)
    assert raised.value.hint


# -- who answers ------------------------------------------------------------------------------------------------------


def test_an_endpoint_in_the_environment_comes_before_local_rules_and_after_a_given_endpoint():
    rules = RuleBased([], otherwise=1)
    given = Endpoint("https://given.example", "m")
    variables = {"FENCEPOST_MODEL_URL": "https://env.example", "FENCEPOST_MODEL": "e", "FENCEPOST_MODEL_KEY": "k"}
    assert configured(rules, {}) is rules
    assert configured(None, {}) is None
    assert configured(given, variables) is given
    found = configured(rules, variables)
    assert isinstance(found, Endpoint)
    assert found.provenance == "e at https://env.example"
    assert found.posting(Question("s", "p", "t")).headers["authorization"] == "Bearer k"
    with pytest.raises(DeclarationError, match="no model is named"):
        configured(None, {"FENCEPOST_MODEL_URL": "https://env.example"})


@each_face
def test_local_rules_answer_through_the_same_door(step):
    rules = RuleBased([Rule("rechnung", {"kind": "invoice"})], otherwise={"kind": "nonsense"})
    one = attempting(rules)
    assert run_within(one, step, "Rechnung 17") == Classification(kind=Kind.INVOICE)
    assert one.evidence == {"kind": "model", "endpoint": "local rules, no model"}
    with pytest.raises(MalformedAnswer):
        run(step, rules, "Dear all")


def test_without_a_model_the_step_says_what_to_configure():
    with pytest.raises(Misuse, match="no model is configured") as raised:
        run(classify, None, "x")
    assert "FENCEPOST_MODEL_URL" in raised.value.hint


def test_only_a_model_step_may_ask():
    @compute()
    async def sneaky(call: Call) -> int:
        return await call.model.ask("How many?", "")

    with pytest.raises(Misuse, match="only a @model step may ask"):
        asyncio.run(sneaky.body(Call(attempting(RuleBased([], otherwise=1)))))


# -- the form of an answer --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        '{"kind": "invoice"}',
        '  {"kind":"invoice","sure":1.0}\n',
        '```json\n{"kind": "invoice"}\n```',
        'Here you are:\n\n```\n{"kind": "invoice"}\n```\nAnything else?',
        'Sure.\n  ```JSON\n  {"kind": "invoice"}\n  ```',
    ],
)
def test_json_is_read_alone_or_from_one_fenced_block(text):
    assert classify.parse(text) == Classification(kind=Kind.INVOICE)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "invoice",
        'The answer is {"kind": "invoice"}',
        '{"kind": "invoice"',
        '{"kind": "letter"}',
        '{"sure": 1}',
        '{"kind": "invoice", "sure": 1e999}',
        '```json\n{"kind": "invoice"}\n```\nor\n```json\n{"kind": "other"}\n```',
        '```json\n{"kind": "invoice"}',
        "[" * 10_000,
        "\ud800",
    ],
)
def test_anything_else_is_malformed_and_keeps_its_text(text):
    with pytest.raises(MalformedAnswer) as raised:
        classify.parse(text)
    assert raised.value.text == text


def test_the_error_names_the_place_and_repeats_no_data():
    with pytest.raises(MalformedAnswer) as raised:
        classify.parse('{"kind": "my secret"}')
    assert raised.value.message.startswith("answer.kind: ")
    assert "my secret" not in str(raised.value)
    assert raised.value.__cause__ is None


def test_an_output_that_is_text_is_the_text_as_it_is():
    assert summarise.parse('"quoted" ```json\n1\n```') == '"quoted" ```json\n1\n```'
    assert summarise.schema is None
    with pytest.raises(MalformedAnswer):
        summarise.parse("half a character: \ud800")


def test_an_answer_from_elsewhere_is_parsed_the_same_way():
    @model(output=Classification)
    async def with_own_client(call: Call, text: str) -> Classification:
        return call.model.parse(text)

    assert run(with_own_client, None, '{"kind": "other"}') == Classification(kind=Kind.OTHER)


def test_the_body_may_return_another_type_than_the_output():
    @model(output=Classification)
    async def is_invoice(call: Call, text: str) -> bool:
        found: Classification = await call.model.ask("What is it?", text)
        return found.kind is Kind.INVOICE

    assert run(is_invoice, RuleBased([], otherwise={"kind": "invoice"}), "x") is True
    assert is_invoice.results.encode(True) == "true"


def test_an_output_that_has_no_schema_is_asked_for_by_the_prompt_alone():
    class Own:
        @classmethod
        def __get_pydantic_core_schema__(cls, _source: Any, _handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
            return core_schema.no_info_plain_validator_function(lambda value: value)

    @model(output=Own)
    async def own(call: Call) -> int:
        return await call.model.ask("Any.", "")

    assert own.schema == {}


# -- stubs and declarations -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [classify_stub, classify_stub_in_a_thread])
def test_a_stub_asks_its_docstring_about_its_arguments(server: ModelServer, step):
    server.answers('{"kind": "invoice"}')
    assert run(step, server.endpoint(), "Rechnung", ["paper"]) == Classification(kind=Kind.INVOICE)
    system, user = server.requests[0]["messages"]
    assert system["content"].startswith("Say what kind of letter it is.")
    assert user["content"] == '{"hints":["paper"],"text":"Rechnung"}'


def test_a_body_that_does_more_is_no_stub():
    @model(output=int)
    async def half(call: Call, text: str) -> int:
        """How many?"""
        if not text:
            return 0
        raise NotImplementedError

    @model(output=int)
    async def said(call: Call, text: str) -> int:
        """How many?"""
        raise NotImplementedError("tomorrow")

    for step in (half, said):
        with pytest.raises(NotImplementedError):
            run(step, RuleBased([], otherwise=1), "x")


def test_a_stub_without_a_docstring_is_refused():
    with pytest.raises(DeclarationError, match="no docstring"):

        @model(output=int)
        async def silent(call: Call) -> int:
            raise NotImplementedError


@pytest.mark.parametrize(
    "declare",
    [
        lambda: model(output=int, format_attempts=0),
        lambda: model(output=int, format_attempts=11),
        lambda: model(output=int, retry=Retry(attempts=None)),
        lambda: model(output=object())(classify_stub.body),
        lambda: model(output=int, attempt_timeout="soon")(_whole),
    ],
)
def test_what_cannot_be_kept_is_refused_at_declaration(declare: Callable[[], object]):
    with pytest.raises(DeclarationError):
        declare()


async def _whole(call: Call, text: str) -> int:
    return await call.model.ask("How many?", text)


def test_a_declared_step_says_what_it_is():
    step = model(output=int, version=3, name="count", attempt_timeout="5s", keep_bad_output=False)(_whole)
    assert (step.name, step.kind, step.version, step.attempt_timeout) == ("count", "model", 3, 5 * SECOND)
    assert (step.format_attempts, step.keep_bad_output) == (3, False)
    assert step("x").request == '{"text":"x"}'
    with pytest.raises(ValueRefused):
        step(7).request  # noqa: B018 - the property refuses
