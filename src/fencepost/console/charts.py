"""Draws small charts of a namespace: how old the oldest unknown effect was, throughput, latency, and retries by target.

Each says what it is of, as of when, and that it knows the ledger's newest runs only; where nothing happened it says so.
Counts and ages begin at zero; the one scale that does not, that of latency, says that each step is ten times the last.
What is counted is decided in `core.charting`, read by the store's `lately`; the classes are those of `timeline`, and
`fp-chart`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log10
from typing import TYPE_CHECKING, NamedTuple

from fencepost.console.printable import instant
from fencepost.console.svg import Svg, broad, cut, drawn, percent, said
from fencepost.core.alerts import SINCE
from fencepost.core.charting import (
    Buckets,
    Lately,
    counted,
    decades,
    latencies,
    retries,
    top_of_count,
    top_of_time,
    unknown_ages,
)
from fencepost.core.duration import DAY, HOUR, SECOND
from fencepost.core.states import Outcome, RunState
from fencepost.core.timescale import short

if TYPE_CHECKING:
    from fencepost.store.api import Store

Say = Callable[[str], str]

RUNS_MAX = 2_000
ATTEMPTS_MAX = 10_000
"""So much of the ledger a chart reads at most: its newest runs, and the newest of these first of what they sent."""

_TOP, _HEIGHT = 46, 84
"""Where the field of a chart begins, and how high it is, in pixels."""


class Figures(NamedTuple):
    """What charts are drawn from: what the ledger held lately, and since when its oldest unknown effect is."""

    lately: Lately
    unknown_since: int | None


def figures(store: Store, namespace: str, *, runs: int = RUNS_MAX, attempts: int = ATTEMPTS_MAX) -> Figures:
    """Read what all charts of a namespace are drawn from.

    Raises:
        StoreUnavailable: the ledger cannot be read.
    """
    lately = store.lately(namespace, runs=runs, limit=attempts)
    oldest = store.measure("unknown effects", namespace, now=lately.as_of, since=lately.as_of - SINCE)
    return Figures(lately, lately.as_of - int(oldest[0][0]) if oldest else None)


class Charts(NamedTuple):
    """The charts, each a picture of its own."""

    unknown_age: Svg
    throughput: Svg
    latency: Svg
    retries: Svg


def charts(
    of: Figures, *, now: int, within: int = HOUR, targets: Mapping[str, str] | None = None, say: Say = str
) -> Charts:
    """All charts of the time `within` before they were read; `now`, store clock, is when they are shown.

    `targets` says of effects, by name, to which target they are sent; one that is not in it stands for itself. `say`
    puts each of the pictures' own words (`WORDS`) into the reader's language.
    """
    drawing = _Charts(of, Buckets.before(of.lately.as_of, within), now, targets or {}, say)
    return Charts(drawing.unknown_age(), drawing.throughput(), drawing.latency(), drawing.retries())


WORDS = (
    "How old the oldest unknown effect got",
    "now {last}, at most {most}",
    "none was unknown",
    "Runs that ended, and effects that happened",
    "runs: {runs} (lines), effects: {effects} (bars)",
    "Time until an attempt's outcome was known",
    "middle {median}, 95 of 100 within {most}",
    "Attempts after the first, by target",
    "{retries}; effects: {effects}",
    "{retries} in all",
    "other targets",
    "nothing in this time",
    "{low} to {high}",
    "{low} to {high} in {step}",
    "{low} to {high}, each line is ten times the one below",
    "{began} to {ended}: {value}",
    "not over yet",
    "As of {at} UTC, {age} ago; newest {runs} runs only.",
    "Not all attempts of these runs were read.",
)
"""The charts' own words."""


