"""Builds the documentation site from the pages of docs/, which are written for any reader of Markdown.

    make site                               builds build/site

What only a site needs is added while a page is read: the menu to the first page, and pictures for the diagrams of
states, whose text `docs/generate.py` makes from the tables. What a page says stands in the page.
"""

import re
import sys
from pathlib import Path

from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parent))

import menu

from fencepost import __version__

project = "Fencepost"
author = "The Fencepost authors"
version = release = __version__
language = "en"

extensions = ["myst_parser", "sphinx.ext.graphviz"]
root_doc = "README"
exclude_patterns = ["site"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 3
graphviz_output_format = "svg"

html_theme = "furo"
html_title = f"Fencepost {version}"
html_extra_path = ["index.html"]
html_copy_source = False
html_show_sphinx = False

_ROOT = Path(__file__).parents[2]
_DIAGRAM = re.compile(r"```mermaid\nstateDiagram-v2\n(?P<lines>.*?)```", re.DOTALL)
_NAMED = re.compile(r'state "(?P<text>.+)" as (?P<id>\w+)')
_ARROW = re.compile(r"(?P<from>\S+) --> (?P<to>[^\s:]+)(?:: (?P<label>.+))?")
_ELSEWHERE = re.compile(r"\]\((?P<up>(?:\.\./)+)(?P<path>[^)#]*)(?P<anchor>#[^)]*)?\)")


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _read)


def _read(_: Sphinx, page: str, source: list[str]) -> None:
    source[0] = _DIAGRAM.sub(_drawn, source[0])
    source[0] = _ELSEWHERE.sub(lambda link: _within_the_site(page, link), source[0])
    if page == root_doc:
        source[0] += menu.of(source[0])


def _drawn(diagram: re.Match[str]) -> str:
    """A diagram of states in the words of Graphviz, which draws it when the site is built."""
    lines = [line.strip() for line in diagram["lines"].splitlines()]
    names = {found["id"]: found["text"] for line in lines if (found := _NAMED.fullmatch(line))}
    drawn = ['digraph { rankdir=LR; bgcolor=transparent; node [shape=box style=rounded fontname="sans-serif"];']
    drawn.append('edge [fontname="sans-serif" fontsize=11]; "[*]" [shape=point];')
    for line in lines:
        if arrow := _ARROW.fullmatch(line):
            start, end = (names.get(arrow[side], arrow[side]) for side in ("from", "to"))
            drawn.append(f'"{start}" -> "{end}" [label="{arrow["label"] or ""}"];')
    return "\n".join(["```{graphviz}", *drawn, "}", "```"])


def _within_the_site(page: str, link: re.Match[str]) -> str:
    """A link to what is not in the site becomes its name: the file is in the repository."""
    target = (_ROOT / "docs" / page).parent / (link["up"] + link["path"])
    inside = target.resolve().is_relative_to(_ROOT / "docs")
    return link[0] if inside else f"] (`{target.resolve().relative_to(_ROOT)}`)"
