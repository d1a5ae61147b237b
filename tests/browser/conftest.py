"""A real browser, Debian's Chromium, before a real console: a process of its own over workers, a ledger and the world.

One house lasts the whole session; each test has an invoice of its own in it. A browser that is not on this machine is
skipped with a sentence, and fails in CI. What a page says to a script's author (errors, what its policy has refused) is
no fault of a test's, and fails each of them.
"""

import itertools
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.browser.house import House
from tests.services import wanted

collect_ignore_glob = [] if wanted.are_wanted() else ["test_*.py"]

SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"
HOW_TO_GET_IT = "Chromium is not installed; `apt-get install -y chromium` brings it on Debian"
SECONDS_MAX = 15
WINDOW = {"width": 1280, "height": 900}

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """The browser."""
    program = shutil.which("chromium")
    if program is None:
        pytest.fail(HOW_TO_GET_IT) if wanted.must_be_there() else pytest.skip(HOW_TO_GET_IT)
    with sync_playwright() as playwright:
        # Without its sandbox, which root has none of; it sees our own pages only.
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """Ledger, world, workers and console."""
    with House.built(tmp_path_factory.mktemp("house")) as built:
        yield built


@pytest.fixture
def invoice() -> str:
    """The number of an invoice that nobody has seen yet."""
    return f"INV-{next(_numbers):04}"


Come = Callable[..., Page]


@pytest.fixture
def come(request: pytest.FixtureRequest, chromium: Browser) -> Iterator[Come]:
    """Somebody at a browser of their own, signed in by a link: `come("ann", "operator", locale="ja-JP")`.

    `of` names another house, `at` another console of it.
    """
    complaints: list[str] = []
    with ExitStack() as stack:

        def begin(person: str = "ann", *roles: str, **options: object) -> Page:
            of = options.pop("of", None) or request.getfixturevalue("house")
            at = str(options.pop("at", of.url))
            settings = {"base_url": at, "viewport": WINDOW, "locale": "en-GB", **options}
            context: BrowserContext = stack.enter_context(chromium.new_context(**settings))
            context.set_default_timeout(SECONDS_MAX * 1_000)
            page = context.new_page()
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.on("console", lambda said: complaints.append(said.text) if "Content Security" in said.text else None)
            page.goto(of.link(person, *(roles or ("admin",)), at=at))
            page.locator("form.stack button").click()
            page.wait_for_url("/")
            return page

        yield begin
    assert complaints == []


@pytest.fixture(scope="session")
def picture() -> Callable[[Page, str], None]:
    """Keep a picture of the page, under a name: the documentation shows some of them."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    return lambda page, name: page.screenshot(path=SCREENSHOTS / f"{name}.png", animations="disabled")
