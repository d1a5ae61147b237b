"""A small OpenID provider of our own, for tests: it stands for a real one, and lies where a test has it lie.

Whoever comes to it is somebody who has signed in there already, and is sent back at once, or by a link on a page of its
own. It checks what a provider has to check: our secret, the code, once, and PKCE's verifier. It is no proof that real
providers do so.
"""

import base64
import hashlib
import json
import threading
import time
from collections.abc import Callable
from functools import cache
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qsl, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import KeySet, OctKey, RSAKey

CLIENT, SECRET = "fencepost", "a secret of the test's own"
VARIABLE = "FENCEPOST_TEST_PROVIDER_SECRET"


class Provider:
    """A provider that listens; `spoil` changes the claims that it is about to sign."""

    def __init__(self) -> None:
        self.groups: Any = ["invoice operators"]
        self.email = "ann@example.com"
        self.spoil: Callable[[dict[str, Any]], dict[str, Any]] = dict
        self.describe: Callable[[dict[str, Any]], dict[str, Any]] = dict
        self.algorithm = "RS256"
        self.has_a_page = False
        self.key: RSAKey = key("the provider's")
        self.signs_with: RSAKey | OctKey = self.key
        self.asked: list[dict[str, str]] = []
        self._codes: dict[str, dict[str, str]] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _answering(self))
        self.issuer = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def declared(self, console: str) -> str:
        """What an operator writes of it."""
        return (
            f'issuer = "{self.issuer}"\nclient_id = "{CLIENT}"\nclient_secret_variable = "{VARIABLE}"\n'
            f'console = "{console}"\n[roles]\n"invoice operators" = ["operator"]\n"lookers" = ["viewer"]\n'
        )

    def description(self) -> dict[str, Any]:
        return self.describe(
            {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "jwks_uri": f"{self.issuer}/keys",
            }
        )

    def keys(self) -> dict[str, Any]:
        return KeySet([self.key]).as_dict(private=False)

    def authorize(self, asked: dict[str, str]) -> str:
        """Where somebody who has signed in is sent back to."""
        self.asked.append(asked)
        code = f"code-{len(self.asked)}"
        self._codes[code] = asked
        return f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}"

    def token(self, sent: dict[str, str], authorization: str) -> tuple[int, dict[str, Any]]:
        """What a code is worth: once, to us, and with the verifier of the challenge."""
        asked = self._codes.pop(sent.get("code", ""), None)
        own = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        if authorization != f"Basic {own}":
            return 401, {"error": "invalid_client"}
        challenge = base64.urlsafe_b64encode(hashlib.sha256(sent.get("code_verifier", "").encode()).digest())
        if asked is None or asked["code_challenge"] != challenge.rstrip(b"=").decode():
            return 400, {"error": "invalid_grant"}
        now = int(time.time())
        claims = {
            "iss": self.issuer, "sub": "u-1", "aud": CLIENT, "exp": now + 300, "iat": now, "nonce": asked["nonce"],
            "email": self.email, "email_verified": True, "groups": self.groups,
        }  # fmt: skip
        signed = self._signed({"alg": self.algorithm, "kid": "one"}, self.spoil(claims))
        return 200, {"access_token": "none that anybody uses", "token_type": "Bearer", "id_token": signed}

    def _signed(self, header: dict[str, Any], claims: dict[str, Any]) -> str:
        if self.algorithm == "none":
            parts = [
                base64.urlsafe_b64encode(json.dumps(one).encode()).rstrip(b"=").decode() for one in (header, claims)
            ]
            return f"{'.'.join(parts)}."
        return jwt.encode(header, claims, self.signs_with, algorithms=[self.algorithm])


@cache
def key(name: str) -> RSAKey:
    """A pair of keys; making one takes a while."""
    del name
    return RSAKey.generate_key(2048, {"kid": "one"})


def _answering(provider: Provider) -> type[BaseHTTPRequestHandler]:
    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            if parts.path == "/authorize":
                back = provider.authorize(dict(parse_qsl(parts.query)))
                page = f"<a href='{escape(back)}'>go back</a>".encode() if provider.has_a_page else b""
                self.send_response(200 if page else 302)
                self.send_header("Content-Type", "text/html")
                self.send_header("Location", back)
                self.send_header("Content-Length", str(len(page)))
                self.end_headers()
                self.wfile.write(page)
            else:
                self._say(200, provider.keys() if parts.path == "/keys" else provider.description())

        def do_POST(self) -> None:
            sent = dict(parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
            self._say(*provider.token(sent, self.headers.get("Authorization", "")))

        def _say(self, status: int, document: dict[str, Any]) -> None:
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Answering
