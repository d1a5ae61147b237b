"""The committed reference is what the code says, and leaves out no public name, no state and no reason for a hold."""

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fencepost
from fencepost.cli.alerting import page_of
from fencepost.cli.main import COMMANDS
from fencepost.core import refusal
from fencepost.core.alerts import ALERTS
from fencepost.core.errors import Misuse
from fencepost.core.recovery import HoldReason
from tests.docs.pages import ROOT

REFERENCE = ROOT / "docs" / "reference"
GENERATE = ROOT / "docs" / "generate.py"


@pytest.fixture(scope="module", autouse=True)
def generators():
    """Make `generate`, `runbook` and `signatures` importable, as they are for `make docs`."""
    sys.path.insert(0, str(GENERATE.parent))
    yield
    sys.path.remove(str(GENERATE.parent))


def test_the_committed_reference_is_what_the_code_says():
    ended = subprocess.run([sys.executable, GENERATE, "--check"], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_every_public_name_is_described_in_its_group():
    text = (REFERENCE / "api.md").read_text("utf-8")
    assert "## Other" not in text, "a public name belongs to no group of docs/signatures.py"
    for name in set(fencepost.__all__) - {"__version__"}:
        one = getattr(fencepost, name)
        assert (one.__doc__ or "").strip(), f"{name} has no docstring"
        assert f"### {name}\n" in text or f"- `{name}`: " in text


def test_every_reason_that_the_code_can_give_has_a_page():
    reasons = {page.reason for page in importlib.import_module("runbook").PAGES}
    assert {*HoldReason} <= reasons
    assert {*constant_reasons()} <= reasons
    errors = {one.__name__ for one in vars(refusal).values() if isinstance(one, type) and issubclass(one, Misuse)}
    assert errors <= reasons


def test_every_alert_has_a_page_whose_commands_exist():
    known = {command.__name__.replace("_", "-") for command in COMMANDS}
    for name, alert in ALERTS.items():
        text = (REFERENCE / "runbook" / page_of(name)).read_text("utf-8")
        assert alert.means in text
        assert {command.split()[0] for command, _ in alert.verbs} <= known


def constant_reasons():
    """What is given as reason wherever a run is held: literals, and constants of the same module."""
    for path in Path(fencepost.__file__).parent.rglob("*.py"):
        text = path.read_text("utf-8")
        for call in ast.walk(ast.parse(text)):
            if not (isinstance(call, ast.Call) and ast.unparse(call.func) in {"Holding", "self._hold"}):
                continue
            named = {word.arg: word.value for word in call.keywords}
            given = named.get("reason") or call.args[0 if ast.unparse(call.func) == "self._hold" else 2]
            if isinstance(given, ast.Constant):
                yield given.value
            elif isinstance(given, ast.Name) and given.id.isupper():
                found = re.search(rf'^{given.id} = "(.+)"$', text, re.MULTILINE)
                if found is not None:
                    yield found[1]


def test_the_search_for_reasons_finds_them():
    assert {"budget spent", "result missing", "format budget spent"} <= {*constant_reasons()}


def test_every_command_of_the_runbook_exists():
    from tests.docs.test_blocks import check

    for page in importlib.import_module("runbook").PAGES:
        for command, _ in page.verbs:
            check(["fencepost", *command.split()])
