"""The rows of the guarantee ladder, as worlds and contracts that explorer.py explores.

`GUARDED` keeps every rule and must come out once. `TWICE` are recoveries that the ladder warns of, declared so that
the real decision follows them. `WITHOUT` takes one rule out of a guarded row. What is expected is in test_explorer.py.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from unittest.mock import patch

from fencepost.core import compensation, outcome, recovery
from fencepost.core.contract import CompensationPromise, Contract, KeyPromise, LookUpPromise, Retry
from tests.core.one_effect import SPAN, Habits, Row, World

TIMEOUT = SPAN // 2
WINDOW = SPAN * 3 // 2
ALWAYS = Retry(attempts=2, within=1_000 * SPAN)
THREE = Retry(attempts=3, within=1_000 * SPAN)

PLAIN = Contract(
    "pay", attempt_timeout=TIMEOUT, settle=TIMEOUT, retry=ALWAYS, compensation=CompensationPromise("refund")
)
ASKS = replace(PLAIN, look_up=LookUpPromise("find"))
ASKS_AUTHORITY = replace(PLAIN, look_up=LookUpPromise("find", consistent=True))
FENCED = replace(ASKS_AUTHORITY, fence="account")
FENCED_LAGGING = replace(ASKS, fence="account")
KEYED = replace(PLAIN, key=KeyPromise(window=None, carried_by="header"))
KEYED_WINDOW = replace(PLAIN, key=KeyPromise(window=WINDOW, carried_by="header"))
KEYED_ASKS = replace(KEYED_WINDOW, look_up=LookUpPromise("find"))
HOLDS = replace(PLAIN, holds_on_unknown=True)

ATOMIC = replace(PLAIN, atomic=True)

NOTHING = World()
LAGGING = World(lags=True)
FENCE = World(fence=True, deadline_holds=False)
FENCE_LAGGING = World(fence=True, lags=True, takeovers=1)
KEY = World(key=True)
KEY_WINDOW = World(key=True, forgets=True, jumps=True, takeovers=1, ticks=3)

GUARDED = [
    Row(
        "nothing",
        "wait out the span, then look up",
        ASKS,
        World(lags=True, takeovers=1, jumps=True, refuses=True, ticks=3),
    ),
    Row("nothing", "the same, three workers", ASKS, LAGGING),
    Row("nothing", "the same, three attempts", replace(ASKS, retry=THREE), World(lags=True, takeovers=1)),
    Row("nothing", "the same, and the look-up cannot always tell", ASKS, World(cannot_tell=True, takeovers=1)),
    Row("nothing", "the same, and the account changes", ASKS, World(accounts=2, takeovers=1)),
    Row("a fence", "raise it, look up at the authority, send", FENCED, FENCE),
    Row("a fence", "the same, three attempts", replace(FENCED, retry=THREE), replace(FENCE, takeovers=0)),
    Row("a fence, look-up lags", "raise it, wait out the span, look up, send", FENCED_LAGGING, FENCE_LAGGING),
    Row("the ledger's own database", "one commit, guarded; else send again", ATOMIC, World(atomic=True)),
    Row("a key", "send the same key again", KEYED, KEY),
    Row("a key with a window", "send the same key inside it, then a person", KEYED_WINDOW, KEY_WINDOW),
    Row("a key with a window", "look up, send the same key inside it", KEYED_ASKS, replace(KEY_WINDOW, lags=True)),
    Row("a key, account changes", "send the same key in its account", KEYED, replace(KEY, accounts=2, takeovers=1)),
    Row(
        "a key and a fence",
        "raise, look up, send",
        replace(FENCED, key=KEYED_WINDOW.key),
        replace(KEY_WINDOW, fence=True),
    ),
    Row("a key, declared never to be repeated", "a person decides", replace(KEYED, holds_on_unknown=True), KEY_WINDOW),
    Row(
        "nothing that can be asked",
        "a person decides, and waits",
        HOLDS,
        World(lags=True, jumps=True, refuses=True, ticks=3),
    ),
]

UNDECLARED = {"attempt_timeout": 0, "settle": 0}
TWICE = [
    Row("nothing", "send again", replace(PLAIN, repeatable=True), NOTHING),
    Row("nothing", "look up, send if absent", replace(ASKS, **UNDECLARED), NOTHING),
    Row("a fence", "send again, the new token pushed first", replace(PLAIN, repeatable=True, fence="account"), FENCE),
    Row("a fence, look-up lags", "raise it, look up, send", FENCED, FENCE_LAGGING),
]


@dataclass(frozen=True)
class Without:
    """A guarded row with one rule taken out, and the fault that this leads to."""

    rule: str
    row: Row
    taken_out: Callable[[], AbstractContextManager[object]] = nullcontext
    fault: str = "twice"

    @property
    def name(self) -> str:
        """The control as a person reads it."""
        return f"{self.rule} ({self.row.name})"


def _row(target: str, recovery_: str) -> Row:
    return next(row for row in GUARDED if (row.target, row.recovery) == (target, recovery_))


LOOKED_UP = _row("nothing", "wait out the span, then look up")
RAISED = _row("a fence", "raise it, look up at the authority, send")
RAISED_LAGGING = _row("a fence, look-up lags", "raise it, wait out the span, look up, send")
RESENT = _row("a key", "send the same key again")
RESENT_IN_WINDOW = _row("a key with a window", "send the same key inside it, then a person")
RESENT_IN_ACCOUNT = _row("a key, account changes", "send the same key in its account")
ASKED_IN_ACCOUNT = _row("nothing", "the same, and the account changes")
ONE_COMMIT = _row("the ledger's own database", "one commit, guarded; else send again")
PERSON = _row("nothing that can be asked", "a person decides, and waits")


def _habit(row: Row, **habits: bool) -> Row:
    return replace(row, habits=Habits(**habits))


def _no_span() -> AbstractContextManager[object]:
    return patch.object(recovery, "span_remaining", lambda *_: 0)


def _no_token_is_above(operation, contract, moment) -> bool:
    """The rule "a fresh token", weakened to "not an older one"."""
    return all(attempt.token <= moment.token for attempt in recovery.unresolved_attempts(operation))


def _last_attempt_decides(outcomes) -> outcome.Fold:
    """The fold without the rule that a later refusal proves nothing about an earlier attempt."""
    return _FOLD(list(outcomes)[-1:])


_FOLD = outcome.fold

WITHOUT = [
    Without("the intent is durable before anything is sent", _habit(LOOKED_UP, intends_first=False)),
    Without("a lost reply proves nothing", _habit(LOOKED_UP, doubts_lost_replies=False)),
    Without("the span is waited out before an absence is believed", LOOKED_UP, _no_span),
    Without("settle belongs to the span", replace(LOOKED_UP, contract=replace(ASKS, attempt_timeout=0, settle=0))),
    Without("requests die at their deadline", replace(LOOKED_UP, world=replace(LOOKED_UP.world, deadline_holds=False))),
    Without("the asker's own clock counts too", _habit(LOOKED_UP, watches_own_clock=False)),
    Without(
        "a later refusal proves nothing about an earlier attempt",
        replace(RESENT, world=replace(RESENT.world, refuses=True)),
        lambda: patch.object(outcome, "fold", _last_attempt_decides),
    ),
    Without("it is asked before it is sent again", _habit(LOOKED_UP, asks=False)),
    Without(
        "no later refusal makes a failure of an earlier attempt",
        RESENT,
        lambda: patch.object(outcome, "fold", _last_attempt_decides),
        fault="false_verdict",
    ),
    Without("the fence is raised before the look-up", _habit(RAISED, raises_first=False)),
    Without(
        "the token is above that of every unresolved attempt",
        RAISED,
        lambda: patch.object(recovery, "_fenced_off", lambda *_: True),
        fault="false_verdict",
    ),
    Without(
        "a fresh token is taken before each look-up",
        _habit(RAISED, takes_fresh_tokens=False),
        lambda: patch.object(recovery, "_fenced_off", _no_token_is_above),
    ),
    Without("a fence with a lagging look-up needs the span too", RAISED_LAGGING, _no_span),
    Without(
        "the key is not sent again outside its window",
        RESENT_IN_WINDOW,
        lambda: patch.object(Contract, "resend_before", lambda *_: None),
    ),
    Without("the key is not sent again in another scope", _habit(RESENT_IN_ACCOUNT, compares_scope=False)),
    Without("an absence in another scope proves nothing", _habit(ASKED_IN_ACCOUNT, compares_scope=False)),
    Without("an atomic commit compares the owner and the state", _habit(ONE_COMMIT, guards_the_commit=False)),
    Without("a person waits as the machine must", PERSON, _no_span),
    Without(
        "an effect is compensated when no attempt of it is on its way",
        RESENT,
        lambda: patch.object(compensation, "may_begin_in", lambda *_: 0),
    ),
]
