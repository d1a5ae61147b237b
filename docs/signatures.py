"""Lays out the public Python names as Markdown: signature, docstring, and the methods that users call.

Which names there are is read from the `__all__` of `fencepost`, `fencepost.receiving`, `fencepost.targets`,
`fencepost.telemetry` and `fencepost.testing`; this file only groups them. A name that no group claims lands under
"Other", where a test finds it. What is written where is `generate`.
"""

import inspect
import re
from collections.abc import Iterator
from datetime import timedelta
from types import ModuleType
from typing import Any

import fencepost
from fencepost import receiving, targets, telemetry, testing
from fencepost.core.duration import spelled

GROUPS: dict[str, tuple[str, ...]] = {
    "Declare": (
        *("effect", "read", "compute", "model", "workflow", "KeyHeader", "KeyArgument", "Fenced", "Retry"),
        *("Compensation", "Stands", "Allowed", "Refused", "Right", "Layer", "Secret", "Redacted"),
    ),
    "Run": (
        *("App", "Schedule", "Queue", "Rate", "Target", "Breaker", "DoorOptions", "Ledger", "Handle", "Run"),
        *("RunState", "EndedRun", "Rehearsal", "CompensationReport", "Cancellation", "Approval"),
    ),
    "Look after a ledger": (
        *("Permissions", "Above", "Selection", "Anchor", "Retention", "Purged", "AesGcm", "Codec"),
    ),
    "Inside a step": ("Call", "SyncCall", "Http", "SyncHttp", "Reply"),
    "Answers of a look-up": ("Found", "Absent", "Inconclusive", "Conflicting"),
    "Models": ("Endpoint", "RuleBased", "Rule", "Answerer", "Question"),
    "What declarations make": ("Effect", "Step", "Bound", "Workflow", "Worker", "CompensatedEffect", "ErrorRecord"),
}
ERRORS = "Errors"
OTHER = "Other"

NOT_MADE_BY_USERS = {
    *("Approval", "Bound", "Call", "Cancellation", "Effect", "EndedRun", "ErrorRecord", "Handle", "Http", "Receipt"),
    *("Run", "RunState", "Step", "SyncCall", "SyncHttp", "Unsettled", "Worker", "Workflow"),
}
"""Classes that users get and do not make: their constructors are nobody's business."""

INNER = {
    *(
        "adopt",
        "answer_in",
        "arguments",
        "as_text",
        "assumption",
        "carry_result",
        "decode",
        "effect",
        "encode",
        "ending",
    ),
    *("evidence", "from_text", "has_room", "host", "key_scope", "no_answer", "posting", "promise", "provenance"),
    *("reference_of", "register", "request", "resource_of", "running", "send_key", "start", "steps_with", "store"),
    *("version", "wake"),
}
"""Members with a docstring that are for the package itself, whichever class has them."""

OUTER = {
    "Anchor.as_text",
    "Anchor.from_text",
    "Answerer.provenance",
    "App.start",
    "Http.request",
    "SyncHttp.request",
    "World.start",
}
"""Members of such a name that users call all the same."""

SECTION = re.compile(r"^(Args|Attributes|Raises|Returns):\n((?:(?:    .*)?\n)+)", re.MULTILINE)


def public_names() -> str:
    """Everything that `import fencepost` offers."""
    names = {name: getattr(fencepost, name) for name in fencepost.__all__ if name != "__version__"}
    text = (
        "# Python\n\nEverything here is imported from `fencepost`. "
        'Durations are strings (`"20s"`, `"15m"`, `"24h"`, `"7d"`) or `timedelta`; '
        "instants are microseconds where a name does not say otherwise.\n"
    )
    for title, members in grouped(names).items():
        text += f"\n## {title}\n\n"
        text += _errors(members) if title == ERRORS else "\n".join(entry(name, one) for name, one in members.items())
    return text


def testing_names() -> str:
    """Everything that `fencepost.testing` offers."""
    return _offered("The outside world, for tests", testing, "[write a test](../howto/write-a-test.md)")


def target_names() -> str:
    """Everything that `fencepost.targets` offers."""
    return _offered("Targets that compare tokens", targets, "[fence a target](../howto/fence-a-target.md)")


def receiving_names() -> str:
    """Everything that `fencepost.receiving` offers."""
    how = "[make an endpoint idempotent](../howto/make-an-endpoint-idempotent.md)"
    return _offered("Receiving", receiving, how)


def telemetry_names() -> str:
    """Everything that `fencepost.telemetry` offers."""
    how = "[traces](../howto/trace-runs.md), [metrics](../howto/watch-with-prometheus.md), "
    how += "[health](../howto/check-health.md), [logs](../howto/log-what-runs-do.md)"
    return _offered("Telemetry", telemetry, how)


def _offered(title: str, module: ModuleType, how: str) -> str:
    text = f"# {title}\n\nEverything here is imported from `{module.__name__}`. How to use it: {how}.\n\n"
    return text + "\n".join(entry(name, getattr(module, name), level=2) for name in module.__all__)


