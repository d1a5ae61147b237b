"""A fence in Consul's key-value store: a key per resource holds the token, checked and set in the write's transaction.

    plans = ConsulFence(httpx2.Client(base_url="http://127.0.0.1:8500", headers={"X-Consul-Token": ...}, timeout=5))

    def publish(call: SyncCall, plan: Plan) -> None:
        with call.sending():
            plans.write(plan.line, call.token(plan.line), plans.set(f"plan/{plan.line}", plan.text.encode()))

Consul compares a key's modify index, not its value: the token is read, compared here, and written again under the index
at which it was read, in one transaction with the write. `held_by` adds the classic condition that a session holds a
lock; by itself a session is no fence, since its time-out says nothing of requests that are under way. Source: Consul's
HTTP API, pages "Transaction" and "KV store", read 2026-11-29. Tested against a double that behaves as they say, and
against an agent where `CONSUL_HTTP_ADDR` is set.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from fencepost.core.errors import FenceRefused
from fencepost.targets.refusal import TRIES, changed, refused, repeated, restless, unreadable

if TYPE_CHECKING:
    import httpx2

Operation = dict[str, Any]
"""One operation of a transaction as Consul takes it; `ConsulFence.set` and others make some."""

_CONFLICT = 409
_NOT_FOUND = 404


class _Token(NamedTuple):
    """A resource's token and the index at which it was read; 0 and 0 where there is none, as `cas` takes it."""

    number: int
    read_at: int


class ConsulFence:
    """The token keys under `prefix`, at the agent that `client` speaks to.

    The keys belong to no session and must not be deleted: with its key, a resource's highest token is forgotten.
    """

    weakness = None

    def __init__(self, client: httpx2.Client, *, prefix: str = "fencepost/fence/", name: str = "Consul key") -> None:
        self.name = name
        self._client = client
        self._prefix = prefix

    def raise_to(self, resource: str, token: int) -> None:
        """See `Fence.raise_to`."""
        for _ in range(TRIES):
            if not self._attempt(resource, token):
                return
        raise restless(resource, token)

    def write(self, resource: str, token: int, *operations: Operation) -> None:
        """Carry out the operations in one transaction, if no higher token is known for the resource.

        Raises:
            FenceRefused: a higher token is known, or one of the operations has a condition that does not hold; nothing
                was written.
            Unresolved: it was refused, and something under the same token was written at that moment.
            HTTPError: of httpx2: no answer, or one that is no success.
        """
        for _ in range(TRIES):
            refusals = self._attempt(resource, token, *operations)
            if not refusals:
                return
            if 0 not in refusals:
                raise FenceRefused(
                    f"a condition of this write does not hold: {'; '.join(refusals.values())}",
                    hint="this write did nothing",
                    ids={"resource": resource, "token": str(token)},
                )
            if self._token_after_refusal(resource) == token:
                raise repeated(resource, token)
        raise changed(resource, token)

    def get(self, key: str) -> bytes | None:
        """The value of a key now, as its leader confirms it; None if there is none. For look-ups: it never lags."""
        found = self._read(key)
        return None if found is None else b64decode(found["Value"] or "")

    @staticmethod
    def set(key: str, value: bytes) -> Operation:
        """The operation that sets a key."""
        return {"KV": {"Verb": "set", "Key": key, "Value": b64encode(value).decode()}}

    @staticmethod
    def delete(key: str) -> Operation:
        """The operation that deletes a key."""
        return {"KV": {"Verb": "delete", "Key": key}}

    @staticmethod
    def held_by(session: str, lock: str) -> Operation:
        """The condition that a session holds a lock."""
        return {"KV": {"Verb": "check-session", "Key": lock, "Session": session}}

    def _attempt(self, resource: str, token: int, *operations: Operation) -> dict[int, str]:
        """Try it once; what was refused, by its place in the transaction (0: the token), or nothing."""
        known = self._token(resource)
        if known.number > token:
            raise refused(resource, token, known.number)
        value = b64encode(str(token).encode()).decode()
        raises = {"KV": {"Verb": "cas", "Key": self._prefix + resource, "Value": value, "Index": known.read_at}}
        reply = self._client.put("/v1/txn", json=[raises, *operations])
        if reply.status_code != _CONFLICT:
            reply.raise_for_status()
            return {}
        return {int(error["OpIndex"]): str(error["What"]) for error in reply.json()["Errors"]}

    def _token_after_refusal(self, resource: str) -> int:
        try:
            return self._token(resource).number
        except Exception as error:
            # Its own failure says which bytes of the look left, and would be taken for the write's.
            raise unreadable(resource) from error

    def _token(self, resource: str) -> _Token:
        found = self._read(self._prefix + resource)
        return _Token(0, 0) if found is None else _Token(int(b64decode(found["Value"])), int(found["ModifyIndex"]))

    def _read(self, key: str) -> dict[str, Any] | None:
        reply = self._client.get(f"/v1/kv/{quote(key)}", params={"consistent": ""})
        if reply.status_code == _NOT_FOUND:
            return None
        reply.raise_for_status()
        found: dict[str, Any] = reply.json()[0]
        return found
