"""Nothing is dispatched toward what is contained, and a run never sleeps behind what is contained no more."""

from dataclasses import replace

import pytest

from fencepost.core.containment import Containment, Kind, behind, mark, toward_effect, toward_run
from fencepost.core.states import RunState
from fencepost.store.api import Answer
from tests.store import build
from tests.store.conftest import Ledger

TOWARD = toward_run("default", "approve", "acme/ann", "line") + toward_effect("default", "bank", "acct", "iban 7")


def containment(kind: Kind = Kind.TARGET, name: str = "bank", **changes: object) -> Containment:
    plain = Containment(mark("default", kind, name), "default", kind, name, "ann", "x", build.NOW)
    return replace(plain, **changes)  # type: ignore[arg-type]  # a test names only what it is about


def contain(ledger: Ledger, one: Containment) -> bool:
    return ledger.store.contain(one, build.audit("contain"))[1]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (Kind.TARGET, "bank"), (Kind.CREDENTIAL, "acct"), (Kind.RESOURCE, "iban 7"), (Kind.RESOURCE, "line"),
        (Kind.WORKFLOW, "approve"), (Kind.TENANT, "acme"), (Kind.TENANT, "acme/ann"),
    ],
)  # fmt: skip
def test_no_dispatch_of_any_kind_goes_toward_it(ledger: Ledger, kind: Kind, name: str) -> None:
    run = ledger.running()
    ledger.do(run, build.new_operation(run, "reserved", state="reserved"), build.new_operation(run, "lost"))
    ledger.do(run, build.move_operation(run, "lose", "dispatched", "unknown", "lost"))
    contain(ledger, containment(kind, name))

    new = build.new_operation(run, "new", toward=TOWARD)
    first = build.dispatch_again(run, "reserved", 1, "reserved", toward=TOWARD)
    again = build.dispatch_again(run, "unknown", 2, "lost", toward=TOWARD)
    for moves in ([new], [first], [again, build.new_attempt(run, "lost")]):
        assert ledger.answer(run, *moves) is Answer.ILLEGAL
    # A neighbour in the same commit is not charged with it.
    other = ledger.running("run-2")
    groups = [build.group(run, new), build.group(other, build.new_operation(other, toward="\ntarget 7:default pos\n"))]
    assert ledger.store.commit(groups, patience=1.0) == [Answer.ILLEGAL, Answer.MOVED]

    ledger.do(run, build.new_operation(run, "intended", state="reserved"))
    ledger.store.release(mark("default", kind, name), build.audit("release"))
    ledger.do(run, new, first)
    ledger.do(run, again, build.new_attempt(run, "lost"))


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (Kind.TARGET, "ban"), (Kind.TARGET, "ank"), (Kind.TARGET, "acct"), (Kind.WORKFLOW, "bank"),
        (Kind.TENANT, "ann"), (Kind.TENANT, "acme/"), (Kind.TARGET, "bank\ncredential 7:default acct"),
    ],
)  # fmt: skip
def test_a_name_that_is_a_part_of_another_stops_nothing(ledger: Ledger, kind: Kind, name: str) -> None:
    run = ledger.running()
    contain(ledger, containment(kind, name))
    contain(ledger, replace(containment(namespace="other"), mark=mark("other", Kind.TARGET, "bank")))
    ledger.do(run, build.new_operation(run, toward=TOWARD))


