"""Shows the outside what runs do and how workers fare: trees of traces, metrics, log lines, health.

It reads what the ledger and the process hold and changes nothing. The trace itself is made in `core.trace`, what a
person is called for in `core.alerts`.
"""

from fencepost.runtime.tracing import read_trace
from fencepost.telemetry.endpoint import endpoint, serving
from fencepost.telemetry.health import Health, health
from fencepost.telemetry.logs import Concerned, JsonLines
from fencepost.telemetry.metrics import metrics
from fencepost.telemetry.tree import tree

__all__ = ["Concerned", "Health", "JsonLines", "endpoint", "health", "metrics", "read_trace", "serving", "tree"]
