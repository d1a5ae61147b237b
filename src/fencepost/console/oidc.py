"""Has an OpenID provider prove who somebody is: the code flow with PKCE, and every check of what comes back.

What a browser must bring back (state, nonce, PKCE's verifier) is in a cookie of its own for as long as that takes, so
that an answer is taken only from the browser that asked, and once. The token is checked for its signature by the
provider's own keys, issuer, audience, times and nonce; then the operator's table says which roles its groups have.
Nothing that a provider says is kept, apart from the session's person and roles and the audit row. The declaration is
`providers`, the addresses are `page_provider`.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode

import httpx2

from fencepost.console.providers import Provider, is_private
from fencepost.core.errors import FencepostError, Misuse, NotPermitted
from fencepost.core.identity import check_name

ALGORITHMS = ("RS256", "PS256", "ES256", "EdDSA")
"""Signatures that are taken: of keys of which only the provider has the half that signs."""

LASTS_SECONDS = 600
"""Within which somebody has to be back."""

LEEWAY_SECONDS = 30
"""By which the provider's clock and the ledger's may differ."""

ANSWER_SECONDS_MAX = 10.0
BYTES_MAX = 1 << 20
_SECRET_BYTES = 32
_PARTS = 3


class NotProved(NotPermitted):
    """The provider has not proved who this is, or somebody else than who asked has come back."""


class ProviderAway(Misuse):
    """The provider does not answer, or not as one."""


class Begun(NamedTuple):
    """Where the browser is sent, and what it has to bring back."""

    address: str
    kept: str


class Known(NamedTuple):
    """Who somebody is: their name here, their roles, and the provider's own name for them."""

    person: str
    roles: list[str]
    subject: str


async def begin(provider: Provider) -> Begun:
    """Begin a sign-in. Raises `ProviderAway`."""
    from authlib.oauth2.rfc7636 import create_s256_code_challenge

    found = await _described(provider)
    state, nonce, verifier = (secrets.token_urlsafe(_SECRET_BYTES) for _ in range(_PARTS))
    asked = {
        "response_type": "code",
        "client_id": provider.client_id,
        "redirect_uri": provider.back,
        "scope": provider.scopes,
        "state": state,
        "nonce": nonce,
        "code_challenge": create_s256_code_challenge(verifier),  # type: ignore[no-untyped-call]  # its stubs lack it
        "code_challenge_method": "S256",
    }
    address = found["authorization_endpoint"]
    return Begun(f"{address}{'&' if '?' in address else '?'}{urlencode(asked)}", f"{state}.{nonce}.{verifier}")


async def finish(provider: Provider, *, kept: str, asked: Mapping[str, str], now: int) -> Known:
    """Say who has come back.

    Args:
        provider: as it is declared.
        kept: what the browser was given when it began.
        asked: what the address has to which the provider sent it back.
        now: the ledger's clock, in whole seconds.

    Raises:
        NotProved: something of it is missing or wrong, or they have no role here.
        ProviderAway: the provider does not answer.
    """
    state, nonce, verifier = _kept_parts(kept)
    if not hmac.compare_digest(asked.get("state", "").encode(), state.encode()):
        raise NotProved("the answer is to another question", hint="begin once more")
    if "error" in asked or not asked.get("code"):
        raise NotProved(f"the provider refused: {asked.get('error', 'without a code')}", hint="begin once more")
    found = await _described(provider)
    # RFC 9207: an answer of another provider is told by its name, where providers give one.
    if asked.get("iss", provider.issuer) != provider.issuer:
        raise NotProved("the answer is of another provider", hint="begin once more")
    told = await _exchanged(provider, found, asked["code"], verifier)
    keys = await _fetched(provider, found["jwks_uri"])
    claims = _checked(provider, told, keys, nonce=nonce, now=now)
    return _known(provider, claims)


def _kept_parts(kept: str) -> list[str]:
    parts = kept.split(".")
    if len(parts) != _PARTS or not all(parts):
        raise NotProved("this browser has not begun to sign in, or too long ago", hint="begin once more")
    return parts


