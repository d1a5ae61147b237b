"""What happens in each story: who starts, who signals, who dies, and what the world does meanwhile.

A plot is played once undisturbed, and once more for each fault point that it is chosen for, with the process that
reaches the point killed there and replaced; that is `cast`. Which rows a plot is for is found out by playing it.
"""

from collections.abc import Callable
from dataclasses import dataclass

from fencepost.core.states import OperationState, RunState
from tests.processes import stories
from tests.processes.cast import Cast
from tests.processes.stage import Child

PATIENT = "patient nothing async"
"""The step of the story about late evidence."""


def goes_well(cast: Cast) -> None:
    """Started by a process that only starts, worked on by another; long enough for a lease to be renewed."""
    cast.strike(stories.KEYED, "alpha", do="wait", when="before", milliseconds=700, ordinal=1)
    cast.start(stories.plain, working=False)
    cast.worker()


def is_limited_once(cast: Cast) -> None:
    cast.strike(stories.KEYED, "alpha", do="answer", status=429, ordinal=1)
    cast.start(stories.plain)


def is_refused_and_mended(cast: Cast) -> None:
    """Refused for good, so the run fails; mended outside, so a person lets it go on."""
    cast.strike(stories.KEYED, "alpha", do="answer", status=401, ordinal=1)
    cast.strike(stories.KEYED, "alpha", do="answer", status=401, ordinal=2)
    cast.start(stories.plain)
    cast.until(RunState.FAILED)
    cast.person("resume")
    cast.until(RunState.FAILED)
    cast.person("resume")


def loses_a_reply(cast: Cast) -> None:
    cast.strike(stories.KEYED, "alpha", do="reset", when="after", ordinal=1)
    cast.start(stories.plain)


def loses_a_reply_and_finds_it(cast: Cast) -> None:
    cast.strike(stories.ASKED, "asked", do="reset", when="after", ordinal=1)
    cast.start(stories.asked)


def loses_a_request_and_finds_nothing(cast: Cast) -> None:
    """Whoever owns it rests until the span is over; the owner is killed while it does."""
    cast.strike(stories.ASKED, "asked", do="reset", when="before", ordinal=1)
    cast.start(stories.asked)
    cast.until_operation("asked look-up async", OperationState.UNKNOWN)
    cast.kill_owner()


def cannot_ask_at_first(cast: Cast) -> None:
    cast.strike(stories.ASKED, "asked", do="reset", when="after", ordinal=1)
    cast.cannot_tell("asked", times=2)
    cast.start(stories.asked)


def is_asked_about_sooner(cast: Cast) -> None:
    """A person does not wait for the next look-up."""
    cast.strike(stories.ASKED, "slowly", do="reset", when="after", ordinal=1)
    cast.cannot_tell("slowly", times=1)
    cast.start(stories.asked_slowly)
    cast.until(RunState.WAITING)
    cast.person("reconcile")


def is_taken_over_in_flight(cast: Cast) -> None:
    cast.hold(stories.KEYED, "alpha")
    cast.start(stories.plain)
    cast.until_held()
    cast.kill_owner()
    cast.release()


def is_taken_over_with_everything(cast: Cast) -> None:
    """Succeeded, failed and cancelled operations change hands with the one in flight."""
    cast.strike(stories.KEYED, "beta", do="answer", status=401)
    cast.strike(stories.KEYED, "gamma", do="answer", status=429, retry_after="30")
    cast.hold(stories.BLIND, "patient")
    cast.start(stories.mixed)
    cast.until_held()
    cast.kill_owner()
    cast.release()


def is_taken_over_between_attempts(cast: Cast) -> None:
    cast.strike(stories.KEYED, "alpha", do="answer", status=429, retry_after="2", ordinal=1)
    cast.hold(stories.BLIND, "patient")
    cast.start(stories.abreast)
    cast.until_operation("alpha key async", OperationState.RESERVED)
    cast.until_held()
    cast.kill_owner()
    cast.release()


def is_signalled(cast: Cast) -> None:
    cast.start(stories.waits)
    cast.until(RunState.WAITING)
    cast.tell("go", "on", "s1")


def is_signalled_in_vain(cast: Cast) -> None:
    cast.start(stories.plain, working=False)
    cast.tell("go", "on", "s1")
    cast.worker()


def waits_too_long(cast: Cast) -> None:
    cast.start(stories.expires)


