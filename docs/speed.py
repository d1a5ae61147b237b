"""The pages on speed: a table and pictures, made from the committed result of one benchmark and from nothing else.

    make bench-peers ARGS="--json bench/results/postgres.json"      measures and writes the result
    make docs                                                       makes the pages from it

Without that file there are no pages. What is measured, and how, is told in bench/README.md.
"""

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.peers_table import render
from bench.plots import PLOTS
from bench.table import Heading

ROOT = Path(__file__).resolve().parent.parent
RESULT = ROOT / "bench" / "results" / "postgres.json"


def pages(result: Path = RESULT) -> dict[str, Callable[[], str]]:
    """What makes each page, by its name under docs/reference; nothing without a result."""
    if not result.exists():
        return {}
    found = json.loads(result.read_text("utf-8"))
    drawn = {f"speed/{name}.svg": partial(plot, found["lines"]) for name, plot in PLOTS.items()}
    return {"speed/README.md": partial(page, found), **drawn}


def page(found: dict[str, Any]) -> str:
    """The table as it was printed, under the pictures."""
    table = "\n".join(render(Heading(**found["heading"]), found["lines"]))
    pictures = "\n\n".join(f"![{name}]({name}.svg)" for name in PLOTS)
    left_out = "".join(f"- {what}: {why}\n" for what, why in found["skipped"].items())
    return (
        "# Speed\n\nOne run of `make bench-peers`; compare ratios, not figures, with those of another machine. "
        "How each is measured: [bench](../../../bench/README.md).\n\n"
        f"{pictures}\n\n```text\n{table}\n```\n" + (f"\nLeft out:\n\n{left_out}" if left_out else "")
    )
