"""A word is put into every door of a ledger, and looked for in everything that is left: tables, files, logs, exports.

Each door has a word of its own, so that the control, a ledger without a codec, shows that the search would find it.
"""

import asyncio
import contextlib
import logging
from pathlib import Path
from typing import Any

import pytest

from fencepost.cli.main import main
from fencepost.core.approval import Approval
from fencepost.core.errors import SecondPersonNeeded
from fencepost.core.permissions import RISKY, Permissions
from fencepost.core.queue import Queue
from fencepost.core.states import RunState
from fencepost.effects.call import Call
from fencepost.effects.declare import effect, read
from fencepost.effects.hidden import Hidden, hidden
from fencepost.effects.model import model
from fencepost.effects.outside import Target
from fencepost.effects.promises import Stands
from fencepost.runtime.app import App
from fencepost.runtime.bulk import Selection
from fencepost.runtime.run import Run
from fencepost.runtime.schedule import Schedule
from fencepost.runtime.workflow import workflow
from fencepost.store.aes_gcm import AesGcm
from fencepost.testing import dump_history
from tests.effects.peer import peer, read_request
from tests.runtime.stage import QUICK, keyed, played, reaches, until
from tests.store.inside import rows_of

STORED = (
    "principal", "input", "result", "read", "child", "turn", "error", "progress", "signal", "comment", "reason",
    "cancel", "badoutput", "replybody", "schedule", "statement", "heartbeat", "report", "hook", "contained", "paused",
    "proposed", "bulk",
)  # fmt: skip
"""The doors whose words a ledger without a codec holds."""

NEVER = ("header", "token")
"""Those whose words no ledger holds: what a request's headers say, and a secret that is revealed."""

NOTES = (
    "error", "progress", "reason", "cancel", "badoutput", "replybody", "statement", "heartbeat", "hook",
    "contained", "paused", "proposed", "bulk",
)  # fmt: skip
"""Those whose words an app redacts: what was said of a run. The others are values, which a workflow must get back."""


def word(door: str) -> str:
    return f"canary-{door}-0123456789"


TOKEN = word("token")


@read(name="looks")
async def looks(call: Call) -> str:
    return word("read")


@read(name="breaks", retry=QUICK)
async def breaks(call: Call) -> str:
    raise ValueError(word("error"))


@effect(target="shop", on_unknown="hold", retry=QUICK, compensate=Stands("it is refused"), name="posts")
async def posts(call: Call, text: str) -> None:
    await call.http.post("/things", json={"text": text}, headers={"authorization": f"Bearer {call.secret('token')}"})


@effect(on_unknown="hold", retry=QUICK, compensate=Stands("it never ends well"), name="leaks")
async def leaks(call: Call) -> None:
    raise RuntimeError(f"{call.secret('token')} is not accepted")


@model(output=int, format_attempts=1, name="counts")
async def counts(call: Call, text: str) -> int:
    """How many?"""
    raise NotImplementedError


class Desk:
    """What the jobs of the test have left here."""

    token = ""
    hooked = False


desk = Desk()


async def hook(call: Call, reference: str | None) -> str:
    desk.hooked = True
    return word("hook")


@effect(on_unknown="hold", retry=QUICK, compensate=Stands("it is lost"), cancel=hook, name="hands over")
async def hands_over(call: Call) -> None:
    desk.token = await call.callback("rendered")


@effect(on_unknown="hold", retry=QUICK, compensate=Stands("it is lost"), cancel=hook, name="hangs")
async def hangs(call: Call) -> None:
    desk.token = "hangs"
    while not desk.hooked:  # noqa: ASYNC110 - its target asks it to stop, in the hook
        await asyncio.sleep(0.01)
    raise ConnectionError("lost")


@workflow(name="renders")
async def renders(run: Run) -> str:
    await run.do(hands_over())
    return await run.wait("rendered", str, callback=hands_over, heartbeat="5m", within="1h")


@workflow(name="unsure")
async def unsure(run: Run) -> None:
    await run.do(hangs())


