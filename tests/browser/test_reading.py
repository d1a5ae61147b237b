"""The pages on a narrow screen, in the dark, and by keyboard; no page moves sideways, and none runs what it shows."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page

from fencepost.core.states import RunState
from tests.browser.conftest import Come
from tests.browser.house import House

Picture = Callable[[Page, str], None]

PAGES = ("/", "/runs", "/proposals", "/flow", "/many", "/charts", "/contracts", "/audit")


def test_no_page_moves_sideways_on_a_narrow_screen(house: House, come: Come, picture: Picture, invoice: str) -> None:
    run = house.failed(invoice)
    ann = come("ann", "admin", viewport={"width": 360, "height": 740})
    for path in (*PAGES, f"/runs/{run}"):
        reply = ann.goto(path)
        assert reply.status == 200, path
        ann.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
        assert ann.evaluate("document.documentElement.scrollWidth") <= 360, path
    picture(ann, "narrow")


def test_in_the_dark_the_page_is_dark(house: House, come: Come, picture: Picture) -> None:
    ann = come("ann", "viewer", color_scheme="dark")
    picture(ann, "dark")
    light = come("ann", "viewer", color_scheme="light")
    ground = "getComputedStyle(document.body).backgroundColor"
    assert _brightness(ann.evaluate(ground)) < 80
    assert _brightness(light.evaluate(ground)) > 180


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_stands_out_from_its_ground(house: House, come: Come, invoice: str, scheme: str) -> None:
    """WCAG 2.2 AA: 4.5 to 1, and 3 to 1 for large text; computed by the browser for every text that it shows."""
    run = house.failed(invoice)
    ann = come("ann", "admin", color_scheme=scheme)
    for path in (*PAGES, f"/runs/{run}"):
        ann.goto(path)
        assert ann.evaluate(_TOO_PALE) == [], path


def test_a_verb_is_reached_and_done_by_keyboard_alone(house: House, come: Come, invoice: str) -> None:
    run = house.failed(invoice)
    ann = come("ann", "admin")
    ann.goto(f"/runs/{run}")
    ann.keyboard.press("Tab")
    assert ann.evaluate("document.activeElement.className") == "skip"
    ann.keyboard.press("Enter")
    for _ in range(40):
        ann.keyboard.press("Tab")
        if ann.evaluate("document.activeElement.matches('details:has(form[action$=\"/compensate\"]) > summary')"):
            break
    ann.keyboard.press("Enter")
    ann.keyboard.press("Tab")
    ann.keyboard.type("it was never ordered")
    ann.keyboard.press("Tab")
    with ann.expect_response(lambda reply: reply.request.method == "POST"):
        ann.keyboard.press("Enter")
    house.until(run, RunState.COMPENSATED, RunState.PARTLY_COMPENSATED)
    assert house.holds(invoice)["refunds"] == 1
    assert [(row.actor, row.outcome) for row in house.audit(run, "compensate")] == [("ann", "done")]


def test_what_a_run_is_called_is_shown_and_not_run(house: House, come: Come, invoice: str) -> None:
    hostile = f"<img src=x onerror=alert(1)>{invoice}</code><script>alert(2)</script>"
    run = house.starts(hostile)
    ann = come("ann", "viewer")
    said: list[str] = []
    ann.on("dialog", lambda dialog: (said.append(dialog.message), dialog.dismiss()))
    ann.goto("/runs")
    ann.get_by_text(run).click()
    ann.wait_for_url("**/runs/**")
    assert run in ann.locator("h1").inner_text()
    assert ann.locator("main img, main script").count() == 0
    assert said == []


def _brightness(colour: str) -> float:
    red, green, blue = (float(one) for one in colour.partition("(")[2].rstrip(")").split(",")[:3])
    return 0.299 * red + 0.587 * green + 0.114 * blue


_TOO_PALE = """() => {
  const parts = colour => colour.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => {
    const one = c => (c /= 255, c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * one(r) + 0.7152 * one(g) + 0.0722 * one(b);
  };
  const ground = element => {
    for (let at = element; at; at = at.parentElement) {
      const found = parts(getComputedStyle(at).backgroundColor);
      if (found.length < 4 || found[3] === 1) return found;
    }
    return parts(getComputedStyle(document.documentElement).colorScheme === "dark" ? "0 0 0" : "255 255 255");
  };
  const pale = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode, element = text.parentElement;
    if (!text.data.trim() || !element.checkVisibility()) continue;
    const style = getComputedStyle(element), size = parseFloat(style.fontSize);
    const [a, b] = [light(parts(style.color)), light(ground(element))].sort((x, y) => y - x);
    const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if ((a + 0.05) / (b + 0.05) < (isLarge ? 3 : 4.5)) pale.push(text.data.trim().slice(0, 40));
  }
  return pale;
}"""
