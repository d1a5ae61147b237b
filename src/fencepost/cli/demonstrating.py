"""The command `demo`: real workers are killed while invoices go through, and the world's own files are counted.

Only its options are here; the demonstration is `fencepost.demo`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fencepost.cli.exits import Exit

Seed = Annotated[int, typer.Option("--seed", help="Draws the moments of the faults; the same seed, the same plan.")]
Invoices = Annotated[
    int | None,
    typer.Option("--invoices", min=4, max=2_000, help="How many go through; 20, or 200 with --approvals."),
]
Approvals = Annotated[bool, typer.Option("--approvals", help="Payments wait for approval while workers die.")]
Folder = Annotated[
    Path | None, typer.Option("--folder", metavar="PATH", help="Keep every file here; a temporary folder if not given.")
]


def demo(*, seed: Seed = 1, invoices: Invoices = None, approvals: Approvals = False, folder: Folder = None) -> Exit:
    """Kill workers while invoices go through.

    Afterwards counts what the outside world holds.

    Exit 0 only if nothing was done twice or lost, the naive retry beside it went wrong, and enough faults struck.

    With --approvals, payments wait for people who answer early, late, twice, about another amount, or lose the right
    meanwhile. Exit 0 only if every valid approval is one payment, and every refusal has its audit row.
    """
    from fencepost.demo.approvals import run_approvals
    from fencepost.demo.main import run_demo

    if approvals:
        return Exit(run_approvals(seed=seed, runs=invoices or 200, folder=folder))
    return Exit(run_demo(seed=seed, invoices=invoices or 20, folder=folder))
