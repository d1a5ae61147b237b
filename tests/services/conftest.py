"""Tests that need a server: they are not collected where none is wanted, so that a plain run skips nothing."""

from tests.cli.conftest import fencepost
from tests.services import wanted

__all__ = ["fencepost"]

collect_ignore_glob = [] if wanted.are_wanted() else ["test_*.py"]
