"""Pictures of the console are those that the browser's tests take, so that none shows what is there no more."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "pictures"


def test_each_picture_of_the_console_is_taken_by_a_test_and_shown_on_a_page():
    tests = "".join(path.read_text("utf-8") for path in (ROOT / "tests" / "browser").glob("test_*.py"))
    pages = "".join(path.read_text("utf-8") for path in (ROOT / "docs").rglob("*.md"))
    kept = {path.stem for path in PICTURES.glob("*.png")}
    assert kept
    assert kept <= set(re.findall(r'picture\([\w.]+, "([\w-]+)"\)', tests))
    assert kept == set(re.findall(r"pictures/([\w-]+)\.png", pages))
