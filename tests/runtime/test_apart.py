"""Values too large for their rows: kept in pieces, whole to whoever reads them, refused above 16 MiB."""

import pytest

from fencepost.core.errors import StoreUnavailable, ValueRefused
from fencepost.core.records import Run as RunRow
from fencepost.core.standin import APART, told_by
from fencepost.effects.call import Call
from fencepost.effects.declare import compute
from fencepost.effects.values import MIB, VALUE_MAX
from fencepost.runtime.app import App
from fencepost.runtime.checking import check
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from fencepost.store.api import RunFilter
from tests.runtime.stage import keyed, played, target, working
from tests.store.inside import rows_of
from tests.store.tamper import tampering

LARGE = "ä" * (2 * MIB)


@compute(name="doubled")
async def doubled(call: Call, text: str) -> str:
    return text + text


@workflow(name="carries")
async def carries(run: Run, text: str) -> str:
    twice = await run.do(doubled(text))
    await run.do(keyed(twice[:3]))
    return await run.wait("word", str) + twice


@workflow(name="parent")
async def parent(run: Run, text: str) -> int:
    return len(await run.child(mirror, text, id=f"{run.id}/child"))


@workflow(name="mirror")
async def mirror(run: Run, text: str) -> str:
    return text


@workflow(name="goes on")
async def goes_on(run: Run, text: str, turns: int) -> str:
    return text if turns == 0 else run.continue_as(text, turns - 1)


@workflow(name="sends")
async def sends(run: Run, text: str) -> str:
    return await run.do(keyed(text))


def in_row(row: RunRow) -> dict[str, object]:
    return told_by(row.input, APART)


@played
async def test_a_large_value_comes_back_whole_after_a_restart_and_its_row_stays_small(db):
    async with working(db, carries) as app:
        await app.start(carries, LARGE, id="r")
        await app.show("r")
    rows = rows_of(db)
    assert max(len(str(value)) for table in ("run", "step", "operation") for row in rows[table] for value in row) < MIB
    assert sum(len(row[-1]) for row in rows["piece"]) >= len(LARGE)
    async with working(db, carries) as app:
        handle = await app.start(carries, LARGE, id="r")
        await app.signal("r", "word", "and ")
        assert await handle.result(within="20s") == "and " + LARGE + LARGE
        history = await app.show("r")
        assert len(history.run.input) > len(LARGE)
        assert check(app.store).found == []
        assert target.objects == ["äää"]


@played
async def test_lists_of_runs_do_not_read_what_is_kept_apart(db):
    async with App(db, workflows=[carries]) as app:
        await app.start(carries, LARGE, id="r")
        (listed,) = app.store.runs(RunFilter("default"))
        assert told_by(listed.input, APART)["size"] == len(f'"{LARGE}"'.encode()) + len('{"text":}')


@played
async def test_the_same_start_again_is_the_same_run_and_keeps_nothing_twice(db):
    async with App(db, workflows=[carries]) as app:
        await app.start(carries, LARGE, id="r")
        kept = rows_of(db)["piece"]
        await app.start(carries, LARGE, id="r")
        assert rows_of(db)["piece"] == kept


@played
async def test_children_and_next_turns_carry_large_inputs_and_results(db):
    async with working(db, parent, mirror, goes_on) as app:
        assert await (await app.start(parent, LARGE, id="p")).result(within="20s") == len(LARGE)
        assert await (await app.start(goes_on, LARGE, 2, id="g")).result(within="20s") == LARGE
        assert check(app.store).found == []


@played
async def test_a_large_request_is_sent_as_it_was_stored(db):
    text = "x" * (MIB + 1)
    async with working(db, sends) as app:
        await (await app.start(sends, text, id="r")).result(within="20s")
        assert target.requests == [text]


@played
async def test_a_value_above_the_hard_limit_is_refused_with_its_path_and_size(db):
    async with App(db, workflows=[carries]) as app:
        with pytest.raises(ValueRefused) as refused:
            await app.start(carries, "x" * VALUE_MAX, id="r")
        assert refused.value.ids == {
            "path": "text", "size": str(VALUE_MAX + 11), "limit": str(VALUE_MAX), "step": "carries",
        }  # fmt: skip


@played
async def test_what_may_stand_in_a_row_is_the_apps_to_say(db):
    async with working(db, mirror, inline_bytes=10) as app:
        assert await (await app.start(mirror, "a text", id="r")).result(within="20s") == "a text"
        history = await app.show("r")
        assert history.run.input == '{"text":"a text"}'
    assert [row[-1] for row in rows_of(db)["piece"]] == ['{"text":"a text"}']


@played
async def test_a_missing_piece_is_named_and_found_by_check(db):
    async with App(db, workflows=[mirror], inline_bytes=10) as app:
        await app.start(mirror, "a text", id="r")
        with tampering(db) as inside:
            assert inside.do("DELETE FROM piece") == 1
        with pytest.raises(StoreUnavailable, match="kept apart is not there"):
            await app.show("r")
        assert [one.rule for one in check(app.store).found] == ["row_of_nothing"]
