"""Signals are kept whether they come early, twice or late, and a run that waits for one is woken."""

import pytest

from fencepost.core.errors import RunNotFound
from fencepost.core.records import Run
from fencepost.core.states import OperationState, RunState, SignalState
from fencepost.store.changes import Signalled
from tests.store import build
from tests.store.conftest import Ledger


def test_a_signal_wakes_a_run_that_waits_for_it(ledger: Ledger) -> None:
    run = ledger.running()
    ledger.do(run, build.open_step(run), build.move_run(run, "wait", "waiting", wake_at=build.NOW + build.SECOND))

    kept = ledger.store.signal("default", "run-1", build.signal())

    assert kept.state is SignalState.KEPT
    after = ledger.run(run)
    assert (after.wake_at, after.version) == (build.NOW, 2)
    assert [found.no for found in ledger.claim()] == [run.no]


def test_an_early_signal_wakes_the_run_in_the_write_that_gives_it_up(ledger: Ledger) -> None:
    run = ledger.running()
    ledger.store.signal("default", "run-1", build.signal())
    ledger.do(run, build.open_step(run), build.move_run(run, "wait", "waiting"))

    assert ledger.run(run).wake_at == build.NOW


def test_a_kept_signal_for_another_wait_does_not_wake_the_run(ledger: Ledger) -> None:
    run = ledger.running()
    ledger.store.signal("default", "run-1", build.signal(wait="something else"))
    ledger.do(run, build.open_step(run), build.move_run(run, "wait", "waiting"))

    assert ledger.run(run).wake_at is None


def test_the_same_signal_id_counts_once(ledger: Ledger) -> None:
    ledger.running()
    first = ledger.store.signal("default", "run-1", build.signal())
    again = ledger.store.signal("default", "run-1", build.signal(payload='{"ok":false}', sender="eve"))

    assert again == first
    assert len(ledger.store.load(1).signals) == 1


def test_a_second_sending_finds_out_what_became_of_the_first(ledger: Ledger) -> None:
    run = ledger.running()
    ledger.store.signal("default", "run-1", build.signal())
    ledger.do(run, build.open_step(run), build.move_signal(run))

    again = ledger.store.signal("default", "run-1", build.signal())

    assert (again.state, again.position) == (SignalState.APPLIED, "wait:0")


def test_a_signal_to_a_run_that_has_ended_is_refused_and_kept_as_such(ledger: Ledger) -> None:
    run = ledger.running()
    ledger.do(run, build.move_run(run, "succeed", "succeeded"))

    late = ledger.store.signal("default", "run-1", build.signal())

    assert late.state is SignalState.REFUSED
    assert late.reason
    assert ledger.load(run).signals == [late]
    assert ledger.run(run).state is RunState.SUCCEEDED


@pytest.mark.parametrize(
    ("detail", "opened_again", "kept"),
    [(None, False, False), ('{"many":false}', False, False), ('{"many":true}', False, True), (None, True, True)],
)
def test_a_signal_after_its_only_wait_is_refused(
    ledger: Ledger, detail: str | None, opened_again: bool, kept: bool
) -> None:
    run = ledger.running()
    ledger.do(run, build.open_step(run, detail=detail), build.open_step(run, "read:0", "read", name="decision"))
    ledger.do(run, build.move_step(run, "finish", "open", "done"))
    if opened_again:
        ledger.do(run, build.open_step(run, "wait:1"))

    late = ledger.store.signal("default", "run-1", build.signal())

    assert late.state is (SignalState.KEPT if kept else SignalState.REFUSED)
    assert late.reason == (None if kept else "not waiting")
    assert ledger.store.signal("default", "run-1", build.signal()) == late


def test_a_signal_may_be_stored_as_refused(ledger: Ledger) -> None:
    run = ledger.running()
    refused = build.signal(state=SignalState.REFUSED, reason="not waiting", closed_at=build.NOW)

    assert ledger.store.signal("default", "run-1", refused) == refused
    assert ledger.load(run).signals == [refused]


