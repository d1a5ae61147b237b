"""The README shows the quickstart as it is, and its tables name what the code has."""

import re

import pytest

from fencepost.core.guarantee import Rung
from tests.docs.pages import QUICKSTARTS, ROOT, blocks, name

README = ROOT / "README.md"


@pytest.mark.parametrize("page", QUICKSTARTS, ids=name)
def test_the_quickstart_is_shown_verbatim(page):
    shown = [block.code for block in blocks(page) if block.language == "python"]
    assert shown == [(ROOT / "examples" / "quickstart.py").read_text("utf-8")]


@pytest.mark.parametrize("page", QUICKSTARTS, ids=name)
def test_the_ladder_names_every_rung(page):
    text = page.read_text("utf-8")
    assert {rung for rung in Rung if f"`{rung}`" in text} == set(Rung)


def test_the_fault_table_has_a_row_for_each_of_the_eight_fault_tests():
    table = README.read_text("utf-8").partition("## Faults")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| [^|-]", table, re.MULTILINE)
    tests = (ROOT / "tests" / "processes" / "test_eight_faults.py").read_text("utf-8")
    assert len(rows) - 1 == len(set(re.findall(r"def test_(\d)_", tests))) == 8


def test_what_is_not_promised_stands_on_the_first_screen():
    first = README.read_text("utf-8").splitlines()[:34]
    assert any(line.startswith("**What is not promised.**") for line in first)
