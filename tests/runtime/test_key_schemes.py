"""Keys of an earlier scheme: what is stored is sent, whatever this release would make of the same place.

No release has had another scheme yet, so that one is put in here, as the next release will have this one's.
"""

from typing import Any

from fencepost.core.contract import Retry
from fencepost.core.duration import MINUTE
from fencepost.core.identity import KEY_SCHEME, KEY_SCHEMES, operation_key
from fencepost.core.states import OperationState, RunState
from fencepost.effects.call import Call
from fencepost.effects.declare import KeyHeader, effect
from fencepost.effects.promises import Stands
from fencepost.runtime.checking import check
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import Clock, operation, played, reaches, target, working
from tests.store.tamper import tampering

EARLIER = 0
SLOW = Retry(attempts=3, within="1h", first_delay="10m", longest_delay="10m")


def earlier_key(*place: Any, turn: int = 0) -> str:
    return f"earlier {place} {turn}"


@effect(
    send_key=KeyHeader("Idempotency-Key", window="24h"), retry=SLOW, compensate=Stands("it is paid"), name="patient"
)
async def patient(call: Call, name: str) -> str:
    return await target.take(call, name, honours_keys=True)


@workflow(name="pays")
async def pays(run: Run) -> str:
    await run.do(patient("first"), item="first")
    return await run.do(patient("second"), item="second")


@played
async def test_an_unknown_operation_is_sent_again_under_the_key_that_is_stored(db, monkeypatch):
    target.plan("first", "drop")
    clock = Clock()
    async with working(db, pays, clock=clock) as app:
        await app.start(pays, id="r")
        await reaches(app, "r", RunState.WAITING)
        assert (await operation(app, "r", "patient", "first")).state is OperationState.UNKNOWN
    earlier = earlier_key("default", "r", "patient", "first", 1)
    with tampering(db) as inside:
        assert inside.do("UPDATE operation SET key = ?, key_scheme = ?", earlier, EARLIER) == 1
    clock.offset = 11 * MINUTE
    async with working(db, pays, clock=clock) as app:
        assert await (await app.handle("r")).result(within="20s") == "made second"
        assert target.keys == {
            "first": earlier,
            "second": operation_key("default", "r", "patient", "second", 1),
        }
        (unknown,) = check(app.store).found
        assert f"scheme {EARLIER}, which nobody knows" in str(unknown)
        monkeypatch.setitem(KEY_SCHEMES, EARLIER, earlier_key)
        assert check(app.store).found == []
        with tampering(db) as inside:
            assert inside.do("UPDATE operation SET key_scheme = ?", KEY_SCHEME) == 2
        assert "its key is not that of its place" in str(check(app.store).found)
    assert target.objects == ["first", "second"]


def test_new_keys_are_made_by_a_scheme_that_is_known():
    assert KEY_SCHEMES[KEY_SCHEME] is operation_key
