"""Lives the approvals demo: runs wait, people answer as planned, rights are lost, and workers are killed all the while.

Early answers are sent before any worker has worked. Each other run is led by a coroutine of its own: answered, its day
come, ended; whatever is refused to a sender is noted. All waiting is bounded. What it must come to is `approval_tally`.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from fencepost.core.errors import VerbRefused
from fencepost.core.records import History
from fencepost.core.states import FINAL_RUN_STATES, RunState, StepState
from fencepost.demo.approval_plan import ApprovalPlan, Case, Kind
from fencepost.demo.crew import Crew
from fencepost.demo.payments import APPROVAL, DUE, Order, pay, pay_when_approved, revoked
from fencepost.demo.screen import Screen
from fencepost.runtime.app import App

SECONDS_MAX = 50.0
LOOK_SECONDS = 0.1
PACE_SECONDS = 0.05
"""Between two runs that are answered: kills fall while some wait, some are answered and some are paid."""

SIDE_BY_SIDE = 40
"""Runs that people attend to at a time."""


class ApprovalDrive:
    """One way through the plan; `refused` holds what was refused to its sender, by run."""

    def __init__(self, app: App, plan: ApprovalPlan, directory: Path, screen: Screen) -> None:
        self._app = app
        self._plan = plan
        self._directory = directory
        self._screen = screen
        self._answered = 0
        self._room = asyncio.Semaphore(SIDE_BY_SIDE)
        self.answers: defaultdict[str, int] = defaultdict(int)
        self.refused: defaultdict[str, list[str]] = defaultdict(list)
        self.kills = 0

    async def start(self) -> None:
        """Start every run, and give the early answers; no worker has worked yet."""
        for case in self._plan.cases:
            await self._app.start(pay_when_approved, order(case), id=case.run, on_behalf_of=case.principal)
            if case.kind is Kind.EARLY:
                await self._answer(case, digest=digest(case))
        early = sum(case.kind is Kind.EARLY for case in self._plan.cases)
        self._screen.say(f"{len(self._plan.cases)} runs are started, {early} of them answered; no worker works yet")

    async def run(self, crew: Crew) -> bool:
        """Return whether every run came to its end in time."""
        try:
            async with asyncio.timeout(SECONDS_MAX), asyncio.TaskGroup() as group:
                replacing = group.create_task(self._replace(crew))
                await self._until_all_wait()
                for place in (0, 1):
                    self._kill(crew, place)
                striking = group.create_task(self._strike(crew))
                await self._attend_to_all()
                await striking
                replacing.cancel()
        except TimeoutError:
            self._screen.say(f"not through after {SECONDS_MAX:.0f} s")
            return False
        return True

    # -- people -------------------------------------------------------------------------------------------------------

    async def _attend_to_all(self) -> None:
        async with asyncio.TaskGroup() as people:
            for case in self._plan.cases:
                people.create_task(self._attend(case))
                self._answered += 1
                await asyncio.sleep(PACE_SECONDS)

    async def _attend(self, case: Case) -> None:
        async with self._room:
            if case.kind is not Kind.EARLY:
                await self._answer_in_time(case)
            await self._until(case, lambda history: is_closed(history, APPROVAL) or is_over(history))
            if case.kind is Kind.APPROVER:
                revoked(self._directory, case.approver).touch()
            elif case.kind is Kind.PRINCIPAL:
                revoked(self._directory, case.principal).touch()
            elif case.kind is Kind.LATE and not case.late_after_end:
                await self._answer_late(case)
            if case.kind is not Kind.DENIED:
                await self._app.signal(case.run, DUE, "today", id=f"{case.number} is due", sender="calendar")
            await self._until(case, is_over)
            if case.kind is Kind.LATE and case.late_after_end:
                await self._answer_late(case)

    async def _answer_in_time(self, case: Case) -> None:
        if case.kind is Kind.OTHER_CALL:
            await self._answer(case, digest=digest(case, amount=case.amount + 1))
        await self._answer(case, digest=digest(case), approved=case.kind is not Kind.DENIED)
        if case.kind is Kind.DOUBLE:
            for _ in range(2):
                await self._answer(case, digest=digest(case))
            await self._answer(case, digest=digest(case), approved=False)

    async def _answer_late(self, case: Case) -> None:
        await self._answer(case, digest=digest(case), by=f"somebody else about {case.number}")

    async def _answer(self, case: Case, *, digest: str, approved: bool = True, by: str | None = None) -> None:
        """Deliver an answer under an id of its own, as a form's button would; note it if it is refused."""
        who = by or case.approver
        self.answers[case.run] += 1
        try:
            await self._app.approve(
                case.run, APPROVAL, by=who, approved=approved, digest=digest, id=f"{who}: {digest[:12]}"
            )
        except VerbRefused as refused:
            self.refused[case.run].append(refused.message)

    # -- looking ------------------------------------------------------------------------------------------------------

    async def _until(self, case: Case, condition: Callable[[History], bool]) -> None:
        while not condition(await self._app.show(case.run)):  # noqa: ASYNC110 - another process changes it
            await asyncio.sleep(LOOK_SECONDS)

    async def _until_all_wait(self) -> None:
        runs = len(self._plan.cases)
        while len(await self._app.runs(state=RunState.WAITING, limit=runs + 1)) < runs:  # noqa: ASYNC110 - as above
            await asyncio.sleep(LOOK_SECONDS)
        self._screen.say(f"all {runs} runs wait; they are {runs} rows, and no process")

    # -- workers ------------------------------------------------------------------------------------------------------

    async def _replace(self, crew: Crew) -> None:
        while True:
            crew.replace_dead()
            await asyncio.sleep(LOOK_SECONDS)

    async def _strike(self, crew: Crew) -> None:
        for kill in self._plan.kills:
            while self._answered < kill.after_answers or not crew.is_alive(kill.place):  # noqa: ASYNC110 - a dead one
                await asyncio.sleep(LOOK_SECONDS / 4)
            self._kill(crew, kill.place)

    def _kill(self, crew: Crew, place: int) -> None:
        pid = crew.pid(place)
        crew.kill(place)
        self.kills += 1
        self._screen.say(f"SIGKILL to worker {place + 1} (pid {pid}); {self._answered} runs answered so far")


def order(case: Case) -> Order:
    """What is to be paid."""
    return Order(number=case.number, amount=case.amount)


def digest(case: Case, *, amount: int | None = None) -> str:
    """The digest of the payment that the run asks for, or of one of another amount."""
    return pay(Order(number=case.number, amount=case.amount if amount is None else amount)).digest(case.run)


def is_closed(history: History, wait: str) -> bool:
    """Whether the wait of that name has been answered."""
    return any(step.name == wait and step.state is not StepState.OPEN for step in history.steps)


def is_over(history: History) -> bool:
    """Whether nothing more happens by itself."""
    return history.run.state in FINAL_RUN_STATES or history.run.state is RunState.HELD
