"""The runtime's scenarios once more, with each run dropped from memory after each answer and replayed for the next.

A workflow or an execution that depends on anything but the history shows here. The scenarios count at the target, as
they do otherwise.
"""

import inspect
from types import ModuleType
from typing import Any

import pytest

from fencepost.core.states import RunState
from fencepost.runtime.app import App
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from fencepost.testing import always_replay
from tests.runtime import (
    stage,
    test_cancel,
    test_children,
    test_compensation,
    test_continue,
    test_forward,
    test_going_back,
    test_signals,
    test_together,
    test_versions,
)
from tests.runtime.stage import hold, keyed, played, reaches, working
from tests.scenarios import (
    test_c16_signals_around_the_wait,
    test_c18_errors_that_cannot_be_stored,
    test_c19_code_that_changed,
    test_c24_ended_by_hand,
    test_c29_too_big,
)

MODULES: tuple[ModuleType, ...] = (
    test_cancel, test_children, test_compensation, test_continue, test_forward, test_going_back, test_signals,
    test_together, test_versions,
    test_c16_signals_around_the_wait, test_c18_errors_that_cannot_be_stored, test_c19_code_that_changed,
    test_c24_ended_by_hand, test_c29_too_big,
)  # fmt: skip


LEFT_OUT = {
    "test_ten_thousand_turns_leave_the_last_ones_history_small": "it takes long enough as it is",
    "test_a_cancel_by_another_process_is_heard_during_a_long_effect": "it is not dropped before what is in flight ends",
    "test_a_compensation_waits_for_what_another_branch_has_in_flight": "the same",
    "test_what_another_branch_would_begin_waits_until_the_run_has_gone_back": "the same",
    "test_a_sleep_wins_a_race_against_an_effect_that_is_in_flight": "the same",
    "test_what_is_waited_for_is_a_row_while_a_branch_beside_it_is_in_flight": "the same",
    "test_a_run_does_not_end_before_its_races_loser_is_known": "the same",
    "test_the_cancel_of_one_branch_reaches_every_branch": "its workflow notes in a list what it sees, in each life",
    "test_a_gather_settles_every_branch_before_it_raises_the_first_error": "the same",
    "test_a_cancel_that_the_workflow_swallows_lets_nothing_begin_and_ends_as_cancelled": "the same",
    "test_a_workflow_that_ignores_its_cancel_is_held_and_begins_nothing": "it needs the marks that it has there",
}
"""What cannot be so in this mode, or is no matter of it."""


def scenarios() -> list[Any]:
    """The scenarios that need nothing but a ledger."""
    return [
        pytest.param(test, id=f"{module.__name__.rpartition('.')[2]}-{name}")
        for module in MODULES
        for name, test in vars(module).items()
        if name.startswith("test_") and [*inspect.signature(test).parameters] == ["db"] and name not in LEFT_OUT
    ]


@pytest.fixture
def replaying(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the apps of the stage replay after each answer."""
    monkeypatch.setattr(stage, "App", lambda *given, **options: always_replay(App(*given, **options)))


@pytest.mark.usefixtures("replaying")
@pytest.mark.parametrize("scenario", scenarios())
def test_it_holds_when_a_run_is_replayed_after_each_answer(db: str, scenario: Any) -> None:
    scenario(db=db)


SEEN: list[str] = []


@workflow()
async def forgetful(run: Run) -> str:
    """Depends on what a process remembers."""
    SEEN.append("life")
    await run.do(keyed(f"object {len(SEEN)}"))
    return await run.wait("go", str)


@played
async def test_the_mode_shows_a_workflow_that_depends_on_more_than_its_history(db: str) -> None:
    async with working(db, forgetful) as app:
        await app.start(forgetful, id="remembered")
        await reaches(app, "remembered", RunState.WAITING)
    SEEN.clear()
    async with always_replay(App(db, workflows=[forgetful])) as app, app.worker():
        await app.start(forgetful, id="replayed")
        await reaches(app, "replayed", RunState.HELD)
        assert (await hold(app, "replayed"))["reason"] == "HistoryMismatch"