def test_a_signal_to_a_run_that_was_never_started_is_refused_by_name(ledger: Ledger) -> None:
    with pytest.raises(RunNotFound) as refusal:
        ledger.store.signal("default", "nobody", build.signal())
    assert refusal.value.ids["run"] == "nobody"


def test_signals_come_back_in_the_order_in_which_they_came(ledger: Ledger) -> None:
    run = ledger.running()
    for name in ("z", "a", "m"):
        ledger.store.signal("default", "run-1", build.signal(name))

    assert [signal.id for signal in ledger.load(run).signals] == ["z", "a", "m"]


def test_an_owner_finds_its_runs_that_were_signalled(ledger: Ledger) -> None:
    waits, other = ledger.running("waits"), ledger.running("other")
    ledger.running("foreign", lease="lease-2")
    ledger.do(waits, build.open_step(waits))
    assert ledger.store.signalled("lease-1") == []

    ledger.store.signal("default", "waits", build.signal())
    ledger.store.signal("default", "other", build.signal())

    assert ledger.store.signalled("lease-1") == [waits.no]
    ledger.do(waits, build.move_signal(waits), build.move_step(waits, "finish", "open", "done"))
    ledger.do(other, build.open_step(other))
    assert ledger.store.signalled("lease-1") == [other.no]


def test_an_owner_finds_a_cancel_until_it_has_recorded_it(ledger: Ledger) -> None:
    run = ledger.running()
    ledger.do(run, build.move_run(run, "cancel", "cancelling"))
    assert ledger.store.signalled("lease-1") == [run.no]

    ledger.do(run, build.open_step(run, "cancel", "cancel", state="done", closed_at=build.NOW))

    assert ledger.store.signalled("lease-1") == []


def waiting(ledger: Ledger) -> Run:
    """A run that was given up to wait for "decision"."""
    run = ledger.running()
    ledger.do(run, build.open_step(run), build.move_run(run, "wait", "waiting"))
    return ledger.run(run)


def test_of_a_run_a_sender_finds_what_hears_its_signal(ledger: Ledger) -> None:
    run = ledger.running()
    ledger.do(run, build.open_step(run), build.open_step(run, "wait:1", name="other"), build.open_step(run, "wait:2"))
    ledger.do(run, build.move_step(run, "finish", "open", "done", position="wait:2"))
    for id, wait in (("s1", "decision"), ("s2", "other"), ("s3", "other")):
        ledger.store.signal("default", "run-1", build.signal(id, wait))

    found = ledger.store.heard_by("default", "run-1", "decision", "s3")

    assert found is not None
    assert (found.run.no, [step.position for step in found.steps]) == (run.no, ["wait:0"])
    assert [signal.id for signal in found.signals] == ["s1", "s3"]
    assert ledger.store.heard_by("default", "nobody", "decision") is None


def test_a_signal_that_a_run_takes_is_kept_at_once_and_wakes_it(ledger: Ledger) -> None:
    run = waiting(ledger)

    kept = ledger.store.signal_at_once("default", "run-1", build.signal())

    assert kept is not None
    assert kept.state is SignalState.KEPT
    assert ledger.load(run).signals == [kept]
    assert ledger.run(run).wake_at == build.NOW
    assert ledger.store.signal_at_once("default", "run-1", build.signal(payload='{"ok":false}')) == kept, (
        "its id counts once"
    )


def test_what_would_be_refused_is_not_kept_at_once(ledger: Ledger) -> None:
    closed, ended = ledger.running("closed"), ledger.running("ended")
    ledger.do(closed, build.open_step(closed), build.move_step(closed, "finish", "open", "done"))
    ledger.do(ended, build.move_run(ended, "succeed", "succeeded"))
    later = ledger.running("later")
    ledger.do(later, build.next_turn(later), build.move_run(later, "continue", "continued"))

    for name in ("closed", "ended", "later", "nobody"):
        assert ledger.store.signal_at_once("default", name, build.signal()) is None
    assert [ledger.load(run).signals for run in (closed, ended, later)] == [[], [], []]
    refused = ledger.store.signal("default", "ended", build.signal())
    assert ledger.store.signal_at_once("default", "ended", build.signal()) == refused


