"""How a service of the outside world behaves: what it does with keys, what a look-up sees, which faults strike it.

Everything here is plain validated data that travels as JSON: to the admin endpoint, in a settings file, from a test.
Durations are seconds of the service's own settable clock, except `milliseconds` of a fault, which really pass.
Deciding when a fault strikes belongs to `faults`; carrying it out on the wire belongs to `web` and `smtp`.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ModelWrapValidatorHandler, ValidationError, model_validator

from fencepost.core.errors import Misuse


class _Setting(BaseModel):
    """Frozen, and strict about names: a misspelt setting is an error, never a setting that silently does nothing."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="wrap")
    @classmethod
    def _is_named_if_wrong(cls, given: Any, check: ModelWrapValidatorHandler[Self]) -> Self:
        """Raise `Misuse` for a wrong setting, as everything here does, and name what there is."""
        try:
            return check(given)
        except ValidationError as error:
            raise Misuse(f"{cls.__name__}: {mistakes(error)}", hint=cls._taken()) from None

    @classmethod
    def _taken(cls) -> str:
        return f"{cls.__name__} takes {', '.join(cls.model_fields)}"


def mistakes(error: ValidationError) -> str:
    """Each mistake that pydantic found, on one line and without its links."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    told = ((".".join(map(str, one["loc"])), one["msg"].removeprefix("Value error, ")) for one in found)
    return "; ".join(f"{where}: {what}" if where else what for where, what in told)


class Keys(_Setting):
    """What a collection does with idempotency keys.

    `header` and, if named, the body field `argument` carry the key. With `honoured`, the first result under a key is
    replayed (marked by `replayed_header`) until `window_seconds` after it was stored (None: for ever); another body
    under a known key is refused with `mismatch`. `scope` names request headers (an account, a credential) that belong
    to the key: when one of them changes, the key protects nothing. A key never reaches beyond its endpoint.
    """

    honoured: bool = True
    header: str = "Idempotency-Key"
    argument: str | None = None
    window_seconds: Annotated[float, Field(gt=0)] | None = None
    mismatch: Literal[409, 422] = 422
    replayed_header: str | None = "Idempotent-Replayed"
    scope: tuple[str, ...] = ()


class LookUp(_Setting):
    """What asking a collection can tell.

    `field` is the external key: taken from the body, else from the idempotency key. `lag_seconds` and `lag_lookups`
    hide a new object from lists, until the service's clock has moved so far and so many look-ups have missed it. A read
    by id is never late. With `offered` false, both are refused with 405.
    """

    offered: bool = True
    field: str = "external_key"
    lag_seconds: Annotated[float, Field(ge=0)] = 0
    lag_lookups: Annotated[int, Field(ge=0)] = 0


FaultKind = Literal["wait", "reset", "answer", "malformed", "huge", "truncate", "half-close", "slow-read"]
FaultMoment = Literal["head", "before", "after"]

_ONLY_MOMENT: dict[str, FaultMoment] = {
    "malformed": "after",
    "huge": "after",
    "truncate": "after",
    "slow-read": "head",
}


class Fault(_Setting):
    """One way to misbehave, and the requests it strikes.

    What happens (`do`), after an optional pause of `milliseconds` or, with `hold`, until `name` is released:

    - `wait`: nothing else; the request goes on (also: the work, or its reply, takes long)
    - `reset`: the connection is reset without a reply
    - `answer`: `status` with `text` (default: an error as JSON with `code`), `headers`, `retry_after` as raw text;
      with `stored` the answer is remembered under the key and replayed for ever, as some providers do with failures
    - `malformed`: the success status with a body (`text`) that is not JSON
    - `huge`: the reply padded to `size` bytes
    - `truncate`: the reply breaks off in the middle of its body
    - `half-close`: the service ends its sending side without a reply and keeps reading
    - `slow-read`: the body is read `size` bytes at a time, `milliseconds` apart; with `hold`, not before the release

    `when`: `before` the effect commits (so there is none), `after` it committed, or at the `head`, before the body was
    read. It must be said for `wait`, `reset` and `half-close`; an `answer` is given before unless said otherwise.

    Which requests: every given pattern must match. `method` defaults to the writing ones (POST, PUT, and DATA for
    mail; the SMTP verbs MAIL and RCPT, and CONNECT for the greeting, are methods too). `collection`, `path` and `key`
    are shell patterns, `body` is a text that must occur. `ordinal` restricts to the n-th request for the same key or
    body. `skip` lets the first matches pass, `times` bounds how often it strikes (None: no bound), `rate` is its
    probability, drawn from the seed, the key or body and the ordinal, so that the order of arrival does not matter.
    """

    do: FaultKind
    when: FaultMoment | None = None
    name: str = ""
    method: str | None = None
    collection: str = "*"
    path: str = "*"
    key: str = "*"
    body: str = ""
    ordinal: Annotated[int, Field(ge=1)] | None = None
    skip: Annotated[int, Field(ge=0)] = 0
    times: Annotated[int, Field(ge=1)] | None = 1
    rate: Annotated[float, Field(ge=0, le=1)] = 1
    milliseconds: Annotated[int, Field(ge=0)] = 0
    hold: bool = False
    status: Annotated[int, Field(ge=200, le=599)] = 500
    code: str = ""
    text: str | None = None
    headers: dict[str, str] = {}
    retry_after: str | None = None
    stored: bool = False
    size: Annotated[int, Field(ge=1, le=1 << 30)] = 1024

    @property
    def moment(self) -> FaultMoment:
        """When it strikes; what was said, or the only moment that makes sense for its kind."""
        return self.when or _ONLY_MOMENT.get(self.do, "before")

    @property
    def label(self) -> str:
        """The name under which it is counted: its own, or what it does and when."""
        return self.name or f"{self.do} {self.moment}"

    @property
    def in_front(self) -> bool:
        """Whether it strikes before the service looks at the key, as a rate limiter in front of it does."""
        return self.moment == "before" and self.do in {"reset", "answer", "half-close"} and not self.stored

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        wrong = self._nonsense()
        if wrong is not None:
            raise Misuse(f"Fault: {wrong}", hint=self._taken())
        return self

    def _nonsense(self) -> str | None:
        only = _ONLY_MOMENT.get(self.do)
        if self.when is None and only is None and self.do != "answer":
            return f"a fault that does {self.do!r} must say when: 'before' or 'after' the effect commits"
        if only is not None and self.when not in {None, only}:
            return f"a fault that does {self.do!r} can only strike {only!r}"
        if self.moment == "head" and (self.do not in {"slow-read", "reset"} or self.body):
            return "at the head only 'slow-read' and 'reset' can strike, and no body is known to match"
        if self.hold and not self.name:
            return "a fault that holds needs a name, so that it can be released"
        if self.do == "wait" and not (self.hold or self.milliseconds):
            return "a fault that waits needs hold=True or milliseconds"
        if self.stored and (self.do != "answer" or self.moment != "before"):
            return "only an answer given before the effect can be stored under the key"
        return None


class Configure(_Setting):
    """One change of a service's behaviour; what is None stays as it is.

    `keys`, `look_up` and `identity` apply to the collections that match the shell pattern `collection`. `identity`
    names the fields that make two objects the same business object (default: the external key). `faults` is the
    service's whole list and replaces the one before; of the faults that match a request, the first one strikes.
    """

    service: str
    collection: str = "*"
    keys: Keys | None = None
    look_up: LookUp | None = None
    identity: tuple[str, ...] | None = None
    faults: tuple[Fault, ...] | None = None
