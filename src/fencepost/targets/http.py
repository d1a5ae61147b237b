"""A fence over HTTP: a JSON resource with the token in it, written with `If-Match` and its ETag.

    orders = HttpFence(httpx2.Client(base_url="https://shop.example.com/orders/", timeout=5))

    def approve(call: SyncCall, order: str) -> None:
        with call.sending():
            orders.write(order, call.token(order), lambda now: now | {"state": "approved"})

What it promises, and when. The server must compare a strong ETag in the same step in which it writes (RFC 9110, 13.1.1:
it must not act if the comparison fails), give each state of the resource an ETag of its own, and keep the field or
header that holds the token. Then a write of an old owner who looked before the token was raised is answered 412, which
is proof, and one who looks later sees the token. That the ETag covers the token is checked at each raise; `probe` shows
whether the server compares at all, which many do not. Every writer must go this way, and nothing between may repeat a
PUT: behind a proxy that does, a 412 may be meant for the second copy.

Without a place for the token (`field=None`) the ETag only shows that nothing changed since a look, nobody can raise
anything, and the target is weak. Whether a look-up may believe an absence is decided in `core.recovery`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from fencepost.core.errors import Misuse, Permanent, Unresolved
from fencepost.targets.document import Content, Documents, Put, Seen, with_token, without_token

if TYPE_CHECKING:
    import httpx2

_ACCEPTED = 202
_NOT_FOUND = 404
_REFUSED = 412
_NO_ETAG = '"fencepost-probe-that-no-state-has"'


class HttpFence(Documents):
    """Resources below the base URL of `client`; the token is in `field` of each one's JSON object, or in `header`.

    A resource that does not exist is created with `If-None-Match: *`. None may be deleted while tokens are issued for
    it: with the resource, its highest token is forgotten.
    """

    def __init__(
        self,
        client: httpx2.Client,
        *,
        field: str | None = "fencepost_token",
        header: str | None = None,
        name: str = "HTTP If-Match",
    ) -> None:
        self.name = name
        self._client = client
        self._field = None if header else field
        self._header = header

    @property
    def weakness(self) -> str | None:
        """Why it is no fence, if there is no place for the token."""
        if self._field or self._header:
            return None
        return "the target has no place for a token, so it only compares that nothing changed since the writer looked"

    def read(self, resource: str) -> Seen:
        """The resource as the server shows it now.

        Raises:
            Permanent: it has no strong ETag, or is no JSON object.
            HTTPError: of httpx2: no answer, or one that is no success.
        """
        reply = self._client.get(quote(resource), headers={"cache-control": "no-cache"})
        if reply.status_code == _NOT_FOUND:
            return Seen({}, 0, None)
        reply.raise_for_status()
        version = reply.headers.get("etag", "")
        if not version.startswith('"'):
            raise Permanent(
                f"the resource {resource!r} has {'a weak' if version else 'no'} ETag, which no write can be bound to",
                hint="without a strong ETag this target is no fence",
                ids={"resource": resource},
            )
        content, token = without_token(reply.content, self._field, resource)
        return Seen(content, int(reply.headers.get(self._header, 0)) if self._header else token, version)

    def raise_to(self, resource: str, token: int) -> None:
        """See `Fence.raise_to`."""
        if self.weakness:
            raise Misuse(
                f"{self.name} cannot be told a token: {self.weakness}", hint="name the field= or header= that keeps it"
            )
        super().raise_to(resource, token)

    def probe(self, resource: str) -> None:
        """Show that the server compares: a write under an ETag that no state has must be refused.

        It would store what is stored already, token included. For your own deployment tests; it is no part of a raise.

        Raises:
            Permanent: the server wrote it all the same, so it is no fence.
        """
        seen = self.read(resource)
        if self._put(resource, seen.content, seen.token, _NO_ETAG).stored:
            raise Permanent(
                f"the server wrote {resource!r} under an ETag that it never had",
                hint="it does not look at If-Match: declare no fence for it",
                ids={"resource": resource},
            )

    def _put(self, resource: str, content: Content, token: int, version: str | None) -> Put:
        headers = {"content-type": "application/json"}
        headers |= {"if-none-match": "*"} if version is None else {"if-match": version}
        if self._header:
            headers[self._header] = str(token)
        body = with_token(content, self._field, token)
        reply = self._client.put(quote(resource), content=body, headers=headers)
        if reply.status_code == _REFUSED:
            return Put(stored=False)
        reply.raise_for_status()
        if reply.status_code == _ACCEPTED:
            raise Unresolved(
                "the target took the write for later (202), so nothing was compared with its present state"
            )
        return Put(stored=True)