@pytest.mark.parametrize(
    ("detail", "kept"),
    [
        ('{"takes":"m:T:1"}', True), ('{"takes":"m:T:2"}', False), ('{"takes":null}', False), (None, False),
        ('{"takes":"m:T:1","job":"charge"}', False), ('{"takes":"m:T:1","allows":"digest"}', False),
        ('{"takes":"m:T:1","job":null,"allows":null}', True),
    ],
)  # fmt: skip
def test_without_a_look_at_its_waits_only_what_each_of_them_takes_is_kept(
    ledger: Ledger, detail: str | None, kept: bool
) -> None:
    run = ledger.running()
    ledger.do(run, build.open_step(run, detail='{"takes":"m:T:1"}'), build.open_step(run, "wait:1", detail=detail))
    ledger.do(run, build.open_step(run, "wait:2", name="other", detail=None))

    found = ledger.store.signal_at_once("default", "run-1", build.signal(), takes="m:T:1")

    assert (found is not None) is kept
    assert ledger.load(run).signals == ([found] if kept else [])
    assert ledger.store.signal_at_once("default", "run-1", build.signal("early", "not yet"), takes="m:T:1")
    assert ledger.store.signal_at_once("default", "run-1", build.signal("judged")), "somebody has looked"


def told_of(run: Run) -> Signalled:
    return Signalled(run.no, run.generation, run.state)


def test_a_run_that_was_signalled_is_claimed_and_loaded_as_it_was_told_of(ledger: Ledger) -> None:
    run = ledger.running()
    ledger.do(run, build.new_operation(run), build.open_step(run), build.move_run(run, "wait", "waiting"))
    ledger.store.signal_at_once("default", "run-1", build.signal())
    told = told_of(ledger.run(run))
    ledger.store.take_lease(build.lease("lease-2", at=ledger.now))
    of_two = {"namespace": "default", "now": ledger.now}

    found = ledger.store.claim_signalled(told, "lease-2", build.WORKFLOWS, **of_two)

    assert found is not None
    assert found == ledger.load(run)
    assert (found.run.lease, found.run.state, found.run.generation) == (
        "lease-2",
        RunState.RUNNING,
        told.generation + 1,
    )
    assert [one.state for one in found.operations] == [OperationState.UNKNOWN], "it may have been sent"
    assert [signal.id for signal in found.signals] == ["signal-1"]
    assert ledger.store.claim_signalled(told, "lease-1", build.WORKFLOWS, **of_two) is None, "it is another's now"
    assert ledger.load(run) == found


@pytest.mark.parametrize(
    "changed",
    [
        {"generation": 7}, {"state": "cancelling"}, {"lease": "over"}, {"lease": "nobody"}, {"namespace": "tests"},
        {"workflows": [("approve", 2)]}, {"now": build.NOW - 1}, {"queue": "mail"}, {"claimed": True},
    ],
)  # fmt: skip
def test_a_run_that_is_not_as_it_was_told_of_is_left_alone(ledger: Ledger, changed: dict[str, object]) -> None:
    queue = changed.get("queue")
    run = ledger.running(queue=queue) if queue else ledger.running()
    ledger.do(run, build.open_step(run), build.move_run(run, "wait", "waiting"))
    ledger.store.signal("default", "run-1", build.signal())
    ledger.store.take_lease(build.lease("over", at=ledger.now))
    ledger.store.end_lease("over", now=ledger.now)
    told = told_of(ledger.run(run))._replace(**{k: v for k, v in changed.items() if k in ("generation", "state")})
    if changed.get("claimed"):
        ledger.store.take_lease(build.lease("lease-2", at=ledger.now))
        assert ledger.claim("lease-2", queues=True)
    before = ledger.load(run)
    wanted = {"namespace": "default", "now": ledger.now}
    wanted |= {name: changed[name] for name in ("namespace", "now") if name in changed}

    found = ledger.store.claim_signalled(
        told, changed.get("lease", "lease-1"), changed.get("workflows", build.WORKFLOWS), **wanted
    )

    assert found is None
    assert ledger.load(run) == before
