"""At a target that compares tokens, the token is raised first, then it is asked, then it is written to."""

import asyncio
from dataclasses import dataclass, field

import pytest

from fencepost import (
    Absent,
    App,
    Call,
    Fenced,
    FenceRefused,
    Found,
    Retry,
    Run,
    RunHeld,
    SyncCall,
    Unresolved,
    effect,
    workflow,
)
from fencepost.effects.declare import Effect
from fencepost.runtime.workflow import Workflow

ONE = "account:7"


@dataclass
class Accounts:
    """A target that holds one balance per account, and the highest token that it was told."""

    name: str = "accounts"
    weakness: str | None = None
    highest: dict[str, int] = field(default_factory=dict)
    booked: list[tuple[str, int]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    raises: bool = True
    asked: asyncio.Event = field(default_factory=asyncio.Event)

    async def raise_to(self, resource: str, token: int) -> None:
        self.said.append(f"raise {token}")
        if not self.raises:
            raise ConnectionError("the target is out of reach")
        self._compare(resource, token)

    def book(self, resource: str, token: int) -> str:
        self.said.append(f"book {token}")
        self._compare(resource, token)
        self.booked.append((resource, token))
        return f"booking-{len(self.booked)}"

    def _compare(self, resource: str, token: int) -> None:
        if token < self.highest.get(resource, 0):
            self.said.append(f"refuse {token}")
            raise FenceRefused("a higher token is known", ids={"resource": resource})
        self.highest[resource] = token


@dataclass
class Story:
    """What the bodies of one test do in turn; the last one for ever."""

    accounts: Accounts
    bodies: list[str]
    sent: list[int] = field(default_factory=list)

    def act(self, call: Call | SyncCall, account: str) -> str:
        token = call.token(account)
        self.sent.append(token)
        match self.bodies.pop(0) if len(self.bodies) > 1 else self.bodies[0]:
            case "books":
                return self.accounts.book(account, token)
            case "books, and the reply is lost":
                self.accounts.book(account, token)
                raise Unresolved("no reply")
            case "is delayed":
                raise Unresolved("no reply")
            case other:
                raise AssertionError(other)


def declared(story: Story, *, consistent: bool = True, blocking: bool = False) -> tuple[Effect, Workflow]:
    async def find(call: Call, account: str) -> Found[str] | Absent:
        story.accounts.said.append("look up")
        story.accounts.asked.set()
        mine = [number for number, (resource, _) in enumerate(story.accounts.booked, 1) if resource == account]
        return Found(f"booking-{mine[0]}") if mine else Absent()

    declare = effect(
        reconcile=find, consistent=consistent, settle="1h", attempt_timeout="20s", name="book",
        fence=Fenced(story.accounts, resource=lambda account: account),
        retry=Retry(attempts=5, within="15m", first_delay="1ms", longest_delay="2ms"),
    )  # fmt: skip
    if blocking:

        def book(call: SyncCall, account: str) -> str:
            return story.act(call, account)

        step = declare(book)
    else:

        async def book(call: Call, account: str) -> str:
            return story.act(call, account)

        step = declare(book)

    @workflow()
    async def pay(run: Run, account: str) -> str:
        return await run.do(step(account), item="1")

    return step, pay


async def play(db: str, story: Story, **options: bool) -> str:
    _, pay = declared(story, **options)
    async with App(db, workflows=[pay]) as app, app.worker():
        return await (await app.start(pay, ONE, id="run-1")).result(within="20s")


@pytest.mark.parametrize("blocking", [False, True])
def test_each_attempt_carries_a_token_of_its_resource(db: str, blocking: bool) -> None:
    story = Story(Accounts(), ["books"])

    assert asyncio.run(play(db, story, blocking=blocking)) == "booking-1"
    assert story.accounts.said == ["book 1"]


def test_the_token_is_raised_then_the_target_is_asked_then_it_is_written_to(db: str) -> None:
    story = Story(Accounts(), ["is delayed", "books"])

    asyncio.run(play(db, story))

    # Without waiting out the span of an hour: the late first request would be refused.
    assert story.accounts.said == ["raise 2", "look up", "book 3"]
    with pytest.raises(FenceRefused):
        story.accounts.book(ONE, story.sent[0])
    assert story.accounts.booked == [(ONE, 3)]


def test_what_the_look_up_finds_is_not_sent_again(db: str) -> None:
    story = Story(Accounts(), ["books, and the reply is lost", "books"])

    assert asyncio.run(play(db, story)) == "booking-1"
    assert story.accounts.said == ["book 1", "raise 2", "look up"]
    assert len(story.accounts.booked) == 1


def test_a_token_that_could_not_be_raised_leaves_absence_unproved(db: str) -> None:
    story = Story(Accounts(raises=False), ["is delayed", "books"])
    _, pay = declared(story)

    async def until_held() -> None:
        async with App(db, workflows=[pay]) as app, app.worker():
            handle = await app.start(pay, ONE, id="run-1")
            with pytest.raises(RunHeld, match="cannot tell"):
                await handle.result(within="20s")

    asyncio.run(until_held())
    assert "look up" not in story.accounts.said
    assert story.sent == [1]


def test_a_refusal_by_the_fence_is_proof_and_goes_again_under_a_newer_token(db: str) -> None:
    accounts = Accounts(highest={ONE: 2})  # another run that shares the account was there meanwhile
    story = Story(accounts, ["books"])

    asyncio.run(play(db, story))

    assert accounts.said == ["book 1", "refuse 1", "book 2"]
    assert "look up" not in accounts.said


@pytest.mark.parametrize("reason", ["a lagging look-up", "a weak fence"])
def test_without_a_fence_that_holds_the_span_is_waited_out(db: str, reason: str) -> None:
    weak = "writers that come first are let in"
    story = Story(Accounts(weakness=weak if reason == "a weak fence" else None), ["is delayed", "books"])
    _, pay = declared(story, consistent=reason != "a lagging look-up")

    async def a_moment() -> None:
        async with App(db, workflows=[pay]) as app, app.worker():
            await app.start(pay, ONE, id="run-1")
            await asyncio.wait_for(story.accounts.asked.wait(), 20)
            # An hour is left of the span; whatever would be sent at once has its chance.
            for _ in range(100):
                await asyncio.sleep(0)

    asyncio.run(a_moment())
    assert story.sent == [1]


def test_a_body_gets_no_token_for_what_it_did_not_declare(db: str) -> None:
    @effect(on_unknown="hold")
    async def plain(call: Call, account: str) -> int:
        return call.token(account)

    story = Story(Accounts(), ["books"])
    step, _ = declared(story)

    @workflow()
    async def pay(run: Run, account: str) -> int:
        return await run.do(plain(account))

    async def refused() -> None:
        async with App(db, workflows=[pay]) as app, app.worker():
            with pytest.raises(Exception, match=r"no token for 'account:7'"):
                await (await app.start(pay, ONE, id="run-1")).result(within="20s")

    asyncio.run(refused())
    assert step.contract.fence == "accounts"
