"""Draws a run's history as a picture: its owners, what persons did, and its steps with their attempts, by time.

Long stretches in which little happens are cut short, and marked with how long they were. What is in the picture is
decided in `core.timeline`, where an instant stands in `core.timescale`; the classes, which a page may colour, are
`fp-picture`, `fp-row`, `fp-bar`, `fp-mark`, `fp-cut` and `fp-quiet`, with `fp-ok`, `fp-error`, `fp-unknown`, `fp-open`
or `fp-refused` beside them. For screen readers each row is said as a sentence. The lines of a terminal are
`cli.timeline`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from fencepost.console.printable import instant
from fencepost.console.story import compensation_of
from fencepost.console.svg import Svg, at, broad, cut, drawn, percent, said
from fencepost.core.lanes import Bar, Lane, Mark, Row
from fencepost.core.records import Audit, History, Lease
from fencepost.core.timeline import WAITS, Timeline, timeline_of
from fencepost.core.timescale import Break, TimeScale, short
from fencepost.core.trace import Status

Say = Callable[[str], str]

NAME_LENGTH, STATE_LENGTH, LINE_LENGTH = 32, 20, 58
"""How much of a text fits at 360 pixels: a row's name, beside it what is said of it, and a line of its own."""

_LINE, _SMALL, _LANE = 16, 13, 12
"""Heights, in pixels: of a text, of a small one, and of a lane."""

LABELS_MAX = 8
"""Above so many stretches that are cut short stands how long they were; that of others is in their titles."""

_HAIR = 0.004
"""How broad a bar is at least: one without any width is not drawn at all."""

_EDGE = 0.1
"""Nearer to an edge a text cannot stand around its place."""


def timeline(
    history: History,
    audits: Iterable[Audit] = (),
    leases: Iterable[Lease] = (),
    *,
    now: int,
    eventful_first: bool = False,
    say: Say = str,
) -> Svg:
    """The picture of one turn of a run, as `App.show` gives it, at `now`, store clock.

    `audits` and `leases` are those of the run, as the store gives them. `eventful_first` puts what failed, is unknown,
    was refused or goes on above the rest. `say` puts each of the picture's own words, such as those of `WORDS`, into
    the reader's language.
    """
    known = {lease.id: lease for lease in leases}
    shown = timeline_of(history, audits, now=now, leases=known, eventful_first=eventful_first)
    return _Drawing(shown, TimeScale(shown.instants, shown.waits), known, _outcomes(history), say).whole()


WORDS = (
    "Timeline of run {run}: {state}. {steps}.",
    "The picture goes from {began} to {ended} and took {took}.",
    "It goes on.",
    "{count} × cut short; a tenth of the width is {tenth}.",
    "A tenth of the width is {tenth}.",
    "nothing has begun",
    "owners",
    "persons",
    "generation {number}",
    "generations {first} to {last}",
    "pid {pid} on {host}",
    "lease {lease}",
    "began {began}, took {took}",
    "began {began}, goes on",
    "refused",
    "{count} of them",
    "compensates {step}",
    "done",
    "failed",
    "unknown",
    "goes on",
    "reported too late, and refused",
    "a moment to look at",
    "time cut short",
)
"""The picture's own words; states, and what the trace says of a span, are put to `say` too."""


def _outcomes(history: History) -> Mapping[str, str]:
    """What the last compensation says became of each effect: "compensated" is not "restored"."""
    report = compensation_of(history) or {}
    effects = report.get("effects", [])
    return {str(one.get("effect")): str(one.get("outcome")) for one in effects if isinstance(one, dict)}


