"""The picture of a run can be read at 360 pixels, obeys a strict page, and shows a zombie's late write as refused."""

import json
import re
from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from fencepost.console.picture_words import JAPANESE, in_language
from fencepost.console.svg import Svg, breadth, cut, drawn
from fencepost.console.timeline import LINE_LENGTH, NAME_LENGTH, STATE_LENGTH, WORDS, timeline
from fencepost.core.duration import DAY
from fencepost.core.records import History
from fencepost.core.states import OperationState, Outcome, RunState, StepState
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.console.pictures import extents, found, part, read, said, texts
from tests.core.pictured import BEGAN, attempt, histories, late, operation, run, step, verb, with_a_zombie
from tests.runtime.stage import Gate, expire, keyed, once, played, reaches, target, working

NOW = BEGAN + 40 * DAY
HOSTILE = "</text><script>alert(1)</script>\"'&\u202eevil\x1b[2J\0\ufffe" + "x" * 1_000_000


@given(histories(), st.booleans())
def test_whatever_a_run_did_its_picture_is_whole_and_each_bar_is_in_its_lane(history, eventful_first):
    root = read(timeline(history, now=NOW, eventful_first=eventful_first))
    height = float(root.attrib["height"])
    tops = []
    for left, right, top, bottom in extents(root):
        assert 0 <= left < right - 0.3  # one without any width is not drawn at all
        assert right <= 100
        assert 0 <= top < bottom <= height
        tops.append((top, bottom))
    lanes = sorted({round((top + bottom) / 2) for top, bottom in tops})
    assert all(below - above >= 12 for above, below in pairwise(lanes))
    rows = len(said(root))
    assert rows >= len([row for row in history.operations if row.compensates is None][:1])


def test_a_zombies_late_write_is_seen_as_refused():
    root = read(timeline(with_a_zombie(), now=NOW))
    assert [one for one in texts(root) if "refused" in one] == [
        "generation 1 · refused · lease lease-1",
        "generation 1 · refused · lease lease-1",
        "reported too late, and refused",
    ]
    marks = found(root, "g", "fp-refused")
    assert len(marks) == 2
    titles = [one.text for mark in marks for one in found(mark, "title")]
    assert titles == ["late reply: applied, refused as a write and kept as evidence; 2024-10-07T00:00:02.000000Z"] * 2
    [tether] = found(marks[1], "line")
    assert part(tether.attrib["x2"]) > part(tether.attrib["x1"])


def test_a_wait_of_three_days_leaves_the_steps_readable():
    root = read(timeline(with_a_zombie(), now=NOW))
    assert "2d 23h" in texts(root)
    widths = {row.attrib["aria-label"].partition(":")[0]: row for row in found(root, "g", "fp-row")}
    model, wait = (
        part(found(widths[name], "rect")[0].attrib["width"]) for name in ("model classify", "wait decision")
    )  # fmt: skip
    assert model > wait
    assert wait < 7
    assert "time cut short" in texts(root)


def test_texts_fit_at_360_pixels():
    assert (NAME_LENGTH + STATE_LENGTH) * 6.8 < 360
    assert LINE_LENGTH * 6.0 < 360
    named = replace(with_a_zombie(), operations=[operation("n" * 300, attempt(1, 5), item="i" * 300)])
    root = read(timeline(named, [verb("v" * 300, 5)], now=NOW))
    assert max(breadth(one) for one in texts(root)) <= LINE_LENGTH
    assert "viewBox" not in root.attrib  # it would make texts smaller on a small screen


def test_hostile_texts_are_shown_and_do_nothing():
    hurt = operation(HOSTILE, attempt(1, 5, outcome=Outcome.UNRESOLVED, lease=f"{HOSTILE}\ud800"), item=HOSTILE,
                     state=OperationState.UNKNOWN, observations=[late(9)])  # fmt: skip
    back = operation(f"compensate {HOSTILE}", attempt(1, 20), compensates=hurt.position)
    history = History(run(id=HOSTILE), [step("wait", HOSTILE, 7, None)], [hurt, back])
    picture = timeline(history, [verb(HOSTILE, 8)], now=NOW)
    assert len(picture) < 30_000
    for text in ("<script", "\u202e", "\x1b", "\0", "\ufffe", "\ud800"):
        assert text not in picture
    root = read(picture)
    assert any("&lt;" not in one and "</text><script>" in one for one in texts(root))


def test_the_picture_of_ten_thousand_steps_is_bounded():
    entries = [
        operation("post_entry", attempt(1, 10_000 * number), item=str(number)) for number in range(10_000)
    ]  # fmt: skip
    entries[5_000] = replace(entries[5_000], state=OperationState.UNKNOWN)
    picture = timeline(History(run(), operations=entries), now=NOW)
    assert len(picture) < 10_000
    root = read(picture)
    assert "5,000 succeeded" in texts(root)
    assert "post_entry[5000]" in texts(root)
    hurt = [
        operation("e" * 200, *(attempt(one + 1, 9 * number + one, generation=one, outcome=Outcome.NOT_APPLIED)
                               for one in range(2)),
                  item=str(number), state=OperationState.FAILED, error="{}", observations=[late(number)])
        for number in range(10_000)
    ]  # fmt: skip
    assert len(timeline(History(run(), operations=hurt), now=NOW)) < 600_000


