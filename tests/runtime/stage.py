"""What the tests of the runtime share: a target in this process that counts, effects on each rung, and waiting.

The target counts the requests that reach it and the objects that it commits apart from each other; a script says what
goes wrong with which request. Nothing here knows what is right: the tests say that.
"""

import asyncio
import functools
import json
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

from fencepost.core.contract import Retry
from fencepost.core.errors import LeaseLost, NotSent
from fencepost.core.records import Operation
from fencepost.core.states import RunState
from fencepost.effects.answers import Absent, Conflicting, Found, Inconclusive
from fencepost.effects.call import Call
from fencepost.effects.declare import effect
from fencepost.effects.promises import KeyHeader, Stands
from fencepost.runtime.app import App
from fencepost.store.open import wall_clock

QUICK = Retry(attempts=3, within="1m", first_delay="2ms", longest_delay="10ms")
SECONDS_MAX = 20.0


def played(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test written as a coroutine, run to its end on a loop of its own."""

    @functools.wraps(test)
    def play(**fixtures: Any) -> None:
        asyncio.run(test(**fixtures))

    return play


async def until(condition: Callable[[], Any], what: str) -> Any:
    """Look again until the condition holds; raise TimeoutError naming it after a bound."""
    give_up_at = asyncio.get_running_loop().time() + SECONDS_MAX
    while not (seen := await _asked(condition)):
        if asyncio.get_running_loop().time() > give_up_at:
            raise TimeoutError(f"waited {SECONDS_MAX} s for {what}; last seen: {seen!r}")
        await asyncio.sleep(0.005)
    return seen


async def _asked(condition: Callable[[], Any]) -> Any:
    seen = condition()
    return await seen if isinstance(seen, Awaitable) else seen


class Gate:
    """Something that a request waits at until the test lets it through."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()
        self.error: Exception | None = None
        """What happens to whoever is let through, in place of going on."""

    async def wait(self) -> None:
        self.reached.set()
        await self.opened.wait()
        if self.error is not None:
            raise self.error


class Clock:
    """The store's clock, settable: real time plus an offset in microseconds."""

    def __init__(self) -> None:
        self.offset = 0

    def __call__(self) -> int:
        return wall_clock() + self.offset


class Target:
    """An outside system in this process.

    `script[name]` holds what happens to the next requests of that name, in order: "commit" (as when nothing is left),
    "lose" (committed, the reply is lost), "drop" (lost on its way), "busy" (proved not sent, worth another attempt),
    "refuse" (proved not sent, for good), a `Gate` to wait at before committing, or an exception to raise at once.
    """

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.objects: list[str] = []
        self.keys: dict[str, str] = {}
        self.looked = 0
        self.script: defaultdict[str, deque[Any]] = defaultdict(deque)
        self.answers: deque[Any] = deque()

    def reset(self) -> None:
        """Forget everything."""
        self.__init__()

    def plan(self, name: str, *doings: Any) -> None:
        """Append to the script of a name."""
        self.script[name].extend(doings)

    def commit(self, name: str, key: str, *, honours_keys: bool) -> None:
        """Make the object, unless its key has made one."""
        if not (honours_keys and key in self.keys.values()):
            self.objects.append(name)
            self.keys[name] = key

    async def take(self, call: Call, name: str, *, honours_keys: bool = False) -> str:
        """One request."""
        doing = self.script[name].popleft() if self.script[name] else "commit"
        if doing == "busy":
            with call.sending():
                raise ConnectionRefusedError("nobody listens")
        if doing == "refuse":
            raise NotSent("not this one")
        self.requests.append(name)
        if isinstance(doing, BaseException):
            raise doing
        if doing == "drop":
            raise OSError("lost on its way")
        if isinstance(doing, Gate):
            await doing.wait()
        self.commit(name, call.key, honours_keys=honours_keys)
        if doing == "lose":
            raise OSError("the reply is lost")
        return f"made {name}"

    def look(self, name: str) -> Any:
        """One question."""
        self.looked += 1
        if self.answers:
            answer = self.answers.popleft()
            if isinstance(answer, Exception):
                raise answer
            return answer
        return Found.only(f"made {one}" for one in self.objects if one == name)


target = Target()


@effect(on_unknown="hold", retry=QUICK)
async def undo(call: Call, name: str, result: str | None, reference: str | None) -> str:
    """What compensates the effects here."""
    return await target.take(call, f"undo {name}")


@effect(send_key=KeyHeader("Idempotency-Key", window="15m"), retry=QUICK, compensate=undo)
async def keyed(call: Call, name: str) -> str:
    """An effect on the keyed rung."""
    return await target.take(call, name, honours_keys=True)


async def find(call: Call, name: str) -> Found[str] | Absent | Inconclusive | Conflicting:
    """The look-up of `asked`."""
    return target.look(name)


@effect(reconcile=find, attempt_timeout="40ms", settle="10ms", retry=QUICK, compensate=undo)
async def asked(call: Call, name: str) -> str:
    """An effect on the looked-up rung."""
    return await target.take(call, name)


@effect(on_unknown="hold", retry=QUICK, compensate=undo)
async def once(call: Call, name: str) -> str:
    """An effect on the held rung."""
    return await target.take(call, name)


@effect(on_unknown="hold", retry=QUICK, compensate=Stands("it is meant to stay"))
async def staying(call: Call, name: str) -> str:
    """An effect that is meant to stand."""
    return await target.take(call, name)


# -- playing ----------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def working(db: str, *workflows: Any, clock: Clock | None = None, **options: Any) -> AsyncIterator[App]:
    """An app with a worker."""
    app = App(db, workflows=workflows, **options)
    if clock is not None:
        app.clock = clock
    async with app, app.worker():
        yield app


async def reaches(app: App, run_id: str, *states: RunState) -> None:
    """Wait until the run is in one of these states."""

    async def there() -> bool:
        return (await app.show(run_id)).run.state in states

    await until(there, f"{run_id} to be {' or '.join(states)}")


async def operation(app: App, run_id: str, step: str, item: str | None = None) -> Operation:
    """The operation of a step."""
    found = (await app.show(run_id)).operations
    return next(one for one in found if (one.step, one.item) == (step, item))


async def hold(app: App, run_id: str) -> dict[str, Any]:
    """What the run is held for."""
    return json.loads((await app.show(run_id)).run.hold or "{}")


async def verb(app: App, done: Callable[..., Any], run_id: str, **arguments: Any) -> Any:
    """A person's verb."""
    return await app._verb(done, run_id, **({"by": "ann", "reason": "she says so"} | arguments))


def expire(app: App) -> None:
    """Let this app's lease run out in the eyes of everybody; its own renewing thread hears of it later."""
    now = app.store.now()
    assert app.store.renew_lease(app.host.lease.id, now=now, expires_at=now - 3_600_000_000)


def lose(app: App) -> None:
    """Let this app's lease, if it has one just now, be expired by somebody else, who claims nothing."""
    now = app.store.now()
    app.store.renew_lease(app.host.lease.id, now=now, expires_at=now - 3_600_000_000)
    with suppress(LeaseLost):
        app.store.claim("nobody", list(app.workflows), namespace=app.namespace, now=now, margin=0, limit=1)
