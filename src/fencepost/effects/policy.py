"""The check in code between a proposal and an effect: may this be done at all?

A policy is a plain function of the run's principal and the effect's arguments (of a model step: its answer), called
before anything is sent; its verdict is recorded with the intent. One that fails allows nothing. It decides nothing
about outcomes, which is for `core.classify`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fencepost.core.errors import Misuse
from fencepost.core.identity import canonical
from fencepost.effects.failures import error_record


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


class PolicyFailed(Misuse):
    """A policy raised, or returned no verdict; nothing was sent."""


def ask(policy: Policy, principal: str | None, *args: Any, **kwargs: Any) -> Verdict:
    """The policy's verdict.

    Raises:
        PolicyFailed: it raised, whatever it was, or returned something else.
    """
    name = getattr(policy, "__name__", type(policy).__name__)
    try:
        verdict: object = policy(principal, *args, **kwargs)
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        record = error_record(error)
        raise PolicyFailed(
            f"the policy {name} raised {record.class_name}: {record.message}",
            hint="mend it; to refuse, let it return Refused(why)",
        ) from error
    if isinstance(verdict, Allowed | Refused):
        return verdict
    if inspect.iscoroutine(verdict):
        verdict.close()
    raise PolicyFailed(
        f"the policy {name} returned {type(verdict).__name__}",
        hint="let it be a plain function that returns Allowed() or Refused(why)",
    )