def grouped(names: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The names by their group, in the groups' order."""
    found: dict[str, dict[str, Any]] = {title: {} for title in (*GROUPS, ERRORS, OTHER)}
    of = {name: title for title, members in GROUPS.items() for name in members}
    for name in sorted(names, key=lambda name: [*of].index(name) if name in of else len(of)):
        is_error = isinstance(names[name], type) and issubclass(names[name], BaseException)
        found[of.get(name, ERRORS if is_error else OTHER)][name] = names[name]
    return {title: members for title, members in found.items() if members}


def entry(name: str, one: Any, *, level: int = 3) -> str:
    """Heading, signature, docstring and methods of one name."""
    is_class = isinstance(one, type)
    shown = (
        name
        if is_class and (name in NOT_MADE_BY_USERS or getattr(one, "_is_protocol", False))
        else signature(name, one)
    )
    text = f"{'#' * level} {name}\n\n```text\n{shown}\n```\n\n{prose(inspect.getdoc(one))}\n"
    if not is_class:
        return text
    shown_members = (found for found in members_of(one) if found[0] not in INNER or f"{name}.{found[0]}" in OUTER)
    return text + "".join(_member(name, *found) for found in shown_members)


def members_of(one: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties of a class that have a docstring, its own first."""
    for member, value in inspect.getmembers_static(one):
        if not (callable(_function(value)) or isinstance(value, property)):
            continue
        ours = (getattr(_function(value), "__module__", None) or "").startswith("fencepost")
        if not member.startswith("_") and ours and _function(value).__doc__:
            yield member, value


def _function(value: Any) -> Any:
    if isinstance(value, property):
        return value.fget
    return value.__func__ if isinstance(value, classmethod | staticmethod) else value


def _member(owner: str, name: str, value: Any) -> str:
    about = prose(inspect.getdoc(_function(value)))
    if isinstance(value, property | type) or not callable(_function(value)):
        return f"\n`{owner}.{name}`: {about}\n"
    begin = "await " if inspect.iscoroutinefunction(_function(value)) else ""
    return f"\n```text\n{begin}{signature(f'{owner}.{name}', _function(value))}\n```\n\n{about}\n"


# -- signatures -------------------------------------------------------------------------------------------------------

_WIDE = 100


def signature(name: str, one: Any) -> str:
    """`name(parameters) -> result`, on one line if it is short."""
    found = inspect.signature(one)
    parts = [_parameter(one) for one in found.parameters.values() if one.name not in {"self", "cls"}]
    kinds = [one.kind for one in found.parameters.values() if one.name not in {"self", "cls"}]
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        parts.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    result = found.return_annotation
    end = "" if result is inspect.Signature.empty or isinstance(one, type) else f" -> {_annotation(result)}"
    short = f"{name}({', '.join(parts)}){end}"
    return short if len(short) <= _WIDE else f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){end}"


def _parameter(one: inspect.Parameter) -> str:
    stars = "*" * (one.kind is one.VAR_POSITIONAL) + "**" * (one.kind is one.VAR_KEYWORD)
    text = stars + one.name
    if one.annotation is not one.empty:
        text += f": {_annotation(one.annotation)}"
    return text if one.default is one.empty else f"{text} = {_default(one.default)}"


def _annotation(given: Any) -> str:
    text = given if isinstance(given, str) else given.__name__ if isinstance(given, type) else str(given)
    text = text.replace("fencepost.core.contract.", "").replace("contracts.", "")
    return re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Z])", "", text)


def _default(value: Any) -> str:
    match value:
        case timedelta():
            return f'"{spelled(round(value / timedelta(microseconds=1)))}"'
        case fencepost.Retry():
            return "Retry()"
        case _ if callable(value) or type(value) is object or "object at" in repr(value):
            return "..."
        case _:
            return repr(value)


# -- docstrings -------------------------------------------------------------------------------------------------------


def prose(text: str | None) -> str:
    """A docstring as Markdown: its paragraphs, and its sections as lists."""
    return SECTION.sub(_section, (text or "") + "\n").strip()


def _section(match: re.Match[str]) -> str:
    title, body = match.groups()
    items = re.sub(r"\n {5,}", " ", inspect.cleandoc(body).replace("\n    ", "\n     "))
    lines = [re.sub(r"^([*\w, ]+):", lambda named: f"`{named.group(1)}`:", line) for line in items.splitlines() if line]
    return f"{'Arguments' if title == 'Args' else title}:\n\n" + "".join(f"- {line}\n" for line in lines) + "\n"


def _errors(members: dict[str, Any]) -> str:
    """The errors as a tree: indented under the error that they are a kind of."""
    text = "Each carries `message`, `hint` (what to do next) and `ids` (which run, step, key or lease it is about).\n\n"
    roots = [one for one in members.values() if one.__base__ in (Exception, BaseException)]
    return text + "".join(_branch(root, members, 0) for root in roots)


def _branch(error: type, members: dict[str, Any], level: int) -> str:
    line = f"{'  ' * level}- `{error.__name__}`: {' '.join(prose(inspect.getdoc(error)).split())}\n"
    below = (one for one in members.values() if one.__base__ is error)
    return line + "".join(_branch(one, members, level + 1) for one in below)
