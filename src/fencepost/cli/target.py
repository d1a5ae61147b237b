"""Finds what a command works on: the app that MODULE:APP names, or the ledger that --db names without any app.

An app is a module-level `App`, or the one behind a `Ledger`; the module is imported with the current folder on the
path, or from a file. Opening the ledger, and refusing one that is not there, is done here too; what is done with it is
the commands' part.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from fencepost.cli.exits import Usage
from fencepost.cli.options import login
from fencepost.core.errors import FencepostError, StoreUnavailable

if TYPE_CHECKING:
    from fencepost.core.records import Run
    from fencepost.runtime.app import App

_PATIENCE_SECONDS = 10.0
_FORM = "write module:app, or path/to/file.py:app"


def load_app(reference: str) -> App:
    """The app that `module:name` or `path/to/file.py:name` names.

    Raises:
        Usage: there is no such module or name, it is not an App, or importing the module failed.
    """
    from fencepost.runtime.app import App
    from fencepost.runtime.ledger import Ledger

    place, mark, name = reference.rpartition(":")
    if not mark or not place or not name:
        raise Usage(f"{reference!r} does not name an app", hint=_FORM)
    module = _from_file(Path(place)) if place.endswith(".py") else _imported(place)
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise Usage(f"{place} has no {name!r}", hint=_others(module, App))
        found = getattr(found, part)
    if isinstance(found, Ledger):
        return found.app
    if not isinstance(found, App):
        raise Usage(f"{reference} is not an App but {_described(found)}", hint=_others(module, App))
    return found


def _from_file(file: Path) -> ModuleType:
    """Import a file under the name it would have on the path: `package.module` inside a package, else its stem."""
    file = file.absolute()
    if not file.is_file():
        raise Usage(f"there is no file {file}", hint=_FORM)
    root, name = file.parent, file.stem
    while (root / "__init__.py").is_file():
        root, name = root.parent, f"{root.name}.{name}"
    module = _imported(name, root)
    if module.__file__ is None or not Path(module.__file__).samefile(file):
        raise Usage(
            f"{file} cannot be imported: another module is named {name!r} ({module.__file__ or 'built in'})",
            hint="rename the file",
        )
    return module


def _imported(name: str, root: Path | None = None) -> ModuleType:
    _put_first_on_path(str(root or Path.cwd()))
    try:
        return importlib.import_module(name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise _import_failed(name, error) from error


def _put_first_on_path(folder: str) -> None:
    if folder not in sys.path:
        sys.path.insert(0, folder)


def _import_failed(name: str, error: BaseException) -> Usage:
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    if missing is not None and (name == missing or name.startswith(f"{missing}.")):
        return Usage(f"there is no module {missing!r}", hint=f"the path begins with {sys.path[0]}; {_FORM}")
    if isinstance(error, SyntaxError):
        return Usage(f"module {name!r} cannot be read: {error.msg}", hint=f"see {error.filename}, line {error.lineno}")
    said = str(error) if isinstance(error, FencepostError) else f"{type(error).__name__}: {error}"
    return Usage(
        f"importing module {name!r} failed: {said}", hint=f"{_where(error)}; FENCEPOST_DEBUG=1 shows the traceback"
    )


def _where(error: BaseException) -> str:
    """The innermost line of the user's own code: neither the import machinery nor this package."""
    own = str(Path(__file__).parents[1])
    found = "raised outside of any file"
    frames = error.__traceback__
    while frames is not None:
        file = frames.tb_frame.f_code.co_filename
        if not file.startswith(("<", own, importlib.__file__ or "<")):
            found = f"raised at {file}, line {frames.tb_lineno}"
        frames = frames.tb_next
    return found


def _others(module: ModuleType, kind: type) -> str:
    apps = sorted(name for name, value in vars(module).items() if isinstance(value, kind))
    if not apps:
        return "the module has no App at its top level; write `app = App(...)` there"
    return f"the module has {', '.join(apps)}"


def _described(value: object) -> str:
    if isinstance(value, type):
        return f"the class {value.__qualname__}"
    return f"a {type(value).__qualname__}"


# -- the ledger of a command ------------------------------------------------------------------------------------------


def app_for(reference: str | None, db: str | None, namespace: str | None, *, with_code: bool = True) -> App:
    """The app that a command works with; `--db` and `--namespace` take precedence over the app's own.

    `with_code`: with the app's workflows, if one is named. Without them a command only reads or moves rows, so an app
    with blanks does not stand in its way.

    Raises:
        Usage: neither an app nor a ledger is named, or the app cannot be loaded.
    """
    from fencepost.runtime.app import App

    if reference is None and db is None:
        raise Usage("which ledger?", hint="give --app MODULE:APP or --db URL, or set FENCEPOST_APP or FENCEPOST_DB")
    if db is not None:
        _check_url(db)
    found = load_app(reference) if reference is not None else None
    if found is None:
        app = App(db or "", workflows=(), namespace=namespace or "default")
    else:
        app = found if with_code else App(found.url, workflows=(), namespace=found.namespace, codec=found.codec)
        # What it says of persons is said of its own namespace.
        app.permissions = found.permissions if namespace in (None, found.namespace) else None
        app.url = db or app.url
        app.namespace = namespace or app.namespace
    app.login = login()
    return app


def _check_url(db: str) -> None:
    from fencepost.core.errors import Misuse
    from fencepost.store.open import name_of

    try:
        name_of(db)
    except Misuse as error:
        raise Usage(error.message, hint=error.hint) from error


def require_ledger(app: App) -> None:
    """Refuse a ledger that is not there: reading must not create an empty one that then looks like the real one.

    Raises:
        StoreUnavailable: there is none, or only an empty file.
    """
    from fencepost.store.open import name_of, schema_at

    version = schema_at(app.url, patience=_PATIENCE_SECONDS)
    if not version:
        message = "there is no ledger here" if version is None else "this file is empty, and no ledger"
        raise StoreUnavailable(
            message,
            hint="check the path; the first start or worker makes it one",
            ids={"ledger": name_of(app.url)},
        )


@contextmanager
def opened(app: App) -> Iterator[App]:
    """The app with its ledger, which must exist; closed on the way out.

    Raises:
        StoreUnavailable: as `require_ledger`.
    """
    require_ledger(app)
    with app.sync:
        yield app


def run_of(app: App, run_id: str) -> Run:
    """The run with this id.

    Raises:
        RunNotFound: there is none in this namespace.
    """
    from fencepost.core.errors import RunNotFound

    found = app.store.find(app.namespace, run_id)
    if found is None:
        raise RunNotFound(
            f"no run has the id {run_id!r}", hint="`fencepost runs` lists them", ids={"namespace": app.namespace}
        )
    return found
