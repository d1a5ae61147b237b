"""What a house rule is: what it looks at, what it finds, and two samples that prove that it can tell.

The rules themselves are in claims.py, code.py and files.py beside this file; test_house_rules.py runs them.
"""

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Source:
    """One file of the repository: its path relative to the root (with slashes), and its text."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree of a Python file."""
        return ast.parse(self.text, self.path)

    @cached_property
    def stem(self) -> str:
        """The name of the file without its folder and ending."""
        return Path(self.path).stem

    def line_at(self, offset: int) -> int:
        """The number, from 1, of the line that holds the character at `offset`."""
        return self.text.count("\n", 0, offset) + 1


@dataclass(frozen=True)
class Finding:
    """One place that breaks a rule: the line, from 1, and what is wrong there."""

    line: int
    what: str


@dataclass(frozen=True)
class Rule:
    """A house rule, as one sentence, with the files it holds in and the function that looks."""

    sentence: str
    files: tuple[str, ...]
    """Patterns relative to the root; one that starts with `!` takes files out again."""
    look: Callable[[Source], Iterable[Finding]]
    bad: Source
    """A file that breaks the rule."""
    good: Source
    """Its nearest neighbour that does not."""

    def sources(self) -> Iterator[Source]:
        """The files of the repository that the rule holds in, in order."""
        found = {path for pattern in self.files if pattern[0] != "!" for path in ROOT.glob(pattern)}
        found -= {path for pattern in self.files if pattern[0] == "!" for path in ROOT.glob(pattern[1:])}
        for path in sorted(found):
            if path.is_file() and "__pycache__" not in path.parts:
                yield Source(path.relative_to(ROOT).as_posix(), path.read_text("utf-8"))
