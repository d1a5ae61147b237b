"""The command `demo`: real workers are killed while invoices go through, and the world's own files are counted.

Only its options are here; the demonstration is `fencepost.demo`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fencepost.cli.exits import Exit

Seed = Annotated[int, typer.Option("--seed", help="Draws the moments of the faults; the same seed, the same plan.")]
Invoices = Annotated[int, typer.Option("--invoices", min=4, max=1_000, help="How many go through.")]
Folder = Annotated[
    Path | None, typer.Option("--folder", metavar="PATH", help="Keep every file here; a temporary folder if not given.")
]


def demo(*, seed: Seed = 1, invoices: Invoices = 20, folder: Folder = None) -> Exit:
    """Kill workers while invoices go through.

    Afterwards counts what the outside world holds.

    Exit 0 only if nothing was done twice or lost, the naive retry beside it went wrong, and enough faults struck.
    """
    from fencepost.demo.main import run_demo

    return Exit(run_demo(seed=seed, invoices=invoices, folder=folder))
