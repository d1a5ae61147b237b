"""The decorators with which users declare steps: `effect`, `read`, `compute` and `model`.

A decorated function becomes a `Step`. Calling it builds an inert, typed `Bound`; `run.do` or `ledger.perform` performs
it, and `step.body(call, ...)` is the function itself, for unit tests. What is declared here is collected into a
`core.contract.Contract`; what that buys is computed in `core.guarantee`, and carried out by `perform`.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Awaitable, Callable, Generator, Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Concatenate, Generic, Literal, ParamSpec, Protocol, TypeVar, overload

from fencepost.core import contract as contracts
from fencepost.core.approval import call_digest
from fencepost.core.duration import MINUTE, microseconds
from fencepost.core.errors import DeclarationError, FencepostError, Misuse, ValueRefused
from fencepost.core.identity import check_name, digest_text
from fencepost.effects.compensation import Compensation
from fencepost.effects.declared import Declared
from fencepost.effects.failures import error_record
from fencepost.effects.fitting import (
    check_call,
    check_cancel,
    check_compensation,
    check_fits,
    check_other_way,
    in_parentheses,
)
from fencepost.effects.policy import Policy
from fencepost.effects.promises import Fenced, KeyArgument, KeyHeader, Stands
from fencepost.effects.values import VALUE_MAX, ArgumentsDoor, Carried, Door, result_door

if TYPE_CHECKING:
    from fencepost.effects.call import Call, SyncCall

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

Duration = str | timedelta
StepKind = Literal["effect", "model", "read", "compute"]


# -- a step and its bound calls -----------------------------------------------------------------------------------


class Watch(threading.local):
    """Who is told of a bound call that is dropped without being performed: the run whose workflow code runs now."""

    report: Callable[[FencepostError], None] | None = None


WATCH = Watch()


class Bound(Generic[R_co]):
    """A step with its arguments, not performed yet. `request` is their canonical JSON, `fingerprint` its digest."""

    __slots__ = ("_fingerprint", "_request", "after", "args", "kwargs", "performed", "step", "watch")

    needs_approval = False
    """Whether it may be sent only with an approval."""

    def __init__(self, step: Step[..., R_co], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.step = step
        self.args = args
        self.kwargs = kwargs
        self.performed = False
        self.after: tuple[tuple[str, str | None], ...] = ()  # what it rests on, once `run.do` has been told
        self.watch = WATCH.report
        self._request: str | None = None
        self._fingerprint: str | None = None

    @property
    def effect(self) -> Effect[..., R_co]:
        """The step as the effect that it is; only effects have operations."""
        assert isinstance(self.step, Effect), f"{self.step.name} is no effect"
        return self.step

    @property
    def request(self) -> str:
        """The canonical JSON of the arguments. Raises `ValueRefused` for what cannot be stored and read back."""
        if self._request is None:
            # From here on everybody works on the copies that a later attempt would read, never on the originals.
            self._request, self.args, self.kwargs = self.step.arguments.carry(self.args, self.kwargs)
        return self._request

    @property
    def fingerprint(self) -> str:
        """Digest of the request."""
        if self._fingerprint is None:
            self._fingerprint = digest_text(self.request.encode())
        return self._fingerprint

    @property
    def version(self) -> int:
        """The step's version."""
        return self.step.version

    def digest(self, run: str, item: str | None = None, *, turn: int = 0) -> str:
        """The name of this exact call in that turn of the run with that id: what an approval of it must name."""
        return call_digest(run, self.step.name, item, self.version, self.fingerprint, turn=turn)

    def decode(self, payload: Any) -> R_co:
        """The step's result from its stored text."""
        results = self.step.results
        if type(payload) is Carried:
            return payload.take(results)  # type: ignore[no-any-return]  # the door reads R
        return results.decode(payload)  # type: ignore[no-any-return]  # as above

    if not TYPE_CHECKING:  # type checkers refuse to await one, also in a gather or a race

        def __await__(self) -> Generator[Any, Any, R_co]:
            """Always raises: a bound step is performed by `run.do` or `ledger.perform`."""
            self.performed = True
            raise Misuse(
                f"{self.step.name} was awaited, which performs nothing",
                hint=f"write `await run.do({self.step.name}(...))`",
                ids={"step": self.step.name},
            )

    def __del__(self) -> None:
        """Report a call that workflow code built and dropped: most likely its `run.do` was forgotten."""
        if not self.performed and self.watch is not None:
            self.watch(
                Misuse(
                    f"{self.step.name}(...) was built and dropped, which performs nothing",
                    hint=f"write `await run.do({self.step.name}(...))`",
                    ids={"step": self.step.name},
                )
            )


