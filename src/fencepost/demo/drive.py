"""Lives one side through the plan: invoices come in, people answer, workers are struck and replaced, until all is done.

It steers either side by the same face and strikes both equally; all waiting is bounded. What a blow does to processes
is `crew`, what people do is `sides`, whether it all came out right is `verdict`.
"""

import asyncio
import itertools
from collections.abc import Awaitable, Callable

from fencepost.demo.crew import Crew
from fencepost.demo.plan import PAUSE_SECONDS, WORKERS, Blow, Plan
from fencepost.demo.screen import Screen
from fencepost.demo.sides import Hands, Side
from fencepost.demo.tally import Injected, dropped_replies, mailed, requests
from fencepost.testing import WorldFiles

ARRIVE_SECONDS = 0.25
"""Between two invoices."""

LOOK_SECONDS = 0.1
"""Between two looks at what has changed."""

PATIENCE_SECONDS = 0.5
"""After a pause, until the crew ends it by itself."""

HEIR_LOOKS_MAX = 800
"""After so many looks any worker will do."""

SECONDS_MAX = 60.0
SECONDS_MAX_PER_INVOICE = 1.0


class Drive:
    """One side's way through the plan."""

    def __init__(self, side: Side, plan: Plan, crew: Crew, files: WorldFiles, screen: Screen) -> None:
        self._side = side
        self._plan = plan
        self._crew = crew
        self._files = files
        self._screen = screen
        self._approved: set[str] = set()
        self._hands_of_the_dead: list[Hands] = []
        self._kills = self._pauses = self._takeovers = 0
        self._lost_twice: set[str] = set()

    async def run(self) -> Injected:
        """Return what was injected, once every invoice is through or the time is up."""
        around = [self._feed(), *(self._again(once) for once in (self._approve, self._side.attend, self._replace))]
        try:
            async with asyncio.timeout(self._seconds_max), asyncio.TaskGroup() as group:
                tasks = [group.create_task(work) for work in (*around, self._strike_all())]
                await self._until_through()
                for task in tasks:
                    task.cancel()
        except TimeoutError:
            self._say(f"not through after {self._seconds_max:.0f} s")
        for hands in self._hands_of_the_dead:
            self._takeovers += await self._side.went_over(hands)
        dropped = dropped_replies(self._files)
        return Injected(self._kills, self._pauses, dropped, self._takeovers, frozenset(self._lost_twice))

    @property
    def _seconds_max(self) -> float:
        return SECONDS_MAX + SECONDS_MAX_PER_INVOICE * len(self._plan.papers)

    async def _until_through(self) -> None:
        while (ended := await self._side.ended()) < len(self._plan.papers):
            self._screen.show(self._side.name, ended, len(self._plan.papers))
            await asyncio.sleep(LOOK_SECONDS)
        self._screen.show(self._side.name, ended, len(self._plan.papers))

    async def _again(self, once: Callable[[], Awaitable[None]]) -> None:
        while True:
            await once()
            await asyncio.sleep(LOOK_SECONDS)

    # -- people -------------------------------------------------------------------------------------------------------

    async def _feed(self) -> None:
        for paper in self._plan.papers:
            await self._side.submit(paper)
            await asyncio.sleep(ARRIVE_SECONDS)

    async def _approve(self) -> None:
        """The approver answers each mail, and only the first about an invoice."""
        for invoice in sorted(mailed(self._files) - self._approved):
            if await self._side.approve(invoice):
                self._approved.add(invoice)

    # -- blows --------------------------------------------------------------------------------------------------------

    async def _replace(self) -> None:
        self._crew.replace_dead()

    async def _strike_all(self) -> None:
        """Strike blow after blow; while one worker is paused, the next blow may already hit the other.

        The second kill does not wait for its moment in the plan: it strikes the heir of the first.
        """
        first, second, *_ = (blow for blow in self._plan.blows if blow.how == "kill")
        async with asyncio.TaskGroup() as beside:
            for blow in self._plan.blows:
                if blow is second:
                    continue
                place = await self._victim(blow)
                if blow.how == "pause":
                    beside.create_task(self._pause(place, *await self._stop(place)))
                    continue
                hands = await self._kill(place)
                if blow is first:
                    beside.create_task(self._kill_heir(hands))

    async def _kill_heir(self, lost: Hands) -> None:
        """Kill who has taken something over of a worker that was killed, so that it loses its second one."""
        for look in itertools.count():
            for place in range(WORKERS):
                if not await self._is_busy(place):
                    continue
                theirs = await self._side.in_hands(self._crew.pid(place))
                if lost.keys() & theirs.keys() or look > HEIR_LOOKS_MAX:
                    self._lost_twice |= lost.keys() & (await self._kill(place)).keys()
                    return
            await asyncio.sleep(LOOK_SECONDS / 4)

    async def _victim(self, blow: Blow) -> int:
        """Wait until the world has seen enough; return the planned worker, or another if that one has nothing to do."""
        for number in itertools.count(blow.slot):
            place = number % WORKERS
            if requests(self._files) >= blow.after_requests and await self._is_busy(place):
                return place
            await asyncio.sleep(LOOK_SECONDS / 4)
        raise AssertionError("counting does not end")

    async def _is_busy(self, place: int) -> bool:
        runs = self._crew.is_alive(place) and not self._crew.is_stopped(place)
        return runs and bool(await self._side.in_hands(self._crew.pid(place)))

    async def _kill(self, place: int) -> Hands:
        pid = self._crew.pid(place)
        self._crew.kill(place)
        self._kills += 1
        hands = await self._side.in_hands(pid)
        self._hands_of_the_dead.append(hands)
        self._say(f"SIGKILL to worker {place + 1} (pid {pid}), which had {_in_hand(len(hands))}")
        return hands

    async def _stop(self, place: int) -> tuple[int, Hands]:
        pid = self._crew.pid(place)
        self._crew.stop(place, PAUSE_SECONDS + PATIENCE_SECONDS)
        self._pauses += 1
        hands = await self._side.in_hands(pid)
        self._say(f"SIGSTOP to worker {place + 1} (pid {pid}), which has {_in_hand(len(hands))}")
        return pid, hands

    async def _pause(self, place: int, pid: int, hands: Hands) -> None:
        try:
            await asyncio.sleep(PAUSE_SECONDS)
        finally:  # also when all is through before the pause is
            over = await self._side.went_over(hands)
            self._takeovers += over
            said = "SIGCONT to" if self._crew.go_on(place, pid) else "its own deadline has meanwhile ended"
            self._say(f"{said} worker {place + 1} (pid {pid}); taken over by others: {over} of its invoices")

    def _say(self, event: str) -> None:
        """Tell of an event on this side; the other one has workers of the same numbers."""
        self._screen.say(f"{self._side.name}: {event}")


def _in_hand(number: int) -> str:
    return f"{number} {'invoice' if number == 1 else 'invoices'} in its hands"