@dataclass
class _Drawing:
    """One picture while it is drawn; `top` is where the next thing goes."""

    shown: Timeline
    scale: TimeScale
    leases: Mapping[str, Lease]
    outcomes: Mapping[str, str]
    say: Say
    top: int = 0

    @cached_property
    def compensated(self) -> frozenset[str]:
        """The steps that have a compensation in this picture."""
        return frozenset(row.compensates for row in self.shown.steps if row.compensates is not None)

    def whole(self) -> Svg:
        """The picture."""
        axis = [*self._axis()]
        rows = [self._row(row) for row in self.shown.rows]
        bottom = self.top
        legend = [*self._legend()]
        cuts = [self._cut(one, bottom) for one in self.scale.breaks]
        return drawn(
            "svg", drawn("title", self._title()), drawn("desc", self._description()), *axis, *cuts, *rows, *legend,
            xmlns="http://www.w3.org/2000/svg", class_="fp-picture fp-timeline", role="group", aria_label=self._title(),
            width="100%", height=self.top + 4, fill="currentColor", font_size=12,
        )  # fmt: skip

    # -- words ----------------------------------------------------------------------------------------------------

    def _title(self) -> str:
        steps = self._counted(self.shown.tally) or self.say("nothing has begun")
        state = self.say(self.shown.says)
        return self.say("Timeline of run {run}: {state}. {steps}.").format(
            run=said(self.shown.run_id, 80), state=state, steps=steps
        )

    def _description(self) -> str:
        began, ended = self.scale.began_at, self.scale.ended_at
        span = self.say("The picture goes from {began} to {ended} and took {took}.").format(
            began=instant(began), ended=instant(ended), took=short(ended - began)
        )
        goes_on = "" if self.shown.ended_at is not None else self.say("It goes on.")
        return " ".join(one for one in (span, goes_on, self._tenth()) if one)

    def _tenth(self) -> str:
        """What a width stands for, between what is cut."""
        cuts = self.scale.breaks
        lasts = self.scale.ended_at - self.scale.began_at - sum(one.ended_at - one.began_at for one in cuts)
        room = 1 - sum(one.right - one.left for one in cuts)
        tenth = short(round(lasts / max(room, 0.01) / 10))
        if not cuts:
            return self.say("A tenth of the width is {tenth}.").format(tenth=tenth)
        return self.say(
            "{count} × cut short; a tenth of the width is {tenth}."
        ).format(count=len(cuts), tenth=tenth)  # fmt: skip

    def _counted(self, tally: Mapping[str, int]) -> str:
        """What is counted, the most first: "9,997 succeeded, 3 unknown"."""
        ordered = sorted(tally.items(), key=lambda one: (-one[1], one[0]))
        return ", ".join(f"{count:,} {self.say(what)}" for what, count in ordered)

    def _when(self, began: int, ended: int | None) -> str:
        if ended is None:
            return self.say("began {began}, goes on").format(began=instant(began))
        return self.say("began {began}, took {took}").format(began=instant(began), took=short(ended - began))

    def _state_of(self, row: Row) -> str:
        """What is said of a step. "" of several, which are counted below.

        Of a compensation that was done: whether it restored; of an effect that has none in place of it: why it stands.
        """
        if row.kind == "fold":
            return ""
        of = row.compensates or ("" if row.name in self.compensated else row.name)
        outcome = self.outcomes.get(of)
        return self.say(outcome if outcome and row.status is Status.WELL else row.says)

    # -- the axis ---------------------------------------------------------------------------------------------------

    def _axis(self) -> Iterator[Svg]:
        began, ended = self.scale.began_at, self.scale.ended_at
        yield drawn("text", (instant(began) or "")[:19], y=12, class_="fp-quiet", font_size=11, fill_opacity=0.75)
        yield drawn(
            "text", f"+{short(ended - began)}", x="100%", y=12, text_anchor="end", class_="fp-quiet", font_size=11,
            fill_opacity=0.75,
        )  # fmt: skip
        every = -(-len(self.scale.breaks) // LABELS_MAX)
        for number, one in enumerate(self.scale.breaks[:: every or 1]):
            middle, top = (one.left + one.right) / 2, 26 + 12 * (number % 2)
            lasted = short(one.ended_at - one.began_at)
            side = "start" if middle < _EDGE else "end" if middle > 1 - _EDGE else "middle"
            place = percent({"start": one.left, "end": one.right}.get(side, middle))
            yield drawn("text", lasted, x=place, y=top, text_anchor=side, class_="fp-cut", font_size=10)
        self.top = 18 + 12 * min(2, len(self.scale.breaks))
        yield drawn("line", x1="0%", x2="100%", y1=self.top, y2=self.top, stroke="currentColor", stroke_opacity=0.4)
        self.top += 2

    def _cut(self, one: Break, bottom: int) -> Svg:
        """The mark of a stretch that is cut short, behind all rows."""
        top = 18 + 12 * min(2, len(self.scale.breaks))
        lasted = drawn("title", short(one.ended_at - one.began_at))
        width = broad(one.right - one.left)
        return drawn("rect", lasted, x=percent(one.left), width=width, y=top, height=bottom - top, **_CUT)

    # -- rows -------------------------------------------------------------------------------------------------------

    def _row(self, row: Row) -> Svg:
        state, indent = self._state_of(row), 0 if row.compensates is None else 12
        name = self.say(row.name) if row.kind in ("owners", "persons") else row.name
        whole = f"{said(name)}: {state or self._counted(row.tally)}; {self._when(row.began_at, row.ended_at)}"
        if row.compensates is not None:
            whole += f"; {self.say('compensates {step}').format(step=said(row.compensates))}"
        parts = [drawn("title", whole)]
        self.top += _LINE
        length = NAME_LENGTH if state else LINE_LENGTH
        shown = cut(said(name) if row.compensates is None else f"↩ {said(name)}", length)
        parts.append(drawn("text", shown, x=indent, y=self.top - 3))
        if state:
            weight, look = "normal" if row.status is Status.WELL else "bold", f"fp-{row.status}"
            shown, y = cut(state, STATE_LENGTH), self.top - 3
            parts.append(drawn("text", shown, x="100%", y=y, text_anchor="end", class_=look, font_weight=weight))
        if row.kind == "fold":
            parts.append(self._small(cut(self._counted(row.tally), LINE_LENGTH)))
        refused = any(mark.is_refused for lane in row.lanes for mark in lane.marks)
        is_named = len(row.lanes) > 1 or row.kind == "owners" or refused
        parts += self._extent(row, self.top + _LANE // 2 + _SMALL * is_named)
        for lane in row.lanes:
            parts += self._lane(lane, is_named=is_named)
        self.top += 3
        return drawn("g", *parts, class_=f"fp-row fp-{row.status}", role="img", aria_label=whole)

    def _small(self, text: str) -> Svg:
        self.top += _SMALL
        return drawn("text", text, y=self.top - 3, x=6, class_="fp-quiet", font_size=10.5, fill_opacity=0.8)

    def _extent(self, row: Row, middle: int) -> Iterator[Svg]:
        """A thin line from a step's beginning to its end, in its first lane: also what was between its attempts."""
        if row.kind in ("effect", "compensation"):
            left, right = self.scale.place(row.began_at), self.scale.place(row.ended_at or self.shown.now)
            yield drawn(
                "line", x1=percent(left), x2=percent(right), y1=middle, y2=middle, stroke="currentColor",
                stroke_opacity=0.35,
            )  # fmt: skip

    def _lane(self, lane: Lane, *, is_named: bool) -> Iterator[Svg]:
        if is_named:
            yield self._small(cut(self._owner(lane), LINE_LENGTH))
        for bar in lane.bars:
            yield self._bar(bar)
        for mark in lane.marks:
            yield self._mark(mark)
        self.top += _LANE

    def _owner(self, lane: Lane) -> str:
        """Whose lane it is, and how many reports of theirs were refused."""
        if not lane.generations:
            return "–"
        first, last = lane.generations[0], lane.generations[-1]
        words = [self.say("generation {number}").format(number=first)]
        if first != last:
            words = [self.say("generations {first} to {last}").format(first=first, last=last)]
        refused = sum(mark.many for mark in lane.marks if mark.is_refused)
        if refused:
            words.append(self.say("refused") + (f" × {refused:,}" if refused > 1 else ""))
        if len(lane.leases) == 1:
            words.append(self._process(lane.leases[0]))
        return " · ".join(words)

    def _process(self, lease: str) -> str:
        known = self.leases.get(lease)
        if known is None:
            return self.say("lease {lease}").format(lease=cut(lease, 12))
        return self.say("pid {pid} on {host}").format(pid=known.pid, host=said(known.host, 40))

    def _bar(self, bar: Bar) -> Svg:
        ended = self.shown.now if bar.ended_at is None else bar.ended_at
        left, right = self.scale.place(bar.began_at), self.scale.place(ended)
        height = 4 if bar.kind in WAITS else 8
        words = f"{said(bar.name)}: {self.say(said(bar.says))}; " if bar.says else ""
        many = f"; {self.say('{count} of them').format(count=f'{bar.many:,}')}" if bar.many > 1 else ""
        return drawn(
            "rect", drawn("title", f"{words}{self._when(bar.began_at, bar.ended_at)}{many}"),
            x=percent(left), width=broad(max(right - left, _HAIR)), y=self.top + (_LANE - height) // 2, height=height,
            rx=1,
            class_=f"fp-bar fp-{bar.status}", **_LOOKS[bar.status],
        )  # fmt: skip

    def _mark(self, mark: Mark) -> Svg:
        place, middle = self.scale.place(mark.at), self.top + _LANE // 2
        look = "refused" if mark.is_refused else mark.status.value
        many = f"; {self.say('{count} of them').format(count=f'{mark.many:,}')}" if mark.many > 1 else ""
        title = drawn("title", f"{said(mark.name)}: {self.say(said(mark.says))}; {instant(mark.at)}{many}")
        tether = []
        if mark.since is not None:
            tether = [drawn(
                "line", x1=percent(self.scale.place(mark.since)), x2=percent(place), y1=middle, y2=middle,
                stroke="currentColor", stroke_dasharray="1 3",
            )]  # fmt: skip
        return drawn("g", title, *tether, at(place, middle, _MARKS[look]), class_=f"fp-mark fp-{look}")

    # -- the legend -------------------------------------------------------------------------------------------------

    def _legend(self) -> Iterator[Svg]:
        """What the shapes that are in this picture mean, two in a line."""
        shown = list(self._meanings())
        self.top += 6
        for number, (shape, words) in enumerate(shown):
            left, top = 0.5 * (number % 2), self.top + _LINE * (number // 2)
            text = drawn("text", cut(self.say(words), 30), x=22, y=4, font_size=10.5)
            yield at(left, top + _LINE // 2, shape, text)
        self.top += _LINE * -(-len(shown) // 2)
        yield self._small(cut(self._tenth(), LINE_LENGTH))

    def _meanings(self) -> Iterator[tuple[Svg, str]]:
        lanes = [lane for row in self.shown.rows for lane in row.lanes]
        bars = {bar.status for lane in lanes for bar in lane.bars}
        for status, words in _WORDS.items():
            if status in bars:
                yield (
                    drawn("rect", x=4, y=-4, width=14, height=8, rx=1, class_=f"fp-bar fp-{status}", **_LOOKS[status]),
                    words,
                )
        marks = [mark for lane in lanes for mark in lane.marks]
        if any(mark.is_refused for mark in marks):
            yield _legend_mark("refused"), "reported too late, and refused"
        if not all(mark.is_refused for mark in marks):
            yield _legend_mark("ok"), "a moment to look at"
        if self.scale.breaks:
            yield drawn("rect", x=4, y=-6, width=14, height=12, **_CUT), "time cut short"


_WORDS = {Status.WELL: "done", Status.BADLY: "failed", Status.UNKNOWN: "unknown", Status.OPEN: "goes on"}

_CUT: dict[str, str | float] = {
    "class_": "fp-cut",
    "fill_opacity": 0.07,
    "stroke": "currentColor",
    "stroke_opacity": 0.35,
    "stroke_dasharray": "2 4",
}

_LOOKS: Mapping[Status, dict[str, str | float]] = {
    Status.WELL: {"fill_opacity": 0.55, "stroke": "currentColor", "stroke_width": 1.0},
    Status.BADLY: {"fill_opacity": 1.0, "stroke": "currentColor", "stroke_width": 2.0},
    Status.UNKNOWN: {"fill_opacity": 0.05, "stroke": "currentColor", "stroke_width": 1.5, "stroke_dasharray": "3 2"},
    Status.OPEN: {"fill_opacity": 0.2, "stroke": "currentColor", "stroke_width": 1.0},
}
"""How bars differ without a colour: done is grey, failed full, unknown dashed, and what goes on pale."""


def _shape(path: str, **more: str | float) -> Svg:
    return drawn("path", d=path, stroke="currentColor", stroke_width=2.0, **more)


_MARKS = {
    "refused": _shape("M-4 -4L4 4M-4 4L4 -4", fill="none"),
    "ok": _shape("M0 -4L4 0L0 4L-4 0Z", fill="none"),
    "open": _shape("M0 -4L4 0L0 4L-4 0Z", fill="none"),
    "error": _shape("M0 -4L4 0L0 4L-4 0Z"),
    "unknown": _shape("M0 -4L4 0L0 4L-4 0Z", fill="none", stroke_dasharray="2 1"),
}
"""A report that was refused is a cross; other moments are diamonds, full where something failed."""


def _legend_mark(look: str) -> Svg:
    return drawn("svg", _MARKS[look], x=11, y=0, overflow="visible", class_=f"fp-mark fp-{look}")