class Step(Generic[P, R_co]):
    """A declared step: its body, its kind, and the doors through which its values are stored."""

    def __init__(
        self, body: Callable[..., Any], kind: StepKind, *, name: str | None, version: int, retry: contracts.Retry
    ) -> None:
        self.body = self.function = body
        self.kind: StepKind = kind
        self.name = check_name(name or body.__name__, what="step name")
        self.version = version
        self.retry = retry
        self.is_async = inspect.iscoroutinefunction(body)
        self.arguments = ArgumentsDoor(body, limit=VALUE_MAX)
        check_call(body)
        self.results: Door = result_door(body, limit=VALUE_MAX)
        self.attempt_timeout = MINUTE
        self.__doc__ = body.__doc__
        self.__module__ = body.__module__

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Bound[R_co]:
        """The step with these arguments, ready to be performed."""
        return Bound(self, args, kwargs)

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name} version {self.version}>"


class Effect(Step[P, R_co]):
    """A step that writes to the outside, with its contract."""

    def __init__(self, body: Callable[..., Any], declared: Declared) -> None:
        super().__init__(body, "effect", name=declared.name, version=declared.version, retry=declared.retry)
        self.declared = declared
        self.contract = declared.contract(self.name)
        self.attempt_timeout = self.contract.timeout
        self._check_what_it_names()

    def _check_what_it_names(self) -> None:
        declared, arguments = self.declared, self.arguments
        if declared.atomic and self.is_async:
            raise DeclarationError(
                f"{self.name} is atomic and async: its transaction would wait for whatever it awaits",
                hint="write its body as a plain function",
            )
        hooks = (("reconcile", declared.reconcile), ("load", declared.load), ("cancel", declared.cancel))
        for role, function in hooks:
            if isinstance(function, Step):
                raise DeclarationError(
                    f"{role}={function.name} of {self.name} is a step", hint="name a function without decorator"
                )
        if declared.reconcile is not None:
            check_fits(
                "reconcile", declared.reconcile, self.name, given=arguments.by_position, by_name=arguments.by_name
            )
        if declared.load is not None:
            check_fits("load", declared.load, self.name, given=("reference",))
        if declared.cancel is not None:
            check_cancel(declared.cancel, self.name, arguments, atomic=declared.atomic)
        if isinstance(declared.compensate, Compensation):
            undo = declared.compensate.effect
            given = (*arguments.by_position, *arguments.by_name)
            check_compensation(undo.name, undo.arguments.signature, self.name, given=given)
        if (other := declared.forward) is not None:
            if not isinstance(other, Effect):
                raise DeclarationError(f"forward={other!r} is no effect", hint="name a function decorated with @effect")
            results = (other.results, self.results)
            check_other_way(other.name, self.name, arguments=(other.arguments, arguments), results=results)

    @property
    def send_key(self) -> KeyHeader | KeyArgument | None:
        """How the key travels."""
        return self.declared.send_key

    def carry_result(self, value: Any) -> Carried:
        """The canonical text of a result, with its copy. Raises `ValueRefused`."""
        return Carried(*self.results.carry(value))

    @property
    def is_fenced(self) -> bool:
        """Whether each attempt carries a token that the target compares."""
        return self.declared.fence is not None

    @property
    def can_load(self) -> bool:
        """Whether a result can be read by its reference."""
        return self.declared.load is not None

    def reference_of(self, value: Any) -> str | None:
        """The remote object's id in a result: the declared attribute or key, or what the declared function says.

        Raises:
            ValueRefused: the declared function raised. The effect happened all the same.
        """
        declared = self.declared.reference
        if declared is None:
            return None
        try:
            found = declared(value) if callable(declared) else _part(value, declared)
            return None if found is None else str(found)
        except Exception as error:
            raise ValueRefused(
                f"the reference of {self.name} cannot be read from its result: {error_record(error).message}",
                hint="mend reference=, then settle the step with its result and its reference",
                ids={"step": self.name},
            ) from error


