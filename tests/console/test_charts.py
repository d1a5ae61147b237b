"""Charts are drawn from what the ledger holds, say how old they are, and say so where there is nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.console.charts import WORDS, Charts, Figures, charts, figures
from fencepost.console.picture_words import JAPANESE
from fencepost.console.svg import breadth
from fencepost.core.charting import Lately, Lived, Sent
from fencepost.core.duration import DAY, HOUR, MINUTE, SECOND
from fencepost.core.states import OperationState, Outcome, RunState
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.console.pictures import found, part, read, texts
from tests.runtime.stage import keyed, once, played, reaches, target, working

NOW = 20_000 * DAY + 7 * HOUR
NOTHING = Figures(Lately(NOW, 2_000, [], [], is_cut=False), None)


def sent(at, settled=None, *, effect="charge", number=1, outcome=Outcome.APPLIED):
    state = OperationState.UNKNOWN if settled is None else OperationState.SUCCEEDED
    return Sent(effect, number, at, settled, Outcome.UNRESOLVED if settled is None else outcome, state, settled or at)


def some(**more):
    rows = [
        sent(NOW - 30 * MINUTE - number * SECOND, NOW - 30 * MINUTE - number * SECOND + 20_000 * (1 + number))
        for number in range(100)
    ]  # fmt: skip
    rows += [sent(NOW - 20 * MINUTE), sent(NOW - 10 * MINUTE, NOW - 9 * MINUTE, number=2, effect="mail")]
    lived = [Lived(NOW - HOUR, NOW - 25 * MINUTE, "succeeded"), Lived(NOW - HOUR, NOW - 5 * MINUTE, "continued")]
    given = {"as_of": NOW, "runs": 2_000, "lived": lived, "sent": rows, "is_cut": False} | more
    return Figures(Lately(**given), NOW - 20 * MINUTE)


def test_where_nothing_is_recorded_each_chart_says_so_and_draws_nothing():
    made = charts(NOTHING, now=NOW)
    for name, chart in zip(Charts._fields, made, strict=True):
        root = read(chart)
        assert not found(root, "rect"), name
        expected = "none was unknown" if name == "unknown_age" else "nothing in this time"
        assert expected in texts(root), name


def test_each_chart_says_how_old_its_numbers_are_and_what_they_are_of():
    for chart in (*charts(some(is_cut=True), now=NOW + 3 * SECOND), *charts(NOTHING, now=NOW + 3 * SECOND)):
        assert "As of 2024-10-04 07:00:00 UTC, 3s ago; newest 2,000 runs only." in texts(read(chart))
    assert all("Not all attempts" in chart for chart in charts(some(is_cut=True), now=NOW))
    assert not any("Not all attempts" in chart for chart in charts(some(), now=NOW))


def test_the_charts_say_what_was():
    made = charts(some(), now=NOW, targets={"charge": "bank"})
    age, throughput, latency, again = (read(chart) for chart in made)
    assert "now 20m, at most 20m" in texts(age)
    assert "runs: 1 (lines), effects: 101 (bars)" in texts(throughput)
    assert "middle 1.02s, 95 of 100 within 1.92s" in texts(latency)
    assert "1 in all" in texts(again)
    assert [one for one in texts(again) if one in ("mail", "bank")] == ["mail", "bank"]
    assert "0 to 20m" in texts(age)
    assert any("each line is ten times the one below" in one for one in texts(latency))


def test_bars_that_start_at_zero_are_as_high_as_what_they_show():
    halves = Figures(
        Lately(NOW, 9, [], [sent(NOW - at, NOW - at) for at in (MINUTE, MINUTE, 9 * MINUTE)], is_cut=False), None
    )
    bars = found(read(charts(halves, now=NOW).throughput), "rect", "fp-bar")
    heights = sorted(float(one.attrib["height"]) for one in bars)
    assert heights[1] == 2 * heights[0]


@given(
    st.lists(st.tuples(st.integers(0, 3 * HOUR), st.one_of(st.none(), st.integers(0, DAY)))),
    st.sampled_from([MINUTE, HOUR, 30 * DAY]),
)
def test_whatever_was_nothing_is_drawn_outside_of_its_field(told, within):
    rows = [sent(NOW - ago, None if lasts is None else min(NOW, NOW - ago + lasts)) for ago, lasts in told]
    whole = Figures(Lately(NOW, 9, [], rows, is_cut=False), NOW - DAY)
    for chart in charts(whole, now=NOW, within=within):
        root = read(chart)
        height = float(root.attrib["height"])
        for bar in found(root, "rect"):
            assert 0 <= float(bar.attrib["y"]) <= float(bar.attrib["y"]) + float(bar.attrib["height"]) <= height
            assert 0 <= part(bar.attrib["x"]) <= part(bar.attrib["x"]) + part(bar.attrib["width"]) <= 100.01
        assert len(chart) < 60_000


def test_texts_fit_at_360_pixels_and_hostile_ones_do_nothing():
    hostile = "</text><script>alert(1)</script>\u202e" + "x" * 100_000
    rows = [sent(NOW - MINUTE, NOW - MINUTE, effect=f"{number}{hostile}", number=2) for number in range(20)]
    for chart in charts(Figures(Lately(NOW, 2_000, [], rows, is_cut=True), None), now=NOW):
        assert "<script" not in chart
        assert "\u202e" not in chart
        assert max(breadth(one) for one in texts(read(chart))) <= 64
        assert len(chart) < 20_000


def test_every_word_is_put_to_the_reader():
    asked: set[str] = set()

    def say(text: str) -> str:
        asked.add(text)
        return text

    many = [sent(NOW - 5, NOW, effect=f"e{number}") for number in range(20)]
    charts(some(is_cut=True), now=NOW, say=say)
    charts(Figures(Lately(NOW, 9, [], many, is_cut=False), None), now=NOW, say=say)
    charts(NOTHING, now=NOW, say=say)
    assert asked == set(WORDS)
    assert asked <= JAPANESE.keys()


@workflow()
async def pays(run: Run, name: str) -> str:
    await run.do(keyed("first"))
    return await run.do(once(name))


@played
async def test_a_ledger_is_charted_as_it_is(url):
    target.reset()
    target.plan("bad", "lose")
    target.plan("good", "busy")
    async with working(url, pays) as app:
        await app.start(pays, "good", id="good")
        await reaches(app, "good", RunState.SUCCEEDED)
        await app.start(pays, "bad", id="bad")
        await reaches(app, "bad", RunState.HELD)
        found_now = figures(app.store, app.namespace)
        elsewhere = figures(app.store, "elsewhere")
        cut = figures(app.store, app.namespace, runs=1)
        few = figures(app.store, app.namespace, attempts=1)
    lately = found_now.lately
    assert sorted((one.effect, one.number, one.outcome.value) for one in lately.sent) == [
        ("keyed", 1, "applied"), ("keyed", 1, "applied"), ("once", 1, "not applied"), ("once", 1, "unresolved"),
        ("once", 2, "applied"),
    ]  # fmt: skip
    assert sorted(one.state for one in lately.lived) == ["held", "succeeded"]
    [unknown] = [one for one in lately.sent if one.known_at is None]
    assert found_now.unknown_since == unknown.dispatched_at
    assert not lately.is_cut
    assert (elsewhere.lately.sent, elsewhere.lately.lived, elsewhere.unknown_since) == ([], [], None)
    assert len(cut.lately.lived) == 1
    assert (len(few.lately.sent), few.lately.is_cut) == (2, True)
    for chart in charts(found_now, now=lately.as_of):
        read(chart)


@pytest.fixture(autouse=True)
def _nothing_left():
    yield
    target.reset()
