"""Finds and loads the example that the demo runs: `examples/invoice.py`, as a user would write it.

From a checkout it is the repository's own file, in an installed package the copy that is shipped inside. The example
itself knows nothing of the demo.
"""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from fencepost.core.errors import Misuse

_NAME = "invoice"


def folder() -> Path:
    """Return the folder with the example and its invoices; raises `Misuse` if neither place has it."""
    here = Path(__file__).resolve().parent
    for place in (here / "examples", here.parents[2] / "examples"):
        if (place / f"{_NAME}.py").is_file():
            return place
    raise Misuse(
        "the demo's example is missing",
        hint="run it from a checkout, or install the package again",
        ids={"at": str(here)},
    )


def load() -> ModuleType:
    """Import the example, once per process; its app opens nothing before it is used."""
    known = sys.modules.get(_NAME)
    if known is not None:
        return known
    spec = importlib.util.spec_from_file_location(_NAME, folder() / f"{_NAME}.py")
    assert spec is not None, "a file that ends in .py has a loader"
    assert spec.loader is not None, "a file that ends in .py has a loader"
    module = importlib.util.module_from_spec(spec)
    sys.modules[_NAME] = module  # before it runs, since annotations are looked up there
    spec.loader.exec_module(module)
    return module
