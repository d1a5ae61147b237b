"""What holds of whole files: their names, lengths, and what no committed text may contain.

What a file's code may do is in code.py, what its words may claim in claims.py.
"""

import re
from collections.abc import Iterator

from tests.tidy.rule import Finding, Rule, Source

LINES_MAX = 450
BIN_NAMES = {"common", "helpers", "manager", "misc", "models", "types", "util", "utils"}
TEXTS = (
    *("*.md", "*.toml", "Makefile", ".gitignore", ".ci/*", "requirements/*"),
    *("src/**/*.py", "src/**/*.sql", "docs/**/*.*", "examples/**/*.*", "bench/**/*.py", "tests/**/*.py"),
    *("!**/__pycache__/**", "!docs/pictures/*.png", "!tests/tidy/files.py"),
)


def bins(source: Source) -> Iterator[Finding]:
    """Find modules and rooms named after nothing, which everything ends up in."""
    for part in (*source.path.split("/")[:-1], source.stem):
        if part in BIN_NAMES:
            yield Finding(1, f"is in {part!r}; name it after the idea it holds")


def overlong(source: Source) -> Iterator[Finding]:
    """Find modules that hold more than one idea."""
    lines = source.text.count("\n")
    if lines > LINES_MAX:
        yield Finding(LINES_MAX, f"has {lines} lines (at most {LINES_MAX}); a concept inside it wants a name")


MACHINE_PATHS = re.compile(r"(?<![\w.~-])/(?:root|work|Users|home/\w+)/\S*")


def machine_paths(source: Source) -> Iterator[Finding]:
    """Find paths that exist on one machine only."""
    for match in MACHINE_PATHS.finditer(source.text):
        yield Finding(source.line_at(match.start()), f"names {match.group()}")


LOCK_LINE = re.compile(r"[a-z0-9][\w.-]*(\[[\w,-]+\])?==[\w.+!]+( ; [^@\\]+)? \\|    --hash=sha256:[0-9a-f]{64}( \\)?")


def lock_lines(source: Source) -> Iterator[Finding]:
    """Find lines of a lock file that are neither a hashed pin nor a hash: addresses, options, paths."""
    for number, line in enumerate(source.text.splitlines(), 1):
        if not LOCK_LINE.fullmatch(line):
            yield Finding(number, f"is neither a pin nor a hash: {line!r}")


def unexplained_ignores(source: Source) -> Iterator[Finding]:
    """Find lint rules that are switched off without a reason beside them."""
    for number, line in enumerate(source.text.splitlines(), 1):
        if re.match(r'\s+"[A-Z]+[0-9]*",', line) and not re.search(r",\s+# \w+ \w", line):
            yield Finding(number, f"switches off {line.split(',')[0].strip()} without saying why")


def silent_targets(source: Source) -> Iterator[Finding]:
    """Find targets that `make help` would not list."""
    described = set(re.findall(r"^([\w-]+):.*## \w", source.text, re.MULTILINE))
    for match in re.finditer(r"^\.PHONY: (.+)$", source.text, re.MULTILINE):
        for target in set(match.group(1).split()) - described:
            yield Finding(source.line_at(match.start()), f"does not say what {target} does")


HASH = "0" * 64

RULES = [
    Rule(
        "A module or room is named after the idea it holds.",
        files=("src/**/*.py",),
        look=bins,
        bad=Source("src/fencepost/utils/text.py", ""),
        good=Source("src/fencepost/core/identity.py", ""),
    ),
    Rule(
        "A module stays short enough to read in one go.",
        files=("src/**/*.py",),
        look=overlong,
        bad=Source("a.py", "x = 1\n" * (LINES_MAX + 1)),
        good=Source("a.py", "x = 1\n" * LINES_MAX),
    ),
    Rule(
        "No committed text names a path of one machine.",
        files=TEXTS,
        look=machine_paths,
        bad=Source("a.md", "see /home/ann/notes.md"),
        good=Source("a.md", "see docs/home/notes.md, https://example.org/home/ann, /tasks"),
    ),
    Rule(
        "Lock files hold pins and hashes, and no address, option or path.",
        files=("requirements/*.txt",),
        look=lock_lines,
        bad=Source("dev.txt", "--index-url https://example.org/simple\n"),
        good=Source("dev.txt", f"h11==0.16.0 ; sys_platform != 'emscripten' \\\n    --hash=sha256:{HASH}\n"),
    ),
    Rule(
        "Every version in a lock file is bound to hashes.",
        files=("requirements/*.txt",),
        look=lock_lines,
        bad=Source("dev.txt", "h11==0.16.0\n"),
        good=Source("dev.txt", f"h11==0.16.0 \\\n    --hash=sha256:{HASH} \\\n    --hash=sha256:{HASH}\n"),
    ),
    Rule(
        "Each lint rule that is off says why.",
        files=("pyproject.toml",),
        look=unexplained_ignores,
        bad=Source("pyproject.toml", 'ignore = [\n    "S101",\n]'),
        good=Source("pyproject.toml", 'ignore = [\n    "S101",   # assertions stay on\n]'),
    ),
    Rule(
        "Each target of the Makefile says what it does.",
        files=("Makefile",),
        look=silent_targets,
        bad=Source("Makefile", ".PHONY: test\ntest: ready\n"),
        good=Source("Makefile", ".PHONY: test\ntest: ready ## Run the tests\n"),
    ),
]
