"""The tree of a running workflow: branches, the points at which they wait, and the groups that they wait for.

    Branch ── waits at ──▶ Point   one ask, shared by every branch that asked for the same effect
           └─ waits for ─▶ Group   the branches of its gather or race; it goes on when all of them have settled

Only the structure is here, and the counting of names that gives a branch's steps their positions. What runs when, and
what an outcome does to the tree, is decided in `driver`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from fencepost.core.asks import Ask, Completion
from fencepost.core.pending import Fork
from fencepost.core.position import branch_path, escaped, named_position, numbered_position

Driven = Coroutine[Any, Any, Any] | Generator[Any, Any, Any]
"""What can be driven by hand: sent values, thrown errors, closed."""


CLOSES_MAX = 3
"""How often a coroutine is told to end before it is dropped as it is; Python complains about those that are."""


class Outcome(NamedTuple):
    """How a branch ended: with an error, or else with a value."""

    value: Any
    error: BaseException | None


class Point:
    """One ask that is waited for, or was answered: `completion` is None until then."""

    __slots__ = ("ask", "branches", "completion", "decode")

    def __init__(self, ask: Ask, decode: Callable[[Any], Any], branch: Branch) -> None:
        self.ask = ask
        self.decode = decode
        self.branches = [branch]  # in the order in which they began to wait
        self.completion: Completion | None = None


class Branch:
    """One coroutine of the workflow, with its own path and its own counts of names."""

    __slots__ = (
        "at",
        "counts",
        "driven",
        "error",
        "group",
        "index",
        "is_doomed",
        "is_lost",
        "is_ready",
        "path",
        "refusals",
        "value",
    )

    def __init__(self, driven: Driven, path: str, group: Group | None, index: int) -> None:
        self.driven = driven
        self.path = path
        self.group = group  # None: the workflow itself
        self.index = index
        self.counts: dict[str, int] = {}
        self.at: Point | Group | None = None
        # What it goes on with when its turn comes.
        self.is_ready = False
        self.value: Any = None
        self.error: BaseException | None = None
        # Doomed: gets the cancel exception as soon as the branches that it waits for have settled.
        self.is_doomed = False
        # Lost: its race was won by another; whatever it asks for from now on is refused.
        self.is_lost = False
        self.refusals = 0

    def named(self, name: str) -> str:
        """The position of the next step of that name in this branch."""
        text = escaped(name)
        number = self.counts[text] = self.counts.get(text, 0) + 1
        return named_position(self.path, text, number)

    def numbered(self, kind: str) -> str:
        """The position of the next sleep, compensation, gather, race or draw in this branch."""
        key = f":{kind}"  # no escaped name has a colon
        number = self.counts[key] = self.counts.get(key, 0) + 1
        return numbered_position(self.path, kind, number)

    def move(self, before: str, path: str) -> None:
        """Go on, with every branch below, under a path in place of the one before."""
        for branch in self.leaves_first():
            branch.path = path + branch.path.removeprefix(before)

    def leaves_first(self) -> Iterator[Branch]:
        """This branch and the live ones below it: those below before those above, siblings in branch order."""
        found: list[Branch] = []
        stack = [self]
        while stack:
            branch = stack.pop()
            found.append(branch)
            if isinstance(branch.at, Group):
                stack.extend(branch.at.living())
        return reversed(found)

    def closes(self) -> bool:
        """End the coroutine where it stands; whether it did so at the first time of asking."""
        for earlier in range(CLOSES_MAX):
            try:
                self.driven.close()
            except KeyboardInterrupt:
                raise
            except BaseException:  # noqa: BLE001, S110 - what a `finally` raises on the way out interests nobody
                pass
            if not self._is_suspended():
                return earlier == 0
        return False

    def _is_suspended(self) -> bool:
        return (getattr(self.driven, "cr_frame", None) or getattr(self.driven, "gi_frame", None)) is not None


class Group:
    """The branches of one gather or race, and the branch that waits for them."""

    __slots__ = ("branches", "is_race", "left", "outcomes", "owner", "winner")

    def __init__(self, owner: Branch, fork: Fork[Any]) -> None:
        self.owner = owner
        self.is_race = fork.is_race
        self.winner: int | None = None
        position = owner.numbered("race" if fork.is_race else "gather")
        self.branches = [
            Branch(driven(awaitable), branch_path(position, index), self, index)
            for index, awaitable in enumerate(fork.awaitables)
        ]
        self.outcomes: list[Outcome | None] = [None] * len(self.branches)
        self.left = len(self.branches)

    def living(self) -> list[Branch]:
        """The branches that have not settled, in branch order."""
        return [branch for branch in self.branches if self.outcomes[branch.index] is None]

    def errors(self) -> list[BaseException]:
        """What its branches raised, in branch order."""
        return [outcome.error for outcome in self.outcomes if outcome is not None and outcome.error is not None]

    def result(self) -> Outcome:
        """What the owner goes on with once every branch has settled."""
        if self.is_race:
            assert self.winner is not None, "a race without a winner cannot have settled"
            outcome = self.outcomes[self.winner]
            assert outcome is not None
            return outcome if outcome.error is not None else Outcome((self.winner, outcome.value), None)
        errors = self.errors()
        if errors:
            return Outcome(None, with_others(errors[0], errors[1:]))
        return Outcome(tuple(outcome.value for outcome in self.outcomes if outcome is not None), None)


def driven(awaitable: Any) -> Driven:
    """The awaitable in a form that can be driven; anything else raises AttributeError."""
    return awaitable if hasattr(awaitable, "send") else awaitable.__await__()  # type: ignore[no-any-return]  # a fork


def with_others(error: BaseException, others: list[BaseException]) -> BaseException:
    """The error, its attribute `others` extended by the errors of sibling branches."""
    earlier: tuple[BaseException, ...] = getattr(error, "others", ())
    with suppress(AttributeError):  # a frozen exception: better to lose its siblings than it
        error.others = (*earlier, *others)  # type: ignore[attr-defined]  # any exception of the user's code
    return error
