"""A tracer provider for a child: each span that it is told is a line of a file, which outlives the process.

Who traces what is `fencepost.runtime.tracing`.
"""

import json
import os

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult


class Lines(SpanExporter):
    """Writes each span when it is told, and who told it."""

    def __init__(self, file: str) -> None:
        self._file = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def export(self, spans):
        for one in spans:
            said = {
                "trace": f"{one.context.trace_id:032x}",
                "id": f"{one.context.span_id:016x}",
                "parent": None if one.parent is None else f"{one.parent.span_id:016x}",
                "name": one.name,
                "status": one.status.status_code.name,
                "says": one.status.description,
                "times": [one.start_time, one.end_time],
                "attributes": dict(one.attributes),
            }
            os.write(self._file, f"{json.dumps({'pid': os.getpid(), 'span': said})}\n".encode())
        return SpanExportResult.SUCCESS


def begin(file: str) -> None:
    """Make this process's provider."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(Lines(file)))
    trace.set_tracer_provider(provider)
