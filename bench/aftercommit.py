"""Sits between a journal and its store, and tells what has just become durable.

The journal asks its store to prepare a commit and then to make it; whoever listens here is told the groups and their
answers after the commit has returned and before anybody who waits for one of them. It neither delays nor changes what
is written. `witness` checks bodies with it, `ceiling` learns which moves a step makes.
"""

from collections.abc import Callable, Sequence

from fencepost.runtime.app import App
from fencepost.store.api import Group, NewRun
from fencepost.store.faultpoints import Probe
from fencepost.store.groups import Outcome
from fencepost.store.journal import Journal, JournaledStore, PreparedCommit

Tell = Callable[[Sequence[Group | NewRun], Sequence[Outcome]], None]


class _Prepared:
    """A prepared commit that tells when it is made."""

    __slots__ = ("_groups", "_inner", "_tell")

    def __init__(self, inner: PreparedCommit, groups: Sequence[Group | NewRun], tell: Tell) -> None:
        self._inner = inner
        self._groups = groups
        self._tell = tell

    def commit(self, *, patience: float) -> list[Outcome]:
        """Make it durable, then tell; a commit that raises tells nothing."""
        outcomes = self._inner.commit(patience=patience)
        self._tell(self._groups, outcomes)
        return outcomes

    def watched(self) -> int | None:
        """What a loop can watch for the answer."""
        return self._inner.watched()


class AfterCommit:
    """A store for the journal's eyes, which tells after each commit."""

    def __init__(self, store: JournaledStore, tell: Tell) -> None:
        self._store = store
        self._tell = tell
        self.probe: Probe | None = None
        self.is_remote = store.is_remote

    def prepare(self, groups: Sequence[Group | NewRun], *, patience: float) -> _Prepared:
        """What the store prepares, with somebody listening."""
        return _Prepared(self._store.prepare(groups, patience=patience), groups, self._tell)


def listen(app: App, tell: Tell) -> None:
    """Give an app that has begun nothing yet a journal whose commits are told."""
    host = app.host
    assert host.journal.commits == 0, "what was committed before cannot be told any more"
    host.journal.close()
    host.journal = Journal(AfterCommit(host.store, tell))
