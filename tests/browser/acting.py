"""How somebody does a verb at the browser: opens its form on the run's page, fills it in, and presses its button."""

from playwright.sync_api import Locator, Page


def form(page: Page, run: str, verb: str, **sends: str) -> Locator:
    """The form of a verb on a run, opened: the one that sends these along."""
    page.goto(f"/runs/{run}")
    found = page.locator(f'form[action$="/{verb}"]')
    for name, value in sends.items():
        found = found.filter(has=page.locator(f'input[name="{name}"][value="{value}"]'))
    found.locator("xpath=..").locator("summary").click()
    return found


def send(found: Locator, **filled: str) -> int:
    """Fill a form in, and press its button; returns the status of the answer."""
    for name, value in filled.items():
        found.locator(f'[name="{name}"]').fill(value)
    page = found.page
    with page.expect_response(lambda reply: reply.request.method == "POST") as answered:
        found.locator("button").click()
    page.wait_for_load_state()
    return answered.value.status
