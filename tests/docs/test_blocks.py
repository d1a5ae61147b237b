"""Every block of code in the documentation does what it says."""

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer

from fencepost.cli.main import commands
from tests.docs.pages import LANGUAGES, QUICKSTARTS, ROOT, Block, blocks, every_page, name

PAGES = every_page()
RUN = [page for page in PAGES if any(block.language in {"python", "console"} for block in blocks(page))]
CHECKED = [page for page in PAGES if any(block.language == "shell" for block in blocks(page))]
SECONDS_MAX = 60
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]

BIN = Path(sys.executable).parent


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_no_block_escapes_the_tests(page):
    assert {block.language for block in blocks(page)} <= LANGUAGES
    assert page.read_text("utf-8").count("\n```") == 2 * len(blocks(page))


# -- run --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", RUN, ids=name)
def test_what_is_shown_runs_in_a_fresh_folder_and_prints_what_is_shown(page, tmp_path):
    for number, block in enumerate(blocks(page)):
        if block.language == "python":
            written = tmp_path / file_of(page, block, number)
            written.write_text(block.code, encoding="utf-8")
            if written.name != "quickstart.py":  # its pages run it themselves, and show what it prints
                play(
                    [sys.executable, *(["-m", "pytest", "-q"] if written.stem.startswith("test_") else []), written],
                    tmp_path,
                )
        elif block.language == "console":
            for command, shown in block.commands:
                words = shlex.split(command, comments=True)
                if words[0] == "make":  # in a fresh folder there is nothing to make
                    check(words)
                    continue
                said = play(words, tmp_path)
                assert matches(said, shown), f"{name(page)}:{block.line}: {command} printed\n{said}"


def file_of(page: Path, block: Block, number: int) -> str:
    return block.file or ("quickstart.py" if page in QUICKSTARTS else f"block_{number}.py")


def play(command: list[str | Path], folder: Path) -> str:
    """Run a command as a reader would, with the environment's programs in front of all others."""
    ours = {key: value for key, value in os.environ.items() if not key.startswith(("FENCEPOST_", "PYTEST_"))}
    ended = subprocess.run(
        command,
        cwd=folder,
        env=ours | {"PATH": f"{BIN}{os.pathsep}{ours.get('PATH', '')}", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=SECONDS_MAX,
        check=False,
    )
    assert ended.returncode == 0, f"{command} ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}"
    return ended.stdout


def matches(said: str, shown: str) -> bool:
    """Whether the output is what the page shows; `...` stands for anything, spaces for any number of them."""
    wanted = re.escape(" ".join(shown.split())).replace(r"\.\.\.", ".*")
    return not shown.strip() or re.fullmatch(wanted, " ".join(said.split()), re.DOTALL) is not None


@pytest.mark.parametrize(
    ("said", "shown", "does"),
    [
        ("a  b\n", "a b\n", True),
        ("a\nb\nc\n", "a\n...\nc\n", True),
        ("a\nb\n", "a\n", False),
        ("a\n", "b ...\n", False),
        ("a\n", "", True),
    ],
)
def test_what_is_shown_is_compared(said, shown, does):
    assert matches(said, shown) is does


# -- checked ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", CHECKED, ids=name)
def test_commands_that_are_only_shown_are_understood(page):
    for block in blocks(page):
        for command, shown in block.commands if block.language == "shell" else []:
            assert not shown.strip(), f"line {block.line}: output of what nobody runs"
            check(shlex.split(command))


@pytest.mark.parametrize(
    "command", ["fencepost setle RUN", "fencepost settle RUN --why x", "make dmeo", "rm -r ledger"]
)
def test_a_command_that_does_not_exist_is_found(command):
    with pytest.raises(AssertionError):
        check(shlex.split(command))


def check(command: list[str]) -> None:
    """Raise unless the program, its command and its options are what there is."""
    program, *arguments = command
    if program == "fencepost":
        group = typer.main.get_command(commands())
        assert arguments[0] in group.commands, f"no such command: {arguments[0]}"
        try:
            group.commands[arguments[0]].make_context(arguments[0], arguments[1:])
        except typer.TyperException as error:
            raise AssertionError(error.format_message()) from error
    elif program == "make":
        targets = re.findall(r"^([\w-]+):.*##", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
        assert {one for one in arguments if "=" not in one} <= {*targets}, f"no such target: {arguments}"
    else:
        assert command[:2] == ["pip", "install"], f"what is {program}?"
        assert re.fullmatch(rf"(\.|fencepost)(\[({'|'.join(EXTRAS)})\])?", command[2]), f"what is {command[2]}?"
