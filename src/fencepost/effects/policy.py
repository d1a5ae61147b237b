"""The check in code between a proposal and an effect: may this be done at all?

A policy is a plain function of the effect's arguments and the run's principal, called before anything is sent; its
verdict is recorded with the intent. It decides nothing about outcomes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fencepost.core.identity import canonical


@dataclass(frozen=True, slots=True)
class Allowed:
    """The effect may be sent; `why` is recorded."""

    why: str = ""
    allows = True

    def as_text(self) -> str:
        """Canonical JSON for the ledger."""
        return canonical({"verdict": "allowed", "why": self.why})


@dataclass(frozen=True, slots=True)
class Refused:
    """The effect must not be sent; the workflow sees `why` as a permanent error."""

    why: str
    allows = False

    def as_text(self) -> str:
        """Canonical JSON for the ledger."""
        return canonical({"verdict": "refused", "why": self.why})


Verdict = Allowed | Refused
Policy = Callable[..., Verdict]
