"""What a step's body gets as its first argument: the operation's key, the attempt, and the ways to the outside.

`Call` is for `async def` bodies, `SyncCall` for plain ones, with the same names. The facts of the attempt, which both
share, and whether it may send are `attempting`'s; the transport is `http`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fencepost.core.errors import Misuse
from fencepost.core.records import REFERENCE
from fencepost.effects.attempting import Attempting
from fencepost.effects.callbacks import hand_out, hand_out_blocking
from fencepost.effects.http import Http, SyncHttp
from fencepost.effects.secret import Secret, revealed
from fencepost.effects.span import SendGuard
from fencepost.effects.telling import Told

if TYPE_CHECKING:
    from fencepost.effects.model import Model, SyncModel


class _Face(Told):
    """What both faces of an attempt show."""

    __slots__ = ()

    def __init__(self, attempting: Attempting) -> None:
        self._attempting = attempting

    @property
    def key(self) -> str:
        """The operation's key: the same for every attempt; send it where the target compares keys."""
        return self._attempting.key

    @property
    def attempt(self) -> int:
        """Number of this attempt, from 1."""
        return self._attempting.attempt

    @property
    def generation(self) -> int:
        """Generation of the run's ownership under which this attempt was dispatched."""
        return self._attempting.site.generation

    @property
    def deadline(self) -> int:
        """The instant on the boot-time clock, in microseconds, after which nothing of this attempt is sent."""
        return self._attempting.deadline

    def token(self, resource: str) -> int:
        """The token of this attempt, to be sent with every write to `resource` at a target that compares tokens.

        Raises `Misuse` where the effect declares no `fence=`, or its request touches another resource.
        """
        return self._attempting.token(resource)

    @property
    def principal(self) -> str | None:
        """On whose behalf the run acts."""
        return self._attempting.site.principal

    def secret(self, wanted: Secret[str] | str) -> str:
        """The value of a secret, from the app's `secrets=`; from now on it is kept out of everything that is stored.

        Use it for one send and keep it nowhere: a result that holds it is refused.

        Raises `Misuse` where the app has no such secret, or it is shorter than 8 characters.
        """
        attempting = self._attempting
        return revealed(attempting.site.outside.secrets, wanted, step=attempting.position)

    @contextmanager
    def sending(self, client: Any = None) -> Iterator[SendGuard]:
        """Put every send of a client other than `call.http` inside: `with call.sending(): smtp.send_message(m)`.

        On entry lease and deadline are checked, so that a worker that was paused or lost its lease sends nothing; the
        send is counted. From there on the client's own declared timeout is the bound, unless the block hands over the
        client's socket: after `with call.sending() as guard: guard.watch(smtp.sock)` the connection is reset at the
        deadline, and a process that is stopped then is ended.

        Args:
            client: through which it is sent. Each of its tries is then counted where it offers a hook (boto3, requests,
                httpx, openai, anthropic), and a refusal of one try proves nothing of the others; elsewhere the attempt
                shows as not countable. Without it the block counts as one send.

        Raises:
            LeaseLost, DeadlinePassed: nothing was sent.
            Unresolved: a watched connection still held bytes at the end of the block.
        """
        with self._attempting.sending(client) as guard:
            yield guard


class Call(_Face):
    """First argument of an `async def` step body."""

    __slots__ = ("_http",)

    def __init__(self, attempting: Attempting) -> None:
        super().__init__(attempting)
        self._http: Http | None = None

    @property
    def http(self) -> Http:
        """HTTP to the outside: one write per attempt, reads are free, no redirects or retries of its own."""
        if self._http is None:
            self._http = Http(self._attempting)
        return self._http

    @property
    def model(self) -> Model:
        """The configured model endpoint."""
        from fencepost.effects.model import Model

        return Model(self._attempting)

    async def remember(self, reference: str) -> None:
        """Store the remote object's id as soon as it is known, also in mid-call."""
        self._attempting.reference = reference
        await self._attempting.note(REFERENCE, {"reference": reference})

    async def callback(self, name: str) -> str:
        """The token with which an outside system reports on the job that this effect hands to it.

        Send it with the request. The run waits with `run.wait(name, Result, callback=this_effect)`. It is the same in
        every attempt of the operation; the ledger holds its digest only, and that before this returns.

        Raises:
            Misuse: the app has no callback secret, or not that of an earlier attempt; the step is no effect, or atomic.
        """
        return await hand_out(self._attempting, name)


class SyncCall(_Face):
    """First argument of a plain `def` step body; the same names, blocking."""

    __slots__ = ("_http",)

    def __init__(self, attempting: Attempting) -> None:
        super().__init__(attempting)
        self._http: SyncHttp | None = None

    @property
    def http(self) -> SyncHttp:
        """HTTP to the outside, blocking; see `Call.http`."""
        if self._http is None:
            self._http = SyncHttp(self._attempting)
        return self._http

    @property
    def model(self) -> SyncModel:
        """The configured model endpoint."""
        from fencepost.effects.model import SyncModel

        return SyncModel(self._attempting)

    @property
    def transaction(self) -> Any:
        """The ledger's own connection, in the transaction that will hold this attempt's result: of `atomic` effects.

        Write your tables through it; it is `sqlite3.Connection` or `psycopg.Connection`. It is committed with the
        result when the body returns, and taken back when the body raises or the run has another owner by then.
        """
        if self._attempting.connection is None:
            raise Misuse(
                "this attempt has no transaction of the ledger",
                hint="declare atomic=True on the effect, and use the transaction inside its body only",
                ids={"step": self._attempting.position},
            )
        return self._attempting.connection

    def remember(self, reference: str) -> None:
        """Store the remote object's id as soon as it is known, also in mid-call."""
        self._attempting.reference = reference
        self._attempting.note_blocking(REFERENCE, {"reference": reference})

    def callback(self, name: str) -> str:
        """The token with which an outside system reports on a job; see `Call.callback`."""
        return hand_out_blocking(self._attempting, name)
