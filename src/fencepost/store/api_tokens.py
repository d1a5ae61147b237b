"""The store's verbs about API tokens: kept and revoked with their audit rows, and found by their digests.

Who may make one, and what one is good for, is `runtime.api_tokens`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fencepost.core.api_tokens import ApiToken
from fencepost.core.records import Audit
from fencepost.store.verbs import Verbs, whole


class ApiTokenVerbs(Verbs):
    """What both stores do alike with API tokens."""

    @whole
    def add_api_token(self, new: ApiToken, audit: Callable[[ApiToken], Audit]) -> ApiToken:
        """See `Store.add_api_token`."""
        values = {name: getattr(new, name) for name in self.queries["add_api_token"].parameters}
        with self._writing() as work:
            work.change("add_api_token", **values)
            kept = replace(new, no=work.execute("api_token_with", digest=new.digest)[0][0])
            self._append(work, audit(kept))
            return kept

    @whole
    def api_token(self, digest: str) -> ApiToken | None:
        """See `Store.api_token`."""
        found = self._read("api_token_with", digest=digest)
        return ApiToken(*found[0]) if found else None

    @whole
    def api_tokens(self, namespace: str) -> list[ApiToken]:
        """See `Store.api_tokens`."""
        return [ApiToken(*row) for row in self._read("list_api_tokens", namespace=namespace)]

    @whole
    def revoke_api_token(self, namespace: str, no: int, *, by: str, audit: Audit) -> bool:
        """See `Store.revoke_api_token`."""
        with self._writing() as work:
            if not work.change("revoke_api_token", namespace=namespace, no=no, by=by, now=self.now()):
                work.was_in_vain()
                return False
            self._append(work, audit)
            return True
