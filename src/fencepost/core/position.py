"""Where in a run a step stands: the text by which its record is found again, in whatever order things complete.

    what              position                example
    effect            name, name[item]        charge    charge[line-7]
    one about it      words before its name   compensate charge    forward charge    instead of charge[line-7]
    any other step    path, name, #n          /classify    /classify#2    /gather:1.0/classify
    numbered things   path, kind:n            /sleep:1    /race:2.1/compensate:1
    a patch           /patch:id               /patch:charge-in-cents
    a chosen way      forward:name[item]      forward:charge[line-7]
    a new decision    redecide:n              redecide:1
    the run's cancel  cancel

A path is `/` for the workflow itself, and one more `gather:n.i/` or `race:n.i/` for each branch that it is inside of:
the i-th branch, from 0, of the n-th gather or race, from 1, that the code of the surrounding branch began. `#n` is the
occurrence of that name in its branch; the first has none. An effect has no path: whichever branch asks, `name[item]` is
one effect.

A patch is one thing in the whole run, whichever branch asks first.

Once a decision was made anew, a path begins with `/redecide:n/` in place of `/`: what is asked for from then on stands
beside what was, and effects and patches stay where they are.

Two different things never share a position. In a name `%`, `/`, `[`, `#` and `:` are percent-escaped, so that only what
is numbered, or what no code has asked for, has a `:`, only a path a `/`, and the first `[` begins the item, which is
there as it is. An effect named `cancel` is written `%63ancel`. This file only writes positions; who counts the
occurrences is `branch`, and what is recorded at a position belongs to the ledger.
"""

from __future__ import annotations

import re

CANCEL = "cancel"
"""The position at which a run's cancel request is delivered."""

ROOT = "/"
"""The path of the workflow itself."""

CHOSEN = "forward:"
"""How positions begin at which a person has chosen another way for the effect whose position follows."""

FORWARD, INSTEAD = "forward ", "instead of "
"""How step names begin that do another effect's work another way: asked for by code, and chosen by a person.

No step of a user's has such a name.
"""

REDECIDE = "redecide:"
"""How positions begin at which a person has had a model's decision made anew."""

_OF_TURN = re.compile(r"turn \d+ ")
_SPECIAL = re.compile(r"[%/\[#:]")
_ESCAPED_CANCEL = f"%{ord(CANCEL[0]):02X}{CANCEL[1:]}"


def escaped(name: str) -> str:
    """The name with each character that has a meaning in positions percent-escaped."""
    if _SPECIAL.search(name) is None:
        return name
    return _SPECIAL.sub(lambda match: f"%{ord(match[0]):02X}", name)


def effect_position(name: str, item: str | None) -> str:
    """The position of an effect: its name, and its item in brackets if it has one."""
    text = escaped(name)
    if item is not None:
        return f"{text}[{item}]"
    return text if text != CANCEL else _ESCAPED_CANCEL


def named_position(path: str, escaped_name: str, occurrence: int) -> str:
    """The position of the n-th step (from 1) of that name in the branch at `path`."""
    return f"{path}{escaped_name}" if occurrence == 1 else f"{path}{escaped_name}#{occurrence}"


def numbered_position(path: str, kind: str, number: int) -> str:
    """The position of the n-th (from 1) sleep, compensation, gather, race or draw of the branch at `path`."""
    return f"{path}{kind}:{number}"


def patch_position(patch: str) -> str:
    """The position of a patch; no numbered thing is of that kind."""
    return f"{ROOT}patch:{escaped(patch)}"


def version_path(position: str) -> str:
    """The path of the workflow itself from a new decision on, which stands at `position`."""
    return f"{ROOT}{position}/"


def plain(name: str) -> str:
    """The step whose work is done under this name, another way or not."""
    return name.removeprefix(FORWARD).removeprefix(INSTEAD)


def of_turn(turn: int, name: str) -> str:
    """How an earlier turn's effect of that name is called in a later turn, which compensates it."""
    return f"turn {turn} {name}"


def is_of_turn(name: str) -> bool:
    """Whether a name is one of an earlier turn's; no step of a user may have such a name."""
    return _OF_TURN.match(name) is not None


def branch_path(group_position: str, index: int) -> str:
    """The path of the index-th branch (from 0) of the gather or race that stands at `group_position`."""
    return f"{group_position}.{index}/"
