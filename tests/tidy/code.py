"""What Python code in this repository may not do, read off its syntax tree.

Only what linters and import-linter cannot say is here: ruff has the general rules, pyproject.toml the layers.
"""

import ast
import re
import sys
from collections.abc import Iterator

from tests.tidy.rule import Finding, Rule, Source

SRC = ("src/**/*.py",)
EVERYWHERE = ("src/**/*.py", "tests/**/*.py", "examples/**/*.py", "bench/**/*.py", "docs/**/*.py")


def imports(source: Source) -> Iterator[tuple[int, str]]:
    """Each absolute import as (line, dotted module)."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.lineno, node.module


def calls(source: Source) -> Iterator[tuple[ast.Call, str]]:
    """Each call with the dotted name that it calls, as written (`datetime.now`, `open`)."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call):
            yield node, ast.unparse(node.func)


# Clock, chance, threads, processes, files and network: what a pure core gets as arguments or leaves to other rooms.
IMPURE = {
    *("asyncio", "concurrent", "contextvars", "http", "io", "logging", "multiprocessing", "os", "pathlib", "queue"),
    *("random", "sched", "secrets", "select", "selectors", "shutil", "signal", "socket", "socketserver", "sqlite3"),
    *("ssl", "subprocess", "tempfile", "_thread", "threading", "time", "urllib.request"),
}
IMPURE_CALLS = {
    *("datetime.now", "datetime.utcnow", "datetime.today", "date.today", "input", "open", "print"),
    *("uuid1", "uuid4", "uuid.uuid1", "uuid.uuid4"),
}


def impurities(source: Source) -> Iterator[Finding]:
    """Find what would make core depend on anything but its arguments."""
    for line, module in imports(source):
        top = module.partition(".")[0]
        if top == "fencepost":
            continue  # import-linter's part
        if top not in sys.stdlib_module_names:
            yield Finding(line, f"imports {module}, which is not the standard library")
        elif top in IMPURE or module in IMPURE:
            yield Finding(line, f"imports {module}")
    for call, name in calls(source):
        if name in IMPURE_CALLS or name.removeprefix("datetime.") in IMPURE_CALLS:
            yield Finding(call.lineno, f"calls {name}")


PICKLING = {"cloudpickle", "dill", "marshal", "pickle", "shelve"}


def pickling(source: Source) -> Iterator[Finding]:
    """Find imports of what turns stored bytes into code that runs."""
    for line, module in imports(source):
        if module.partition(".")[0] in PICKLING:
            yield Finding(line, f"imports {module}")


def built_sql(source: Source) -> Iterator[Finding]:
    """Find statements put together from strings where they are executed."""
    for call, name in calls(source):
        method = name.rpartition(".")[2]
        if method in {"execute", "executemany", "executescript"} and call.args and built(call.args[0]):
            yield Finding(call.lineno, f"builds the statement that it passes to {method}")


def built(text: ast.expr) -> bool:
    """Whether an expression joins or formats strings."""
    if isinstance(text, ast.Call):
        return isinstance(text.func, ast.Attribute) and text.func.attr in {"format", "join", "replace"}
    return isinstance(text, ast.JoinedStr | ast.BinOp)


def sleeps(source: Source) -> Iterator[Finding]:
    """Find blocking sleeps, under each name that they can be imported by."""
    for call, name in calls(source):
        if name == "time.sleep":
            yield Finding(call.lineno, "sleeps; wait with tests.polling.until, or set the store's clock")
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ImportFrom) and node.module == "time" and any(a.name == "sleep" for a in node.names):
            yield Finding(node.lineno, "imports sleep")


def thin_docstrings(source: Source) -> Iterator[Finding]:
    """Find modules that do not say what they are and, unless they only open a room, what they leave to others."""
    text = ast.get_docstring(source.tree) or ""
    sentences = len(re.findall(r"[.!?](?=\s|$)", text))
    if not sentences:
        yield Finding(1, "has no docstring that is a sentence")
    elif sentences < 2 and source.stem not in {"__init__", "__main__"}:
        yield Finding(1, "has a docstring that does not say what the module leaves to which neighbour")


DEPTH_MAX = 3
BODY_LINES_MAX = 60
BLOCKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.TryStar, ast.With, ast.AsyncWith, ast.Match)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def sprawl(source: Source) -> Iterator[Finding]:
    """Find functions that do not fit on a screen or nest deeper than one can hold in mind."""
    for function in ast.walk(source.tree):
        if not isinstance(function, FUNCTIONS):
            continue
        body = function.body[1:] if ast.get_docstring(function) else function.body
        lines = body[-1].end_lineno - body[0].lineno + 1 if body else 0
        if lines > BODY_LINES_MAX:
            yield Finding(function.lineno, f"{function.name} has a body of {lines} lines (at most {BODY_LINES_MAX})")
        deepest = max((depth(statement) for statement in body), default=0)
        if deepest > DEPTH_MAX:
            yield Finding(function.lineno, f"{function.name} nests {deepest} blocks (at most {DEPTH_MAX})")


