"""The workflows by which a ledger passes every transition row that a commit makes.

Each is as small as the rows that it is for allow. How they are played, and killed at each row, is in `plots` and
`test_fault_points`; the effects are built as those of `workflows`.
"""

import os
from pathlib import Path

from fencepost.core.contract import Retry
from fencepost.core.duration import MINUTE, SECOND
from fencepost.core.errors import Cancelled, StepFailed, WaitExpired
from fencepost.effects.call import Call, SyncCall
from fencepost.effects.declare import compute, effect
from fencepost.effects.model import model
from fencepost.effects.policy import Refused
from fencepost.effects.values import VALUE_MAX
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.processes.workflows import PLACES, QUICK, SETTLE, TIMEOUT, Made, Order, made, promises, undoing

KEYED, ASKED, BLIND = (PLACES[rung].target for rung in ("key", "look-up", "nothing"))
"""Where the effects of each rung go."""

KILL_AT = "FENCEPOST_TEST_KILL_AT"
"""The environment variable that names the fault point at which a process kills itself."""

MEMORY = "FENCEPOST_TEST_MEMORY"
"""The environment variable that names a folder which outlives a killed worker."""

LONG = "10s"
"""For what is in flight while a person acts, however busy the machine."""

alpha = made("key", "async", "alpha", undoing("key", "async", "alpha"))
beta = made("key", "async", "beta", undoing("key", "async", "beta"))
gamma = made("key", "async", "gamma", undoing("key", "async", "gamma"))
asked_for = made("look-up", "async", "asked", undoing("look-up", "async", "asked"))
unasked = made("nothing", "async", "unasked", undoing("nothing", "async", "unasked"))
steady = made("key", "async", "steady", undoing("key", "async", "steady"), timeout=LONG)
answered = made("look-up", "async", "answered", undoing("look-up", "async", "answered"), timeout=LONG)
patient = made("nothing", "async", "patient", undoing("nothing", "async", "patient"), timeout=LONG)
tried_once = made(
    "nothing", "async", "once", undoing("nothing", "async", "once"), retry=Retry(attempts=1, within=5 * MINUTE)
)
tried_twice = made(
    "key", "async", "twice", undoing("key", "async", "twice"),
    retry=Retry(attempts=2, within=5 * MINUTE, first_delay=20_000),
)  # fmt: skip
forbidden = made("key", "async", "forbidden", None, policy=lambda principal, order: Refused("not on this machine"))

slowly = made(
    "look-up", "async", "slowly", undoing("look-up", "async", "slowly"),
    retry=Retry(attempts=3, within=5 * MINUTE, first_delay=25 * SECOND, longest_delay=25 * SECOND),
)  # fmt: skip

TOO_BIG = VALUE_MAX + 1


@effect(
    name="huge", target=KEYED, reference="id", attempt_timeout=TIMEOUT, settle=SETTLE, retry=QUICK,
    **promises("key", None),
)  # fmt: skip
async def huge(call: Call, order: Order) -> Made:
    """It happens, and its result cannot be kept."""
    await call.http.post("/entries", json={"name": order.name})
    return Made(id="x" * TOO_BIG)


@compute(name="look once", retry=QUICK)
def look_once(call: SyncCall, name: str) -> str:
    """Fails the first time; a file says that there was one."""
    file = Path(os.environ[MEMORY]) / name
    if not file.exists():
        file.touch()
        raise ValueError("the first time it fails")
    return "found"


def order(name: str, step: str) -> Order:
    return Order(name=f"{name}/{step}")


@workflow()
async def plain(run: Run, name: str) -> str:
    return (await run.do(alpha(order(name, "alpha")))).id


@workflow()
async def two(run: Run, name: str) -> str:
    await run.do(alpha(order(name, "alpha")))
    return (await run.do(beta(order(name, "beta")))).id


@workflow()
async def asked(run: Run, name: str) -> str:
    return (await run.do(asked_for(order(name, "asked")))).id


@workflow()
async def asked_slowly(run: Run, name: str) -> str:
    return (await run.do(slowly(order(name, "slowly")))).id


@workflow()
async def blind(run: Run, name: str) -> str:
    return (await run.do(unasked(order(name, "unasked")))).id


@workflow()
async def once(run: Run, name: str) -> str:
    return (await run.do(tried_once(order(name, "once")))).id


@workflow()
async def twice(run: Run, name: str) -> str:
    return (await run.do(tried_twice(order(name, "twice")))).id


@workflow()
async def big(run: Run, name: str) -> str:
    return (await run.do(huge(order(name, "huge")))).id


@workflow()
async def policed(run: Run, name: str) -> str:
    try:
        await run.do(forbidden(order(name, "forbidden")))
    except StepFailed:
        return (await run.do(alpha(order(name, "alpha")))).id
    return "allowed"


@workflow()
async def missing(run: Run, name: str) -> str:
    await run.do(look_once(name))
    return (await run.do(alpha(order(name, "alpha")))).id


