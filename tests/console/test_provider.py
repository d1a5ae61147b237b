"""Signing in by an OpenID provider, a small one of our own: who is let in, with what roles, and each way to be refused.

That it is our own is said: no real provider was asked.
"""

import json
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from joserfc.jwk import OctKey

from fencepost.console.providers import Provider as Declared
from fencepost.console.providers import read_provider
from fencepost.core.api_tokens import digest_of
from fencepost.core.errors import Misuse
from tests.console.conftest import Serve, Served
from tests.console.provider import CLIENT, SECRET, VARIABLE, Provider, key
from tests.console.visit import Browser, Seen
from tests.docs.pages import FENCE

BEGIN, BACK = "/sign-in/provider", "/sign-in/provider/back"
DAY = 86_400


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    monkeypatch.setenv(VARIABLE, SECRET)
    with Provider() as listening:
        yield listening


@pytest.fixture
def served(serve: Serve, provider: Provider, tmp_path: Path) -> Served:
    def declared(console: str) -> Any:
        file = tmp_path / "provider.toml"
        file.write_text(provider.declared(console), "utf-8")
        return read_provider(file)

    return serve(provider=declared)


def come(served: Served) -> tuple[Browser, Seen]:
    """Somebody new who presses the button: through the provider, and back."""
    browser = Browser(served)
    return browser, browser.get(BEGIN)


def is_in(browser: Browser) -> bool:
    return str(browser.get("/").reply.url.path) == "/"


def comings(served: Served) -> list[tuple[str, str]]:
    rows = served.app.store.audits("default", None)
    return [(row.actor, row.reason) for row in rows if row.verb == "sign in"]


def test_whoever_the_provider_proves_comes_in_with_the_roles_of_their_groups_and_leaves_a_row(
    served: Served, provider: Provider
) -> None:
    provider.groups = ["lookers", "invoice operators", "a group that nobody declared", 7]
    browser, page = come(served)
    assert page.status == 200, page.text
    assert is_in(browser)
    assert comings(served) == [("ann@example.com", f"by {provider.issuer}, as u-1")]
    session = browser.client.cookies["fencepost_session"]
    found = served.app.store.session(digest_of(session))
    assert (found.person, found.scopes) == ("ann@example.com", ["operator", "viewer"])
    (asked,) = provider.asked
    assert asked["code_challenge_method"] == "S256"
    assert len({asked["state"], asked["nonce"], asked["code_challenge"]}) == 3


Spoil = Callable[[dict[str, Any]], dict[str, Any]]


def _with(**changed: Any) -> Spoil:
    return lambda claims: claims | changed


def _without(name: str) -> Spoil:
    return lambda claims: {key: value for key, value in claims.items() if key != name}


