"""The hand-written and the generated pages of the documentation, and the blocks of code in them.

A fenced block is read by the word behind its fence: `python` is run; `console` is run too, and what it prints is
compared with the lines below each command, where `...` stands for anything; `shell` is checked against the command line
without being run, since its capitals stand for what a reader has; `text` and `mermaid` are pictures. No other is used.
What runs and checks them is `test_blocks`.
"""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
QUICKSTARTS = (ROOT / "README.md", ROOT / "docs" / "ja" / "quickstart.md")
LANGUAGES = {"python", "console", "shell", "text", "mermaid"}

FENCE = re.compile(r"^```(?P<language>\S*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"# (?P<file>\w+\.py)\n")


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, its text, and the line of its fence."""

    language: str
    code: str
    line: int

    @property
    def file(self) -> str | None:
        """The file that it says it is, in its first line."""
        named = NAMED.match(self.code)
        return named["file"] if named else None

    @property
    def commands(self) -> list[tuple[str, str]]:
        """Each command behind `$ ` with the lines below it."""
        parts = re.split(r"^\$ ", self.code, flags=re.MULTILINE)
        assert not parts[0].strip(), f"line {self.line}: text before the first command"
        return [(first, rest) for first, _, rest in (part.partition("\n") for part in parts[1:])]


def every_page() -> list[Path]:
    """All Markdown of the repository that readers are led to."""
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, in order."""
    text = page.read_text("utf-8")
    return [
        Block(match["language"], match["code"], text.count("\n", 0, match.start()) + 1)
        for match in FENCE.finditer(text)
    ]


def name(page: Path) -> str:
    """The page's path from the root, for names of tests."""
    return page.relative_to(ROOT).as_posix()
