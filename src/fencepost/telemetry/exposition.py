"""Writes numbers as OpenMetrics text, which Prometheus reads: families with their samples, labels escaped.

Written by hand, since the format is small: half of the numbers are rows of a query and the others plain counters of the
process, and a library would have each of them registered with it first. Which numbers there are is `metrics`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

from fencepost.core.histogram import Histogram

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"

Labels = Mapping[str, str]
Kind = Literal["gauge", "counter", "histogram"]
Sample = tuple[Labels, float | Histogram]


class Family(NamedTuple):
    """One metric: its name without any suffix, what it is, and each of its samples with labels."""

    name: str
    kind: Kind
    help: str
    samples: list[Sample]


def text_of(families: Iterable[Family]) -> str:
    """The whole text; each family once, those without a sample too, so that one sees what is measured."""
    lines = [line for family in families for line in _family(family)]
    return "\n".join([*lines, "# EOF", ""])


def _family(family: Family) -> Iterator[str]:
    yield f"# TYPE {family.name} {family.kind}"
    yield f"# HELP {family.name} {_escaped(family.help)}"
    for labels, value in family.samples:
        if isinstance(value, Histogram):
            yield from _histogram(family.name, labels, value)
        else:
            suffix = "_total" if family.kind == "counter" else ""
            yield f"{family.name}{suffix}{_labels(labels)} {_number(value)}"


def _histogram(name: str, labels: Labels, value: Histogram) -> Iterator[str]:
    for bound, count in value.at_most():
        yield f"{name}_bucket{_labels({**labels, 'le': _number(float(bound))})} {count}"
    yield f"{name}_count{_labels(labels)} {value.count}"
    yield f"{name}_sum{_labels(labels)} {_number(value.sum)}"


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def _escaped(text: str) -> str:
    """A text as it stands in quotes; what cannot be UTF-8 is replaced, so that one label never hides the others."""
    return text.translate(_ESCAPES).encode("utf-8", "replace").decode()


def _number(value: float) -> str:
    if value == float("inf"):
        return "+Inf"
    return repr(value)