def stops_waiting(cast: Cast) -> None:
    cast.start(stories.races)


def fails_beside_a_wait(cast: Cast) -> None:
    """What its failure withdrew is waited for again, once a person has let it go on."""
    cast.strike(stories.KEYED, "alpha", do="answer", status=401, ordinal=1)
    cast.start(stories.either)
    cast.until(RunState.FAILED)
    cast.person("resume")


def changes_its_mind(cast: Cast) -> None:
    """Its race takes back what is limited; then it asks for that all the same."""
    cast.strike(stories.KEYED, "gamma", do="answer", status=429, retry_after="3", ordinal=1)
    cast.start(stories.reconsiders)


def is_drained(cast: Cast) -> None:
    cast.hold(stories.KEYED, "alpha")
    cast.start(stories.two)
    cast.until_held()
    cast.drain()
    cast.worker()


def is_forbidden_by_policy(cast: Cast) -> None:
    cast.start(stories.policed)


def fails_in_a_read(cast: Cast) -> None:
    """A failed read is asked for again after a person has mended what it reads."""
    cast.start(stories.missing)
    cast.until(RunState.FAILED)
    cast.person("resume")


def is_too_big(cast: Cast) -> None:
    cast.start(stories.big)
    cast.until(RunState.HELD)
    cast.person("settle", step="huge", happened=True, result='{"id": "entry"}', reference="entry")


def is_settled_as_not_happened(cast: Cast) -> None:
    """The only attempt that the budget allows did not happen, says a person; so it has failed."""
    cast.strike(stories.BLIND, "once", do="reset", when="before", ordinal=1)
    cast.start(stories.once)
    cast.until(RunState.HELD)
    cast.person("settle", step="once nothing async", happened=False, override=True)
    cast.until(RunState.FAILED, RunState.HELD)


def spends_its_budget(cast: Cast) -> None:
    cast.strike(stories.KEYED, "twice", do="answer", status=429, ordinal=1)
    cast.strike(stories.KEYED, "twice", do="answer", status=429, ordinal=2)
    cast.start(stories.twice)
    cast.until(RunState.HELD)
    cast.person("retry", step="twice key async")


def is_found_twice(cast: Cast) -> None:
    """The target holds two of it; that is never made right by itself, so a person ends the run."""
    cast.hold(stories.ASKED, "asked")
    cast.start(stories.asked)
    cast.until_held()
    cast.stage.duplicate(cast.run_id)
    cast.kill_owner()
    cast.release()
    cast.until(RunState.HELD)
    cast.person("terminate")


# -- plots of people who stop things


def is_cancelled_before_it_begins(cast: Cast) -> None:
    cast.start(stories.plain, working=False)
    cast.person("cancel")
    cast.worker()


def is_cancelled_while_it_waits(cast: Cast) -> None:
    cast.start(stories.waits)
    cast.until(RunState.WAITING)
    cast.person("cancel")
    cast.person("cancel")


def is_cancelled_in_flight(cast: Cast) -> None:
    """Cancelled twice, and its owner dies before what is in flight is known."""
    cast.hold(stories.KEYED, "steady")
    cast.start(stories.steadily)
    cast.until_held()
    cast.person("cancel")
    cast.person("cancel")
    cast.kill_owner()
    cast.release()


def is_cancelled_and_cannot_ask(cast: Cast) -> None:
    """Cancelled while its outcome is unknown and the look-up cannot tell: it waits, still cancelling."""
    cast.hold(stories.ASKED, "answered")
    cast.cannot_tell("answered", times=2)
    cast.start(stories.answers)
    cast.until_held()
    cast.person("cancel")
    cast.kill_owner()
    cast.release()


def is_cancelled_and_drained(cast: Cast) -> None:
    cast.hold(stories.BLIND, "patient")
    cast.start(stories.slow)
    cast.until_held()
    cast.person("cancel")
    cast.drain()
    cast.worker()


def is_cancelled_when_held(cast: Cast) -> None:
    """Its outcome is unknown, so it is held again: cancel proves nothing."""
    cast.strike(stories.BLIND, "unasked", do="reset", when="after", ordinal=1)
    cast.start(stories.blind)
    cast.until(RunState.HELD)
    cast.person("cancel")


def is_cancelled_and_undone(cast: Cast) -> None:
    cast.start(stories.undone_on_cancel)
    cast.until(RunState.WAITING)
    cast.person("cancel")


