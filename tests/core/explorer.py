"""Visits every course that one effect can take, and judges each state: twice, a false verdict, a dead end, law 3.

What can happen next is one_effect.py, over the real tables, the real fold and the real decision. Which rows are
explored is ladder.py, what is expected of them test_explorer.py.
"""

from collections import deque
from dataclasses import dataclass, field

from fencepost.core import recovery
from fencepost.core.contract import Contract
from fencepost.core.recovery import Moment
from fencepost.core.states import FINAL_OPERATION_STATES, OperationState
from tests.core.one_effect import Account, Row, State, record_of, steps


@dataclass
class Found:
    """What the exploration of one row came to; each list holds the first course that led there."""

    states: int = 0
    twice: list[str] = field(default_factory=list)
    false_verdict: list[str] = field(default_factory=list)
    conflict: list[str] = field(default_factory=list)
    law_3_broken: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    endings: set[str] = field(default_factory=set)


def explore(row: Row, *, until: str | None = None) -> Found:
    """Visit every reachable state of a row, breadth first, so that the first course found is a shortest one.

    `until` names a fault, such as "twice": stop where it is first found.
    """
    start = State(accounts=(Account(),) * row.world.accounts)
    course: dict[State, tuple[State, str] | None] = {start: None}
    before: dict[State, list[State]] = {}
    todo = deque([start])
    found = Found()
    while todo:
        state = todo.popleft()
        _judge(row, state, found, course)
        if until is not None and getattr(found, until):
            break
        if state.applied > 1:
            continue  # it cannot get worse
        for label, reached in steps(row, state):
            following = _essential(row, reached)
            before.setdefault(following, []).append(state)
            if following not in course:
                course[following] = (state, label)
                todo.append(following)
    found.states = len(course)
    if not todo:
        _look_for_dead_ends(row, course, before, found)
    return found


def _judge(row: Row, state: State, found: Found, course: dict) -> None:
    over = state.state in FINAL_OPERATION_STATES
    if over:
        found.endings.add(state.state.value)
    elif state.hold:
        found.endings.add("held")
    lies = over and (state.state is OperationState.SUCCEEDED) != (state.applied > 0)
    unknown = state.state is OperationState.UNKNOWN
    open_gate = unknown and not recovery.in_the_way([record_of(state)], Contract("the next effect"))
    for list_, bad in (
        (found.twice, state.applied > 1),
        (found.false_verdict, lies),
        (found.conflict, state.conflict),
        (found.law_3_broken, open_gate),
    ):
        if bad and not list_:
            list_.extend(_course(course, state))


def _look_for_dead_ends(row: Row, course: dict, before: dict, found: Found) -> None:
    """Find states from which no ending can be reached, though there is time left."""
    todo = [state for state in course if state.state in FINAL_OPERATION_STATES]
    hopeful = set(todo)
    while todo:
        for earlier in before.get(todo.pop(), ()):
            if earlier not in hopeful:
                hopeful.add(earlier)
                todo.append(earlier)
    dead = (
        s for s in course if s not in hopeful and s.tick <= row.world.ticks - 2 and not s.conflict and s.applied < 2
    )
    if (state := next(dead, None)) is not None:
        found.stuck.extend(_course(course, state))


def _course(course: dict, state: State) -> list[str]:
    steps = []
    while (come := course[state]) is not None:
        state, label = come
        steps.append(label)
    return steps[::-1]


def _essential(row: Row, state: State) -> State:
    """The state without what can make no difference any more, so that equal futures are explored once."""
    match state.state:
        case OperationState.DISPATCHED | OperationState.RESERVED if state.hold is None:
            state = state._replace(owned_since=0, asked=False, cannot_tell=0)
        case OperationState.FAILED:
            state = state._replace(owned_since=0, owner=0, asked=False, cannot_tell=0, answer=None, hold=None)
        case OperationState.SUCCEEDED:
            since = 0 if state.compensated else state.owned_since
            state = state._replace(owned_since=since, owner=0, asked=False, cannot_tell=0, answer=None, hold=None)
    return _ranked(row, state)


def _ranked(row: Row, state: State) -> State:
    """Only the order of tokens matters: number them anew, so that endless raising stays one state."""
    then = state.answer.began if state.answer else None
    tokens = {state.token, *(sent.token for sent in state.attempts), *(account.token for account in state.accounts)}
    if then is not None and then.token is not None:
        tokens.add(then.token)
    compared = row.world.fence or row.contract.fence is not None
    rank = {token: number if compared else 0 for number, token in enumerate(sorted(tokens))}
    if all(rank[token] == token for token in tokens):
        return state
    answer = state.answer
    if answer is not None and then is not None and then.token is not None:
        answer = answer._replace(began=Moment(then.now, then.owned_for, then.scope, rank[then.token]))
    return state._replace(
        token=rank[state.token],
        attempts=tuple(sent._replace(token=rank[sent.token]) for sent in state.attempts),
        accounts=tuple(account._replace(token=rank[account.token]) for account in state.accounts),
        answer=answer,
    )
