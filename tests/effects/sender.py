"""A process that sends one request through a door, for tests that stop or kill it: `python -m tests.effects.sender`.

Arguments: sync|async, URL, milliseconds until the deadline, bytes of the body, and a list of moments, separated by
commas, of which it prints a line. A moment that begins with "stop at " also stops the process there; at "fork at " a
forked child prints the line and then lives until its standard input ends. The last line is JSON: what became of it.
"""

import asyncio
import json
import os
import signal
import sys

from fencepost.effects.deadline import boot_now
from fencepost.effects.exchange import SendFacts
from fencepost.effects.transport import AsyncDoor, DoorOptions, SyncDoor, outcome_of_failure


def main(kind: str, url: str, milliseconds: str, size: str, moments: str) -> None:
    """Send it and say what happened."""

    def reached(moment: str) -> None:
        for wanted in moments.split(","):
            if not wanted.endswith(moment):
                continue
            if wanted.startswith("fork at "):
                _fork(moment)
                continue
            _say(f"{moment} {boot_now()}")
            if wanted.startswith("stop at "):
                os.kill(os.getpid(), signal.SIGSTOP)

    facts = SendFacts()
    deadline = boot_now() + int(milliseconds) * 1_000
    body = b"x" * (int(size) - 4) + b"LAST"
    options = DoorOptions(probe=reached)
    reached("permission")
    try:
        if kind == "sync":
            with SyncDoor(options) as door:
                status = door.request("POST", url, deadline=deadline, content=body, facts=facts).status
        else:
            status = asyncio.run(_send(options, url, deadline, body, facts))
        outcome = f"status {status}"
    except Exception as error:  # noqa: BLE001 - whatever it is, the test reads its name
        outcome = f"{type(error).__name__}: {outcome_of_failure(facts, error).says}"
    _say(json.dumps({"outcome": outcome, "bytes_out": facts.bytes_out, "sends": facts.sends}))


async def _send(options: DoorOptions, url: str, deadline: int, body: bytes, facts: SendFacts) -> int:
    async with AsyncDoor(options) as door:
        return (await door.request("POST", url, deadline=deadline, content=body, facts=facts)).status


def _fork(moment: str) -> None:
    if os.fork() == 0:
        _say(f"{moment} {boot_now()}")
        sys.stdin.read()
        os._exit(0)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