def test_only_the_run_that_is_let_through_passes_a_breaker(ledger: Ledger) -> None:
    run, other = ledger.running(), ledger.running("run-2")
    breaker = containment(cool_down=7, probe_at=build.NOW)
    contain(ledger, breaker)
    for one in (run, other):
        assert ledger.answer(one, build.new_operation(one, toward=TOWARD)) is Answer.ILLEGAL
        ledger.do(one, build.move_run(one, "wait", "waiting", behind=behind([breaker])))
    store, until = ledger.store, build.NOW + 100
    assert store.let_through(breaker, until, build.NOW - 1) is None  # it has not cooled down
    assert store.let_through(breaker, until, build.NOW) == run.no
    assert store.let_through(breaker, until, build.NOW) is None  # one at a time
    (claimed,) = ledger.claim("lease-1")
    assert claimed.no == run.no
    run = claimed
    ledger.do(run, build.new_operation(run, toward=TOWARD))
    # Only the run that was let through closes it or shuts it again.
    assert not store.probed(breaker.mark, other.no, cool_down=None, now=build.NOW, audit=build.audit("release"))
    assert store.probed(breaker.mark, run.no, cool_down=14, now=build.NOW, audit=build.audit("release"))
    (shut,) = store.contained("default")
    assert (shut.cool_down, shut.probe_at, shut.probe_run) == (14, build.NOW + 14, None)
    assert ledger.answer(run, build.new_operation(run, "next", toward=TOWARD)) is Answer.ILLEGAL
    assert store.let_through(breaker, until, build.NOW + 14) == other.no
    # One that brings no answer makes room for another when its time is over.
    ledger.do(run, build.applied(run), build.settle(run), build.move_run(run, "wait", "waiting", behind=behind([shut])))
    assert store.let_through(breaker, until + 100, until) == run.no
    assert store.probed(breaker.mark, run.no, cool_down=None, now=build.NOW, audit=build.audit("release"))
    assert store.contained("default") == []
    assert ledger.run(run).behind is None


def test_a_second_click_changes_nothing_and_a_person_takes_over_from_a_breaker(ledger: Ledger) -> None:
    assert contain(ledger, containment(cool_down=7, probe_at=build.NOW, actor="breaker"))
    assert not contain(ledger, containment(cool_down=9, probe_at=build.NOW, actor="breaker"))
    assert contain(ledger, containment())
    assert not contain(ledger, containment(actor="bob"))
    assert not contain(ledger, containment(cool_down=7, probe_at=build.NOW, actor="breaker"))
    assert ledger.store.contained("default") == [containment()]
    assert len(ledger.store.audits(None, None)) == 2
    assert ledger.store.release(containment().mark, build.audit("release")) == containment()
    assert ledger.store.release(containment().mark, build.audit("release")) is None
    assert len(ledger.store.audits(None, None)) == 3


def test_a_run_waits_behind_it_until_one_of_what_keeps_it_back_is_released(ledger: Ledger) -> None:
    run, both = ledger.running(), [containment(), containment(Kind.TENANT, "acme")]
    for one in both:
        contain(ledger, one)
    ledger.do(run, build.move_run(run, "wait", "waiting", behind=behind(both)))
    assert ledger.run(run).behind == behind(both)
    assert ledger.claim("lease-1") == []
    assert not ledger.store.wake_forgotten("default")
    ledger.now += 5
    ledger.store.release(both[1].mark, build.audit("release"))
    waits = ledger.run(run)
    assert (waits.wake_at, waits.behind, waits.state) == (ledger.now, None, RunState.WAITING)
    (claimed,) = ledger.claim("lease-1")
    assert claimed.behind is None


def test_a_run_that_is_given_up_behind_what_was_released_meanwhile_wakes_at_once(ledger: Ledger) -> None:
    run, both = ledger.running(), [containment(), containment(Kind.TENANT, "acme")]
    contain(ledger, both[0])
    ledger.do(run, build.move_run(run, "wait", "waiting", behind=behind(both)))
    assert ledger.run(run).wake_at == build.NOW
    assert [one.no for one in ledger.claim("lease-1")] == [run.no]


def test_a_run_that_was_forgotten_is_found(ledger: Ledger) -> None:
    run = ledger.running()
    contain(ledger, containment())
    ledger.do(run, build.move_run(run, "wait", "waiting", behind=behind([containment()])))
    ledger.store._release(containment().mark, build.audit("release"))  # type: ignore[attr-defined]  # and then its process ended
    assert ledger.run(run).wake_at is None
    assert not ledger.store.wake_forgotten("other")
    assert ledger.store.wake_forgotten("default")
    assert [one.no for one in ledger.claim("lease-1")] == [run.no]