def is_ended_before_it_begins(cast: Cast) -> None:
    cast.start(stories.plain, working=False)
    cast.person("terminate")
    cast.worker()


def is_ended_while_it_waits(cast: Cast) -> None:
    cast.start(stories.waits)
    cast.until(RunState.WAITING)
    cast.person("terminate")


def is_ended_in_flight(cast: Cast) -> None:
    cast.hold(stories.BLIND, "patient")
    cast.start(stories.slow)
    cast.until_held()
    cast.person("terminate")
    cast.release()


def is_ended_while_cancelling(cast: Cast) -> None:
    cast.hold(stories.BLIND, "patient")
    cast.start(stories.slow)
    cast.until_held()
    cast.person("cancel")
    cast.person("terminate")
    cast.release()


def is_ended_while_compensating(cast: Cast) -> None:
    cast.strike(stories.KEYED, "gamma", do="answer", status=401)
    cast.strike(stories.KEYED, "beta", do="answer", status=429, retry_after="30", path="/*/*/*")
    cast.start(stories.undone)
    cast.watch(lambda: cast.state is RunState.COMPENSATING, "it to compensate")
    cast.person("terminate")


def is_ended_after_it_failed(cast: Cast) -> None:
    cast.strike(stories.KEYED, "alpha", do="answer", status=401)
    cast.start(stories.plain)
    cast.until(RunState.FAILED)
    cast.person("terminate")


def is_ended_and_reopened(cast: Cast) -> None:
    cast.hold(stories.KEYED, "steady")
    cast.start(stories.steadily)
    cast.until_held()
    cast.person("terminate")
    cast.release()
    cast.person("reopen")


# -- plots of families, turns and versions


def has_a_child(cast: Cast) -> None:
    """Each is taken over while it is at work, and the child's end finds its parent."""
    cast.hold(stories.KEYED, "beta")
    cast.start(stories.begets)
    cast.until_held()
    cast.kill_owner()
    cast.release()


def is_undone_with_its_child(cast: Cast) -> None:
    cast.start(stories.begets_and_undoes)


def is_cancelled_with_its_child(cast: Cast) -> None:
    cast.hold(stories.BLIND, "patient")
    cast.start(stories.begets_and_waits)
    cast.until_held()
    cast.person("cancel")
    cast.release()


def goes_on_turn_by_turn(cast: Cast) -> None:
    cast.start(stories.turns)


def is_migrated_before_it_begins(cast: Cast) -> None:
    cast.start(stories.plain, working=False)
    cast.person("migrate", to=2)
    cast.worker()


def is_migrated_while_it_waits(cast: Cast) -> None:
    cast.start(stories.waits)
    cast.until(RunState.WAITING)
    cast.person("migrate", to=2)
    cast.until(RunState.WAITING)
    cast.tell("go", "on", "s1")


def is_migrated_in_flight(cast: Cast) -> None:
    cast.hold(stories.KEYED, "steady")
    cast.start(stories.steadily)
    cast.until_held()
    cast.person("migrate", to=2)
    cast.release()


def is_migrated_when_held(cast: Cast) -> None:
    cast.strike(stories.BLIND, "unasked", do="reset", when="after", ordinal=1)
    cast.start(stories.blind)
    cast.until(RunState.HELD)
    cast.person("migrate", to=2)


def is_migrated_while_cancelling(cast: Cast) -> None:
    cast.hold(stories.KEYED, "steady")
    cast.start(stories.steadily)
    cast.until_held()
    cast.person("cancel")
    cast.person("migrate", to=2)
    cast.release()


def is_migrated_while_compensating(cast: Cast) -> None:
    cast.strike(stories.KEYED, "gamma", do="answer", status=401)
    cast.hold(stories.KEYED, "beta", path="/*/*/*")
    cast.start(stories.undone)
    cast.until_held()
    cast.person("migrate", to=2)
    cast.release()


def is_migrated_after_it_failed(cast: Cast) -> None:
    cast.strike(stories.KEYED, "steady", do="answer", status=401, ordinal=1)
    cast.start(stories.steadily)
    cast.until(RunState.FAILED)
    cast.person("migrate", to=2)
    cast.person("resume")


# -- plots of compensation


def is_undone(cast: Cast) -> None:
    """Its owner dies in the middle, and one compensation is limited."""
    cast.strike(stories.KEYED, "gamma", do="answer", status=401)
    cast.strike(stories.KEYED, "beta", do="answer", status=429, ordinal=1, path="/*/*/*")
    cast.hold(stories.KEYED, "alpha", path="/*/*/*")
    cast.start(stories.undone)
    cast.until_held()
    cast.kill_owner()
    cast.release()


