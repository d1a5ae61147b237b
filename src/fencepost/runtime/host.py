"""What a running process offers its runs: store, journal, lease, the outside, threads, and draws.

One `Host` per worker or ledger. It only holds things together; owning runs is `worker`, the lease's own rules are in
`lease`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fencepost.effects.outside import Outside
from fencepost.effects.overdue import Overdue
from fencepost.runtime.handle import Arrivals
from fencepost.store.journal import Journal
from fencepost.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from fencepost.runtime.lease import LeaseHolder
    from fencepost.runtime.workflow import Workflow


@dataclass
class Host:
    """The surroundings of every run in this process."""

    namespace: str
    store: SqliteStore
    journal: Journal
    lease: LeaseHolder
    outside: Outside
    executor: Executor
    workflows: Mapping[tuple[str, int], Workflow[..., Any]]
    overdue: Overdue = field(default_factory=Overdue)
    draw: Callable[[], float] = random.random
    arrivals: Arrivals = field(default_factory=Arrivals)