def test_compensated_is_not_restored():
    effects = [
        {"effect": "book", "outcome": "restored"},
        {"effect": "mail", "outcome": "compensated"},
        {"effect": "note", "outcome": "stands as declared"},
    ]
    report = step("compensate", "compensate", 90_000, 1_000, result=json.dumps({"effects": effects}))
    done = [operation(name, attempt(1, 10_000 * at)) for at, name in enumerate(("book", "mail", "note"))]
    backs = [operation(f"compensate {name}", attempt(1, 50_000), compensates=name) for name in ("book", "mail")]
    history = History(run(state=RunState.COMPENSATED), [report], done + backs)
    told = [one.partition(";")[0] for one in said(read(timeline(history, now=NOW)))]
    assert [one for one in told if "book" in one or "mail" in one] == [
        "book: succeeded", "compensate book: restored", "mail: succeeded", "compensate mail: compensated",
    ]  # fmt: skip
    assert "note: stands as declared" in told


def test_every_word_of_the_picture_is_put_to_the_reader():
    asked: set[str] = set()

    def say(text: str) -> str:
        asked.add(text)
        return text

    history = replace(with_a_zombie(), steps=[*with_a_zombie().steps, step("sleep", "s", 9, None)])
    timeline(history, [verb("resume", 9, "refused")], now=NOW, say=say)
    timeline(History(run(state=RunState.READY, ended_at=None, wake_at=1)), now=NOW, say=say)
    assert {one for one in asked if "{" in one} <= set(WORDS)
    assert set(WORDS) - asked <= {
        "generations {first} to {last}", "{count} of them", "compensates {step}", "pid {pid} on {host}", "failed",
        "A tenth of the width is {tenth}.",
    }  # fmt: skip


def test_a_japanese_picture_is_japanese_and_fits():
    assert set(WORDS) <= JAPANESE.keys()
    named = replace(with_a_zombie(), operations=[*with_a_zombie().operations, operation("請求書" * 30, attempt(1, 5))])
    root = read(timeline(named, now=NOW, say=in_language("ja")))
    assert "遅すぎた報告 (拒否)" in texts(root)
    assert "世代 1 · 拒否 · リース lease-1" in texts(root)
    assert max(breadth(one) for one in texts(root)) <= LINE_LENGTH
    assert in_language("fr")("done") == in_language("en")("done") == "done"


def test_every_state_that_a_picture_says_is_in_its_words():
    states = {*RunState, *OperationState, *StepState, *Outcome} - {Outcome.UNRESOLVED}
    assert {str(one) for one in states} <= JAPANESE.keys()
    assert {f"compensation {one}" for one in OperationState} <= JAPANESE.keys()
    for english, japanese in JAPANESE.items():
        assert sorted(re.findall(r"{\w+}", english)) == sorted(re.findall(r"{\w+}", japanese))


@given(st.text(), st.integers(2, 20))
def test_a_text_is_cut_to_its_breadth(text, length):
    assert breadth(cut(text, length)) <= length


def test_texts_are_escaped_and_elements_are_not():
    assert drawn("text", "<b>", x=1.5, class_='a"b') == '<text x="1.5" class="a&quot;b">&lt;b&gt;</text>'
    assert drawn("g", drawn("line", x1="1%"), font_size=None) == '<g><line x1="1%"/></g>'
    assert Svg("<g/>").__html__() == "<g/>"


@workflow()
async def one(run: Run, name: str) -> str:
    first = await run.do(once(name))
    return f"{first}, {await run.do(keyed('after'))}"


@played
async def test_a_real_zombie_is_drawn_as_the_ledger_holds_it(url):
    target.reset()
    gate = Gate()
    target.plan("a", gate)
    async with working(url, one) as stale:
        await stale.start(one, "a", id="r")
        await gate.reached.wait()
        expire(stale)
        async with working(url, one) as heir:
            await reaches(heir, "r", RunState.HELD)
            gate.opened.set()
            await reaches(heir, "r", RunState.SUCCEEDED)
            history = await heir.show("r")
            leases, now = heir.store.leases(), heir.store.now()
            audits = heir.store.audits("default", "r")
    assert target.requests == ["a", "after"]
    root = read(timeline(history, audits, leases, now=now))
    assert said(root)[0].startswith("owners: ")
    [row] = [row for row in found(root, "g", "fp-row") if row.attrib["aria-label"].startswith("once: succeeded")]
    [mark] = found(row, "g", "fp-refused")
    assert "refused as a write and kept as evidence" in found(mark, "title")[0].text
    generation = history.operations[0].attempts[0].generation
    captions = [text for text in texts(root) if text.startswith(f"generation {generation} · refused")]
    assert len(captions) == 2
