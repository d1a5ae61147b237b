"""The model side: `@model` steps, and `call.model`, which asks the configured model and checks the answer's form.

One rule for types: `output` is what an answer must be; `call.model.ask` returns it or raises `MalformedAnswer`; the
body returns what its annotation says, usually the same. A stub, whose body is a docstring and
`raise NotImplementedError`, asks its docstring about its arguments.

Asking again, and keeping what was accepted, is led by `work_out`; who answers is an `Endpoint` or local `rules`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from functools import cached_property
from typing import Any, Concatenate, NoReturn, ParamSpec, Protocol, TypeVar, overload

from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError

from fencepost.core import contract as contracts
from fencepost.core.duration import microseconds
from fencepost.core.errors import DeclarationError, Misuse, ValueRefused
from fencepost.effects.attempting import Attempting
from fencepost.effects.call import Call, SyncCall
from fencepost.effects.declare import Duration, Step, check_ends
from fencepost.effects.endpoint import Endpoint
from fencepost.effects.fitting import in_parentheses
from fencepost.effects.policy import Policy
from fencepost.effects.question import Answerer, MalformedAnswer, Question
from fencepost.effects.rules import Rule, RuleBased
from fencepost.effects.values import Door

__all__ = [
    "Answerer",
    "Endpoint",
    "MalformedAnswer",
    "Model",
    "ModelStep",
    "Question",
    "Rule",
    "RuleBased",
    "Source",
    "SyncModel",
    "configured",
    "model",
]

FORMAT_ATTEMPTS_MAX = 10
"""More answers in the wrong form than this are a reason to mend the prompt, not to ask again."""

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")

Source = Endpoint | Answerer


def configured(given: Source | None, variables: Mapping[str, str]) -> Source | None:
    """Who answers: an endpoint that the app was given, else the one that the environment names, else what was given.

    So local rules passed to the app are what is used until somebody configures a model.
    """
    if isinstance(given, Endpoint):
        return given
    return Endpoint.from_environment(variables) or given


# -- asking -------------------------------------------------------------------------------------------------------


class _Asking:
    """What both faces of `call.model` share."""

    __slots__ = ("_attempting",)

    def __init__(self, attempting: Attempting) -> None:
        self._attempting = attempting

    def parse(self, text: str) -> Any:
        """The output in an answer that came from elsewhere, such as a provider's own client.

        Raises:
            MalformedAnswer: it is not of the step's output type; counts against the format budget if let through.
        """
        return self._step.parse(text)

    @property
    def _step(self) -> ModelStep[..., Any]:
        step = self._attempting.model_step
        if step is None:
            raise Misuse(
                "only a @model step may ask a model",
                hint="put the question into a step decorated with @model, whose answer is stored once",
                ids={"step": self._attempting.position},
            )
        return step

    def _begin(self, prompt: str, text: str) -> tuple[Source, Question]:
        step, attempting = self._step, self._attempting
        source = attempting.site.outside.model
        if source is None:
            raise Misuse(
                "no model is configured",
                hint="set FENCEPOST_MODEL_URL and FENCEPOST_MODEL, or pass App(model=Endpoint(...)) or RuleBased(...)",
                ids={"step": step.name},
            )
        attempting.check_permission()
        attempting.note_reply({"kind": "model", "endpoint": source.provenance}, replayed=False)
        return source, Question(step.name, prompt, text, step.schema, attempting.attempt)


class Model(_Asking):
    """`call.model` of an `async def` body."""

    __slots__ = ()

    async def ask(self, prompt: str, text: str) -> T:
        """Ask the configured model to do `prompt` with `text`; returns the step's output type.

        Raises:
            MalformedAnswer: the answer is not of that type; `text` holds it.
            RateLimited, Transient: asking again may help.
            Permanent: it cannot.
            Misuse: no model is configured, or the step is no model step.
        """
        source, question = self._begin(prompt, text)
        if not isinstance(source, Endpoint):
            return self._step.parse(source.answer(question))  # type: ignore[no-any-return]  # the door reads T
        posting = source.posting(question)
        attempting = self._attempting
        try:
            # Its own facts: a question is no write of the attempt, and is not counted as one.
            reply = await attempting.site.outside.async_door().request(
                "POST", posting.url, deadline=attempting.deadline, headers=posting.headers, content=posting.content
            )
        except Exception as error:
            raise source.no_answer(error) from error
        return self._step.parse(source.answer_in(reply, now=attempting.site.now()))  # type: ignore[no-any-return]  # as above


class SyncModel(_Asking):
    """`call.model` of a plain `def` body; the same names, blocking."""

    __slots__ = ()

    def ask(self, prompt: str, text: str) -> T:  # type: ignore[type-var]  # T is what the body goes on to return
        """As `Model.ask`, blocking."""
        source, question = self._begin(prompt, text)
        if not isinstance(source, Endpoint):
            return self._step.parse(source.answer(question))  # type: ignore[no-any-return]  # the door reads T
        posting = source.posting(question)
        attempting = self._attempting
        try:
            reply = attempting.site.outside.sync_door().request(
                "POST", posting.url, deadline=attempting.deadline, headers=posting.headers, content=posting.content
            )
        except Exception as error:
            raise source.no_answer(error) from error
        return self._step.parse(source.answer_in(reply, now=attempting.site.now()))  # type: ignore[no-any-return]  # as above


# -- the step -----------------------------------------------------------------------------------------------------

_FENCED = re.compile(r"^[ \t]*```[ \t]*\w*[ \t]*\n(.*?)^[ \t]*```[ \t]*$", re.DOTALL | re.MULTILINE)


class ModelStep(Step[P, R_co]):
    """A step that asks a model: its accepted answer is stored once, a malformed one costs its own small budget."""

    def __init__(
        self,
        body: Callable[..., Any],
        *,
        output: Any,
        name: str | None,
        version: int,
        retry: contracts.Retry,
        attempt_timeout: Duration,
        format_attempts: int,
        keep_bad_output: bool,
        policy: Policy | None,
    ) -> None:
        super().__init__(body, "model", name=name, version=version, retry=retry)
        self.output = Door(output, where="answer")
        self.format_attempts = format_attempts
        self.keep_bad_output = keep_bad_output
        self.policy = policy
        self.attempt_timeout = microseconds(attempt_timeout, what="attempt_timeout")
        self._asks: Callable[..., Any] = body
        if _is_stub(body):
            self.prompt = _docstring(body, self.name)
            self._asks = self._ask_docstring if self.is_async else self._ask_docstring_blocking
        self.body = self._run if self.is_async else self._run_blocking

    @cached_property
    def schema(self) -> dict[str, Any] | None:
        """The JSON schema of the output; None where any text will do, empty where any JSON will."""
        if self.output.annotation is str:
            return None
        try:
            return TypeAdapter(self.output.annotation).json_schema()
        except PydanticUserError:  # a type that is read by its own code; what it wants stands in the prompt
            return {}

    def parse(self, text: str) -> Any:
        """The output in a model's answer: JSON, alone or in one fenced block; for `str`, the text as it is.

        Raises:
            MalformedAnswer: it is no such output, or one that could not be stored.
        """
        if self.output.annotation is str:
            return self._accepted(text, text)
        blocks = _FENCED.findall(text)
        return self._read(blocks[0] if len(blocks) == 1 else text, text)

    def _read(self, json: str, text: str) -> Any:
        try:
            value = self.output.decode(json)
        except ValueRefused as refused:
            self._refuse(refused, text)
        return self._accepted(value, text)

    def _accepted(self, value: Any, text: str) -> Any:
        try:
            return self.output.carry(value)[1]
        except ValueRefused as refused:
            self._refuse(refused, text)

    def _refuse(self, refused: ValueRefused, text: str) -> NoReturn:
        raise MalformedAnswer(refused.message, text=text, hint="the model is asked again within its budget") from None

    async def _run(self, call: Call, *args: Any, **kwargs: Any) -> Any:
        self._join(call)
        return await self._asks(call, *args, **kwargs)

    def _run_blocking(self, call: SyncCall, *args: Any, **kwargs: Any) -> Any:
        self._join(call)
        return self._asks(call, *args, **kwargs)

    def _join(self, call: Call | SyncCall) -> None:
        """Tell `call.model` whose output type an answer must have."""
        if isinstance(call, Call | SyncCall):  # a user's unit test may pass a stand-in
            call._attempting.model_step = self  # noqa: SLF001 - the call and its model are one door

    async def _ask_docstring(self, call: Call, *args: Any, **kwargs: Any) -> Any:
        return await call.model.ask(self.prompt, self.arguments.encode(args, kwargs))

    def _ask_docstring_blocking(self, call: SyncCall, *args: Any, **kwargs: Any) -> Any:
        return call.model.ask(self.prompt, self.arguments.encode(args, kwargs))


def _docstring(body: Callable[..., Any], step: str) -> str:
    prompt = inspect.getdoc(body)
    if not prompt:
        raise DeclarationError(
            f"the model stub {step} has no docstring, which would be its prompt", hint="write the prompt there"
        )
    return prompt


def _stub() -> NoReturn:
    raise NotImplementedError


async def _async_stub() -> NoReturn:
    raise NotImplementedError


def _is_stub(body: Callable[..., Any]) -> bool:
    """Whether the body does nothing but `raise NotImplementedError`: it compiles to the same instructions."""
    like = _async_stub if inspect.iscoroutinefunction(body) else _stub
    code = getattr(body, "__code__", None)
    return code is not None and code.co_names == like.__code__.co_names and code.co_code == like.__code__.co_code


# -- the decorator ------------------------------------------------------------------------------------------------


class ModelDecorator(Protocol):
    """Turns an async or plain body, or a stub, into a model step."""

    @overload
    def __call__(self, body: Callable[Concatenate[Call, P], Awaitable[R]], /) -> ModelStep[P, R]: ...
    @overload
    def __call__(self, body: Callable[Concatenate[SyncCall, P], R], /) -> ModelStep[P, R]: ...


_FIVE_IN_FIFTEEN_MINUTES = contracts.Retry()


@in_parentheses
def model(
    *,
    output: Any,
    version: int = 1,
    name: str | None = None,
    format_attempts: int = 3,
    keep_bad_output: bool = True,
    retry: contracts.Retry = _FIVE_IN_FIFTEEN_MINUTES,
    attempt_timeout: Duration = timedelta(minutes=1),
    policy: Policy | None = None,
) -> ModelDecorator:
    """Declare a step that asks a model, whose accepted output is stored once and reused: a restart never asks again.

    Args:
        output: the type that an answer must have: a pydantic model, an enum, `str`, anything the typed door reads.
        version: raise it to have new runs decide anew.
        name: of the step, if not the function's.
        format_attempts: so many answers in the wrong form, then the run is held.
        keep_bad_output: keep their texts, for whoever mends the prompt.
        retry: the budget and pauses for an endpoint that fails or is busy.
        attempt_timeout: bounds one question.
        policy: `(principal, result) -> Allowed | Refused`, code that judges the accepted result before the workflow
            sees it; the verdict is recorded, and a refusal reaches the workflow as a permanent error.

    Raises:
        DeclarationError: for a budget that does not end, an output that cannot be stored, a stub without docstring.
    """
    if not 1 <= format_attempts <= FORMAT_ATTEMPTS_MAX:
        raise DeclarationError(
            f"format_attempts={format_attempts} is not between 1 and {FORMAT_ATTEMPTS_MAX}",
            hint="a model that keeps missing the form needs another prompt or a simpler output",
        )
    check_ends(retry)

    def decorate(body: Callable[..., Any]) -> ModelStep[..., Any]:
        return ModelStep(
            body,
            output=output,
            name=name,
            version=version,
            retry=retry,
            attempt_timeout=attempt_timeout,
            format_attempts=format_attempts,
            keep_bad_output=keep_bad_output,
            policy=policy,
        )

    return decorate  # type: ignore[return-value]  # the protocol's overloads say what a closure cannot
