"""Tells a tracer provider what runs did: the spans of the trace that the ledger holds, under the ids they have there.

Whoever leaves a run tells what was not settled when it began, and whoever carries out a verb what that has settled. A
worker that has taken the run over from one that was lost tells everything, since nobody knows what that one still told:
a span may so be told twice, and is the same one. Without a tracer provider nothing here costs anything: it is looked
for once a worker's life, and only where somebody has imported OpenTelemetry. What is in a trace is `core.trace`.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import sys
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from fencepost.core.trace import Ids, Status, Trace, TraceSpan, trace_of

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import SpanContext, TracerProvider

    from fencepost.core.records import History, Run
    from fencepost.effects.attempting import Attempting
    from fencepost.runtime.deeds import Desk
    from fencepost.store.api import Store

LOG = logging.getLogger("fencepost.tracing")

TURNS_MAX = 100
"""Of a run that has continued, so many of its last turns are read."""

PREFIX = "fencepost."
"""How the names of all attributes begin."""

P = ParamSpec("P")
R = TypeVar("R")


def read_trace(store: Store, run: Run) -> Trace:
    """The trace of a run, whatever worker has lived it; of one that continued, with at most `TURNS_MAX` turns.

    Raises:
        StoreUnavailable: the ledger cannot be read.
    """
    numbers = range(max(0, run.turn - TURNS_MAX + 1), run.turn)
    earlier = [turn for number in numbers if (turn := store.turn(run.namespace, run.id, number)) is not None]
    histories = store.load_all([one.no for one in (*earlier, run)])
    return trace_of(histories, store.audits(run.namespace, run.id))


def configured() -> Tracing | None:
    """What tells this process's tracer provider; None while nobody has set one."""
    api: Any = sys.modules.get("opentelemetry.trace")
    if api is None:
        return None
    provider = api.get_tracer_provider()
    if isinstance(provider, api.ProxyTracerProvider | api.NoOpTracerProvider):
        return None
    return _telling(provider)


@functools.lru_cache(maxsize=1)
def _telling(provider: TracerProvider) -> Tracing:
    return Tracing(provider)


class Tracing:
    """Tells one tracer provider.

    The SDK's tracer makes ids with its `id_generator`, of which each tracer has a place of its own: in ours the ids are
    those of the ledger's trace. Another implementation's spans get ids of its own, in the same trace.
    """

    def __init__(self, provider: TracerProvider) -> None:
        from fencepost import __version__

        self._tracer: Any = provider.get_tracer("fencepost", __version__)
        self._ids = _GivenIds()
        self._lock = threading.Lock()
        self._lives: dict[int, _Lives] = {}
        if hasattr(self._tracer, "id_generator"):
            self._tracer.id_generator = self._ids

    def life(self, history: History) -> LifeTrace:
        """What the bodies of one life of a run need to be in its trace; of what is settled now it tells nothing."""
        run = history.run
        with self._lock:
            lives = self._lives.get(run.no)
            if lives is None:
                lives = self._lives[run.no] = _Lives()
                if not run.takeovers:
                    lives.told |= {one.id for one in trace_of([history]).spans if one.settled_at is not None}
            lives.generations.add(run.generation)
        return LifeTrace(Ids.of(run), self._is_sampled(Ids.of(run).trace, f"{run.workflow} {run.workflow_version}"))

    async def tell_life(self, store: Store, run: Run) -> None:
        """Tell what one life of a run brought; `run` as it was when that life began."""
        await asyncio.to_thread(_quietly, self._tell_life, store, run)

    def _tell_life(self, store: Store, run: Run) -> None:
        lives = self._lives.get(run.no)
        if lives is None:
            return  # nothing was done in it
        # What persons did they have told; but a worker that was lost may have heard nobody's verb to its end.
        trace = trace_of([store.load(run.no)], store.audits(run.namespace, run.id) if run.takeovers else ())
        with self._lock:
            new = [one for one in trace.spans if one.settled_at is not None and one.id not in lives.told]
            lives.told |= {one.id for one in new}
            lives.generations.discard(run.generation)
            if not lives.generations:
                self._lives.pop(run.no, None)
        self.hand_over(trace, new)

    def tell_verbs(self, store: Store, run: Run, since: int) -> None:
        """Tell which verbs were carried out on a run since then, store clock, or refused, and what they settled."""
        _quietly(self._tell_verbs, store, run, since)

    def _tell_verbs(self, store: Store, run: Run, since: int) -> None:
        rows = [row for row in store.audits(run.namespace, run.id) if row.at >= since]
        trace = trace_of([store.load(run.no)], rows)
        at = {row.at for row in rows}  # a verb and what it changes have one time
        self.hand_over(trace, [one for one in trace.spans if one.settled_at in at])

    def hand_over(self, trace: Trace, spans: Iterable[TraceSpan]) -> None:
        """Hand spans to the provider, each with its times, parent and ids."""
        from opentelemetry.trace import SpanKind, StatusCode

        is_sampled = self._is_sampled(trace.id, trace.spans[0].name)
        codes = {Status.WELL: StatusCode.OK, Status.BADLY: StatusCode.ERROR, Status.UNKNOWN: StatusCode.ERROR}
        for one in spans:
            with self._ids.given(trace.id, one.id):
                span = self._tracer.start_span(
                    one.name,
                    _inside(trace.id, one.parent, is_sampled=is_sampled),
                    kind=SpanKind.CLIENT if one.kind == "attempt" else SpanKind.INTERNAL,
                    attributes=_attributes(one, trace),
                    start_time=one.began_at * 1_000,
                )
            if (code := codes.get(one.status)) is not None:
                span.set_status(code, None if code is StatusCode.OK else one.says)
            span.end(end_time=(one.began_at if one.ended_at is None else one.ended_at) * 1_000)

    def _is_sampled(self, trace: str, name: str) -> bool:
        """What the provider's sampler says of the whole trace: its spans are all told, or none."""
        sampler = getattr(self._tracer, "sampler", None)
        if sampler is None:
            return True
        return bool(sampler.should_sample(None, int(trace, 16), name).decision.is_sampled())


