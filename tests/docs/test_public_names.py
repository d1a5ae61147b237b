"""What `import fencepost` gives: names that are defined elsewhere, each once, and nothing that looks like a slip."""

import inspect
import subprocess
import sys

import fencepost


def test_every_name_is_there_and_is_our_own():
    for name in set(fencepost.__all__) - {"__version__"}:
        one = getattr(fencepost, name)
        assert inspect.getmodule(one).__name__.startswith("fencepost."), name


def test_everything_that_users_catch_has_one_base():
    errors = [one for one in vars(fencepost).values() if isinstance(one, type) and issubclass(one, Exception)]
    assert len(errors) > 20
    assert all(issubclass(error, fencepost.FencepostError) for error in errors)


def test_a_cancel_passes_through_an_except_for_errors():
    assert not issubclass(fencepost.Cancelled, Exception)


def test_an_import_opens_no_file_of_ours_and_loads_no_command_line():
    said = subprocess.run(
        [sys.executable, "-c", "import sys, fencepost; print(*sorted(sys.modules))"],
        capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    for module in ("typer", "rich", "fencepost.cli", "fencepost.testing", "fencepost.demo"):
        assert module not in said
