"""The workflow driver: history in, moves out; it runs a workflow's coroutine by hand, one completion at a time.

    driver.start()              what the workflow asks for first
    driver.deliver(completion)  what it asks for next, and what it no longer waits for
    driver.ending               None as long as it waits for something

Live and replay are the same: whoever brings a run back makes a new driver, delivers the recorded completions in the
order of their sequence numbers, and gets the same moves and the same ending. The rules:

- One position, one ask, one completion; `position` says which step has which. An effect met again with the same item
  and request shares the ask, or gets the recorded result; without item, or with another request, the run is held.
- Branches are started and cancelled in branch order, each running until it waits. A completion goes to the branches
  that wait for it in the order in which they began to.
- A gather settles every branch, then raises the first error by branch order, the later ones as its `others`.
- A race is won by the first branch to finish. The others get `Cancelled` where they wait, leaves first; whatever they
  ask for then raises `Cancelled` again, and what they return or raise is dropped.
- A cancelled run gets `Cancelled` the same way, leaves first, so that a `finally` inside has ended before the one
  around it begins. From then on only compensations, reads, and gathers and races of them are allowed, anything else
  raises `Cancelled` again. A compensation that is under way is not interrupted.
- Once a decision is made anew, the branches go on under a path of their own, and ask again there for what they wait for
  and is no effect. An effect is asked for where it stands: with the request that it has, or the run is held.
- What the code must not do makes the ending `Held`, and nothing that it asked for in that advance gets out.

This file does not perform, store or time anything; `runtime` does, and decides what an ending means for the run.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, TypeVar

from fencepost.core import refusal
from fencepost.core.asks import (
    Ask,
    Cancelled_,
    Completion,
    Ending,
    Held,
    Move,
    Raised,
    Recorded,
    Returned,
    Withdrawn,
    moved,
)
from fencepost.core.branch import Branch, Group, Outcome, Point, driven, with_others
from fencepost.core.errors import Cancelled, FencepostError, StepFailed
from fencepost.core.language import REFUSALS_MAX, Language
from fencepost.core.pending import (
    Evicted,
    Fork,
    Pending,
    PendingAsk,
)
from fencepost.core.position import CANCEL, REDECIDE, ROOT, version_path

R = TypeVar("R")

AFTER_CANCEL = frozenset({"compensate", "read"})
"""The kinds of ask that a cancelled run may still make."""


class Driver(Language):
    """One life of one run in memory.

    `function(facade(driver), argument)` is the workflow's coroutine; `started_at` is what `now` says before the first
    completion; `recorded` is what the ledger holds at each position that this run's workflow asked for in an earlier
    life, delivered or not (what the engine added by itself, such as compensating operations, does not belong in it),
    and `history_length` is how many completions of it are going to be delivered again. `set_aside` is what it holds of
    decisions that were made anew since: the code may ask for that again, or not. `turn` counts how often the run has
    continued as a new one.
    """

    def __init__(
        self,
        function: Callable[[Any, Any], Coroutine[Any, Any, Any]],
        argument: Any,
        *,
        run_id: str,
        started_at: int,
        facade: Callable[[Driver], Any],
        recorded: Mapping[str, Recorded] | None = None,
        history_length: int = 0,
        set_aside: Mapping[str, Recorded] | None = None,
        turn: int = 0,
    ) -> None:
        super().__init__(
            run_id, started_at, turn=turn, history_length=history_length, recorded=recorded or {},
            set_aside=set_aside or {},
        )  # fmt: skip
        self.ending: Ending | None = None
        self.cancelled = False
        """Whether a cancel was delivered, however the workflow took it."""
        self.cancel_reason = ""
        self.ignored_close = False
        """Whether a coroutine went on after it was told that the run leaves memory; it was dropped."""
        self._function = function
        self._argument = argument
        self._facade = facade
        self._path = ROOT
        self._root: Branch | None = None
        self._ready: list[Branch] = []  # a stack: whoever is put on it last runs next
        self._waiting: dict[str, Point] = {}  # in the order of asking
        self._effects: dict[str, Point] = {}  # each effect ever asked for, so that it is known when met again
        self._fault: FencepostError | None = None

    # -- for the owner of the run ---------------------------------------------------------------------------------

    def start(self) -> list[Move]:
        """Run the workflow until each branch waits, and return what it asks for."""
        assert self._root is None, "a driver starts once"
        try:
            body = driven(self._function(self._facade(self), self._argument))
        except Exception as error:  # noqa: BLE001 - whatever user code raises is how the run ends
            self.ending = Raised(error, 0)
            return []
        self._root = Branch(body, ROOT, None, 0)
        self._resume(self._root)
        return self._advance()

    def deliver(self, completion: Completion) -> list[Move]:
        """Hand in the next completion, run until each branch waits again, and return the new moves.

        An answer that nobody waits for, a stored value that cannot be read, and all that the code must not do end the
        run as `Held` and return no move. Such a completion does not count as delivered: it is delivered again when the
        reason for the hold is gone. Raises `Evicted` after `close`.
        """
        if self.closed:
            if isinstance(self.ending, Held):
                return []
            raise Evicted
        position = completion.position
        point = self._waiting.pop(position, None)
        if point is None and not self._is_of_the_run(completion):
            self._hold(refusal.unexpected(completion, self._ids(position), self.ending))
            return self._advance()
        self.delivered += 1
        self._now = completion.at
        if point is None:
            (self._cancel_run if position == CANCEL else self._decide_anew)(completion)
        else:
            point.completion = completion
            self._answer(point)
        moves = self._advance()
        if isinstance(self.ending, Held):
            self.delivered -= 1
        return moves

    def _is_of_the_run(self, completion: Completion) -> bool:
        """Whether it is no answer, but what happens to the run as a whole, and can happen to it now."""
        if completion.position == CANCEL:
            return not self.cancelled and self.ending is None
        return completion.position.startswith(REDECIDE) and completion.payload in self._waiting

    def waiting(self) -> list[Ask]:
        """What the workflow waits for now, in the order of asking."""
        return [point.ask for point in self._waiting.values()]

    def has_asked(self, position: str) -> bool:
        """Whether the workflow has asked for the effect at this position in this life."""
        return position in self._effects

    def fault(self, error: FencepostError) -> None:
        """Report that the workflow's code does what it must not do; this or the next advance ends as `Held`.

        Anybody may call it at any time; the first report counts. Without effect once the run has left memory.
        """
        if self._fault is None:
            self._fault = error

    @property
    def unwinding(self) -> bool:
        """Whether workflow code that runs right now does so only to clean up, after a cancel or on its way out."""
        return self.closed or self.cancelled or (self._current is not None and self._current.is_lost)

    def close(self) -> None:
        """Let the run leave memory: its coroutines end where they stand, and nothing they still do is recorded."""
        if self.closed:
            return
        self.closed = True
        for branch in self._root.leaves_first() if self._root is not None else ():
            if not branch.closes():
                self.ignored_close = True
        self._waiting.clear()
        self._effects.clear()
        self._ready.clear()

    # -- running branches -------------------------------------------------------------------------------------------

    def _advance(self) -> list[Move]:
        self._run_ready()
        if self._fault is not None and not isinstance(self.ending, Held):
            self._hold(self._fault)
        moves, self._moves = self._moves, {}
        if isinstance(self.ending, Held):
            self.close()
            return []
        assert self.ending is None or not self._waiting, "a run ended while one of its branches waits"
        return list(moves.values())

    def _run_ready(self) -> None:
        ready = self._ready
        try:
            while ready:
                branch = ready.pop()
                if branch.is_ready:  # or else it was cancelled before its turn came, and has ended
                    branch.is_ready = False
                    self._drive(branch)
        except BaseException:  # an interrupt from outside the workflow: this life is over, the ledger knows the run
            self.close()
            raise
        self._current = None

    def _drive(self, branch: Branch) -> None:
        """Run a branch until it awaits something or ends."""
        self._current = branch
        value, error = branch.value, branch.error
        branch.value = branch.error = branch.at = None
        try:
            awaited = branch.driven.send(value) if error is None else branch.driven.throw(error)
        except StopIteration as stop:
            self._settle(branch, Outcome(stop.value, None))
        except KeyboardInterrupt:
            raise
        except BaseException as raised:  # noqa: BLE001 - whatever user code raises is how the branch ends
            self._settle(branch, Outcome(None, raised))
        else:
            self._dispatch(branch, awaited)

    def _resume(self, branch: Branch, value: Any = None, error: BaseException | None = None) -> None:
        branch.value = value
        branch.error = error
        branch.is_ready = True
        self._ready.append(branch)

    def _dispatch(self, branch: Branch, awaited: Any) -> None:
        if not isinstance(awaited, Pending) or awaited.driver is not self:
            self._refuse_foreign(branch, awaited)
        elif isinstance(awaited, PendingAsk):
            if branch.is_lost or (self.cancelled and awaited.kind not in AFTER_CANCEL):
                self._refuse_cancelled(branch)
            else:
                self._ask(branch, awaited)
        elif isinstance(awaited, Fork):
            if branch.is_lost:
                awaited.discard()
                self._refuse_cancelled(branch)
            else:
                self._begin(branch, awaited)

    def _settle(self, branch: Branch, outcome: Outcome) -> None:
        """A branch has ended: so has its group if it was the last, and its race if it was the first."""
        group = branch.group
        if group is None:
            self._end(outcome)
            return
        group.outcomes[branch.index] = outcome
        group.left -= 1
        # In a cancelled race nobody wins: a branch that still compensates would lose its right to.
        if group.is_race and group.winner is None and not group.owner.is_doomed:
            group.winner = branch.index
            self._lose(group.living())
        if group.left:
            return
        owner = group.owner
        if owner.is_doomed:
            self._throw_cancel(owner, group.errors())
        else:
            result = group.result()
            self._resume(owner, result.value, result.error)

    def _end(self, outcome: Outcome) -> None:
        if outcome.error is None:
            self.ending = Returned(outcome.value)
        elif self.cancelled and isinstance(outcome.error, Cancelled):
            self.ending = Cancelled_(self.cancel_reason)
        else:
            self.ending = Raised(outcome.error, self.delivered)

    # -- asking and answering ---------------------------------------------------------------------------------------

    def _ask(self, branch: Branch, pending: PendingAsk[Any]) -> None:
        position = pending.place(branch)
        ask = pending.ask(position, self._now)
        if ask.kind == "effect":
            met = self._effects.get(position)
            if met is not None:
                self._ask_again(branch, ask, met)
                return
        if self._unasked or self._set_aside:
            error = self._other_than_recorded(ask, branch)
            if error is not None:
                self._hold(error)
                return
        point = Point(ask, pending.decode, branch)
        if ask.kind == "effect":
            self._effects[position] = point
        self._waiting[position] = point
        self._moves[position] = ask
        branch.at = point

    def _ask_again(self, branch: Branch, ask: Ask, point: Point) -> None:
        """An effect met again in this run: one operation, whoever asks."""
        if not refusal.is_same_effect(point.ask, ask):
            self._hold(refusal.repeated(point.ask, ask, self._ids(ask.position, branch)))
            return
        if point.completion is not None:
            self._hand_over(point, branch)
            return
        branch.at = point
        point.branches.append(branch)
        if ask.position in self._waiting:
            return
        # It was withdrawn before; if nobody has heard of that yet, nobody needs to.
        self._waiting[ask.position] = point
        if self._moves.pop(ask.position, None) is None:
            self._moves[ask.position] = ask

    def _answer(self, point: Point) -> None:
        # One after the other, since what the first does can cancel the second.
        for branch in tuple(point.branches):
            if branch.at is point and self.ending is None:
                self._hand_over(point, branch)
                self._run_ready()

    def _hand_over(self, point: Point, branch: Branch) -> None:
        completion = point.completion
        assert completion is not None
        if completion.error is not None:
            self._resume(branch, error=StepFailed(completion.error, ids=self._ids(completion.position)))
            return
        try:
            value = point.decode(completion.payload)
        except Exception as error:  # noqa: BLE001 - a type's own validator may raise anything
            self._hold(refusal.unreadable(point.ask, error, self._ids(completion.position, branch)))
            return
        self._resume(branch, value)

    def _begin(self, branch: Branch, fork: Fork[Any]) -> None:
        """Start the branches of a gather or race, the first one first."""
        if not fork.awaitables and fork.is_race:
            self._resume(branch, error=refusal.empty_race(self._ids()))
            return
        try:
            group = Group(branch, fork)
        except Exception as error:  # noqa: BLE001 - an awaitable of the user's own may refuse to be one
            fork.discard()
            self._resume(branch, error=error)
            return
        if not group.branches:
            self._resume(branch, ())
            return
        branch.at = group
        for child in reversed(group.branches):
            self._resume(child)

    # -- deciding anew ----------------------------------------------------------------------------------------------

    def _decide_anew(self, completion: Completion) -> None:
        """Go on under the path of a new decision, and ask there for what is waited for and is no effect."""
        assert self._root is not None, "a driver is started before anything is delivered"
        before, self._path = self._path, version_path(completion.position)
        self._root.move(before, self._path)
        waiting, self._waiting = self._waiting, {}
        for position, point in waiting.items():
            if point.ask.kind != "effect":
                point.ask = moved(point.ask, self._path + position.removeprefix(before), self._now)
                error = self._other_than_recorded(point.ask, None)
                if error is not None:
                    self._hold(error)
                    return
                self._moves[point.ask.position] = point.ask
            self._waiting[point.ask.position] = point

    # -- cancelling -------------------------------------------------------------------------------------------------

    def _cancel_run(self, completion: Completion) -> None:
        assert self._root is not None, "a driver is started before anything is delivered"
        self.cancelled = True
        self.cancel_reason = "" if completion.payload is None else str(completion.payload)
        self._cancel([branch for branch in self._root.leaves_first() if not _compensates(branch)])

    def _lose(self, losers: list[Branch]) -> None:
        branches = [branch for loser in losers for branch in loser.leaves_first()]
        for branch in branches:
            branch.is_lost = True
        self._cancel(branches)

    def _cancel(self, branches: list[Branch]) -> None:
        """Throw the cancel exception into those that wait for no other branch; the others follow as theirs settle."""
        leaves = []
        for branch in branches:
            if isinstance(branch.at, Group):
                branch.is_doomed = True
                continue
            leaves.append(branch)
            if branch.at is not None:
                self._withdraw(branch, branch.at)
        for leaf in reversed(leaves):
            self._throw_cancel(leaf)

    def _throw_cancel(self, branch: Branch, errors: Iterable[BaseException] = ()) -> None:
        branch.is_doomed = False
        reason = "another branch won the race" if branch.is_lost else self.cancel_reason
        others = [error for error in errors if not isinstance(error, Cancelled)]
        self._resume(branch, error=with_others(Cancelled(reason), others))

    def _withdraw(self, branch: Branch, point: Point) -> None:
        position = point.ask.position
        branch.at = None
        point.branches.remove(branch)
        if point.branches or self._waiting.get(position) is not point:
            return
        del self._waiting[position]
        # An ask of this very advance has not got out; then there is nothing to withdraw.
        if self._moves.pop(position, None) is None:
            self._moves[position] = Withdrawn(position)

    def _refuse_cancelled(self, branch: Branch) -> None:
        branch.refusals += 1
        if branch.refusals > REFUSALS_MAX:
            self._hold(refusal.never_ends(self._ids("", branch)))
        else:
            self._throw_cancel(branch)

    # -- holding ----------------------------------------------------------------------------------------------------

    def _refuse_foreign(self, branch: Branch, awaited: Any) -> None:
        error = refusal.foreign(awaited, self._ids("", branch))
        self._hold(error)
        try:
            ignored = branch.driven.throw(error)
        except KeyboardInterrupt:
            raise
        except BaseException:  # noqa: BLE001 - it may do with the error what it likes: the run is held
            return
        if isinstance(ignored, Pending):
            ignored.discard()

    def _hold(self, error: FencepostError) -> None:
        self.ending = Held(error)
        self._ready.clear()


def _compensates(branch: Branch) -> bool:
    return isinstance(branch.at, Point) and branch.at.ask.kind == "compensate"
