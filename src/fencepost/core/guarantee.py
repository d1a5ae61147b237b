"""What a contract really buys: its rung on the guarantee ladder, the next rungs behind it, and its blanks.

Computed, never claimed. `ladder` gives the rungs in the order in which recovery takes them; `blanks` names what is
missing before an effect may be registered. The arguments for each rung are explored in the test suite over the real
tables and the real decision; the decision itself is in `recovery`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from fencepost.core.contract import Contract
from fencepost.core.duration import spelled


class Rung(StrEnum):
    """How an unknown outcome of this effect is settled."""

    ATOMIC = "atomic"
    KEYED = "keyed"
    FENCED = "fenced"
    LOOKED_UP = "looked-up"
    HELD = "held"
    REPEATABLE = "repeatable"


@dataclass(frozen=True, slots=True)
class Guarantee:
    """A rung in words: what holds, and the assumptions on which it rests."""

    rung: Rung
    promise: str
    assumptions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Blank:
    """Something that a contract leaves open; `mend` says what to declare."""

    effect: str
    kind: str
    mend: str


def ladder(contract: Contract) -> tuple[Rung, ...]:
    """The rungs in the order in which recovery takes them; empty: nothing is declared.

    `held` stands behind all others but `atomic`: what no rung can settle goes to a person. A key buys nothing where its
    window is over before one attempt is, or where the contract forbids to resend; a fence buys nothing beyond the span
    where the look-up lags behind the authority that compares the token.
    """
    key, look_up = contract.key, contract.look_up
    resent = key is not None and not contract.holds_on_unknown
    in_window = key is not None and (key.window is None or key.window > contract.span)
    rungs = [
        rung
        for rung, declared in (
            (Rung.ATOMIC, contract.atomic),
            (Rung.REPEATABLE, contract.repeatable),
            (Rung.KEYED, resent and in_window),
            (Rung.FENCED, contract.fence is not None and look_up is not None and look_up.consistent),
            (Rung.LOOKED_UP, look_up is not None),
        )
        if declared
    ]
    if (rungs or contract.holds_on_unknown) and not contract.atomic:
        rungs.append(Rung.HELD)
    return tuple(rungs)


def guarantee(contract: Contract) -> Guarantee | None:
    """What the first rung promises and on what it rests; None when nothing is declared."""
    rungs = ladder(contract)
    if not rungs:
        return None
    assumptions = (*_assumptions(contract, rungs[0]), *_fence_in_vain(contract, rungs))
    return Guarantee(rungs[0], _PROMISES[rungs[0]], assumptions)


_PROMISES = {
    Rung.REPEATABLE: "may be applied several times; declared harmless",
    Rung.KEYED: "applied once inside the key's window and scope; then the next rung",
    Rung.FENCED: "applied once, with no clock assumption",
    Rung.LOOKED_UP: "applied once, if the span holds",
    Rung.HELD: "applied at most once; a person settles an unknown outcome",
    Rung.ATOMIC: "applied in the same commit as the ledger",
}


def _assumptions(contract: Contract, rung: Rung) -> tuple[str, ...]:
    match rung:
        case Rung.KEYED:
            window = contract.key.window if contract.key else None
            lasts = f"for {spelled(window)}" if window is not None else "without limit"
            return (f"the target remembers the key {lasts}",)
        case Rung.LOOKED_UP:
            return (f"no request is still at work, and every result visible, {spelled(contract.span)} after dispatch",)
        case Rung.FENCED:
            return (f"every writer of the resource sends its token, and {contract.fence} never forgets the highest",)
        case _:
            return ()


def _fence_in_vain(contract: Contract, rungs: tuple[Rung, ...]) -> tuple[str, ...]:
    """Said of a declared fence that is no rung. No blank: where the look-up lags, the span is still there to wait for.

    `protocol` C2: a fence with a lagging look-up needs the span too.
    """
    if contract.fence is None or Rung.FENCED in rungs or rungs[0] in (Rung.ATOMIC, Rung.REPEATABLE):
        return ()
    return (f"fence without consistent look-up: {contract.fence} does not spare the wait for the span",)


def blanks(contract: Contract) -> list[Blank]:
    """What is missing; an effect with a blank is refused at registration."""
    found = [(kind, mend) for kind, mend, missing in _checks(contract) if missing]
    return [Blank(contract.effect, kind, mend) for kind, mend in found]


def _checks(contract: Contract) -> list[tuple[str, str, bool]]:
    key, retry = contract.key, contract.retry
    window = key.window if key is not None else None
    beyond = window is not None and retry.within is not None and retry.within + contract.span >= window
    return [
        (
            "no rung",
            'declare send_key=, reconcile=, atomic=True, on_unknown="hold" or repeatable=True',
            not ladder(contract),
        ),
        ("financial without compensation", "declare compensate=", contract.financial and not contract.compensation),
        ("financial without reference", "declare reference=", contract.financial and not contract.reference),
        (
            "retry window beyond key window",
            "shorten retry within=, or state the window that the target really keeps",
            beyond and not contract.holds_on_unknown,
        ),
        ("no timeout", "declare attempt_timeout=", contract.attempt_timeout is None),
        ("unbounded retry", "give Retry both attempts= and within=", not retry.bounded),
        ("look-up without settle", "declare settle=", contract.look_up is not None and contract.settle is None),
    ]
