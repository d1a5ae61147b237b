"""Reads a picture back, as a browser would: what is drawn, where, and what is said of it.

What must be there is said by the tests.
"""

import re
from collections.abc import Iterator
from xml.etree import ElementTree as ET

NAMESPACE = "{http://www.w3.org/2000/svg}"
ALLOWED = {
    *("svg", "g", "title", "desc", "text", "rect", "line", "path", "circle", "polyline"),
}
ATTRIBUTES = {
    *("class", "role", "aria-label", "width", "height", "x", "y", "x1", "x2", "y1", "y2", "rx", "d", "cx", "cy", "r"),
    *("fill", "fill-opacity", "stroke", "stroke-opacity", "stroke-width", "stroke-dasharray", "overflow", "points"),
    *("font-size", "font-weight", "text-anchor", "viewBox", "preserveAspectRatio", "vector-effect"),
}


def read(picture: str) -> ET.Element:
    """The picture as a tree; it holds nothing that a strict page would not have."""
    root = ET.fromstring(picture)  # noqa: S314 - our own text, and what it escapes is what is tested
    for one in root.iter():
        assert one.tag.removeprefix(NAMESPACE) in ALLOWED, one.tag
        assert not set(one.attrib) - ATTRIBUTES, one.attrib
        assert not any("url(" in value or "javascript:" in value for value in one.attrib.values() if "fp-" not in value)
    assert root.attrib["aria-label"] == root.findtext(f"{NAMESPACE}title")
    return root


def found(root: ET.Element, tag: str, class_: str = "") -> list[ET.Element]:
    """Elements of a kind, and of a class."""
    return [
        one for one in root.iter(NAMESPACE + tag) if not class_ or class_ in one.attrib.get("class", "").split()
    ]  # fmt: skip


def texts(root: ET.Element) -> list[str]:
    """All texts that are seen."""
    return [one.text or "" for one in found(root, "text")]


def said(root: ET.Element) -> list[str]:
    """What is said of each row to those who do not see it."""
    return [one.attrib["aria-label"] for one in found(root, "g", "fp-row")]


def part(value: str) -> float:
    """A percentage as a number."""
    assert re.fullmatch(r"-?\d+(\.\d+)?%", value), value
    return float(value[:-1])


def extents(root: ET.Element) -> Iterator[tuple[float, float, float, float]]:
    """Of each bar where it begins and ends, in percent, and its top and bottom, in pixels."""
    for one in found(root, "rect", "fp-bar"):
        if one.attrib["x"].endswith("%"):
            left, top = part(one.attrib["x"]), float(one.attrib["y"])
            yield left, left + part(one.attrib["width"]), top, top + float(one.attrib["height"])
