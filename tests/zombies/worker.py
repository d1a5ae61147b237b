"""A worker of the matrix, as a process: the victim, whose runs stand at their points, or the heir, whose runs do not.

    python -m tests.zombies.worker '{"ledger": ...}'

It prints "works" when it does, takes the word on a line of standard input, and drains when that closes. What is done
to it is in `faults`.
"""

import asyncio
import json
import sys
import threading
from pathlib import Path

from fencepost.effects.conclusion import Superseded
from fencepost.effects.outside import Target
from fencepost.effects.transport import DoorOptions
from fencepost.runtime.app import App
from fencepost.runtime.execution import Execution
from tests.zombies import clock, control
from tests.zombies.accounts import Accounts
from tests.zombies.bodies import Bodies
from tests.zombies.cells import CELLS
from tests.zombies.parking import Notes, Parking


def make_app(told: dict, parking: Parking) -> App:
    """The app of a worker, and of the harness that reads its ledger and settles what only a person can."""
    bodies = Bodies(parking, Accounts(Path(told["accounts"])), timeout=told["timeout"], settle=told["settle"])
    return App(
        told["ledger"],
        workflows=bodies.workflows.values(),
        targets={name: Target(url) for name, url in told["targets"].items()},
        lease=told["lease"],
        margin=told["margin"],
        options=DoorOptions(probe=parking.probe),
    )


def note_answers(notes: Notes) -> None:
    """Note what the ledger answers to whatever this process wants to write of a run."""
    record, note = Execution.record, Execution.note

    async def record_and_tell(execution, moves, observations, **more):
        answer = await record(execution, moves, observations, **more)
        notes.add(execution.history.run.id, answer.value)
        return answer

    def note_and_tell(execution, position, conclusion):
        if isinstance(conclusion, Superseded):  # also where it was a token that the ledger refused
            notes.add(execution.history.run.id, conclusion.answer.value)
        note(execution, position, conclusion)

    Execution.record, Execution.note = record_and_tell, note_and_tell


async def work(app: App, told: dict, ended: asyncio.Event) -> None:
    """Work until standard input closes; start runs under this worker's own lease first."""
    by_name = {declared.name: declared for declared in app.workflows.values()}
    async with app, app.worker():
        for cell in CELLS if told["starts"] else ():
            await app.start(by_name[cell.id], cell.id, id=cell.id)
        sys.stdout.write("works\n")
        sys.stdout.flush()
        await ended.wait()


async def live(told: dict) -> None:
    """Do what is told, from the first line to the end of the process."""
    notes = Notes(Path(told["notes"])) if told["notes"] else None
    parking = Parking(notes)
    if notes is not None:
        note_answers(notes)
    loop, ended = asyncio.get_running_loop(), asyncio.Event()

    def listen() -> None:
        """In a thread of its own, so that the word is heard whatever the loop does."""
        for _ in sys.stdin:
            parking.give_word()
        parking.give_word()
        loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=listen, name="word", daemon=True).start()
    await work(make_app(told, parking), told, ended)


if __name__ == "__main__":
    orders = json.loads(sys.argv[1])
    clock.mend()
    if orders["control"]:
        control.switch_off()
    asyncio.run(live(orders))