def _part(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else getattr(value, name, None)


# -- the decorators -----------------------------------------------------------------------------------------------


class StepDecorator(Protocol):
    """Turns an async or plain body into a step."""

    @overload
    def __call__(self, body: Callable[Concatenate[Call, P], Awaitable[R]], /) -> Step[P, R]: ...
    @overload
    def __call__(self, body: Callable[Concatenate[SyncCall, P], R], /) -> Step[P, R]: ...


class EffectDecorator(Protocol):
    """Turns an async or plain body into an effect."""

    @overload
    def __call__(self, body: Callable[Concatenate[Call, P], Awaitable[R]], /) -> Effect[P, R]: ...
    @overload
    def __call__(self, body: Callable[Concatenate[SyncCall, P], R], /) -> Effect[P, R]: ...


_FIVE_IN_FIFTEEN_MINUTES = contracts.Retry()


def check_ends(retry: contracts.Retry) -> None:
    """Refuse a budget without end: what is repeated for ever is never seen by anybody."""
    if not retry.bounded:
        raise DeclarationError("the retry budget does not end", hint="give Retry both attempts= and within=")


@in_parentheses
def effect(
    *,
    version: int = 1,
    name: str | None = None,
    send_key: KeyHeader | KeyArgument | None = None,
    reconcile: Callable[..., Any] | None = None,
    consistent: bool = False,
    settle: Duration | None = None,
    reference: str | Callable[[Any], Any] | None = None,
    load: Callable[..., Any] | None = None,
    compensate: Effect[..., Any] | Compensation | Stands | None = None,
    restores: bool = False,
    forward: Effect[..., Any] | None = None,
    cancel: Callable[..., Any] | None = None,
    retry: contracts.Retry = _FIVE_IN_FIFTEEN_MINUTES,
    attempt_timeout: Duration | None = timedelta(minutes=1),
    target: str | None = None,
    scope: str | None = None,
    policy: Policy | None = None,
    financial: bool = False,
    independent: bool = False,
    repeatable: bool = False,
    fence: Fenced | None = None,
    atomic: bool = False,
    on_unknown: Literal["hold"] | None = None,
    definite: Iterable[int] = (),
    not_definite: Iterable[int] = (),
    accepted_is_applied: bool = False,
    clients: Iterable[Any] = (),
) -> EffectDecorator:
    """Declare a step that writes to the outside.

    Args:
        version: of the contract; part of the key, so a raised version is another effect.
        name: of the step, if not the function's.
        send_key: how the key travels, with the target's window.
        reconcile: the look-up `(call, *arguments) -> Found | Absent | Inconclusive`.
        consistent: the look-up reads from the authority itself, without lag.
        settle: how long the target may still work on bytes it has, and until a look-up sees the result.
        reference: the remote object's id: an attribute or key of the result, or a function of it.
        load: reads a missing result by its reference: `(call, reference) -> R`.
        compensate: the effect `(call, *arguments, result or None, reference)` that makes this one acceptable, with
            `Compensation(effect, ...)` for its terms, or `Stands(why)` for one that is meant to stand.
        restores: the compensation brings the former state back; of a `Compensation` it is one of the terms.
        forward: the effect that does the same another way, with the same arguments and result: for `run.forward`, and
            for a person to choose, once this one has failed.
        cancel: asks the target to stop, `(call, *arguments, reference or None)`, when the run is cancelled while it may
            be at work on this; at most once for each owner. What it returns is kept as evidence, and proves nothing.
        retry: the budget and the pauses.
        attempt_timeout: bounds one attempt.
        target: the name under which the app configures base URL, headers and scope for `call.http`.
        scope: where the key is valid (account, credential, region); the target's scope by default.
        policy: code that allows or refuses the effect before it is sent.
        financial: needs reference and compensation.
        independent: may begin while another operation of the run is unknown.
        repeatable: applying it several times is harmless.
        fence: the target that compares tokens, and the resource that a request touches there.
        atomic: the body, a plain function, writes into the ledger's own database through `call.transaction` and nowhere
            else; its writes and its result are one commit.
        on_unknown: "hold": at most once, a person settles.
        definite: further statuses that prove that the attempt was not applied.
        not_definite: statuses that prove nothing at this target, although they do by default.
        accepted_is_applied: 202 counts as applied.
        clients: through which it sends, or a `Layer` for what cannot be seen; those that retry by themselves are named.

    Raises:
        DeclarationError: for what cannot be meant. What is merely missing is a blank, named at registration.
    """
    if on_unknown not in (None, "hold"):
        raise DeclarationError(
            f"on_unknown={on_unknown!r} is not known", hint='leave it out, or write on_unknown="hold"'
        )
    declared = Declared(
        name=name,
        version=version,
        send_key=send_key,
        reconcile=reconcile,
        consistent=consistent,
        settle=settle,
        reference=reference,
        load=load,
        compensate=_terms(compensate, restores=restores),
        forward=forward,
        cancel=cancel,
        retry=retry,
        attempt_timeout=attempt_timeout,
        target=target,
        scope=scope,
        policy=policy,
        financial=financial,
        independent=independent,
        repeatable=repeatable,
        fence=fence,
        atomic=atomic,
        on_unknown=on_unknown,
        definite=tuple(definite),
        not_definite=tuple(not_definite),
        accepted_is_applied=accepted_is_applied,
        clients=tuple(clients),
    )

    def decorate(body: Callable[..., Any]) -> Effect[..., Any]:
        return Effect(body, declared)

    return decorate  # type: ignore[return-value]  # the protocol's overloads say what a closure cannot


def _terms(given: Effect[..., Any] | Compensation | Stands | None, *, restores: bool) -> Compensation | Stands | None:
    """What was given as `compensate=`, with its terms spelled out."""
    if isinstance(given, Effect):
        return Compensation(given, restores=restores)
    if isinstance(given, Compensation) and not isinstance(given.effect, Effect):
        raise DeclarationError(f"{given.effect!r} is no effect", hint="name a function decorated with @effect")
    if not isinstance(given, Compensation | Stands | None):
        raise DeclarationError(
            f"compensate={given!r} is no effect", hint="name a function decorated with @effect, or Stands(why)"
        )
    if restores:
        raise DeclarationError("restores= stands beside no plain effect", hint="say it in Compensation(restores=True)")
    return given


@in_parentheses
def read(
    *,
    version: int = 1,
    name: str | None = None,
    retry: contracts.Retry = _FIVE_IN_FIFTEEN_MINUTES,
    attempt_timeout: Duration = timedelta(minutes=1),
) -> StepDecorator:
    """Declare a step that reads from the outside and changes nothing there; it is repeated freely within its budget.

    Raises:
        DeclarationError: for a budget that does not end, or a body that cannot be called or stored.
    """
    return _plain("read", name, version, retry, attempt_timeout)


@in_parentheses
def compute(
    *,
    version: int = 1,
    name: str | None = None,
    retry: contracts.Retry = _FIVE_IN_FIFTEEN_MINUTES,
    attempt_timeout: Duration = timedelta(minutes=1),
) -> StepDecorator:
    """Declare a step that only computes, and whose result is worth keeping.

    Raises:
        DeclarationError: as `read` does.
    """
    return _plain("compute", name, version, retry, attempt_timeout)


def _plain(
    kind: StepKind, name: str | None, version: int, retry: contracts.Retry, attempt_timeout: Duration
) -> StepDecorator:
    check_ends(retry)

    def decorate(body: Callable[..., Any]) -> Step[..., Any]:
        step: Step[..., Any] = Step(body, kind, name=name, version=version, retry=retry)
        step.attempt_timeout = microseconds(attempt_timeout, what="attempt_timeout")
        return step

    return decorate  # type: ignore[return-value]  # the protocol's overloads say what a closure cannot
