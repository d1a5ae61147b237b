"""`with receipt(connection):` writes a request's receipt in the transaction in which its handler writes its own rows.

A crash leaves both or neither, so that nobody has to ask what a request did. The key is looked at, and kept from
others, when the block begins; the row with the answer is written when it ends. The unique constraint has the last word,
also where two transactions do not see each other. Committing is the handler's matter; what the sender is then told,
`desk`'s.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar
from types import TracebackType
from typing import Any, NoReturn, Self

from fencepost.core.errors import AlreadyAnswered, FencepostError, InProgress, Misuse, StoreBusy
from fencepost.core.states import ReceiptState
from fencepost.receiving import answer as answers
from fencepost.receiving.answer import Answer
from fencepost.receiving.desk import Desk, Run
from fencepost.receiving.receipts import Known, answered, known
from fencepost.store.callers import Steps, at_once, run

HANDLED: ContextVar[tuple[Desk, Run]] = ContextVar("fencepost.receiving.handled")
"""The request that is being handled, for whoever handles it."""


def receipt(connection: Any) -> Receipt:
    """The receipt of the request that is being handled, to be written on this connection, with `with` or `async with`.

    `connection` is one of sqlite3, psycopg or SQLAlchemy, in the transaction that the handler commits, and leads to the
    database of the endpoint's `Receipts`.

    Raises:
        Misuse: no request with a key is being handled here, or its endpoint is not atomic.
    """
    found = HANDLED.get(None)
    if found is None:
        raise Misuse(
            "no request with a key is being handled here",
            hint="call it inside a handler, behind IdempotentASGI or IdempotentWSGI",
        )
    desk, handled = found
    if not desk.terms.atomic:
        raise Misuse(
            "the endpoint is not atomic: its receipts are written beside the handler's work",
            hint="declare Terms(atomic=True)",
        )
    return Receipt(connection, desk, handled)


class Receipt:
    """One request's receipt; made by `receipt`."""

    def __init__(self, connection: Any, desk: Desk, handled: Run) -> None:
        self._connection = connection
        self._desk = desk
        self._run = handled
        self._answer: Answer | None = None

    @property
    def key(self) -> str:
        """The key that the sender gave."""
        return self._run.key.key

    def answer(self, status: int, value: Any = None, headers: Iterable[tuple[str, str]] = ()) -> Answer:
        """Say what the sender gets, now and each time it sends the request again, in place of the handler's response.

        Args:
            status: of the response.
            value: bytes are sent as they are, anything else as JSON; None is an empty body.
            headers: in any case of letters; of bytes give the content-type.

        Raises:
            Misuse: it is too large to be kept (`answer_max`).
            TypeError: the value is no JSON.
        """
        pairs = tuple((name.lower(), text) for name, text in headers)
        plain = value if isinstance(value, bytes) else b"" if value is None else None
        made = Answer(status, pairs, plain) if plain is not None else Answer.json(status, value, pairs)
        if made.body is not None and len(made.body) > self._desk.terms.answer_max:
            raise Misuse(
                f"an answer of {len(made.body)} bytes, at most {self._desk.terms.answer_max} are kept",
                hint="answer with a reference to it, or raise answer_max",
            )
        self._answer = made
        return made

    # -- with, async with ---------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        at_once(self.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        at_once(self.__aexit__(kind, error, trace))

    async def __aenter__(self) -> Self:
        await self._do(self._look())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            return
        if self._answer is None:
            raise Misuse(
                "the block of a receipt ended without an answer",
                hint="call receipt.answer(201, {...}) in it: duplicates get that",
            )
        await self._do(self._record(self._answer))
        self._run.kept = self._answer

    async def _do(self, steps: Steps[None]) -> None:
        receipts = self._desk.receipts
        try:
            await run(steps, self._connection, dialect=receipts.dialect, ledger=receipts.name)
        except StoreBusy:
            self._run.refusal = answers.in_progress(self._desk.terms.retry_after)
            raise

    # -- statements ---------------------------------------------------------------------------------------------------

    def _look(self) -> Steps[None]:
        queries, key = self._desk.receipts.queries, self._run.key._asdict()
        locked = yield queries["lock_key"], key
        if locked.rows and not locked.rows[0][0]:
            self._refuse(answers.in_progress(self._desk.terms.retry_after), InProgress, "is being handled elsewhere")
        found = yield queries["find_receipt"], {**key, "now": self._desk.receipts.now()}
        if found.rows:
            self._check(known(found.rows[0]))

    def _check(self, found: Known) -> None:
        if found.fingerprint != self._run.request.fingerprint:
            self._refuse(answers.another_request(), AlreadyAnswered, "came with another request")
        if found.answer is not None:
            self._refuse(found.answer.replayed(), AlreadyAnswered, "was answered before")
        if found.state is not ReceiptState.FREE:
            self._refuse(answers.unknown(), InProgress, f"is {found.state}")

    def _record(self, answer: Answer) -> Steps[None]:
        receipts, terms = self._desk.receipts, self._desk.terms
        values = {
            **self._run.key._asdict(),
            "fingerprint": self._run.request.fingerprint,
            "owner": self._run.owner,
            "within": terms.within,
            "now": receipts.now(),
            **answered(answer, terms),
        }
        done = yield receipts.queries["record_receipt"], values
        if done.changed != 1:
            self._refuse(answers.in_progress(terms.retry_after), InProgress, "was answered meanwhile")

    def _refuse(self, answer: Answer, error: type[FencepostError], what: str) -> NoReturn:
        """Let the handler's transaction write nothing; what the sender is told does not hang on this error."""
        self._run.refusal = answer
        raise error(
            f"key {self.key!r} {what}",
            hint="let it through: your transaction writes nothing, and the sender gets the right answer",
            ids={"caller": self._run.key.caller, "key": self.key},
        )
