"""Draws the figures of one benchmark as SVG: bars on a logarithmic scale, a group for each concurrency.

It takes lines as the frame writes them (`--json`) and invents nothing: a contestant without a figure has no bar. How a
median is taken is `table`'s; which file the documentation shows is decided in docs/speed.py.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from math import ceil, floor, log10
from typing import NamedTuple

from bench.modes import CONCURRENCIES, Line
from bench.peers_table import PEERS
from bench.table import CEILING, SUBJECT, WRITES, Figures, Source

_WIDTH, _LEFT, _RIGHT, _TOP, _ROW, _GAP = 760, 230, 90, 56, 20, 14
_OWN, _PEER, _LIMIT = "#0b6e4f", "#8a94a6", "#d0d5dd"
_FONT = 'font-family="system-ui, sans-serif" font-size="13"'


class Bar(NamedTuple):
    """One figure."""

    label: str
    value: float
    colour: str


def draw(title: str, groups: Mapping[str, Sequence[Bar]], form: str) -> str:
    """A chart of horizontal bars; the scale's ends are powers of ten around the figures."""
    values = [bar.value for bars in groups.values() for bar in bars if bar.value > 0]
    if not values:
        return "\n".join(_framed(title, _TOP + _ROW, [_text(20, _TOP, "nothing was measured", "start")]))
    low, high = floor(log10(min(values))), ceil(log10(max(values)))
    scale = (_WIDTH - _LEFT - _RIGHT) / max(1, high - low)
    parts: list[str] = []
    y = _TOP
    for name, bars in groups.items():
        parts.append(_text(20, y + 14, name, "start", weight="bold"))
        y += _ROW
        for bar in bars:
            if bar.value <= 0:
                continue
            width = max(1.0, (log10(bar.value) - low) * scale)
            parts += [
                _text(_LEFT - 8, y + 14, bar.label, "end"),
                f'<rect x="{_LEFT}" y="{y + 3}" width="{width:.1f}" height="{_ROW - 6}" fill="{bar.colour}"/>',
                _text(_LEFT + width + 6, y + 14, form.format(bar.value), "start"),
            ]
            y += _ROW
        y += _GAP
    return "\n".join(_framed(title, y, parts))


def _framed(title: str, height: int, parts: Iterable[str]) -> Iterator[str]:
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" {_FONT}>'
    yield f"<title>{escape(title)}</title>"
    yield f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>'
    yield _text(20, 28, title, "start", weight="bold")
    yield from parts
    yield "</svg>\n"


def _text(x: float, y: float, said: str, anchor: str, *, weight: str = "normal") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}" fill="#1d2939"'
    return f"<text {place}>{escape(said)}</text>"


def throughput(lines: Iterable[Line]) -> str:
    """Steps a second at each concurrency, the limits among them."""
    sources = [*_everyone(), (CEILING, _LIMIT), (WRITES, _LIMIT)]
    return draw("Durable steps a second, more is better", _at_each(Figures(lines), sources, "steps_per_s"), "{:,.0f}")


def latency(lines: Iterable[Line]) -> str:
    """A run's median latency at each concurrency."""
    title = "Milliseconds for a run of ten steps (p50), less is better"
    return draw(title, _at_each(Figures(lines), _everyone(), "p50_ms"), "{:,.1f} ms")


def wake(lines: Iterable[Line]) -> str:
    """From a signal to the moment when its run goes on."""
    figures = Figures(lines)
    groups = {
        label: list(_bars(figures, [(source._replace(mode="wake"), colour) for source, colour in _everyone()], field))
        for label, field in (("half of them within", "p50_ms"), ("99 of 100 within", "p99_ms"))
    }
    return draw("Milliseconds from signal to wake, less is better", groups, "{:,.1f} ms")


def _everyone() -> list[tuple[Source, str]]:
    return [(SUBJECT, _OWN), *((peer, _PEER) for peer in PEERS)]


def _at_each(figures: Figures, sources: Sequence[tuple[Source, str]], field: str) -> dict[str, list[Bar]]:
    return {
        f"{at} at a time" if at > 1 else "one run at a time": list(_bars(figures, sources, field, concurrency=at))
        for at in CONCURRENCIES
    }


def _bars(figures: Figures, sources: Sequence[tuple[Source, str]], field: str, **where: float) -> Iterator[Bar]:
    for source, colour in sources:
        value = figures.middle(source, field, **where)
        if value is not None:
            yield Bar(source.label.partition(" (")[0], value, colour)


PLOTS = {"throughput": throughput, "latency": latency, "wake": wake}
"""By the name of the file."""
