"""What no page, screen or docstring may claim: that an effect happens once by itself, or that it was undone.

A phrase in quotation marks or backticks is mentioned, not claimed. Whether a sentence that avoids the words is true
is not looked at here; the tests of the guarantee ladder do that.
"""

import re
from collections.abc import Iterator

from tests.tidy.rule import Finding, Rule, Source

# Words may be parted by a line break, with the comment sign of the next line between them.
GAP = r"[\s#*>-]+"
CLAIMS = re.compile(
    rf"""(?<!["'`“.\w])              # quoted, or a method such as connection.rollback()
    (?: [Ee]xactly{GAP}once
      | EXACTLY{GAP}ONCE
      | [Rr]oll(?:ed|s|ing)?{GAP}back\b
      | [Rr]ollbacks?\b )              # ROLLBACK in capitals is a statement of SQL
    (?!["'`”(])""",
    re.VERBOSE,
)


def claims(source: Source) -> Iterator[Finding]:
    """Find each phrase that is claimed rather than mentioned."""
    for match in CLAIMS.finditer(source.text):
        yield Finding(source.line_at(match.start()), f"claims {' '.join(match.group().split())!r}")


RULES = [
    Rule(
        'Nothing claims "exactly once" or "rolled back"; say the rung and its condition, or name the compensation.',
        files=(
            "*.md",
            "docs/**/*.md",
            "docs/**/*.py",
            "examples/**/*.py",
            "src/**/*.py",
            "src/**/*.sql",
            "src/**/*.html",
            "src/**/*.js",
        ),
        look=claims,
        bad=Source("a.py", '"""Each mail is sent exactly\nonce, and\n# rolled\n# back if not."""'),
        good=Source("a.py", '"""Nobody can say "exactly once"."""\nconnection.rollback()\nrun("ROLLBACK")'),
    ),
]
