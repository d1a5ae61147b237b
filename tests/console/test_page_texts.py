"""The pages' texts: every key in both languages with the same placeholders, states and verbs, no key missing."""

import asyncio
import re
import string
from pathlib import Path

import pytest

import fencepost.console
from fencepost.console.page_offers import FORMS, Offer
from fencepost.console.page_texts import LANGUAGES, Texts, language_for, table
from fencepost.console.page_times import age
from fencepost.core.states import OperationState, Outcome, RunState, SignalState, StepState, label
from tests.console.conftest import Serve
from tests.console.visit import signed_in
from tests.runtime import test_every_verb as stages

TEMPLATES = sorted((Path(fencepost.console.__file__).parent / "templates").glob("*.html"))
KINDS = {"run": RunState, "operation": OperationState, "outcome": Outcome, "step": StepState, "signal": SignalState}
WAYS = {"settle": ("happened", "did-not"), "settle conflict": ("happened", "did-not")}


def placeholders(text: str) -> set[str | None]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


def test_every_text_is_there_in_each_language_with_the_same_placeholders() -> None:
    for key, texts in table().items():
        assert list(texts) == list(LANGUAGES), key
        first, *others = (placeholders(text) for text in texts.values())
        assert all(one == first for one in others), key
        assert all(text.strip() == text != "" for text in texts.values()), key


def test_nothing_is_claimed_that_cannot_be_kept_in_either_language() -> None:
    for key, texts in table().items():
        assert not re.search(r"exactly once|roll(?:ed)? ?back|undone", texts["en"].replace("not undone", "")), key
        assert not re.search(r"ロールバック|必ず一度|確実に一度", texts["ja"]), key


def test_japanese_is_japanese() -> None:
    same = [key for key, texts in table().items() if texts["ja"] == texts["en"]]
    assert same == []


def test_every_state_has_a_name_and_says_in_english_what_the_table_of_states_says() -> None:
    for kind, states in KINDS.items():
        for state in states:
            assert Texts("en").state(kind, state.value) == state.value
            assert Texts("en").means(kind, state.value) == label(state)
            assert Texts("ja").means(kind, state.value)


def test_every_button_says_what_it_does_and_what_it_cannot_undo() -> None:
    for verb in FORMS:
        for way in WAYS.get(verb, ("",)):
            key = Offer(verb, way=way).key
            assert all(Texts("ja").has(name) for name in (key, f"{key}.does", f"{key}.cannot")), key
        assert Texts("ja").has(f"verb.{verb.replace(' ', '-')}")


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_every_key_that_a_template_names_is_in_the_table_and_no_template_has_words_of_its_own(template: Path) -> None:
    text = template.read_text("utf-8")
    for key in re.findall(r"""\bt\(["']([\w.-]+)["'](?! ~)""", text):
        assert key in table(), key
    bare = re.sub(r"\{%.*?%\}|\{\{.*?\}\}|\{#.*?#\}|<[^>]*>", " ", text, flags=re.DOTALL)
    assert set(re.findall(r"[A-Za-z]{2,}", bare)) <= {"Fencepost", "UTC"}


def test_every_key_is_used() -> None:
    used = "".join(path.read_text("utf-8") for path in [*TEMPLATES, *TEMPLATES[0].parents[1].glob("page_*.py")])
    made = ("run.", "operation.", "outcome.", "step.", "signal.", "verb.", "error.", "kind.", "made-good.", "audit.",
            "field.", "search.", "time.", "plan.", "flow.kind.", "schedule.", "nav.", "job.")  # fmt: skip
    assert [
        key for key in table() if not key.startswith(made) and f'"{key}"' not in used and f"'{key}'" not in used
    ] == []


@pytest.mark.parametrize(
    ("accept", "language"),
    [
        (None, "en"), ("", "en"), ("ja", "ja"), ("ja-JP,ja;q=0.9,en;q=0.8", "ja"), ("de, en;q=0.5, ja;q=0.4", "en"),
        ("en;q=0, ja;q=0.1", "ja"), ("*", "en"), ("ja;q=x", "en"), ("JA", "ja"), ("fr", "en"), ("en;q=0.8,ja", "ja"),
        ("ja;q=2", "en"), ("ja;q=nan", "en"), ("," * 5_000, "en"), ("en, ja", "en"),
    ],
)  # fmt: skip
def test_a_browser_gets_the_language_that_it_asks_for(accept: str | None, language: str) -> None:
    assert language_for(accept) == language


def test_ages_are_said_in_their_largest_unit() -> None:
    at = 1_700_000_000_000_000
    minute = 60_000_000
    assert age(at, at + 90 * minute, Texts("en")) == "1 h ago"
    assert age(at, at - 2 * minute, Texts("en")) == "in 2 min"
    assert age("2023-11-14T22:13:20.000000Z", at + 3_000_000, Texts("ja")) == "3秒前"
    assert age(None, at, Texts("en")) == ""


@pytest.mark.parametrize("verb", stages.STAGES)
def test_every_page_is_shown_in_both_languages(serve: Serve, url: str, verb: str) -> None:
    asyncio.run(stages.staged(url, verb))
    served = serve(workflows=stages.CODE)
    for language in LANGUAGES:
        ann = signed_in(served, "ann", "admin", language=language)
        for place in ("/", "/runs", "/runs/r", f"/runs/r?done={verb}", "/runs/nobody", "/sign-in"):
            page = ann.get(place)
            assert page.status == (404 if "nobody" in place else 200), page.text
            assert ("html", {"lang": language}) in page.tags
            assert page.reply.headers["Vary"] == "Accept-Language, Cookie"