@dataclass(frozen=True)
class _Charts:
    """The charts of one reading."""

    of: Figures
    buckets: Buckets
    now: int
    targets: Mapping[str, str]
    say: Say

    def unknown_age(self) -> Svg:
        """Ages from zero on; what is in flight has an age too, of milliseconds."""
        lately, title = self.of.lately, self.say("How old the oldest unknown effect got")
        ages = unknown_ages(lately.sent, self.buckets, lately.as_of, self.of.unknown_since)
        if not any(ages):
            return self._framed(title, self.say("none was unknown"), [], _TOP)
        last = 0 if self.of.unknown_since is None else lately.as_of - self.of.unknown_since
        summary = self.say("now {last}, at most {most}").format(last=short(last), most=short(max(ages)))
        top = top_of_time(max(ages))
        scale = self.say("{low} to {high}").format(low=0, high=short(top))
        bars = [self._bar(number, 0, age / top, short(age)) for number, age in enumerate(ages) if age]
        return self._chart(title, summary, scale, bars)

    def throughput(self) -> Svg:
        """Counts from zero on: effects as bars, runs as lines over them, on one scale."""
        lately, title = self.of.lately, self.say("Runs that ended, and effects that happened")
        runs = counted((one.ended_at for one in lately.lived if one.state != RunState.CONTINUED), self.buckets)
        effects = counted((one.known_at for one in lately.sent if one.outcome is Outcome.APPLIED), self.buckets)
        if not any((*runs, *effects)):
            return self._framed(title, "", [], _TOP)
        words, top = self.say("runs: {runs} (lines), effects: {effects} (bars)"), top_of_count(max([*runs, *effects]))
        shapes = []
        for number, (ended, done) in enumerate(zip(runs, effects, strict=True)):
            value = words.format(runs=f"{ended:,}", effects=f"{done:,}")
            shapes += [self._bar(number, 0, done / top, value)] if done else []
            shapes += [self._line(number, ended / top, value)] if ended else []
        scale = self.say("{low} to {high} in {step}").format(low=0, high=f"{top:,}", step=short(self.buckets.step))
        return self._chart(title, words.format(runs=f"{sum(runs):,}", effects=f"{sum(effects):,}"), scale, shapes)

    def latency(self) -> Svg:
        """From the middle one to that which 95 of 100 keep within, on a scale of tens."""
        lately, title = self.of.lately, self.say("Time until an attempt's outcome was known")
        whole = Buckets(self.buckets.began_at, self.buckets.step * self.buckets.count, 1)
        [all_of_them] = latencies(lately.sent, whole)
        if all_of_them is None:
            return self._framed(title, "", [], _TOP)
        words = self.say("middle {median}, 95 of 100 within {most}")
        found = [(number, one) for number, one in enumerate(latencies(lately.sent, self.buckets)) if one is not None]
        low, high = decades(min(one.median for _, one in found), max(one.most for _, one in found))
        height = log10(high / low)
        shapes = [self._grid(number / height) for number in range(1, round(height))]
        for number, one in found:
            middle, most = (log10(max(1.0, part / low)) / height for part in (one.median, one.most))
            value = words.format(median=short(one.median), most=short(one.most))
            shapes += [self._bar(number, middle, most, value), self._line(number, middle, value)]
        scale = self.say("{low} to {high}, each line is ten times the one below").format(
            low=short(low), high=short(high)
        )
        summary = words.format(median=short(all_of_them.median), most=short(all_of_them.most))
        return self._chart(title, summary, scale, shapes)

    def retries(self) -> Svg:
        """One bar for each target, from zero on, all on one scale."""
        found = retries(self.of.lately.sent, self.buckets.began_at, lambda effect: self.targets.get(effect, effect))
        top, rows = max([1, *(one.retries for one in found)]), []
        for place, one in enumerate(found):
            words, y = self.say("{retries}; effects: {effects}"), _TOP - 12 + 28 * place
            value = words.format(retries=f"{one.retries:,}", effects=f"{one.effects:,}")
            name = said(one.target) if one.target else self.say("other targets")
            rows.append(drawn(
                "g", drawn("title", f"{name}: {value}"),
                drawn("text", cut(name, 28), y=y + 12, font_size=11),
                drawn("text", value, x="100%", y=y + 12, text_anchor="end", font_size=11),
                drawn("rect", x="1%", width=broad(one.retries / top), y=y + 16, height=6, class_="fp-bar",
                      fill_opacity=0.55, stroke="currentColor"),
                class_="fp-row",
            ))  # fmt: skip
        summary = self.say("{retries} in all").format(retries=f"{sum(one.retries for one in found):,}")
        title = self.say("Attempts after the first, by target")
        return self._framed(title, summary if found else "", rows, _TOP - 12 + 28 * len(found))

    # -- parts ------------------------------------------------------------------------------------------------------

    def _bar(self, number: int, low: float, high: float, value: str) -> Svg:
        """A bar over one bucket, between two heights; that of a bucket that is not over is pale."""
        is_over = number < self.buckets.count - 1
        y = _TOP + _HEIGHT * (1 - high)
        return drawn(
            "rect", drawn("title", self._of_bucket(number, value)), x=percent(number / self.buckets.count),
            width=broad(0.8 / self.buckets.count), y=y, height=_HEIGHT * (high - low), class_="fp-bar",
            fill_opacity=0.55 if is_over else 0.2, stroke="currentColor", stroke_opacity=0.6,
        )  # fmt: skip

    def _line(self, number: int, height: float, value: str) -> Svg:
        """A line across one bucket."""
        y = _TOP + _HEIGHT * (1 - height)
        left, right = number / self.buckets.count, (number + 0.9) / self.buckets.count
        return drawn(
            "line", drawn("title", self._of_bucket(number, value)), x1=percent(left), x2=percent(right), y1=y, y2=y,
            class_="fp-mark", stroke="currentColor", stroke_width=2.5,
        )  # fmt: skip

    def _grid(self, height: float) -> Svg:
        y = _TOP + _HEIGHT * (1 - height)
        return drawn("line", x1="1%", x2="99%", y1=y, y2=y, stroke="currentColor", stroke_opacity=0.2)

    def _of_bucket(self, number: int, value: str) -> str:
        began = self.buckets.began_at + number * self.buckets.step
        ended = self._clock(began + self.buckets.step)
        if number == self.buckets.count - 1:
            ended = self.say("not over yet")
        return self.say("{began} to {ended}: {value}").format(began=self._clock(began), ended=ended, value=value)

    def _clock(self, at: int) -> str:
        """The time of day; of long times with its date."""
        whole = instant(at) or ""
        return whole[5:16].replace("T", " ") if self.buckets.step * self.buckets.count >= DAY else whole[11:19]

    def _chart(self, title: str, summary: str, scale: str, shapes: Sequence[Svg]) -> Svg:
        """A field with time from left to right, under its scale."""
        bottom = _TOP + _HEIGHT
        quiet: dict[str, str | float] = {"font_size": 10, "fill_opacity": 0.8, "class_": "fp-quiet"}
        began, ended = self._clock(self.buckets.began_at), self._clock(self.of.lately.as_of)
        field = [
            drawn("text", cut(scale, 60), y=_TOP - 4, **quiet),
            self._grid(1.0),
            drawn("line", x1="1%", x2="99%", y1=bottom, y2=bottom, stroke="currentColor", stroke_opacity=0.5),
            drawn("text", began, y=bottom + 12, **quiet),
            drawn("text", ended, x="100%", y=bottom + 12, text_anchor="end", **quiet),
        ]
        return self._framed(title, summary, [*field, *shapes], bottom + 14)

    def _framed(self, title: str, summary: str, inside: Sequence[Svg], bottom: int) -> Svg:
        """A chart under its title, over the age of its numbers; with nothing in it, that there is nothing."""
        summary = summary or self.say("nothing in this time")
        notes = self._notes()
        whole = f"{title}: {summary}. {' '.join(notes)}"
        y = bottom if inside else _TOP - 12
        below = [
            drawn("text", cut(note, 64), y=y + 13 * (place + 1), font_size=10, fill_opacity=0.8, class_="fp-quiet")
            for place, note in enumerate(notes)
        ]
        return drawn(
            "svg", drawn("title", whole), drawn("text", title, y=12, font_weight="bold"),
            drawn("text", cut(summary, 58), y=27, font_size=11), *inside, *below, xmlns="http://www.w3.org/2000/svg",
            class_="fp-picture fp-chart", role="img", aria_label=whole, width="100%", height=y + 13 * len(notes) + 6,
            fill="currentColor", font_size=12,
        )  # fmt: skip

    def _notes(self) -> list[str]:
        lately = self.of.lately
        at, age = (
            (instant(lately.as_of) or "")[:19].replace("T", " "),
            short(max(0, self.now - lately.as_of) // SECOND * SECOND),
        )
        notes = [
            self.say("As of {at} UTC, {age} ago; newest {runs} runs only.").format(
                at=at, age=age, runs=f"{lately.runs:,}"
            )
        ]
        return [*notes, self.say("Not all attempts of these runs were read.")] if lately.is_cut else notes
