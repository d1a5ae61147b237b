"""What a store can be asked beside the lives of runs: who may do what, what is contained, queues, audit, purge, key.

`api` asks for all of it of every store, and has the verbs that a worker lives by.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from fencepost.core.accounts import Account, Invitation, Session
from fencepost.core.api_tokens import ApiToken
from fencepost.core.charting import Lately
from fencepost.core.containment import Containment
from fencepost.core.overview import FirstLook
from fencepost.core.proposals import Closing, Proposal
from fencepost.core.queue import Queue, QueueStanding
from fencepost.core.records import Audit, Run
from fencepost.core.states import RunState
from fencepost.store.queries import Row
from fencepost.store.walk import Walk


class AuditFilter(NamedTuple):
    """Which audit rows a list shows; None means any. Pages go by `before` (a row's number), newest first."""

    namespace: str
    run_id: str | None = None
    verb: str | None = None
    actor: str | None = None
    outcome: str | None = None
    before: int | None = None
    limit: int = 50


class RunSearch(NamedTuple):
    """Which runs a person looks for; None means any. Times are microseconds; pages go by `after`, newest first.

    `step` is the name of an effect's step or of any other, `error` a part of the run's error or of what it is held
    for, `key` the beginning of an effect's key. `retrying`: something of it was tried, and will be again. A key or a
    reference is found by itself, and nothing else is compared then.
    """

    namespace: str
    state: str | None = None
    workflow: str | None = None
    prefix: str | None = None
    step: str | None = None
    error: str | None = None
    held_for: str | None = None
    key: str | None = None
    reference: str | None = None
    since: int | None = None
    until: int | None = None
    retrying: bool = False
    after: int | None = None
    limit: int = 50


class Searched(NamedTuple):
    """The runs that fit, and after which number the search goes on; None: it is over."""

    runs: list[Run]
    following: int | None


class Purging(NamedTuple):
    """Which runs are purged: those of a namespace that ended in a state before a time, by number after `after`."""

    namespace: str
    state: str
    before: int
    after: int = 0
    limit: int = 200


class Governing(Protocol):
    """The part of a `Store` that people and the app itself use."""

    def declare_queues(self, namespace: str, declared: Sequence[Queue]) -> None:
        """Write the limits of queues; whoever declares last is right."""

    def queues(self, namespace: str) -> list[QueueStanding]:
        """Every queue of a namespace, by name."""

    def queue_lengths(self, namespace: str) -> dict[str, tuple[int, int]]:
        """Of each queue how many runs are due and not in work, and how many wait for something else."""

    def pause_queue(self, namespace: str, name: str, *, actor: str | None, audit: Audit) -> bool:
        """Pause a queue in somebody's name, or let it go on (None), with the audit row; False: it is so already."""

    def contained(self, namespace: str) -> list[Containment]:
        """Everything that is contained in a namespace, the oldest first."""

    def contain(self, wanted: Containment, audit: Audit) -> tuple[Containment, bool]:
        """Contain something; how it is contained then, and whether this has changed anything, and left its audit row.

        No dispatch toward it is committed after this has returned. What a person has contained stays as it is; what a
        breaker stops becomes a person's.
        """

    def release(self, mark: str, audit: Audit) -> Containment | None:
        """Contain something no more, with its audit row, and wake the runs behind it; None: it is not contained."""

    def let_through(self, breaker: Containment, until: int, now: int) -> int | None:
        """Let one run that waits behind a breaker through it, until then, and wake it; its number.

        None: it is not time, another run is let through just now, or none waits.
        """

    def probed(self, mark: str, run: int, *, cool_down: int | None, now: int, audit: Audit) -> bool:
        """Take in what the run brought that was let through a breaker; whether it still was that one.

        None closes the breaker, with the audit row, and lets everybody go on; otherwise it stays shut for so long.
        """

    def wake_forgotten(self, namespace: str) -> bool:
        """Wake the runs that wait behind what is contained no more; whether there were any."""

    def ended(self, wanted: Purging) -> int:
        """How many runs there are that ended like this and were not purged; those that are needed are among them."""

    def purgeable(self, wanted: Purging) -> list[tuple[int, str]]:
        """The next runs that may be purged, by number and id. Nothing is changed."""

    def purge(self, wanted: Purging, audit: Callable[[list[str]], Audit]) -> list[tuple[int, str]]:
        """Purge the next runs: remove what they hold, keep their rows and ids; by number and id.

        The audit row that `audit` makes of their ids is appended in the same commit, if there are any.
        """

    def codec_mark(self) -> str | None:
        """What whoever opened the ledger with a codec has left to know the key by; None if nobody ever did."""

    def mark_codec(self, mark: str) -> None:
        """Leave that mark, in place of the one before."""

    def measure(self, alert: str, namespace: str, *, now: int, since: int) -> list[Row]:
        """What an alert's query finds: (value, how many things it is about, one of them by name), or nothing."""

    def lately(self, namespace: str, *, runs: int, limit: int) -> Lately:
        """What charts are made of: those of the ledger's newest `runs` that are of the namespace, and their attempts.

        Of the attempts the newest runs' come first; at most `limit` first ones, and as many further ones.
        """

    def first_look(self, namespace: str, states: Sequence[RunState], *, limit: int, most: int) -> FirstLook:
        """What is unknown, at most `limit` effects; what is held, what has failed and why, and counts by state.

        Runs that are held, of the newest that have failed, and in each of `states`, are counted no further than `most`.
        """

    def search_runs(self, wanted: RunSearch, most: int) -> Searched:
        """Runs that fit, newest first, among the next `most` at most."""

    def write_nothing(self) -> None:
        """Wait for one's turn to write, write nothing, and commit: as long as that takes, every step waits."""

    def policy(self, namespace: str) -> str | None:
        """Who may do what in a namespace, as its code declared it last; None: it never did."""

    def policies(self) -> dict[str, str]:
        """Who may do what in each namespace whose code has ever declared it."""

    def declare_policy(self, namespace: str, policy: str, audit: Callable[[str | None, int], Audit]) -> None:
        """Keep who may do what from now on; an audit row of what it was before, if that differs."""

    def add_api_token(self, new: ApiToken, audit: Callable[[ApiToken], Audit]) -> ApiToken:
        """Keep a token's digest, with its audit row; the token with its number."""

    def api_token(self, digest: str) -> ApiToken | None:
        """The token with this digest, of whatever namespace, revoked or not."""

    def api_tokens(self, namespace: str) -> list[ApiToken]:
        """Every token of a namespace, newest first."""

    def revoke_api_token(self, namespace: str, no: int, *, by: str, audit: Audit) -> bool:
        """Take a token no more, with its audit row; False: there is none with this number that was."""

    def account(self, namespace: str, person: str) -> Account | None:
        """Somebody's account at the console."""

    def accounts(self, namespace: str) -> list[Account]:
        """Every account of a namespace, by name."""

    def invitation(self, digest: str) -> Invitation | None:
        """The sign-in link with this digest, of whatever namespace, used or not."""

    def was_anybody_invited(self, namespace: str) -> bool:
        """Whether a sign-in link was ever made in a namespace."""

    def add_invitation(self, new: Invitation, audit: Audit) -> None:
        """Keep a sign-in link's digest, with its audit row."""

    def let_in(
        self, session: Session, audit: Audit, *, invitation: str | None = None, account: Account | None = None
    ) -> bool:
        """Begin a session with its audit row: by a link, which is then good no more, or without one.

        With an account, it is kept too, in place of one of this name. False: the link was good no more, and nothing is
        changed.
        """

    def session(self, digest: str) -> Session | None:
        """The session with this digest, of whatever namespace, ended or not."""

    def note_session(self, digest: str, now: int) -> None:
        """Note that a session was used."""

    def end_session(self, digest: str, audit: Audit) -> bool:
        """End a session, with its audit row; False: it was ended, or never was."""

    def close_account(self, namespace: str, person: str, audit: Audit) -> bool:
        """End somebody's account, links and sessions, with the audit row; False: they had none."""

    def propose(self, new: Proposal, audit: Callable[[Proposal], Audit]) -> Proposal:
        """Keep a proposal, with its audit row; or the same one, if it is open already, which leaves no row."""

    def proposal(self, namespace: str, no: int) -> Proposal | None:
        """The proposal with this number."""

    def proposals(self, namespace: str, *, every: bool, limit: int) -> list[Proposal]:
        """Proposals, newest first: those that can be confirmed now, or `every` one."""

    def decline(self, closing: Closing, audit: Audit) -> bool:
        """Close a proposal without carrying it out, with its audit row; False: it is closed already, or over."""

    def audit(self, row: Audit) -> Audit:
        """Append an audit row, chained by hash."""

    def audits(self, namespace: str | None, run_id: str | None) -> list[Audit]:
        """Audit rows, oldest first; None for all. The chain of hashes runs through the whole ledger."""

    def list_audits(self, wanted: AuditFilter) -> list[Audit]:
        """A page of audit rows, newest first."""

    def walk(self) -> AbstractContextManager[Walk]:
        """Read the whole ledger from one moment, a few rows at a time; see `Walk`. Changes nothing, and blocks nobody.

        A file keeps, while it is walked through, what is written meanwhile in its log, which grows.
        """