class _Lives:
    """Of a run that is lived here: the generations of its lives, and the ids of the spans that need not be told."""

    __slots__ = ("generations", "told")

    def __init__(self) -> None:
        self.generations: set[int] = set()
        self.told: set[str] = set()


def _quietly(tell: Callable[..., None], store: Store, run: Run, *args: int) -> None:
    """Tell; what fails is logged, and fails nothing else."""
    try:
        tell(store, run, *args)
    except Exception:
        LOG.exception("what run %s did is not told to the tracer provider", run.id, extra={"run": run.id})


class LifeTrace:
    """The place of one run's bodies in its trace: the span that each runs in has its id before it is told."""

    __slots__ = ("_ids", "_is_sampled")

    def __init__(self, ids: Ids, is_sampled: bool) -> None:  # noqa: FBT001 - as the provider's sampler says
        self._ids = ids
        self._is_sampled = is_sampled

    def traceparent(self, attempting: Attempting) -> str:
        """The header of a request that this body sends, as W3C Trace Context has it."""
        return self._ids.traceparent(self._span_of(attempting), is_sampled=self._is_sampled)

    async def around(self, attempting: Attempting, body: Coroutine[Any, Any, R]) -> R:
        """Run a body with its span as the current one: what its own instrumentation traces is then inside of that."""
        from opentelemetry import context

        inside = _inside(self._ids.trace, self._span_of(attempting), is_sampled=self._is_sampled)
        token = context.attach(inside)
        try:
            return await body
        finally:
            context.detach(token)

    def _span_of(self, attempting: Attempting) -> str:
        operation = attempting.operation
        if operation is None:
            return self._ids.step(attempting.position)
        if attempting.reads_back:
            return self._ids.step(operation.position)
        return self._ids.attempt(operation.position, attempting.attempt)


def told(verb: Callable[Concatenate[Desk, Run, P], R]) -> Callable[Concatenate[Desk, Run, P], R]:
    """A verb on a run that tells what it did: itself, done or refused, and what it settled."""

    @functools.wraps(verb)
    def telling(app: Desk, run: Run, /, *args: P.args, **kwargs: P.kwargs) -> R:
        tracing = configured()
        if tracing is None:
            return verb(app, run, *args, **kwargs)
        since = app.store.now()
        try:
            return verb(app, run, *args, **kwargs)
        finally:
            tracing.tell_verbs(app.store, run, since)

    return telling


def told_by_id(verb: Callable[Concatenate[Any, str, P], R]) -> Callable[Concatenate[Any, str, P], R]:
    """The same for a signal or an answer to a run, which is named by its id."""

    @functools.wraps(verb)
    def telling(app: Any, run_id: str, /, *args: P.args, **kwargs: P.kwargs) -> R:
        tracing = configured()
        run = None if tracing is None else app.store.find(app.namespace, run_id)
        if tracing is None or run is None:
            return verb(app, run_id, *args, **kwargs)
        since = app.store.now()
        try:
            return verb(app, run_id, *args, **kwargs)
        finally:
            tracing.tell_verbs(app.store, run, since)

    return telling


class _GivenIds:
    """An `id_generator` of the SDK that gives the ids that it was given."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._trace = self._span = 0

    @contextmanager
    def given(self, trace: str, span: str) -> Iterator[None]:
        """Give these to the one span that is started inside."""
        with self._lock:
            self._trace, self._span = int(trace, 16), int(span, 16)
            yield

    def generate_trace_id(self) -> int:
        """That of the run."""
        return self._trace

    def generate_span_id(self) -> int:
        """That of what is told."""
        return self._span

    def is_trace_id_random(self) -> bool:
        """A digest is as good as random, and W3C's flag promises no less; but it is none."""
        return False


def _inside(trace: str, parent: str | None, *, is_sampled: bool) -> Context:
    from opentelemetry.context import Context
    from opentelemetry.trace import NonRecordingSpan, set_span_in_context

    if parent is None:
        return Context()
    return set_span_in_context(NonRecordingSpan(_context_of(trace, parent, is_sampled=is_sampled)), Context())


def _context_of(trace: str, span: str, *, is_sampled: bool) -> SpanContext:
    from opentelemetry.trace import SpanContext, TraceFlags

    flags = TraceFlags(TraceFlags.SAMPLED if is_sampled else TraceFlags.DEFAULT)
    return SpanContext(int(trace, 16), int(span, 16), is_remote=True, trace_flags=flags)


def _attributes(span: TraceSpan, trace: Trace) -> dict[str, str | int | bool]:
    said = {"run.id": trace.run_id, "namespace": trace.namespace, "kind": span.kind, "says": span.says}
    return {PREFIX + name: value for name, value in (*said.items(), *span.attributes.items())}
