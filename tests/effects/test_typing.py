"""The public types hold under mypy --strict: what is right passes, what is wrong is an error at its own line."""

import re
from pathlib import Path

import pytest
from mypy import api

ROOT = Path(__file__).parents[2]

PROGRAM = '''
from collections.abc import Awaitable
from typing import assert_type

from fencepost import Absent, Approval, Bound, Call, Found, KeyHeader, Right, Run, SyncCall
from fencepost import compute, effect, model, read, workflow


async def find(call: Call, name: str, count: int = 1) -> Found[str] | Absent:
    return Absent()


@effect(send_key=KeyHeader("Idempotency-Key", window="24h"), reconcile=find, settle="5s")
async def make(call: Call, name: str, count: int = 1) -> str:
    return (await call.http.post("/things", json={"name": name})).text


@effect(on_unknown="hold")
def mail(call: SyncCall, to: str) -> int:
    with call.sending():
        return call.http.get("/x").status


@read(attempt_timeout="5s")
async def look(call: Call) -> list[str]:
    return []


@read()
async def allowed(call: Call, right: Right) -> bool:
    return right.who != "nobody"


@compute()
def add(call: SyncCall, one: int, two: int) -> int:
    return one + two


@model(output=bool)
async def spam(call: Call, text: str) -> bool:
    """Is this spam?"""
    raise NotImplementedError


@workflow()
async def packing(run: Run, boxes: int) -> bool:
    run.progress({"boxes": boxes})
    if run.patched("one box at a time") and boxes:
        return run.continue_as(boxes - 1)
    return True


@workflow()
async def ordering(run: Run, name: str) -> str:
    _made: Bound[str] = assert_type(make(name), Bound[str])
    _mailed: Bound[int] = assert_type(mail(to=name), Bound[int])
    _looked: Awaitable[list[str]] = assert_type(run.do(look()), Awaitable[list[str]])
    assert_type(await run.do(make(name, count=2)), str)
    assert_type(await run.do(add(1, 2)), int)
    assert_type(await run.do(spam("free")), bool)
    assert_type(await run.gather(run.do(make("a")), run.do(mail("b"))), tuple[str, int])
    assert_type(await run.race(run.do(add(1, 2)), run.wait("go", int)), tuple[int, int])
    assert_type(await run.wait("go", bool), bool)
    approval = assert_type(await run.wait("ok", Approval, allows=make(name), authorise=allowed), Approval)
    assert_type(await run.do(make(name), approval=approval), str)
    await run.wait("ok", Approval, allows=make(name), authorise=look)  # wrong: arg-type
    await run.do(make(name), approval=True)  # wrong: arg-type
    assert_type(await run.child(packing, 2, id="packing"), bool)
    assert_type(await run.child(packing, 2, id="packing", detached=True), str)
    make(1)  # wrong: arg-type
    wrong_child: int = await run.child(packing, 2)  # wrong: call-overload
    make(name, weight=2)  # wrong: call-arg
    make()  # wrong: call-arg
    wrong: int = await run.do(make(name))  # wrong: arg-type
    await run.do(name)  # wrong: arg-type
    await run.gather(run.do(make("a")), mail("b"))  # wrong: call-overload
    await run.race(look(), run.sleep("1s"))  # wrong: arg-type
    return name


@effect  # wrong
async def bare(call: Call) -> None: ...


@read()  # wrong
async def without_call(x: int) -> int:
    return x


@workflow()  # wrong
async def without_run(x: int) -> int:
    return x


async def blocking(call: Call) -> None:
    wrong: int = call.http.get("/x")  # wrong: assignment


async def awaits(name: str) -> None:
    await make(name)  # wrong: misc
'''


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What mypy says of the program, by line number and code. The repository's own cache spares reading the package."""
    program = tmp_path_factory.mktemp("typing") / "program.py"
    program.write_text(PROGRAM)
    options = ["--strict", "--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache")]
    said, trouble, _ = api.run([*options, "--no-error-summary", "--hide-error-context", str(program)])
    assert not trouble, trouble
    errors = re.findall(r"^.*program\.py:(\d+): error: (.*?)(?:  \[([\w-]+)\])?$", said, re.MULTILINE)
    assert errors or not said, said
    by_line: dict[int, dict[str, str]] = {}
    for line, text, code in errors:
        by_line.setdefault(int(line), {})[code] = text
    return by_line


def wrong_lines():
    for number, line in enumerate(PROGRAM.splitlines(), 1):
        if "# wrong" in line:
            yield pytest.param(number, line.partition("# wrong")[2].strip(": "), id=line.partition("#")[0].strip())


def test_what_is_right_passes(found):
    wrong = {mark.values[0] for mark in wrong_lines()}
    assert {line: said for line, said in found.items() if line not in wrong} == {}


@pytest.mark.parametrize(("line", "code"), list(wrong_lines()))
def test_what_is_wrong_is_an_error_at_its_line(found, line, code):
    assert line in found, f"mypy lets it pass; it found {found}"
    assert not code or code in found[line]