def is_drained_while_undone(cast: Cast) -> None:
    cast.strike(stories.KEYED, "gamma", do="answer", status=401)
    cast.hold(stories.KEYED, "beta", path="/*/*/*")
    cast.start(stories.undone)
    cast.until_held()
    cast.drain()
    cast.worker()


def is_undone_in_part(cast: Cast) -> None:
    """One compensation is refused; after that a person has it compensated again."""
    cast.strike(stories.KEYED, "gamma", do="answer", status=401)
    cast.strike(stories.KEYED, "alpha", do="answer", status=403, path="/*/*/*")
    cast.start(stories.undone)
    cast.until(RunState.PARTLY_COMPENSATED)
    cast.person("compensate")


def is_not_undone_at_all(cast: Cast) -> None:
    cast.strike(stories.KEYED, "gamma", do="answer", status=401)
    for step in ("alpha", "beta"):
        cast.strike(stories.KEYED, step, do="answer", status=403, path="/*/*/*")
    cast.start(stories.undone)
    cast.until(RunState.COMPENSATION_FAILED)
    cast.person("compensate")


def is_undone_and_nobody_knows(cast: Cast) -> None:
    cast.strike(stories.BLIND, "unasked", do="reset", when="after", ordinal=1, path="/*/*/*")
    cast.start(stories.undone_blindly)


def is_undone_after_it_succeeded(cast: Cast) -> None:
    cast.start(stories.plain)
    cast.until(RunState.SUCCEEDED)
    cast.person("compensate")


def is_decided_anew_after_it_was_undone(cast: Cast) -> None:
    cast.start(stories.judged)
    cast.until(RunState.SUCCEEDED)
    cast.person("compensate")
    cast.until(RunState.COMPENSATED)
    (cast.stage.folder / "mended").touch()
    cast.person("redecide")


def is_undone_after_it_failed(cast: Cast) -> None:
    cast.strike(stories.KEYED, "beta", do="answer", status=401)
    cast.start(stories.two)
    cast.until(RunState.FAILED)
    cast.person("compensate")


def is_undone_after_it_was_cancelled(cast: Cast) -> None:
    cast.strike(stories.KEYED, "beta", do="answer", status=429, retry_after="30")
    cast.start(stories.two)
    cast.until(RunState.WAITING)
    cast.person("cancel")
    cast.until(RunState.CANCELLED)
    cast.person("compensate")


def is_undone_after_it_was_ended(cast: Cast) -> None:
    cast.strike(stories.KEYED, "beta", do="answer", status=429, retry_after="30")
    cast.start(stories.two)
    cast.until(RunState.WAITING)
    cast.person("terminate")
    cast.person("compensate")


def is_undone_when_held(cast: Cast) -> None:
    cast.strike(stories.KEYED, "beta", do="answer", status=429)
    cast.start(stories.two)
    cast.until(RunState.HELD)
    cast.person("compensate")


# -- plots of evidence that comes too late


def _speaks_too_late(cast: Cast, *, then: dict | None = None, happened: bool = False, **fault: object) -> Child | None:
    """The owner is paused before it reads the reply, and a person says the opposite of what the reply says."""
    cast.hold(stories.BLIND, "patient", **fault)
    if then is not None:
        cast.strike(stories.BLIND, "patient", ordinal=2, **then)
    cast.start(stories.slow)
    cast.until_held()
    paused = cast.stop_owner()
    cast.worker()
    cast.until(RunState.HELD)
    statement = {"result": '{"id": "task"}', "reference": "task"} if happened else {"override": True}
    cast.person("settle", step=PATIENT, happened=happened, **statement)
    return paused


def _puts_right(cast: Cast, *, happened: bool) -> None:
    """A person says what stands at the target, now that nothing there contradicts itself any more."""
    statement = {"result": '{"id": "task"}', "reference": "task"} if happened else {"override": True}
    cast.person("settle_conflict", step=PATIENT, happened=happened, **statement)


def learns_too_late_that_it_happened_while_it_waits(cast: Cast) -> None:
    paused = _speaks_too_late(cast, then={"do": "answer", "status": 429, "retry_after": "30"})
    cast.until_operation(PATIENT, OperationState.RESERVED, attempts=2)
    cast.release_all_but(paused)
    cast.until_conflict()
    cast.person("terminate")


