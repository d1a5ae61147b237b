"""What a look-up may answer: found, absent, cannot tell, or more than one.

Anything else that a look-up does (raising, an unparsable answer) counts as `Inconclusive`, never as `Absent`. When an
absence is believed is decided in `core.recovery`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from fencepost.core.identity import canonical

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Absent:
    """The target was read and holds nothing of this operation."""

    says = "absent"

    def evidence(self) -> str:
        """Canonical JSON for the ledger."""
        return canonical({"kind": "look-up", "says": self.says})


@dataclass(frozen=True, slots=True)
class Inconclusive:
    """The look-up cannot tell; `why` is kept as evidence."""

    why: str = ""
    says = "inconclusive"

    def evidence(self) -> str:
        """Canonical JSON for the ledger."""
        return canonical({"kind": "look-up", "says": self.says, "why": self.why[:500]})


@dataclass(frozen=True, slots=True)
class Conflicting:
    """The target holds more than one: the effect happened `count` times, and a person must look."""

    count: int
    says = "found"

    def evidence(self) -> str:
        """Canonical JSON for the ledger."""
        return canonical({"kind": "look-up", "says": self.says, "count": self.count})


@dataclass(frozen=True, slots=True)
class Found(Generic[R]):
    """The target holds it; `result` is what the step returns, `reference` the remote object's id if not in it."""

    result: R
    reference: str | None = None
    says = "found"

    def evidence(self) -> str:
        """Canonical JSON for the ledger."""
        return canonical({"kind": "look-up", "says": self.says, "reference": self.reference})

    @classmethod
    def only(cls, results: Iterable[R]) -> Found[R] | Absent | Conflicting:
        """The one result: none is `Absent`, two or more are a conflict."""
        every = list(results)
        if not every:
            return Absent()
        return cls(every[0]) if len(every) == 1 else Conflicting(len(every))