def depth(node: ast.stmt) -> int:
    """How many blocks nest in a statement, itself included; `elif` is no deeper than `if`, a function begins anew."""
    if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
        return 0
    inner = []
    for child in inner_statements(node):
        is_elif = isinstance(node, ast.If) and isinstance(child, ast.If) and node.orelse == [child]
        inner.append(depth(child) - 1 if is_elif else depth(child))
    return isinstance(node, BLOCKS) + max(inner, default=0)


def inner_statements(node: ast.stmt) -> Iterator[ast.stmt]:
    """The statements of each part of a compound statement: body, handlers, cases, else, finally."""
    for part in ("body", "handlers", "cases", "orelse", "finalbody"):
        for child in getattr(node, part, []):
            if isinstance(child, ast.stmt):
                yield child
            else:
                yield from child.body


def unexplained(source: Source) -> Iterator[Finding]:
    """Find exceptions from lint or typing without a reason in words."""
    for match in re.finditer(r"# (noqa|type: ignore)\b(?!: [A-Z0-9, ]+(?: - |  )\w|\[[\w, -]+\] +# \w)", source.text):
        yield Finding(source.line_at(match.start()), f"{match.group(1)} without a reason")


def public_names(source: Source) -> Iterator[Finding]:
    """Find what else than sorted public names is in the package's first file."""
    exported: list[str] = []
    imported: list[str] = []
    for node in source.tree.body:
        if isinstance(node, ast.ImportFrom):
            imported += [alias.asname or alias.name for alias in node.names]
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            exported = ast.literal_eval(node.value)
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__version__":
            imported.append("__version__")
        elif not isinstance(node, ast.Expr):
            yield Finding(node.lineno, "holds more than names")
    if exported != sorted(exported):
        yield Finding(1, "does not sort __all__")
    for name in sorted(set(exported) ^ set(imported)):
        yield Finding(1, f"has {name} in __all__ or among its imports, not in both")


RULES = [
    Rule(
        "core gets clock, chance, files, threads and network as arguments or leaves them to other rooms.",
        files=("src/fencepost/core/**/*.py",),
        look=impurities,
        bad=Source("a.py", "from time import time"),
        good=Source("a.py", "from datetime import datetime\nimport fencepost.core.errors\nimport json"),
    ),
    Rule(
        "core takes the time from its caller, even where a pure module could tell it.",
        files=("src/fencepost/core/**/*.py",),
        look=impurities,
        bad=Source("a.py", "import datetime\nx = datetime.datetime.now()"),
        good=Source("a.py", "import datetime\nx = datetime.datetime.fromtimestamp(now, datetime.UTC)"),
    ),
    Rule(
        "Nothing is ever pickled.",
        files=EVERYWHERE,
        look=pickling,
        bad=Source("a.py", "def f():\n    import pickle"),
        good=Source("a.py", "import json"),
    ),
    Rule(
        "SQL is never built from strings; it stands in named blocks, and values are bound.",
        files=(*SRC, "examples/**/*.py"),
        look=built_sql,
        bad=Source("a.py", 'db.execute(f"DELETE FROM run WHERE id = {id}")'),
        good=Source("a.py", 'db.execute("DELETE FROM run WHERE id = ?", (id,))\ndb.execute(queries.delete_run)'),
    ),
    Rule(
        "No test sleeps to let time pass.",
        files=("tests/**/*.py", "!tests/polling.py"),
        look=sleeps,
        bad=Source("a.py", "import time\ntime.sleep(1)"),
        good=Source("a.py", 'until(lambda: seen, "the mail")'),
    ),
    Rule(
        "A module says in a sentence what it is, and ends with what it leaves to which neighbour.",
        files=SRC,
        look=thin_docstrings,
        bad=Source("a.py", '"""Leases."""'),
        good=Source("a.py", '"""Leases: who owns a run. It never claims runs; worker.py does."""'),
    ),
    Rule(
        "A function fits on a screen.",
        files=SRC,
        look=sprawl,
        bad=Source("a.py", "def f():\n" + "    x = 1\n" * (BODY_LINES_MAX + 1)),
        good=Source("a.py", "def f():\n" + "    x = 1\n" * BODY_LINES_MAX),
    ),
    Rule(
        "Blocks nest at most three deep; what is deeper wants a name.",
        files=SRC,
        look=sprawl,
        bad=Source("a.py", "def f():\n for a in b:\n  if a:\n   with a:\n    try: pass\n    finally: pass"),
        good=Source("a.py", "def f():\n for a in b:\n  with a:\n   if a: pass\n   elif b: pass\n   elif c: pass"),
    ),
    Rule(
        "Each exception from lint or typing gives its reason: in words after its code.",
        files=(*EVERYWHERE, "!tests/tidy/code.py"),
        look=unexplained,
        bad=Source("a.py", "x = 1  # noqa: S101"),
        good=Source("a.py", "x = 1  # noqa: S101 - a shell gave it\ny = 1  # type: ignore[arg-type]  # a stub lags"),
    ),
    Rule(
        "The package's first file holds its public names, sorted, and nothing else.",
        files=("src/fencepost/__init__.py",),
        look=public_names,
        bad=Source("a.py", 'from fencepost.app import App, Run\n__all__ = ["App"]'),
        good=Source("a.py", 'from fencepost.app import App\n__version__ = "1"\n__all__ = ["App", "__version__"]'),
    ),
]
