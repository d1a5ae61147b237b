"""A ledger in which each kind of row is there once and nothing contradicts anything; tests spoil one thing in it."""

from typing import Any

from fencepost.core.identity import digest_text, operation_key
from fencepost.core.records import Run
from fencepost.store.moves import NewOperation
from tests.store import build
from tests.store.conftest import Ledger

REQUEST = '{"amount":7}'
PRINT = digest_text(REQUEST.encode())
INPUT = digest_text(b'{"n":1}')
SAID = digest_text(b'{"ok":true}')


def started(ledger: Ledger, name: str) -> Run:
    return ledger.running(name, fingerprint=INPUT)


def intended(run: Run, step: str = "pay", item: str = "", **changes: Any) -> NewOperation:
    """An operation under the key of its place."""
    key = operation_key(run.namespace, run.id, step, item or None, 1, turn=run.turn)
    return build.new_operation(run, step, item=item, key=key, request=REQUEST, fingerprint=PRINT, **changes)


def done(ledger: Ledger, run: Run, step: str = "pay", delivered: int | None = None, **changes: Any) -> None:
    ledger.do(run, intended(run, step, **changes))
    ledger.do(run, build.succeed(run, step, delivered=delivered))


def end(ledger: Ledger, run: Run, event: str, to: str, **changes: Any) -> None:
    ledger.do(run, build.move_run(ledger.run(run), event, to, **changes))


def healthy(ledger: Ledger) -> None:
    """Fill a ledger: the runs are numbered as they come here."""
    _succeeded(ledger)
    _held(ledger)
    _failed(ledger)
    _compensated(ledger)
    _waiting(ledger)
    _at_work(ledger)
    _ended_by_hand(ledger)
    _taken_back(ledger)
    _parent_and_child(ledger)
    _turns(ledger)


def _succeeded(ledger: Ledger) -> None:
    """Number 1: a payment on its second attempt, both under tokens, and a wait that got its signal."""
    run = started(ledger, "succeeded")
    token = ledger.store.issue_token(run.no, run.generation, "account")
    ledger.do(run, intended(run, token=token))
    ledger.do(run, build.settle(run, "not applied"), build.move_operation(run, "release", "dispatched", "reserved"))
    token = ledger.store.issue_token(run.no, run.generation, "account")
    ledger.do(run, build.dispatch_again(run, "reserved", 2), build.new_attempt(run, token=token))
    ledger.do(run, build.settle(run, number=2), build.applied(run, delivered=1))
    ledger.answer(run, seen=[build.seen(run, says="applied", attempt=2)])
    ledger.do(run, build.open_step(run))
    ledger.store.signal("default", run.id, build.signal(fingerprint=SAID))
    ledger.do(run, build.move_signal(run), build.move_step(run, "finish", "open", "done", result="1", delivered=2))
    end(ledger, run, "succeed", "succeeded", delivered=2)


def _held(ledger: Ledger) -> None:
    """Number 2: nobody knows whether it was paid."""
    run = started(ledger, "held")
    ledger.do(run, intended(run), build.move_operation(run, "lose", "dispatched", "unknown"))
    hold = '{"reason":"unknown","state":"unknown","step":"pay"}'
    end(ledger, run, "hold", "held", hold=hold)


def _failed(ledger: Ledger) -> None:
    """Number 3: refused for good, and looked for in vain."""
    run = started(ledger, "failed")
    ledger.do(run, intended(run))
    refused = build.move_operation(run, "refuse", "dispatched", "failed", delivered=1)
    ledger.do(run, build.settle(run, "not applied"), refused)
    ledger.answer(run, seen=[build.seen(run, kind="look-up", says="absent", attempt=None)])
    end(ledger, run, "fail", "failed", delivered=1)


def _compensated(ledger: Ledger) -> None:
    """Number 4: paid, and paid back."""
    run = started(ledger, "compensated")
    done(ledger, run, delivered=1)
    end(ledger, run, "compensate", "compensating")
    done(ledger, ledger.run(run), "compensate pay", compensates="pay")
    end(ledger, run, "end compensated", "compensated", delivered=1)


def _waiting(ledger: Ledger) -> None:
    """Number 5: for a signal, while another one is kept."""
    run = started(ledger, "waiting")
    done(ledger, run, delivered=1)
    ledger.do(run, build.open_step(run))
    ledger.store.signal("default", run.id, build.signal(wait="other", fingerprint=SAID))
    end(ledger, run, "wait", "waiting", delivered=1)


def _at_work(ledger: Ledger) -> None:
    """Number 6: one operation is on its way, under a live lease, and one is intended."""
    run = started(ledger, "at work")
    ledger.do(run, intended(run), intended(run, "later", state="reserved"))


def _ended_by_hand(ledger: Ledger) -> None:
    """Number 7: while something was unknown, which is a person's right."""
    run = started(ledger, "ended by hand")
    ledger.do(run, intended(run), build.move_operation(run, "lose", "dispatched", "unknown"))
    end(ledger, run, "terminate", "terminated")
    ledger.store.audit(build.audit("terminate", run_id=run.id))


def _taken_back(ledger: Ledger) -> None:
    """Number 8: cancelled before anything was sent."""
    run = started(ledger, "cancelled")
    ledger.do(run, intended(run, state="reserved"))
    end(ledger, run, "cancel", "cancelling")
    ledger.store.audit(build.audit("cancel", run_id=run.id))
    ledger.do(run, build.move_operation(ledger.run(run), "cancel", "reserved", "cancelled"))
    end(ledger, run, "end cancelled", "cancelled")


def _parent_and_child(ledger: Ledger) -> None:
    """Numbers 9 and 10: the first waits for the second, which nobody has claimed."""
    run = started(ledger, "parent")
    waits = build.open_step(run, "/sub", kind="child")
    ledger.do(run, waits, build.start_child(run, "child", fingerprint=digest_text(b'{"n":2}')))
    end(ledger, run, "wait", "waiting")


def _turns(ledger: Ledger) -> None:
    """Numbers 11 and 12: two turns of one run, which has paid in both."""
    run = started(ledger, "turning")
    done(ledger, run, delivered=1)
    ends = build.move_run(run, "continue", "continued", delivered=1)
    ledger.do(run, ends, build.next_turn(run, lease=run.lease))
    following = ledger.store.find("default", "turning")
    assert following is not None, "a turn ends in the commit that begins the next one"
    done(ledger, following, delivered=1)