@workflow()
async def mixed(run: Run, name: str) -> str:
    """Leaves one operation in each final state behind, and then does one more."""
    await run.do(alpha(order(name, "alpha")))
    try:
        await run.do(beta(order(name, "beta")))
    except StepFailed:
        await run.race(run.do(gamma(order(name, "gamma"))), run.sleep("400ms"))
    return (await run.do(patient(order(name, "patient")))).id


@workflow()
async def abreast(run: Run, name: str) -> str:
    """One waits to be tried again while the other is in flight."""
    await run.gather(run.do(alpha(order(name, "alpha"))), run.do(patient(order(name, "patient"))))
    return "both"


@workflow()
async def waits(run: Run, name: str) -> str:
    said = await run.wait("go", str, within="1h")
    await run.do(alpha(order(name, "alpha")))
    return said


@workflow()
async def expires(run: Run, name: str) -> str:
    try:
        await run.wait("go", str, within="100ms")
    except WaitExpired:
        await run.do(alpha(order(name, "alpha")))
    return "expired"


@workflow()
async def races(run: Run, name: str) -> str:
    await run.race(run.wait("go", str), run.sleep("100ms"))
    return (await run.do(alpha(order(name, "alpha")))).id


@workflow()
async def either(run: Run, name: str) -> str:
    """Waits for word while an effect is under way."""
    await run.race(run.do(alpha(order(name, "alpha"))), run.wait("go", str))
    return "either"


@workflow()
async def reconsiders(run: Run, name: str) -> str:
    """Asks after all for what its race took back, when the reply to the first request is certain to be there."""
    await run.race(run.do(gamma(order(name, "gamma")), item="it"), run.sleep("1200ms"))
    await run.sleep("10ms")
    return (await run.do(gamma(order(name, "gamma")), item="it")).id


@workflow()
async def undone(run: Run, name: str) -> str:
    await run.do(alpha(order(name, "alpha")))
    await run.do(beta(order(name, "beta")))
    try:
        await run.do(gamma(order(name, "gamma")))
    except StepFailed:
        await run.compensate(reason="gamma is refused")
    return "compensated"


@workflow()
async def undone_blindly(run: Run, name: str) -> str:
    await run.do(unasked(order(name, "unasked")))
    await run.compensate(reason="as planned")
    return "compensated"


@workflow()
async def undone_on_cancel(run: Run, name: str) -> str:
    await run.do(alpha(order(name, "alpha")))
    try:
        await run.wait("go", str, within="1h")
    except Cancelled:
        await run.compensate(reason="cancelled")
        raise
    return "went"


@workflow()
async def slow(run: Run, name: str) -> str:
    return (await run.do(patient(order(name, "patient")))).id


@workflow()
async def steadily(run: Run, name: str) -> str:
    await run.do(steady(order(name, "steady")))
    return (await run.do(alpha(order(name, "alpha")))).id


@workflow()
async def answers(run: Run, name: str) -> str:
    return (await run.do(answered(order(name, "answered")))).id


@workflow()
async def begotten(run: Run, name: str) -> str:
    """The child of `begets`, whose effects the world holds under the parent's name."""
    return (await run.do(beta(order(name, "beta")))).id


@workflow()
async def begets(run: Run, name: str) -> str:
    await run.do(alpha(order(name, "alpha")))
    await run.child(begotten, name, id=f"{name} child")
    return (await run.do(gamma(order(name, "gamma")))).id


@workflow()
async def begets_and_undoes(run: Run, name: str) -> str:
    await run.do(alpha(order(name, "alpha")))
    await run.child(begotten, name, id=f"{name} child")
    await run.compensate(reason="as planned")
    return "compensated"


@workflow()
async def begets_and_waits(run: Run, name: str) -> str:
    await run.gather(run.child(slow, name, id=f"{name} child"), run.wait("go", str))
    return "went"


@workflow()
async def turns(run: Run, name: str, number: int = 0) -> str:
    """Three turns, each with the same effect for another order."""
    await run.do(alpha(order(name, f"alpha {number}")))
    return run.continue_as(name, number + 1) if number < 2 else "turned"


@model(output=str)
def judge(call: SyncCall, name: str) -> str:
    """Says alpha; a file says that somebody has mended the prompt since."""
    return "beta" if (Path(os.environ[MEMORY]) / "mended").exists() else "alpha"


@workflow()
async def judged(run: Run, name: str) -> str:
    effects = {"alpha": alpha, "beta": beta}
    which = await run.do(judge(name))
    return (await run.do(effects[which](order(name, which)))).id


WORKFLOWS = [
    plain, two, asked, asked_slowly, blind, once, twice, big, policed, missing, mixed, abreast, waits, expires, races,
    either, reconsiders, undone, undone_blindly, undone_on_cancel, slow, steadily, answers,
    begotten, begets, begets_and_undoes, begets_and_waits, turns, judged,
]  # fmt: skip

SECOND_VERSIONS = [
    workflow(version=2, name=first.name)(first.function) for first in (plain, waits, steadily, blind, slow, undone)
]
"""The same code once more, for runs to be migrated to; nothing starts with it."""
