"""A fence in etcd: a key per resource holds the token, and a transaction compares it with that of the write.

    plans = EtcdFence(httpx2.Client(base_url="https://etcd.example.com:2379", verify=..., timeout=5))

    def publish(call: SyncCall, plan: Plan) -> None:
        with call.sending():
            plans.write(plan.line, call.token(plan.line), plans.put(f"plan/{plan.line}", plan.text.encode()))

etcd is spoken to over its JSON gateway, so that no client library is needed; addresses, TLS and authentication are
those of the client that is handed in. Only what is written through `write` is compared: any other client of etcd can
write the same keys without a token. Tested with etcd 3.4. What is sent again when is decided in `core.recovery`.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any

from fencepost.targets.refusal import refused

if TYPE_CHECKING:
    import httpx2

Operation = dict[str, Any]
"""One operation of a transaction as the JSON gateway takes it; `EtcdFence.put` and `EtcdFence.delete` make some."""

_DIGITS = 20  # of a token in its key: etcd compares values as bytes, so that all have the same length


class EtcdFence:
    """The token keys under `prefix`, at the etcd that `client` speaks to.

    The keys have no lease and must not be deleted: with its key, a resource's highest token is forgotten.
    """

    weakness = None

    def __init__(self, client: httpx2.Client, *, prefix: str = "fencepost/fence/", name: str = "etcd key") -> None:
        self.name = name
        self._client = client
        self._prefix = prefix

    def raise_to(self, resource: str, token: int) -> None:
        """See `Fence.raise_to`. A transaction is answered when a majority has it."""
        self.write(resource, token)

    def write(self, resource: str, token: int, *operations: Operation) -> None:
        """Carry out the operations in one transaction, if no higher token is known for the resource.

        Raises:
            FenceRefused: a higher token is known; nothing was written.
            HTTPError: of httpx2: no answer, or one that is no success.
        """
        key = self._prefix + resource
        there = {"key": _text(key), "target": "VALUE", "result": "LESS", "value": _text(_digits(token + 1))}
        nothing_there = {"key": _text(key), "target": "CREATE", "result": "EQUAL", "create_revision": "0"}
        does = [self.put(key, _digits(token).encode()), *operations]
        # A key that is not there compares as nothing, not even as less.
        otherwise = {"request_txn": {"compare": [nothing_there], "success": does}}
        answer = self._ask("txn", {"compare": [there], "success": does, "failure": [otherwise]})
        if answer.get("succeeded") or answer["responses"][0]["response_txn"].get("succeeded"):
            return
        raise refused(resource, token)

    def get(self, key: str) -> bytes | None:
        """The value of a key now, as a majority has it; None if there is none. For look-ups: it never lags."""
        found = self._ask("range", {"key": _text(key)}).get("kvs")
        return b64decode(found[0].get("value", "")) if found else None

    @staticmethod
    def put(key: str, value: bytes) -> Operation:
        """The operation that sets a key."""
        return {"request_put": {"key": _text(key), "value": b64encode(value).decode()}}

    @staticmethod
    def delete(key: str) -> Operation:
        """The operation that deletes a key."""
        return {"request_delete_range": {"key": _text(key)}}

    def _ask(self, verb: str, request: dict[str, Any]) -> dict[str, Any]:
        reply = self._client.post(f"/v3/kv/{verb}", json=request)
        reply.raise_for_status()
        answer: dict[str, Any] = reply.json()
        return answer


def _text(text: str) -> str:
    return b64encode(text.encode()).decode()


def _digits(token: int) -> str:
    return f"{token:0{_DIGITS}d}"
