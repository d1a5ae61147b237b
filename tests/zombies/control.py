"""Switches reconciliation and fence off in a process: what is unknown is sent again, and old writers are let in.

The bodies, targets, leases and generations stay as they are. With it the matrix must show duplicates or stale
overwrites for each row; otherwise its zeros would prove nothing.
"""

from fencepost.targets.sql import SqlFence
from tests.processes import control


def switch_off() -> None:
    """Make this process trust that nobody old comes back."""
    control.apply("again")
    SqlFence.guard = lambda fence, connection, resource, token: None
    SqlFence.raise_to = lambda fence, resource, token: None
