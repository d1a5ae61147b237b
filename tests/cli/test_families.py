"""What the command line shows of children, turns, progress and versions, and how it migrates a run."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from fencepost.cli.target import app_for
from fencepost.core.states import RunState
from tests.cli.conftest import FOLDER, Command
from tests.polling import until

FAMILY, LATER = (f"{FOLDER / 'family.py'}:{name}" for name in ("app", "later"))


@pytest.fixture
def lived(db: str) -> Callable[..., Any]:
    """Start a run of the family, or none, and have a worker live runs until all of these wait."""

    def live(workflow: str | None, argument: Any, *run_ids: str, reference: str = FAMILY, then: Any = None) -> Any:
        async def go() -> Any:
            async with app_for(reference, db, None) as app, app.worker():
                if workflow is not None:
                    declared = next(one for one in app.workflows.values() if one.name == workflow)
                    await app.start(declared, argument, id=run_ids[0])
                waiting = (RunState.WAITING, RunState.HELD)
                for run_id in run_ids:
                    await asyncio.to_thread(
                        until,
                        lambda run_id=run_id: (found := app.store.find("default", run_id)) and found.state in waiting,
                        f"{run_id} to wait",
                    )
                return await asyncio.to_thread(then) if then is not None else None

        return asyncio.run(go())

    return live


def test_show_lists_attached_and_detached_children_with_their_states(
    fencepost: Command, db: str, lived: Callable[..., Any]
) -> None:
    lived("parent", "x", "x", "x child", "x aside")
    told = fencepost("show", "x", "--db", db, "--json").json
    assert [(child["id"], child["attached_at"], child["state"]) for child in told["children"]] == [
        ("x aside", None, "waiting"),
        ("x child", "/child#2", "waiting"),
    ]
    assert told["waits_for"] == ["child 'child' (run x child, waiting)"]
    assert told["run"]["progress"]["value"] == {"done": 1, "of": 3}
    assert not [step for step in told["steps"] if step["kind"] == "progress"]
    shown = fencepost("show", "x", "--db", db).out
    assert "  x aside  child 1, detached  waiting: " in shown
    assert "  x child  child 1, at /child#2  waiting: " in shown
    assert 'progress    {"done": 1, "of": 3}' in shown
    assert "child of    x\n" in fencepost("show", "x child", "--db", db).out


def test_a_cancel_takes_attached_children_with_it_and_names_the_detached_ones(
    fencepost: Command, db: str, lived: Callable[..., Any]
) -> None:
    lived("parent", "x", "x", "x child", "x aside")
    why = ("--reason", "stop", "--by", "ada")
    assert "  detached, goes on: x aside\n" in fencepost("cancel", "x", "--db", db, *why).out
    shown = fencepost("show", "x", "--db", db).out
    assert "by ada: stop" in shown
    assert "accepted    no worker has heard of it yet" in shown
    assert "x aside  detached, left alone; waiting" in shown
    assert "x child  cancelled with it; cancelling" in shown

    def state() -> str:
        return str(fencepost("show", "x", "--db", db, "--json").json["run"]["state"])

    lived(None, None, then=lambda: until(lambda: state() == "cancelled", "x to be cancelled"))
    told = fencepost("show", "x", "--db", db, "--json").json["cancellation"]
    assert told["asked"]["who"] == "ada"
    assert [one["state"] for one in told["children"]] == ["waiting", "cancelled"]
    assert len(told["accepted"]) == 1
    assert fencepost("cancel", "x", "--db", db, *why).code == 1


def test_show_says_which_turn_it_is_and_shows_an_earlier_one(
    fencepost: Command, db: str, lived: Callable[..., Any]
) -> None:
    lived("turning", 0, "t")
    told = fencepost("show", "t", "--db", db, "--json").json
    assert (told["run"]["turn"], told["run"]["input"]) == (2, {"number": 2})
    earlier = fencepost("show", "t", "--turn", "0", "--db", db, "--json").json
    assert (earlier["run"]["state"], earlier["run"]["input"]) == ("continued", {"number": 0})
    assert "turn        2 (" in fencepost("show", "t", "--db", db).out
    assert fencepost("show", "t", "--turn", "7", "--db", db).code == 2
    assert [run["id"] for run in fencepost("runs", "--db", db, "--json").json["runs"]] == ["t"]


def test_follow_goes_on_until_the_run_ends(fencepost: Command, db: str, lived: Callable[..., Any]) -> None:
    lived("turning", 0, "t")

    def follow() -> str:
        assert fencepost("signal", "t", "answer", '"yes"', "--db", db).code == 0
        return fencepost("show", "t", "--follow", "--db", db).out

    assert lived(None, None, then=follow).splitlines()[-1].endswith("turn 2; succeeded: returned its result")


def test_a_version_that_no_worker_carries_is_shown_and_doctor_calls_it_a_problem(
    fencepost: Command, db: str, lived: Callable[..., Any]
) -> None:
    lived("changing", "x", "x")
    assert fencepost("runs", "--db", db, "--json").json["runs"][0]["carried"] is None, "no worker is running"

    def look() -> tuple[Any, ...]:
        row = fencepost("runs", "--db", db, "--json").json["runs"][0]
        doctor = fencepost("doctor", "--db", db, "--json")
        found = next(check for check in doctor.json["checks"] if check["name"] == "versions")
        return row["carried"], fencepost("runs", "--db", db).out, fencepost("show", "x", "--db", db).out, doctor, found

    carried, listed, shown, doctor, found = lived(None, None, reference=LATER, then=look)
    assert carried is False
    assert "no worker carries version 1" in listed
    assert "NO WORKER" in shown
    assert (doctor.code, found["verdict"]) == (3, "problem")
    assert "changing version 1: 1, such as x" in found["says"]
    assert lived(None, None, then=look)[0] is True


def test_migrate_rehearses_and_refuses_with_the_first_difference_and_moves_what_fits(
    fencepost: Command, db: str, lived: Callable[..., Any]
) -> None:
    lived("changing", "x", "x")
    place = ("--app", LATER, "--db", db)
    dry = fencepost("migrate", "x", "--to", "3", "--dry-run", "--json", *place)
    assert (dry.code, dry.json["fits"]) == (3, False)
    assert "/answer" in dry.json["difference"]
    refused = fencepost("migrate", "x", "--to", "3", "--reason", "try", *place)
    assert refused.code == 1
    assert "/answer" in refused.err
    assert fencepost("migrate", "x", "--to", "2", "--dry-run", *place).out.startswith("run x fits version 2: 0 answers")
    assert fencepost("migrate", "x", "--to", "2", *place).code == 2, "a reason is needed"
    assert fencepost("migrate", "x", "--to", "2", "--reason", "v1 is gone", *place).code == 0
    told = fencepost("show", "x", "--db", db, "--json").json
    assert told["run"]["workflow_version"] == 2
    assert [(row["verb"], row["outcome"]) for row in told["audit"]] == [("migrate", "refused"), ("migrate", "done")]


@pytest.mark.parametrize(("first", "to"), [(None, "1"), (None, "3"), ("cancel", "2"), ("terminate", "2")])
def test_a_rehearsed_migration_is_done_or_refused_as_the_real_one_is(
    fencepost: Command, db: str, lived: Callable[..., Any], first: str | None, to: str
) -> None:
    lived("changing", "x", "x")
    place = ("--app", LATER, "--db", db)
    if first is not None:
        assert fencepost(first, "x", "--reason", "so", "--db", db).code == 0
    dry = fencepost("migrate", "x", "--to", to, "--dry-run", "--json", *place)
    real = fencepost("migrate", "x", "--to", to, "--reason", "so", *place)
    assert (dry.code == 0) is (real.code == 0), (dry.out, real.err)
