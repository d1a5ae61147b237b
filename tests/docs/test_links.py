"""Every link inside the repository leads somewhere, to the heading if it names one; and every page is led to."""

import re

import pytest

from tests.docs.pages import FENCE, ROOT, every_page, name

PAGES = every_page()
LINK = re.compile(r"\[[^\]]*\]\((?P<to>[^)\s]+)\)")
ELSEWHERE = ("https://", "http://", "mailto:")


def prose(page):
    """The page without its blocks and its marked words."""
    return re.sub(r"`[^`\n]*`", "", FENCE.sub("", page.read_text("utf-8")))


def links(page):
    return [match["to"] for match in LINK.finditer(prose(page)) if not match["to"].startswith(ELSEWHERE)]


def anchors(page):
    """The headings' names as a viewer of Markdown makes them."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_each_link_leads_somewhere(page):
    for to in links(page):
        path, _, anchor = to.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{to} leads nowhere"
        assert ROOT in target.parents, f"{to} leads out of the repository"
        assert not anchor or anchor in anchors(target), f"{to}: no such heading"


def test_each_page_can_be_reached_from_the_readme():
    reached, new = set(), {ROOT / "README.md"}
    while new:
        page = new.pop()
        reached.add(page)
        new |= {(page.parent / to.partition("#")[0]).resolve() for to in links(page) if ".md" in to} - reached
    assert set(PAGES) <= reached