def _checked(
    provider: Provider, told: Mapping[str, Any], keys: Mapping[str, Any], *, nonce: str, now: int
) -> Mapping[str, Any]:
    """The claims of a token that the provider has signed for us, now, for this very question."""
    from authlib.oidc.core import CodeIDToken
    from joserfc import jwt
    from joserfc.errors import JoseError
    from joserfc.jwk import KeySet

    assert nonce, "without one the check would be none"
    options = {
        "iss": {"essential": True, "value": provider.issuer},
        "aud": {"essential": True, "value": provider.client_id},
    }
    known = {"nonce": nonce, "client_id": provider.client_id, "access_token": told.get("access_token")}
    try:
        token = jwt.decode(told["id_token"], KeySet.import_key_set(dict(keys)), algorithms=ALGORITHMS)  # type: ignore[arg-type]  # a JSON object
        claims = CodeIDToken(token.claims, token.header, options, known)
        claims.validate(now=now, leeway=LEEWAY_SECONDS)
    except (JoseError, KeyError, TypeError, ValueError) as error:
        raise NotProved(f"the token proves nothing: {type(error).__name__}: {error}", hint="begin once more") from error
    return token.claims


def _known(provider: Provider, claims: Mapping[str, Any]) -> Known:
    person, subject = claims.get(provider.person), claims.get("sub")
    if not isinstance(person, str) or not isinstance(subject, str) or not subject:
        raise NotProved(f"the token has no {provider.person}", hint="declare another claim as `person`")
    if provider.person == "email" and claims.get("email_verified") is not True:
        raise NotProved("the provider has not verified the address", hint="declare another claim as `person`")
    try:
        check_name(person, what="person")
    except FencepostError as error:
        raise NotProved(f"nobody can have this name here: {error.message}", hint=error.hint) from error
    roles = provider.roles_for(claims.get(provider.groups))
    if not roles:
        raise NotProved("none of their groups has a role here", hint="an operator declares what groups may do")
    return Known(person, roles, subject)


# -- what the provider is asked ---------------------------------------------------------------------------------------


async def _described(provider: Provider) -> dict[str, str]:
    """The provider's own description. Raises `ProviderAway` where it is another's, or has addresses in the clear."""
    found = await _fetched(provider, f"{provider.issuer.rstrip('/')}/.well-known/openid-configuration")
    if found.get("issuer") != provider.issuer:
        raise ProviderAway(f"this is not {provider.issuer}", hint="declare the issuer as it names itself")
    for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
        if not isinstance(found.get(name), str) or not is_private(found[name]):
            raise ProviderAway(f"its {name} is none that can be used", hint="it must begin with https://")
    return found


async def _exchanged(provider: Provider, found: Mapping[str, str], code: str, verifier: str) -> dict[str, Any]:
    """What the provider gives for a code, which it takes once."""
    fields = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": provider.back,
        "code_verifier": verifier,
        "client_id": provider.client_id,
    }
    secret = provider.secret()
    own = None if secret is None else httpx2.BasicAuth(provider.client_id, secret)
    return await _fetched(provider, found["token_endpoint"], method="POST", data=fields, auth=own)


async def _fetched(provider: Provider, address: str, *, method: str = "GET", **more: Any) -> dict[str, Any]:
    """A JSON object. A refusal of the provider is `NotProved`, all else that it should not say `ProviderAway`."""
    try:
        async with (
            asyncio.timeout(ANSWER_SECONDS_MAX),
            httpx2.AsyncClient(trust_env=not provider.is_here) as client,
            client.stream(method, address, headers={"Accept": "application/json"}, **more) as reply,
        ):
            body = await _read(reply)
    except (httpx2.HTTPError, TimeoutError) as error:
        raise ProviderAway(f"the provider does not answer: {type(error).__name__}", hint="try once more") from error
    if method == "POST" and reply.status_code in (400, 401):
        raise NotProved("the provider does not take the code", hint="begin once more")
    try:
        found = json.loads(body) if reply.status_code == httpx2.codes.OK else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ProviderAway(f"the provider answered {reply.status_code}, and no JSON object", hint="try once more")
    return found


async def _read(reply: httpx2.Response) -> bytes:
    """The body, as far as one is expected."""
    body = b""
    async for part in reply.aiter_bytes():
        body += part
        if len(body) > BYTES_MAX:
            raise ProviderAway("the provider says too much", hint="look at what it is")
    return body
