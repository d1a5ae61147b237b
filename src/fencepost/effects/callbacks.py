"""The callback token that a body hands out: the one of its operation, in every attempt and every life.

A secret that was changed makes other tokens; an operation that has handed one out keeps it, for as long as the app
still holds the secret it was made from. How a token is made is `core.callback`; the body asks through `call`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from fencepost.core.callback import token_digest, token_of
from fencepost.core.errors import Misuse
from fencepost.core.identity import check_name
from fencepost.core.records import CALLBACK

if TYPE_CHECKING:
    from fencepost.core.records import Operation
    from fencepost.effects.attempting import Attempting


async def hand_out(attempting: Attempting, name: str) -> str:
    """The token of that name; its digest is durable by then. Raises `Misuse` as `token_for` does."""
    token, unknown = token_for(attempting, name)
    if unknown is not None:
        await attempting.note(CALLBACK, unknown)
    return token


def hand_out_blocking(attempting: Attempting, name: str) -> str:
    """As `hand_out`, from a thread."""
    token, unknown = token_for(attempting, name)
    if unknown is not None:
        attempting.note_blocking(CALLBACK, unknown)
    return token


def token_for(attempting: Attempting, name: str) -> tuple[str, dict[str, Any] | None]:
    """The token of that name, and the evidence to write down before it leaves; None if that was done before.

    Raises:
        Misuse: there is no operation that could hand one out, no secret, or not the one of an earlier attempt. Nothing
            of the attempt's next send has left.
    """
    try:
        return _token_for(attempting, attempting.operation, name)
    except Misuse as error:
        raise attempting.unsent(error) from None


def _token_for(attempting: Attempting, operation: Operation | None, name: str) -> tuple[str, dict[str, Any] | None]:
    check_name(name, what="callback")
    secrets = attempting.site.outside.callback_secrets
    if operation is None or attempting.contract.atomic:
        raise Misuse(
            "only an effect that sends something hands out a callback's token",
            hint="hand the job over in an @effect that is not atomic",
        )
    ids = {"step": operation.position, "callback": name}
    if not secrets:
        raise Misuse(
            "no callback secret is configured",
            hint="pass App(callback_secret=...), or set FENCEPOST_CALLBACK_SECRET; at least 32 bytes, kept outside of "
            "the ledger",
            ids=ids,
        )
    tokens = [token_of(secret, operation.key, name) for secret in secrets]
    before = handed_out([operation], name)
    if not before:
        return tokens[0], {"name": name, "digest": token_digest(tokens[0])}
    same = next((one for one in tokens if token_digest(one) in before), None)
    if same is None:
        raise Misuse(
            "the secret from which this operation's callback token was made is gone",
            hint="pass the old one after the new one, callback_secret=(new, old), until its jobs have ended",
            ids=ids,
        )
    return same, None


def handed_out(operations: Iterable[Operation], name: str) -> set[str]:
    """The digests of the tokens that these operations have handed out under this name."""
    seen = (seen for operation in operations for seen in operation.observations if seen.kind == CALLBACK)
    return {said["digest"] for one in seen if (said := json.loads(one.evidence))["name"] == name}
