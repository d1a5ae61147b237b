"""The histories that each version has stored are replayed by this one, and their keys are still the same."""

import json
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

import fencepost
from fencepost.core.errors import FencepostError
from fencepost.core.identity import KEY_SCHEME, operation_key
from fencepost.core.records import History
from fencepost.testing import dump_history, load_history, replay
from tests.corpus.__main__ import FOLDER, SUMS, sums
from tests.corpus.workflows import WORKFLOWS

FILES = sorted(FOLDER.glob("*/*.json"))


def name(file: Path) -> str:
    return f"{file.parent.name}: {file.stem}"


@pytest.fixture(params=FILES, ids=name)
def history(request: pytest.FixtureRequest) -> History:
    return load_history(request.param.read_text("utf-8"))


def test_this_version_has_stored_a_history_of_each_workflow() -> None:
    here = [file for file in FILES if file.parent.name == fencepost.__version__]
    assert {load_history(file.read_text("utf-8")).run.workflow for file in here} == set(WORKFLOWS), (
        "`make corpus` stores this version's"
    )


def test_a_stored_history_is_told_again_by_this_versions_code(history: History) -> None:
    replay(WORKFLOWS[history.run.workflow], history)


def test_a_stored_key_is_the_one_that_its_scheme_gives(history: History) -> None:
    run = history.run
    for one in history.operations:
        assert one.key_scheme == KEY_SCHEME
        assert one.key == operation_key(run.namespace, run.id, one.step, one.item, one.contract_version, turn=run.turn)


def test_a_history_is_read_back_as_it_was_dumped(history: History) -> None:
    assert load_history(dump_history(history)) == history


@pytest.mark.parametrize("version", sorted(one.name for one in FOLDER.iterdir()))
def test_no_stored_history_was_changed_added_or_taken_away_since_its_version(version: str) -> None:
    folder = FOLDER / version
    assert sums(folder) == (folder / SUMS).read_text("utf-8"), "a release's histories are kept as they are"


@pytest.mark.parametrize("how", ["one byte", "one more", "one less"])
def test_control_a_history_that_was_changed_does_not_match_what_was_written_down(tmp_path: Path, how: str) -> None:
    folder = shutil.copytree(FOLDER / fencepost.__version__, tmp_path / "copy")
    text = (folder / "steps.json").read_text("utf-8")
    if how == "one byte":
        (folder / "steps.json").write_text(text.replace("made first", "made First", 1), "utf-8")
    elif how == "one more":
        (folder / "more.json").write_text(text, "utf-8")
    else:
        (folder / "steps.json").unlink()
    assert sums(folder) != (folder / SUMS).read_text("utf-8")


def test_a_stored_history_names_no_machines_folders() -> None:
    for file in FILES:
        assert not re.search(r'File \\+"/', file.read_text("utf-8")), name(file)


def test_the_corpus_holds_each_kind_of_step() -> None:
    kinds = Counter(step.kind for file in FILES for step in load_history(file.read_text("utf-8")).steps)
    assert {*kinds} == {
        "read", "compute", "model", "wait", "sleep", "child", "compensate", "cancel", "patch", "progress", "redecide"
    }  # fmt: skip


def spoilt(text: str, place: str) -> str:
    """A dumped history in which one answer is another one."""
    document = json.loads(text)
    history = document["history"]
    if place == "result":
        history["run"]["result"] = '"another"'
    elif place == "parameters":
        history["operations"][0]["fingerprint"] = "other"
    elif place == "order":
        first, second = history["operations"][:2]
        first["delivered"], second["delivered"] = second["delivered"], first["delivered"]
    else:
        history["steps"] = [step for step in history["steps"] if step["kind"] != "sleep"]
    return json.dumps(document)


@pytest.mark.parametrize("place", ["result", "parameters", "order", "a step is gone"])
def test_control_a_history_that_was_changed_is_not_told_again(place: str) -> None:
    text = (FOLDER / fencepost.__version__ / "steps.json").read_text("utf-8")
    with pytest.raises(FencepostError):
        replay(WORKFLOWS["steps"], spoilt(text, place))


def test_a_history_of_a_later_format_is_refused() -> None:
    with pytest.raises(FencepostError, match="format 99"):
        load_history('{"format": 99}')
