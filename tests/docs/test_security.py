"""The page on security names tests that exist."""

import ast
import re

import pytest

from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "security.md").read_text("utf-8")
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE)))


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_test_that_is_named_exists(file: str, name: str) -> None:
    tree = ast.parse((ROOT / file).read_text("utf-8"))
    found = {one.name for one in ast.walk(tree) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}
    assert name in found if name else any(one.startswith("test_") for one in found)


def test_every_row_names_one() -> None:
    rows = [line for line in PAGE.splitlines() if re.match(r"\| \d", line)]
    assert len(rows) > 20
    assert all("`tests/" in row for row in rows)
