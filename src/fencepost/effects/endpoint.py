"""An OpenAI-compatible model endpoint: what is posted to its `/chat/completions`, and what its replies mean.

A question changes nothing outside, so no reply is evidence of an effect: each is an answer, or a typed error that says
whether asking again can help. Bytes are carried by `transport`, retries are led by `work_out`, and whether the answer
has the declared form is for `model` to say.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from fencepost.core.duration import interval
from fencepost.core.errors import DeclarationError, Misuse, Permanent, RateLimited, StepError, Transient
from fencepost.core.identity import canonical
from fencepost.core.retry import retry_after
from fencepost.effects.question import MalformedAnswer, Question
from fencepost.effects.transport import RawReply

URL_VARIABLE = "FENCEPOST_MODEL_URL"
MODEL_VARIABLE = "FENCEPOST_MODEL"
KEY_VARIABLE = "FENCEPOST_MODEL_KEY"

_PATH = "/chat/completions"
_SHOWN_CHARACTERS_MAX = 200
_OK = range(200, 300)
_RATE_LIMITED = 429
_MAY_HELP_LATER = frozenset({408, 409, 425, *range(500, 600)})


class Posting(NamedTuple):
    """A request that is ready to leave."""

    url: str
    headers: dict[str, str]
    content: bytes


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where models are asked: any server that speaks the OpenAI protocol, such as a hosted one, vLLM or Ollama.

    `url` is the base ("https://api.example.com/v1"), with or without "/chat/completions". `api_key` is called for each
    question, so that a key is never stored and may rotate. `options` go into each request as they are
    (`{"temperature": 0}`).

    Raises:
        DeclarationError: for an address that cannot be used, or one that carries credentials.
    """

    url: str
    model: str
    api_key: Callable[[], str] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise DeclarationError(
                f"the model endpoint {self.url!r} is no address", hint=f"write https://host/v1, also in {URL_VARIABLE}"
            )
        if "@" in parts.netloc:
            raise DeclarationError(
                "the model endpoint's URL carries credentials, which would be stored with each answer",
                hint=f"pass them as api_key=, or in {KEY_VARIABLE}",
            )
        if not self.model:
            raise DeclarationError(
                f"no model is named for the endpoint {self.provenance}", hint=f"pass model=, or set {MODEL_VARIABLE}"
            )

    @classmethod
    def from_environment(cls, variables: Mapping[str, str]) -> Endpoint | None:
        """The endpoint that the environment names, or None if it names no URL.

        Reads FENCEPOST_MODEL_URL and FENCEPOST_MODEL now, and FENCEPOST_MODEL_KEY, which may be missing, when asking.
        """
        url = variables.get(URL_VARIABLE)
        if not url:
            return None
        return cls(url, variables.get(MODEL_VARIABLE, ""), lambda: variables.get(KEY_VARIABLE, ""))

    @property
    def provenance(self) -> str:
        """The model and the address, without the query, where some providers carry keys."""
        parts = urlsplit(self.url)
        return f"{self.model} at {parts.scheme}://{parts.netloc}{parts.path}"

    def posting(self, question: Question) -> Posting:
        """The request that asks `question`."""
        parts = urlsplit(self.url)
        path = parts.path.rstrip("/").removesuffix(_PATH) + _PATH
        headers = {"content-type": "application/json"}
        key = self.api_key() if self.api_key is not None else ""
        if key:
            headers["authorization"] = f"Bearer {key}"
        body = {
            **self.options,
            "model": self.model,
            "messages": [
                {"role": "system", "content": question.instructions},
                {"role": "user", "content": question.text},
            ],
        }
        content = canonical(body, where="question").encode()
        return Posting(urlunsplit((parts.scheme, parts.netloc, path, parts.query, "")), headers, content)

    def answer_in(self, reply: RawReply, *, now: int) -> str:
        """The answer's text. `now` is in microseconds since the epoch.

        Raises:
            RateLimited: asked to wait, with the pause where the endpoint named one.
            Transient: asking again may help: 408, 409, 425, 5xx, a reply that is cut off or no completion.
            Permanent: it cannot: any other refusal, such as a wrong key or an unknown model.
            MalformedAnswer: the model refused to answer.
        """
        if reply.status not in _OK:
            raise self._refusal(reply, now)
        try:
            message = json.loads(reply.body)["choices"][0]["message"]
            content, refused = message.get("content"), message.get("refusal")
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            content = refused = None
        if isinstance(content, str):
            return content
        if isinstance(refused, str):
            raise MalformedAnswer("the model refused to answer", text=refused)
        raise Transient(
            f"the endpoint's reply is no chat completion: {reply.trouble or self._shown(reply)}",
            hint=f"is {self.provenance} an OpenAI-compatible endpoint?",
        )

    def _refusal(self, reply: RawReply, now: int) -> StepError:
        headers = reply.headers
        wait = retry_after(headers.get("retry-after"), now=now, date=headers.get("date"))
        text = f"the model endpoint answered {reply.status}: {self._shown(reply)}"
        ids = {"endpoint": self.provenance, "status": str(reply.status)}
        may_help = reply.status in _MAY_HELP_LATER
        if reply.status == _RATE_LIMITED or (may_help and wait is not None):
            return RateLimited(text, retry_after=interval(wait), hint="asked again within the budget", ids=ids)
        if may_help:
            return Transient(text, hint="asked again within the budget", ids=ids)
        return Permanent(text, hint="check the endpoint's address, model and key", ids=ids)

    def no_answer(self, error: Exception) -> Exception:
        """What to raise for a question that brought no reply."""
        if isinstance(error, Misuse):
            return error
        named = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        return Transient(
            f"the model endpoint did not answer ({named})",
            hint="asked again within the budget",
            ids={"endpoint": self.provenance},
        )

    @staticmethod
    def _shown(reply: RawReply) -> str:
        return " ".join(reply.body.decode("utf-8", "replace").split())[:_SHOWN_CHARACTERS_MAX] or "an empty body"
