"""An encrypted ledger: what goes in comes out equal under its key, and without it is told of but not read."""

import json
from contextlib import suppress

import pytest

from fencepost.core.errors import KeyUnavailable, Misuse, RunInputMismatch, ValueRefused
from fencepost.core.standin import ENCRYPTED, missing, told_by
from fencepost.core.states import RunState
from fencepost.effects.call import Call
from fencepost.effects.declare import compute
from fencepost.runtime.app import App
from fencepost.runtime.checking import check, verify_audit
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from fencepost.store.aes_gcm import AesGcm
from tests.runtime.stage import hold, keyed, played, reaches, target, working
from tests.store.inside import rows_of
from tests.store.tamper import tampering

OLD, NEW = AesGcm({"k1": b"1" * 32}), AesGcm({"k1": b"1" * 32, "k2": b"2" * 32}, seal_with="k2")


@compute(name="breaks")
async def breaks(call: Call, text: str) -> str:
    raise ValueError(text)


@workflow(name="does")
async def does(run: Run, text: str) -> str:
    run.progress({"at": text})
    done = await run.do(keyed(text))
    said = await run.wait("word", str)
    with suppress(Exception):
        await run.do(breaks(text))
    return await run.child(echo, done + said, id=f"{run.id}/child")


@workflow(name="echo")
async def echo(run: Run, text: str) -> str:
    return text


async def lived(db, codec, *, id="r", **options):
    async with working(db, does, echo, codec=codec, **options) as app:
        handle = await app.start(does, "the text", id=id, on_behalf_of="a user")
        await app.signal(id, "word", " and more", sender="ann")
        return await handle.result(within="20s")


@played
async def test_what_goes_in_comes_out_equal_and_nothing_of_it_is_in_the_tables(db):
    result = await lived(db, OLD)
    assert "and more" in result
    assert "the text" not in str(rows_of(db))
    async with App(db, workflows=[does, echo], codec=OLD) as app:
        history = await app.show("r")
        assert json.loads(history.run.input) == {"text": "the text"}
        assert history.run.principal == "a user"
        assert json.loads(history.run.result) == result
        assert json.loads(history.signals[0].payload) == " and more"
        assert history.operations[0].request == '{"name":"the text"}'
        assert check(app.store).found == []
        with pytest.raises(RunInputMismatch):
            await app.start(does, "another text", id="r")
        with pytest.raises(RunInputMismatch):
            await app.start(does, "the text", id="r", on_behalf_of="another user")


@played
async def test_another_worker_with_the_key_goes_on_where_the_first_has_stopped(db):
    async with working(db, does, echo, codec=OLD) as app:
        await app.start(does, "the text", id="r")
        await reaches(app, "r", RunState.WAITING)
    async with working(db, does, echo, codec=NEW) as app:
        handle = await app.handle("r")
        await app.signal("r", "word", " and more")
        assert "and more" in await handle.result(within="20s")
        assert target.objects == ["the text"]


@played
async def test_a_new_key_seals_from_now_on_and_the_old_one_opens(db):
    await lived(db, OLD)
    await lived(db, NEW, id="later")
    keys = {row[1]: told_by(row[2], ENCRYPTED)["key"] for row in inputs(db)}
    assert (keys["r"], keys["later"]) == ("k1", "k2")
    async with App(db, workflows=[], codec=NEW) as app:
        assert json.loads((await app.show("r")).run.input) == {"text": "the text"}
        assert check(app.store).found == []
    async with App(db, workflows=[], codec=AesGcm({"k2": b"2" * 32})) as app:
        assert json.loads((await app.show("later")).run.input) == {"text": "the text"}
        with pytest.raises(
            KeyUnavailable, match=r"encrypted by key 'k1', which is not here.*add it to the codec's keys"
        ):
            await app.show("r")


def inputs(db):
    with tampering(db) as inside:
        return inside.rows("SELECT no, id, input FROM run")


@played
async def test_another_key_under_the_same_id_is_told_when_the_ledger_is_opened(db):
    await lived(db, OLD)
    wrong = App(db, workflows=[does], codec=AesGcm({"k1": b"x" * 32}))
    with pytest.raises(KeyUnavailable, match=r"does not open with key 'k1'.*give the codec the key that sealed it"):
        await wrong.start(does, "the text", id="s")


@played
async def test_without_the_key_runs_are_shown_and_led_and_nobody_works_on_them(db):
    async with working(db, does, echo, codec=OLD) as app:
        await app.start(does, "the text", id="r")
        await reaches(app, "r", RunState.WAITING)
    plain = App(db, workflows=[does, echo])
    with pytest.raises(KeyUnavailable, match=r"encrypted by key 'k1', and the app has no codec"):
        async with plain.worker():
            pass
    with pytest.raises(KeyUnavailable):
        await plain.start(does, "the text", id="s")
    with pytest.raises(KeyUnavailable):
        await plain.signal("r", "word", "x")
    history = await plain.show("r")
    assert missing(history.run.input) == "encrypted by key k1"
    assert check(plain.store).found == []
    assert verify_audit(plain.store).broken is None
    await plain.terminate("r", by="ann", reason="nobody has the key")
    assert (await plain.show("r")).run.state is RunState.TERMINATED
    await plain.close()


