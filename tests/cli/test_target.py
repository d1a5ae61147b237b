"""What MODULE:APP may be, and how each mistake in it is named."""

import sys

import pytest

from tests.cli.conftest import SHOP


@pytest.fixture(autouse=True)
def _clean_imports(monkeypatch, tmp_path):
    """Modules that a test writes are forgotten after it, and the current folder is its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        ("shop", "does not name an app"),
        ("shop:", "does not name an app"),
        ("nowhere_to_be_found:app", "there is no module 'nowhere_to_be_found'"),
        ("nowhere/shop.py:app", "there is no file"),
        (SHOP.replace(":app", ":shelf"), "has no 'shelf'"),
        (SHOP.replace(":app", ":not_an_app"), "is not an App but a dict"),
        (SHOP.replace(":app", ":App"), "is not an App but the class App"),
    ],
)
def test_a_wrong_reference_is_a_usage_error_in_one_line(fencepost, reference, says):
    ended = fencepost("contract", reference)
    assert ended.code == 2
    assert says in ended.err
    assert ended.err.startswith("fencepost: usage: ")
    assert ended.err.count("\n") == 1
    assert ended.out == ""


def test_a_module_that_lacks_the_name_says_which_apps_it_has(fencepost):
    assert "the module has app" in fencepost("contract", SHOP.replace(":app", ":shelf")).err


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x = 1\ny = 1 / 0\n", "ZeroDivisionError: division by zero (raised at {file}, line 2;"),
        ("import not_installed_here\n", "No module named 'not_installed_here' (raised at {file}, line 1;"),
        ("def f(:\n", "cannot be read: "),
        ("raise SystemExit(0)\n", "SystemExit: 0"),
        ("raise ValueError('two\\nlines \\x1b[2J')\n", "two\\nlines \\x1b[2J"),
    ],
)
def test_an_error_of_the_users_own_module_is_told_with_its_line(fencepost, tmp_path, text, says):
    file = tmp_path / "faulty.py"
    file.write_text(text, "utf-8")
    ended = fencepost("contract", "faulty:app")
    assert ended.code == 2
    assert says.format(file=file) in ended.err
    assert ended.err.count("\n") == 1


def test_debugging_shows_the_traceback_of_the_users_module(fencepost, tmp_path, monkeypatch):
    (tmp_path / "faulty.py").write_text("1 / 0\n", "utf-8")
    monkeypatch.setenv("FENCEPOST_DEBUG", "1")
    ended = fencepost("contract", "faulty:app")
    assert ended.code == 2
    assert "Traceback" in ended.err
    assert 'faulty.py", line 1' in ended.err


def test_a_module_in_the_current_folder_a_package_and_a_file_in_it_are_found(fencepost, tmp_path):
    text = 'from fencepost.runtime.app import App\nclass box:\n    app = App("sqlite:///x.db", workflows=[])\n'
    (tmp_path / "plain_here.py").write_text(text, "utf-8")
    (tmp_path / "parcel_here").mkdir()
    (tmp_path / "parcel_here" / "__init__.py").touch()
    (tmp_path / "parcel_here" / "inner.py").write_text(text, "utf-8")
    for reference in ("plain_here:box.app", "parcel_here.inner:box.app", "parcel_here/inner.py:box.app"):
        assert fencepost("contract", reference).code == 0


def test_a_file_that_hides_behind_another_module_is_refused(fencepost, tmp_path):
    (tmp_path / "json.py").write_text("app = 1\n", "utf-8")
    ended = fencepost("contract", "json.py:app")
    assert ended.code == 2
    assert "another module is named 'json'" in ended.err


def test_without_app_and_ledger_the_command_asks_which(fencepost):
    ended = fencepost("runs")
    assert ended.code == 2
    assert "--db URL" in ended.err
