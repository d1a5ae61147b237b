"""What may be contained, and the marks by which a dispatch is found to go toward it.

A containment stops new dispatches toward a target, resource, tenant, workflow or credential, until somebody releases
it; a breaker is one that opened by itself. Each has a *mark*, and each dispatch carries the marks of everything that it
goes toward, so that the ledger can refuse it in the very write that would allow it. Nothing here reads the ledger or
decides who may contain what: that is `runtime.containing`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from fencepost.core.errors import Misuse


class Kind(StrEnum):
    """What can be contained."""

    TARGET = "target"
    """An outside system, under the name by which effects declare it."""
    RESOURCE = "resource"
    """What a run keeps its place in line for, or what a fenced effect's request touches."""
    TENANT = "tenant"
    """On whose behalf runs act: their whole principal, or what stands before its first slash."""
    WORKFLOW = "workflow"
    """Every version of the workflow of that name."""
    CREDENTIAL = "credential"
    """The scope in which an effect's key is valid; breakers contain it, people mostly release it."""


BREAKER = "breaker"
"""Who contains what a breaker stops."""

MINDS_BELOW = "below\n"
"""Put last among the marks of a dispatch: it does not begin while an operation is unknown in a child of its run.

No kind of thing has this name, so that nothing that can be contained stands for it.
"""


@dataclass(frozen=True, slots=True)
class Containment:
    """Why nothing new is sent toward something. Instants and durations in microseconds.

    A person's has no `cool_down`. A breaker's lets the run `probe_run` through from `probe_at` on, until `probe_until`.
    """

    mark: str
    namespace: str
    kind: Kind
    name: str
    actor: str
    reason: str
    at: int
    cool_down: int | None = None
    probe_at: int | None = None
    probe_run: int | None = None
    probe_until: int | None = None

    @property
    def is_breaker(self) -> bool:
        """Whether it opened by itself, and closes by itself."""
        return self.cool_down is not None

    @property
    def text(self) -> str:
        """It, for people: "target bank by ann because it books twice"."""
        return f"{self.kind} {self.name} by {self.actor} because {self.reason}"

    def lets_through(self, run: int) -> bool:
        """Whether this run is the one that finds out whether it is over."""
        return self.probe_run == run


def behind(contained: Iterable[Containment]) -> str:
    """The marks of what a run waits behind, as its row holds them: each ends as it begins, with a line break."""
    return "\n" + "".join(one.mark.removeprefix("\n") for one in contained)


def kind_of(text: str) -> Kind:
    """The kind of that name. Raises `Misuse`."""
    try:
        return Kind(text)
    except ValueError:
        raise Misuse(f"{text!r} cannot be contained", hint=f"one of: {', '.join(Kind)}") from None


def mark(namespace: str, kind: Kind, name: str) -> str:
    """How one thing stands among what a dispatch goes toward; the line breaks keep it from being part of another."""
    return f"\n{_line(namespace, kind, name)}"


def toward_run(namespace: str, workflow: str, principal: str | None, resource: str | None) -> str:
    """The marks of everything that any dispatch of a run goes toward."""
    found = "\n" + _line(namespace, Kind.WORKFLOW, workflow)
    if principal:
        found += _line(namespace, Kind.TENANT, principal)
        before, slash, _ = principal.partition("/")
        if slash:
            found += _line(namespace, Kind.TENANT, before)
    if resource is not None:
        found += _line(namespace, Kind.RESOURCE, resource)
    return found


def toward_effect(
    namespace: str, target: str | None, scope: str, resource: str | None, *, minds_below: bool = False
) -> str:
    """The marks that an effect adds to those of its run; put behind them. `minds_below`: see `MINDS_BELOW`."""
    found = ""
    if target is not None:
        found += _line(namespace, Kind.TARGET, target)
    if scope:
        found += _line(namespace, Kind.CREDENTIAL, scope)
    if resource is not None:
        found += _line(namespace, Kind.RESOURCE, resource)
    return found + MINDS_BELOW if minds_below else found


def _line(namespace: str, kind: Kind, name: str) -> str:
    if "\n" in name or "\\" in name:
        name = name.replace("\\", "\\\\").replace("\n", "\\n")
    return f"{kind.value} {len(namespace)}:{namespace} {name}\n"