SPOILT: dict[str, Spoil] = {
    "another issuer": _with(iss="https://id.example.com"),
    "no issuer": _without("iss"),
    "another audience": _with(aud="another client"),
    "another audience beside ours, issued to the other": _with(aud=[CLIENT, "another"], azp="another"),
    "two audiences, and nobody said to whom": _with(aud=[CLIENT, "another"]),
    "another audience, issued to us": _with(aud="another client", azp=CLIENT),
    "no audience": _without("aud"),
    "expired": lambda claims: claims | {"exp": claims["exp"] - DAY},
    "never expires": _without("exp"),
    "issued tomorrow": lambda claims: claims | {"iat": claims["iat"] + DAY, "exp": claims["exp"] + DAY},
    "no nonce": _without("nonce"),
    "another nonce": _with(nonce="of another question"),
    "an empty nonce": _with(nonce=""),
    "no subject": _without("sub"),
    "an address that nobody has verified": _with(email_verified=False),
    "an address of which nothing is said": _without("email_verified"),
    "no name": _without("email"),
    "a name that is none": _with(email=""),
    "no group": _without("groups"),
    "groups that are none of ours": _with(groups=["everybody"]),
    "a role in place of a group": _with(groups=["admin"], roles=["admin"], role="admin"),
    "groups in one text": _with(groups="invoice operators"),
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
def test_a_token_with_a_flaw_lets_nobody_in(served: Served, provider: Provider, spoil: Spoil) -> None:
    provider.spoil = spoil
    browser, page = come(served)
    assert page.status == 403
    assert not is_in(browser)
    assert comings(served) == []


def test_a_signature_of_another_key_lets_nobody_in(served: Served, provider: Provider) -> None:
    provider.signs_with = key("another's")
    browser, page = come(served)
    assert (page.status, is_in(browser)) == (403, False)


@pytest.mark.parametrize("algorithm", ["none", "HS256"])
def test_a_signature_that_anybody_could_make_lets_nobody_in(served: Served, provider: Provider, algorithm: str) -> None:
    provider.algorithm = algorithm
    provider.signs_with = OctKey.import_key(json.dumps(provider.keys()), {"kid": "one"})
    browser, page = come(served)
    assert (page.status, is_in(browser)) == (403, False)


def test_an_answer_is_taken_once_and_only_from_the_browser_that_asked(served: Served, provider: Provider) -> None:
    browser, page = come(served)
    back = page.reply.url
    assert back.path == BACK
    again = Seen(browser.client.get(back))
    assert again.status == 403
    stranger = Browser(served)
    assert Seen(stranger.client.get(back)).status == 403
    other = Browser(served)
    other.client.get(BEGIN, follow_redirects=False)  # she has begun, and is given the end of another's way
    assert Seen(other.client.get(back)).status == 403
    assert not is_in(stranger)
    assert not is_in(other)
    assert len(comings(served)) == 1


def test_an_answer_to_another_question_is_refused_although_all_else_is_right(
    served: Served, provider: Provider
) -> None:
    browser = Browser(served)
    to = browser.client.get(BEGIN, follow_redirects=False).headers["location"]
    code = browser.client.get(to, follow_redirects=False).headers["location"].partition("code=")[2].partition("&")[0]
    assert browser.get(BACK, code=code, state="another").status == 403
    assert not is_in(browser)


def test_a_code_without_the_verifier_of_its_question_is_worth_nothing(served: Served, provider: Provider) -> None:
    thief, victim = Browser(served), Browser(served)
    to = victim.client.get(BEGIN, follow_redirects=False).headers["location"]
    code = thief.client.get(to, follow_redirects=False).headers["location"].partition("code=")[2].partition("&")[0]
    state = thief.client.get(BEGIN, follow_redirects=False).cookies["fencepost_sign_in"].partition(".")[0]
    assert thief.get(BACK, code=code, state=state).status == 403
    assert not is_in(thief)


@pytest.mark.parametrize("query", [{}, {"error": "access_denied"}, {"code": ""}, {"code": "c", "state": ""}], ids=str)
def test_an_answer_that_is_none_lets_nobody_in(served: Served, provider: Provider, query: dict[str, str]) -> None:
    browser = Browser(served)
    kept = browser.client.get(BEGIN, follow_redirects=False).cookies["fencepost_sign_in"]
    assert browser.get(BACK, **{"state": kept.partition(".")[0], **query}).status == 403
    assert not is_in(browser)


@pytest.mark.parametrize(
    "changed",
    [
        {"issuer": "https://id.example.com"},
        {"token_endpoint": "http://id.example.com/token"},
        {"jwks_uri": None},
        {"authorization_endpoint": "javascript:alert(1)"},
    ],
    ids=str,
)
def test_a_provider_that_is_another_or_would_be_spoken_to_in_the_clear_is_not_believed(
    served: Served, provider: Provider, changed: dict[str, Any]
) -> None:
    provider.describe = lambda found: found | changed
    browser, page = come(served)
    assert page.status == 503
    assert not is_in(browser)


def test_an_answer_that_names_another_provider_is_refused(served: Served, provider: Provider) -> None:
    browser = Browser(served)
    to = browser.client.get(BEGIN, follow_redirects=False).headers["location"]
    back = browser.client.get(to, follow_redirects=False).headers["location"]
    assert Seen(browser.client.get(f"{back}&iss=https%3A%2F%2Fid.example.com")).status == 403
    assert not is_in(browser)


def test_a_provider_that_is_gone_is_said_and_a_link_still_lets_in(served: Served, provider: Provider) -> None:
    provider.__exit__()
    _, page = come(served)
    assert page.status == 503
    assert [one for one in page.forms if one.action == "/sign-in"]


def test_without_a_declaration_there_is_no_such_way(serve: Serve) -> None:
    served = serve()
    assert Browser(served).get(BEGIN).status == 404
    assert Browser(served).get(BACK, code="c", state="s").status == 404


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"issuer": "http://id.example.com"}, "issuer"),
        ({"console": "http://fencepost.example.com"}, "console"),
        ({"roles": {"a": ["king"]}}, "roles.a"),
        ({"roles": {}}, "roles"),
        ({"roles": {"a": []}}, "roles.a"),
        ({"colour": "blue"}, "colour"),
    ],
    ids=str,
)
def test_a_declaration_with_a_flaw_is_refused_by_its_name(tmp_path: Path, given: dict[str, Any], said: str) -> None:
    whole = {
        "issuer": "https://id.example.com", "client_id": "c", "console": "https://f.example.com",
        "roles": {"a": ["viewer"]},
    }  # fmt: skip
    told = whole | given
    roles = told.pop("roles")
    text = "".join(f'{name} = "{value}"\n' for name, value in told.items())
    text += "[roles]\n" + "".join(f'"{name}" = {value}\n' for name, value in roles.items())
    file = tmp_path / "provider.toml"
    file.write_text(text.replace("'", '"'), "utf-8")
    with pytest.raises(Misuse, match=said):
        read_provider(file)
    with pytest.raises(Misuse, match="cannot be read"):
        read_provider(tmp_path / "none.toml")


def test_the_declaration_that_the_page_shows_is_one() -> None:
    page = Path(__file__).parents[2] / "docs" / "howto" / "use-the-console.md"
    shown = next(one for one in FENCE.finditer(page.read_text("utf-8")) if "issuer" in one["code"])
    declared = Declared.model_validate(tomllib.loads(shown["code"]))
    assert f"`{declared.back}`" in page.read_text("utf-8")
    assert declared.roles_for(["invoice operators", "nobody's"]) == ["operator"]
