"""Text from outside can neither move a cursor, nor hide, nor forge a line."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from fencepost.console.printable import instant, printable, short_key

OBEYED = {"Cc", "Cf", "Cs", "Zl", "Zp"}


@given(st.text())
def test_nothing_that_a_terminal_obeys_is_left(text):
    shown = printable(text, limit=None)
    assert not [one for one in shown if unicodedata.category(one) in OBEYED]


@given(st.text(), st.integers(0, 50))
def test_a_long_text_is_cut_and_says_so(text, limit):
    shown = printable(text, limit=limit)
    assert (f"({len(text) - limit} characters more)" in shown) is (len(text) > limit)


def test_colours_bidi_and_new_lines_are_shown_as_escapes():
    assert printable("\x1b[2Jgone\u202egpj.exe\nforged: ok") == "\\x1b[2Jgone\\u202egpj.exe\\nforged: ok"
    assert printable("\x9b31m\U000e0001") == "\\x9b31m\\U000e0001"


def test_every_script_stays_readable():
    assert printable("請求書 é счёт") == "請求書 é счёт"


def test_an_instant_is_utc_to_the_microsecond():
    assert instant(1_700_000_000_000_001) == "2023-11-14T22:13:20.000001Z"
    assert instant(None) is None
    assert instant(10**30) == f"{10**30} microseconds"


def test_a_short_key_is_the_beginning():
    assert short_key("0123456789abcdef") == "0123456789ab…"
