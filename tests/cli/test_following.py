"""`show --follow` says what a run makes of itself while it is at it, and not only when it is over."""

import asyncio

import pytest

from fencepost.cli.main import main
from fencepost.core.states import RunState
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import played, reaches, until, working


@workflow(name="imports")
async def imports(run: Run) -> str:
    for share in (10, 60):
        run.progress({"percent": share})
        await run.wait(f"after {share}", str)
    return "imported"


@played
async def test_progress_is_shown_live(db: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each line is seen before the run is let go on: it comes from what is under way, not from the whole story."""
    said = ""

    def shown() -> str:
        nonlocal said
        said += capsys.readouterr().out
        return said

    async with working(db, imports) as app:
        handle = await app.start(imports, id="r")
        following = asyncio.create_task(asyncio.to_thread(main, ["show", "r", "--follow", "--db", db]))
        for share in (10, 60):
            told = f'progress {{"percent": {share}}}'
            try:
                await until(lambda told=told: told in shown(), told)
            finally:  # also where it is not shown, or the one that follows would for ever
                assert not following.done()
                await app.signal("r", f"after {share}", "go")
        assert await handle.result(within="20s") == "imported"
        await reaches(app, "r", RunState.SUCCEEDED)
        assert await asyncio.wait_for(following, 20) == 0
    assert "succeeded" in shown().splitlines()[-1]