class Babbling:
    provenance = "a test"

    def answer(self, question: Any) -> str:
        return f"{word('badoutput')} {TOKEN}"


@workflow(name="everything")
async def everything(run: Run, text: str) -> str:
    run.progress(word("progress"))
    await run.do(looks())
    for step in (posts(text), breaks()):
        with contextlib.suppress(Exception):
            await run.do(step)
    await run.child(answers, word("child"), id="child")
    await run.wait("word", str)
    approval = await run.wait("ok", Approval, allows=keyed("a"))
    assert not approval.approved
    return word("result")


@workflow(name="answers")
async def answers(run: Run, text: str, turns: int = 1) -> str:
    return run.continue_as(word("turn"), 0) if turns else text


@workflow(name="asks")
async def asks(run: Run) -> int:
    return await run.do(counts("how many"))


@workflow(name="leaking")
async def leaking(run: Run) -> None:
    await run.do(leaks())


@workflow(name="waits")
async def waits(run: Run) -> None:
    await run.wait("never", str)


WORKFLOWS = [everything, answers, asks, leaking, waits, renders, unsure]


NIGHTLY = Schedule("nightly", answers, word("schedule"), cron="0 3 * * *", on_behalf_of=word("principal"))


def refuse(connection: Any) -> None:
    """A server that refuses, and says in its reply what was sent to it."""
    while request := read_request(connection):
        body = word("replybody").encode() + b" " + request
        connection.sendall(b"HTTP/1.1 422 no\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))


async def live(db: str, **options: Any) -> None:
    """Runs that pass through every door; one is held, one cancelled by hand, one failed."""
    with peer(holds=65536) as there:
        there.serve(refuse)
        app = App(
            db, workflows=WORKFLOWS, model=Babbling(), secrets={"token": TOKEN},
            schedules=[NIGHTLY], queues=[Queue("mail")], callback_secret="s" * 32,
            permissions=Permissions({"ann": ["operator", "approver"]}, two_persons=RISKY),
            targets={"shop": Target(there.url.removesuffix("/things"), lambda: {"x-api-key": word("header")})},
            **options,
        )  # fmt: skip
        async with app, app.worker():
            await lived(app)


async def lived(app: App) -> None:
    main_run = await app.start(everything, word("input"), id="r", on_behalf_of=word("principal"))
    for name, workflow_ in (("asks", asks), ("leaking", leaking), ("waits", waits)):
        await app.start(workflow_, id=name)
    await reaches(app, "asks", RunState.HELD)
    await reaches(app, "leaking", RunState.HELD)
    await reaches(app, "waits", RunState.WAITING)
    await app.cancel("waits", by="ann", reason=word("cancel"))
    await reaches(app, "waits", RunState.CANCELLED)
    told = {"by": "ann", "reason": word("statement")}
    await app.settle("leaking", step="leaks", happened=True, result="null", **told)
    await app.terminate("asks", by="ann", reason=f"{word('reason')} {TOKEN}")
    await reaches(app, "r", RunState.WAITING)
    await app.signal("r", "word", word("signal"))

    async def asked() -> bool:
        return any(step.name == "ok" for step in (await app.show("r")).steps)

    await until(asked, "the wait for an approval")
    await app.approve("r", "ok", by="ann", approved=False, comment=word("comment"))
    assert await main_run.result(within="20s") == word("result")
    await contained(app)
    await with_jobs(app)


async def contained(app: App) -> None:
    await app.contain("target", "nobody", by="ann", reason=word("contained"))
    await app.queues.pause("mail", by="ann", reason=word("paused"))


async def with_jobs(app: App) -> None:
    render = await app.start(renders, id="job")
    await reaches(app, "job", RunState.WAITING)
    assert await app.heartbeat(desk.token, progress=word("heartbeat"))
    heard = next(step for step in (await app.show("job")).steps if step.kind == "wait")
    assert word("heartbeat").removeprefix("canary") in (heard.progress or "")
    await app.callback(desk.token, word("report"))
    assert await render.result(within="20s") == word("report")
    await app.start(unsure, id="unsure")
    await until(lambda: desk.token == "hangs", "the effect to hang")
    await app.cancel("unsure", by="ann", reason="stop")
    await reaches(app, "unsure", RunState.HELD)
    with pytest.raises(SecondPersonNeeded):
        await app.terminate("unsure", by="ann", reason=word("proposed"))
    await app.bulk("terminate", Selection(state="held"), by="ann", reason=word("bulk"))


def left(db: str, capsys: pytest.CaptureFixture[str], logs: str) -> str:
    """All that anybody can read of a ledger: its tables, the bytes of its files, logs, dumps, and what the CLI says."""
    found = [str(rows_of(db)), logs]
    if db.startswith("sqlite"):
        folder = Path(db.removeprefix("sqlite:///")).parent
        found += [file.read_bytes().decode("latin-1") for file in folder.iterdir()]
    with App(db, workflows=[]).sync as app:
        found += [dump_history(app.show(run)) for run in RUNS]
    capsys.readouterr()
    for run in RUNS:
        for form in ((), ("--json",)):
            assert main(["show", run, "--db", db, *form]) in (0, 3)
    for verb in VERBS_THAT_READ:
        main([*verb, "--db", db, "--json"])
    said = capsys.readouterr()
    return "".join([*found, said.out, said.err])


def seen_from_outside(db: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What tracers and Prometheus are told."""
    capsys.readouterr()
    for run in RUNS:
        for form in ((), ("--json",)):
            assert main(["trace", run, "--db", db, *form]) == 0
    assert main(["metrics", "--db", db]) == 0
    return capsys.readouterr().out


RUNS = ("r", "child", "asks", "leaking", "waits", "job", "unsure")
VERBS_THAT_READ = (
    ["runs"], ["audit", "list"], ["check"], ["schedule", "list"], ["contained"], ["queue", "list"], ["proposals"],
    ["alerts"],
)  # fmt: skip


def hits(text: str) -> dict[str, int]:
    return {door: text.count(word(door)) for door in (*STORED, *NEVER)}


@pytest.fixture(autouse=True)
def _nothing_known():
    desk.token, desk.hooked = "", False
    before = vars(hidden).copy()
    vars(hidden).update(vars(Hidden()))
    yield
    vars(hidden).clear()
    vars(hidden).update(before)


def test_in_an_encrypted_ledger_none_of_the_words_is_found(db, capsys, caplog):
    caplog.set_level(logging.DEBUG)
    played(live)(db=db, codec=AesGcm({"k1": b"k" * 32}))
    found = hits(left(db, capsys, caplog.text) + seen_from_outside(db, capsys))
    assert found == dict.fromkeys((*STORED, *NEVER), 0)


def test_without_a_codec_the_search_finds_each_of_them_but_no_secret(db, capsys, caplog):
    caplog.set_level(logging.DEBUG)
    played(live)(db=db)
    found = hits(left(db, capsys, caplog.text))
    assert {door for door in STORED if not found[door]} == set()
    assert {door: found[door] for door in NEVER} == dict.fromkeys(NEVER, 0)
    told = seen_from_outside(db, capsys)
    assert told.count("trace") > len(RUNS)
    assert not any(hits(told).values()), "a trace or a metric holds what somebody handed in"


def test_a_secret_that_nobody_hides_is_found_by_the_same_search(db, capsys, caplog, monkeypatch):
    monkeypatch.setattr(Hidden, "know", lambda *_: None)
    caplog.set_level(logging.DEBUG)
    played(live)(db=db)
    assert all(hits(left(db, capsys, caplog.text))[door] for door in NEVER)


def test_what_an_app_redacts_is_in_no_note_that_is_written(db, capsys, caplog):
    caplog.set_level(logging.DEBUG)
    played(live)(db=db, redact=lambda text: text.replace("canary", "****"))
    found = hits(left(db, capsys, caplog.text))
    assert {door: found[door] for door in NOTES} == dict.fromkeys(NOTES, 0)
    assert {door for door in STORED if door not in NOTES and not found[door]} == set()
