"""Starts the outside world from a shell: `python -m fencepost.testing.world --folder DIR [--seed N]`.

Prints one JSON line with its addresses when ready and ends on SIGTERM. What it does is in `process`.
"""

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer
from pydantic import TypeAdapter, ValidationError

from fencepost.core.errors import FencepostError
from fencepost.testing.world.behaviour import Configure, mistakes
from fencepost.testing.world.process import run

EXIT_USAGE = 2


def main(
    folder: Annotated[Path, typer.Option(help="Where the services keep their files; made if it is not there.")],
    seed: Annotated[int, typer.Option(help="What faults with a rate are drawn from.")] = 0,
    settings: Annotated[
        Path | None, typer.Option(help="A JSON file: a list of changes as POST /configure takes.")
    ] = None,
    *,
    with_parent: Annotated[bool, typer.Option(help="End when standard input closes.")] = False,
) -> None:
    """Play the outside: a task service, a mail server and books, which fail on request and count everything."""
    try:
        given = "[]" if settings is None else settings.read_text(encoding="utf-8")
        changes = TypeAdapter(list[Configure]).validate_json(given)
        asyncio.run(run(folder, seed, changes, with_parent=with_parent))
    except (FencepostError, OSError, ValueError) as error:
        said = mistakes(error) if isinstance(error, ValidationError) else error
        typer.echo(f"the world cannot start: {said}", err=True)
        sys.exit(EXIT_USAGE)


if __name__ == "__main__":
    typer.run(main)
