"""What the runbook tells a person to do applies to a run that is held so: its table is written by hand."""

import asyncio
import importlib
import json
import sys

import pytest

from fencepost.core.recovery import HoldReason
from fencepost.core.states import RunState
from fencepost.runtime.applicable import verbs_for
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.docs.pages import ROOT
from tests.runtime.stage import once, reaches, target, working


@pytest.fixture(scope="module")
def pages():
    sys.path.insert(0, str(ROOT / "docs"))
    yield {page.reason: page for page in importlib.import_module("runbook").PAGES}
    sys.path.remove(str(ROOT / "docs"))


@workflow(name="holds")
async def holds(run: Run) -> str:
    return await run.do(once("a"))


@pytest.fixture(scope="module")
def held(tmp_path_factory):
    """The history of a run that is held, since it is not known whether its effect happened."""

    async def lived():
        target.reset()
        target.plan("a", "lose")
        async with working(f"sqlite:///{tmp_path_factory.mktemp('held')}/ledger.db", holds) as app:
            await app.start(holds, id="r")
            await reaches(app, "r", RunState.HELD)
            return await app.show("r")

    return asyncio.run(lived())


@pytest.mark.parametrize("reason", HoldReason)
def test_each_verb_of_a_page_applies_to_a_run_that_is_held_for_that_reason(pages, held, reason):
    """An operation is unknown in each of them; in one the evidence contradicts itself as well."""
    held.run.hold = json.dumps(json.loads(held.run.hold) | {"reason": reason.value})
    held.operations[0].conflict = reason is HoldReason.CONFLICT
    commands = [command.split() for command, _ in pages[reason].verbs]
    told = {"settle conflict" if "--conflict" in words else words[0] for words in commands}
    assert told <= set(verbs_for(held))
