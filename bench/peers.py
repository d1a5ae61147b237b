"""Measures on PostgreSQL beside five peers: `python -m bench.peers`, which `make bench-peers` calls.

One throwaway server, an empty database for each child, the frame's interleaved rounds. Who takes part and what each is
asked for is said here; each peer brings what it needs in an environment of its own, and is left out with a word where
that is missing. How the figures become a table is `peers_table`'s matter.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from bench import server
from bench.child import ROOT, Contestant
from bench.frame import Benchmark, Plan, main
from bench.peers_table import render
from tests.services.postgres import NotHere

QUICK = Plan("quick", rounds=3, seconds=1.5, budget=1_140.0, variants=False, patience=240.0)
FULL = Plan("full", rounds=7, seconds=5.0, budget=7_200.0, variants=True, patience=600.0)

_ALL = ("ten", "import", "queue", "processes", "wake", "cost", "idle", "history")


def contestants(peers_python: Path, variants: bool) -> tuple[Contestant, ...]:  # noqa: ARG001, FBT001 - no variants yet
    """Everyone, in the order of a round. `peers_python` is the interpreter of those that bring no server."""
    own = Path(sys.executable)

    def of(peer: str) -> Path:
        return ROOT / f".venv-bench-{peer}" / "bin" / "python"

    return (
        Contestant("floor", "floor", own, modes=("machine",)),
        Contestant("floor", "floor_postgres", own, modes=("insert", "writes")),
        Contestant(
            "fencepost", "subject", own, package="fencepost", modes=("ceiling", *_ALL, "recovery", "million")
        ),
        Contestant("dbos", "peer_dbos", peers_python, package="dbos", modes=_ALL),
        Contestant("absurd", "peer_absurd", of("absurd"), package="absurd_sdk", modes=_ALL),
        Contestant(
            "restate", "peer_restate", of("restate"), package="restate",
            modes=("ten", "import", "queue", "processes", "wake", "history"),
        ),
        Contestant(
            "temporal", "peer_temporal", of("temporal"), package="temporalio.worker",
            modes=("ten", "import", "queue", "processes", "wake", "idle"),
        ),
        Contestant(
            "langgraph", "peer_langgraph", peers_python, package="langgraph.graph",
            modes=("ten", "import", "cost", "history"),
        ),
    )  # fmt: skip


ON_SERVER = Benchmark(
    "bench.peers", "Measures a durable step on PostgreSQL beside five peers.", QUICK, FULL, contestants, render
)


def start(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints the table; 1 when it holds no figure of Fencepost, 2 without a server."""
    try:
        with server.running() as running:
            return main(arguments, ON_SERVER, running)
    except NotHere as missing:
        sys.stderr.write(f"there is no PostgreSQL to measure on: {missing}\n")
        return 2


if __name__ == "__main__":
    sys.exit(start())
