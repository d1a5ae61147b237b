"""An app for the command line's tests of families and versions: children, turns, progress, and a changed workflow."""

from pathlib import Path

from fencepost.runtime.app import App
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow


@workflow()
async def child(run: Run, name: str) -> str:
    return await run.wait("answer", str)


@workflow()
async def parent(run: Run, name: str) -> str:
    run.progress({"done": 1, "of": 3})
    await run.child(child, name, id=f"{name} aside", detached=True)
    return await run.child(child, name, id=f"{name} child")


@workflow()
async def turning(run: Run, number: int) -> int:
    if number < 2:
        return run.continue_as(number + 1)
    await run.wait("answer", str)
    return number


async def _first(run: Run, name: str) -> str:
    return await run.wait("answer", str)


async def _fitting(run: Run, name: str) -> str:
    await run.wait("answer", str)
    return await run.wait("more", str)


async def _other(run: Run, name: str) -> str:
    return await run.wait("question", str)


changing = [
    workflow(version=number, name="changing")(body) for number, body in enumerate((_first, _fitting, _other), start=1)
]

app = App(f"sqlite:///{Path(__file__).parent / 'never.db'}", workflows=[child, parent, turning, *changing])
later = App(app.url, workflows=changing[1:])
"""An app whose workers do not carry the first version any more."""