def learns_too_late_that_it_happened_while_it_is_sent(cast: Cast) -> None:
    cast.hold(stories.BLIND, "patient", ordinal=2, name="second")
    paused = _speaks_too_late(cast)
    cast.until_held("second")
    cast.release_all_but(paused)
    cast.until_conflict()
    _puts_right(cast, happened=True)
    cast.release("second")


def learns_too_late_that_it_happened_after_it_was_done(cast: Cast) -> None:
    paused = _speaks_too_late(cast)
    cast.until(RunState.SUCCEEDED)
    cast.release_all_but(paused)
    cast.until_conflict()
    _puts_right(cast, happened=True)
    cast.person("reopen")


def learns_too_late_that_it_happened_after_it_failed(cast: Cast) -> None:
    paused = _speaks_too_late(cast, then={"do": "answer", "status": 401})
    cast.until(RunState.FAILED)
    cast.release_all_but(paused)
    cast.until_conflict()
    _puts_right(cast, happened=False)


def learns_too_late_that_it_happened_after_it_was_cancelled(cast: Cast) -> None:
    paused = _speaks_too_late(cast, then={"do": "answer", "status": 429, "retry_after": "30"})
    cast.until_operation(PATIENT, OperationState.RESERVED, attempts=2)
    cast.person("cancel")
    cast.until(RunState.CANCELLED)
    cast.release_all_but(paused)
    cast.until_conflict()
    _puts_right(cast, happened=False)
    cast.person("reopen")


def learns_too_late_that_it_happened_while_nobody_knows(cast: Cast) -> None:
    paused = _speaks_too_late(cast, then={"do": "reset", "when": "after"})
    cast.until_operation(PATIENT, OperationState.UNKNOWN, attempts=2)
    cast.until(RunState.HELD)
    cast.release_all_but(paused)
    cast.until_conflict()
    cast.person("terminate")
    _puts_right(cast, happened=True)


@dataclass(frozen=True)
class Story:
    """A plot by its name."""

    plot: Callable[[Cast], None]

    @property
    def name(self) -> str:
        return self.plot.__name__.replace("_", " ")


STORIES = [
    Story(plot)
    for plot in (
        goes_well, is_limited_once, is_refused_and_mended, loses_a_reply, loses_a_reply_and_finds_it,
        loses_a_request_and_finds_nothing, cannot_ask_at_first, is_asked_about_sooner, is_taken_over_in_flight,
        is_taken_over_with_everything, is_taken_over_between_attempts, is_signalled, is_signalled_in_vain,
        waits_too_long, stops_waiting, fails_beside_a_wait, changes_its_mind, is_drained, is_forbidden_by_policy,
        fails_in_a_read, is_too_big, is_settled_as_not_happened, spends_its_budget, is_found_twice,
        is_cancelled_before_it_begins, is_cancelled_while_it_waits, is_cancelled_in_flight,
        is_cancelled_and_cannot_ask, is_cancelled_and_drained, is_cancelled_when_held, is_cancelled_and_undone,
        is_ended_before_it_begins, is_ended_while_it_waits, is_ended_in_flight, is_ended_while_cancelling,
        is_ended_while_compensating, is_ended_after_it_failed, is_ended_and_reopened,
        has_a_child, is_undone_with_its_child, is_cancelled_with_its_child, goes_on_turn_by_turn,
        is_migrated_before_it_begins, is_migrated_while_it_waits, is_migrated_in_flight, is_migrated_when_held,
        is_migrated_while_cancelling, is_migrated_while_compensating, is_migrated_after_it_failed,
        is_undone, is_drained_while_undone, is_undone_in_part, is_not_undone_at_all, is_undone_and_nobody_knows,
        is_decided_anew_after_it_was_undone, is_undone_after_it_succeeded, is_undone_after_it_failed,
        is_undone_after_it_was_cancelled,
        is_undone_after_it_was_ended, is_undone_when_held,
        learns_too_late_that_it_happened_while_it_waits, learns_too_late_that_it_happened_while_it_is_sent,
        learns_too_late_that_it_happened_after_it_was_done, learns_too_late_that_it_happened_after_it_failed,
        learns_too_late_that_it_happened_after_it_was_cancelled,
        learns_too_late_that_it_happened_while_nobody_knows,
    )
]  # fmt: skip