@played
async def test_a_hold_says_where_and_why_by_its_code_also_without_the_key(db):
    @workflow(name="holds")
    async def holds(run: Run) -> str:
        return await run.do(keyed("a")) + await run.do(keyed("another"))

    async with working(db, holds, codec=OLD) as app:
        await app.start(holds, id="r")
        await reaches(app, "r", RunState.HELD)
        whole = await hold(app, "r")
    async with App(db, workflows=[]) as app:
        bare = await hold(app, "r")
        assert (bare["reason"], bare["step"]) == (whole["reason"], whole["step"])
        assert "detail" not in bare


MOVED = {
    "run": ("SELECT input FROM run WHERE no = ?", "UPDATE run SET input = ? WHERE no = ?"),
    "signal": ("SELECT payload FROM signal WHERE run = ?", "UPDATE signal SET payload = ? WHERE run = ?"),
    "operation": ("SELECT request FROM operation WHERE run = ?", "UPDATE operation SET request = ? WHERE run = ?"),
}


@pytest.mark.parametrize("table", MOVED)
@played
async def test_a_text_that_was_moved_to_another_run_does_not_open(db, table):
    await lived(db, OLD)
    await lived(db, OLD, id="other")
    with tampering(db) as inside:
        read, write = MOVED[table]
        numbers = dict(inside.rows("SELECT id, no FROM run WHERE parent IS NULL"))
        theirs = inside.rows(read, numbers["other"])[0][0]
        assert inside.do(write, theirs, numbers["r"]) == 1
    async with App(db, workflows=[], codec=OLD) as app:
        with pytest.raises(KeyUnavailable, match="was changed or moved by other hands"):
            await app.show("r")


WITHIN = {
    "a step's result to another step": (
        "SELECT result FROM step WHERE name = 'word' AND kind = 'wait'",
        "UPDATE step SET result = ? WHERE name = 'again' AND kind = 'wait'",
    ),
    "an operation's result to another operation": (
        "SELECT result FROM operation WHERE item = 'first'",
        "UPDATE operation SET result = ? WHERE item = 'second'",
    ),
    "an operation's result to its run": (
        "SELECT result FROM operation WHERE item = 'first'",
        "UPDATE run SET result = ?",
    ),
    "an operation's request to its result": (
        "SELECT request FROM operation WHERE item = 'first'",
        "UPDATE operation SET result = ? WHERE item = 'first'",
    ),
}


@pytest.mark.parametrize("move", WITHIN)
@played
async def test_a_text_that_was_moved_within_its_run_does_not_open(db, move):
    """A run's texts are bound to their column and to their row as well: each of the two is needed here alone."""

    @workflow(name="twice")
    async def twice(run: Run, text: str) -> str:
        said = await run.wait("word", str) + await run.wait("again", str)
        first = await run.do(keyed(text), item="first")
        return said + first + await run.do(keyed(f"{text} again"), item="second")

    async with working(db, twice, codec=OLD) as app:
        handle = await app.start(twice, "the text", id="r")
        for name in ("word", "again"):
            await app.signal("r", name, f"said of {name}")
        await handle.result(within="20s")
    with tampering(db) as inside:
        read, write = WITHIN[move]
        assert inside.do(write, inside.rows(read)[0][0]) == 1
    async with App(db, workflows=[], codec=OLD) as app:
        with pytest.raises(KeyUnavailable, match="was changed or moved by other hands"):
            await app.show("r")


@played
async def test_a_value_whose_key_is_not_here_is_never_taken_for_a_value(db):
    await lived(db, OLD)
    async with App(db, workflows=[does, echo]) as app:
        with pytest.raises(ValueRefused, match=r"cannot be read here: encrypted by key k1 .*codec"):
            await (await app.handle("r")).result(within="1s")


@played
async def test_large_values_are_sealed_before_they_are_kept_apart(db):
    await lived(db, OLD, inline_bytes=100)
    assert rows_of(db)["piece"]
    assert "the text" not in str(rows_of(db))
    async with App(db, workflows=[does, echo], codec=OLD) as app:
        assert json.loads((await app.show("r")).run.input) == {"text": "the text"}
        assert check(app.store).found == []
    async with App(db, workflows=[]) as app:
        assert check(app.store).found == []


def test_a_codec_says_what_is_wrong_with_its_keys():
    for keys, seal_with in (({}, None), ({"a": b"short"}, None), ({"a": b"1" * 32, "b": b"2" * 32}, None)):
        with pytest.raises(Misuse):
            AesGcm(keys, seal_with=seal_with)
    with pytest.raises(Misuse, match="'c', which is to seal, is not among the keys"):
        AesGcm({"a": b"1" * 32}, seal_with="c")
    assert "111" not in repr(OLD)
