"""Makes the site's menu from the first page, so that no page is in one and not in the other.

A line in bold begins a chapter; the pages that its list links to are the chapter's. Pages below a linked README are in
the menu under it.
"""

import re
from pathlib import Path

_CHAPTER = re.compile(r"^\*\*(?P<name>.+?)\*\*", re.MULTILINE)
_PAGE = re.compile(r"\]\((?P<path>[\w/.-]+)\.md\)")
_DOCS = Path(__file__).parents[1]


def of(first_page: str) -> str:
    """The menu, as hidden lists in the words of MyST."""
    _, *parts = _CHAPTER.split(first_page)
    chapters = zip(parts[::2], parts[1::2], strict=True)
    return "".join(_list(name, _PAGE.findall(text)) for name, text in chapters)


def _list(name: str, pages: list[str]) -> str:
    below = [one for page in pages if page.endswith("README") for one in _beside(page)]
    return "\n".join(["", "```{toctree}", ":hidden:", f":caption: {name}", "", *pages, *below, "```", ""])


def _beside(readme: str) -> list[str]:
    folder = (_DOCS / readme).parent
    return sorted(str(one.relative_to(_DOCS).with_suffix("")) for one in folder.glob("*.md") if one.stem != "README")
