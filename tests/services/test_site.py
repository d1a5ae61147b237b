"""The documentation site is built without a warning, holds every page, and loads nothing from elsewhere."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.services import wanted

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make site` builds it."""
    if shutil.which("dot") is None:
        missing = "Graphviz is not installed; `apt-get install -y graphviz` brings it on Debian"
        pytest.fail(missing) if wanted.must_be_there() else pytest.skip(missing)
    built = tmp_path_factory.mktemp("site")
    options = ["--quiet", "--fresh-env", "--fail-on-warning", "--keep-going", "-c", str(DOCS / "site")]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *options, str(DOCS), str(built)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return built


def test_every_page_is_in_the_site_and_in_its_menu(site: Path) -> None:
    menu = (site / "README.html").read_text("utf-8")
    for page in DOCS.rglob("*.md"):
        place = page.relative_to(DOCS).with_suffix(".html")
        assert (site / place).exists()
        assert place.name == "README.html" or f'href="{place}"' in menu


def test_every_diagram_of_states_is_drawn_from_its_table(site: Path) -> None:
    tables = (DOCS / "reference" / "transitions.md").read_text("utf-8").count("```mermaid")
    page = (site / "reference" / "transitions.html").read_text("utf-8")
    drawn = re.findall(r'data="\.\./_images/(graphviz-\w+\.svg)"', page)
    assert len(drawn) == tables > 0
    assert all("<svg" in (site / "_images" / picture).read_text("utf-8") for picture in drawn)


def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    loads = re.compile(r"<(?:script|img|link|object)[^>]+(?:src|href|data)=\"(?:https?:)?//[^\"]+", re.IGNORECASE)
    for page in site.rglob("*.html"):
        assert loads.findall(page.read_text("utf-8")) == [], page
