"""What can be read off the files that pages load: contrast in light and dark, and that nothing is from elsewhere."""

import re
from pathlib import Path

import pytest

import fencepost.console

STATIC = Path(fencepost.console.__file__).parent / "static"
CSS = (STATIC / "console.css").read_text("utf-8")
LIGHT, DARK = (dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", part)) for part in CSS.split("@media (prefers", 2)[:2])
PAIRS = [
    *((ink, ground) for ink in ("ink", "faint", "link", "well", "bad", "warn") for ground in ("ground", "panel")),
    ("bad", "bad-ground"), ("warn", "warn-ground"), ("well", "well-ground"), ("ink", "bad-ground"),
    ("ink", "well-ground"), ("link", "bad-ground"), ("panel", "link"),
]  # fmt: skip
AA = 4.5


def luminance(colour: str) -> float:
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_every_text_can_be_read_on_its_ground(colours: dict[str, str]) -> None:
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    for ink, ground in PAIRS:
        assert contrast(colours[ink], colours[ground]) >= AA, (ink, ground)
    assert contrast(colours["focus"], colours["ground"]) >= 3


def test_nothing_is_loaded_from_elsewhere_and_what_is_not_ours_has_its_licence() -> None:
    assert not re.search(r"url\(|@import", CSS)
    assert sorted(path.name for path in STATIC.iterdir()) == [
        "console.css", "console.js", "fence.svg", "htmx.LICENSE", "htmx.min.js", "hx-sse.min.js",
    ]  # fmt: skip
    assert (STATIC / "htmx.LICENSE").read_text("utf-8").startswith("Zero-Clause BSD")
