"""API tokens: shown once, kept as digests, good as long as they say, and made and revoked by whoever may."""

from dataclasses import replace

import pytest

from fencepost import App, Permissions
from fencepost.core.api_tokens import PREFIX, ApiToken, digest_of, narrowed
from fencepost.core.errors import FencepostError, Misuse, NotPermitted, VerbRefused
from fencepost.core.permissions import Role
from fencepost.core.records import Audit
from fencepost.runtime import api_tokens
from tests.console.conftest import Serve, Served
from tests.runtime.stage import Clock, played

DAY = 86_400_000_000
WHO = Permissions({"ann": "admin", "vic": "viewer"})


def everything_stored(app: App) -> str:
    tokens = app.store.api_tokens(app.namespace)
    return repr([tokens, app.store.audits(None, None)])


@played
async def test_the_ledger_and_its_audit_have_nothing_by_which_to_call(url: str) -> None:
    async with App(url, workflows=[]) as app:
        text, made = api_tokens.make(app, "shop", ["operator"], by="ann", reason="the shop's service")
        assert text.startswith(PREFIX)
        assert text.removeprefix(PREFIX) not in everything_stored(app)
        assert made.digest == digest_of(text)
        assert api_tokens.holder(app, text) == made
        (row,) = app.store.audits("default", None)
        assert (row.actor, row.verb, row.run_id, row.reason) == (
            "ann",
            "make token",
            "token:shop",
            "the shop's service",
        )


@played
async def test_a_token_is_taken_until_it_expires_or_is_revoked_and_only_in_its_namespace(url: str) -> None:
    clock = Clock()
    app, other = App(url, workflows=[]), App(url, workflows=[], namespace="other")
    app.clock = other.clock = clock
    async with app, other:
        brief, _ = api_tokens.make(app, "shop", ["operator"], by="ann", reason="r", lasts="1d")
        lasting, kept = api_tokens.make(app, "shop", ["operator"], by="ann", reason="r", lasts=api_tokens.NEVER)
        assert api_tokens.holder(other, brief) is None
        clock.offset = DAY + 1
        assert api_tokens.holder(app, brief) is None
        assert api_tokens.holder(app, lasting) == kept
        api_tokens.revoke(app, kept.no, by="ann", reason="it was on a screen")
        assert api_tokens.holder(app, lasting) is None
        with pytest.raises(VerbRefused, match="revoked already"):
            api_tokens.revoke(app, kept.no, by="ann", reason="again")
        assert (await app.check()).found == []


@played
async def test_whoever_may_not_makes_and_revokes_none_and_leaves_a_row(url: str) -> None:
    async with App(url, workflows=[], permissions=WHO) as app:
        with pytest.raises(NotPermitted, match="'vic' lacks the role admin for make token"):
            api_tokens.make(app, "vic", ["admin"], by="vic", reason="more")
        _, made = api_tokens.make(app, "vic", ["viewer"], by="ann", reason="to look")
        with pytest.raises(NotPermitted):
            api_tokens.revoke(app, made.no, by="vic", reason="why not")
        outcomes = [(row.actor, row.outcome) for row in app.store.audits("default", None)]
        assert outcomes == [("vic", "refused"), ("ann", "done"), ("vic", "refused")]


@played
async def test_what_is_no_token_is_not_made(url: str) -> None:
    async with App(url, workflows=[]) as app:
        for person, roles in (("", ["viewer"]), ("shop", []), ("shop", ["king"]), ("sh\u202eop", ["viewer"])):
            with pytest.raises(Misuse):
                api_tokens.make(app, person, roles, by="ann", reason="r")
        assert app.store.api_tokens("default") == []


@played
async def test_the_ledger_itself_refuses_a_token_that_could_do_nothing_or_never_was_good(url: str) -> None:
    async with App(url, workflows=[]) as app:
        good = ApiToken(0, "default", "shop", '["viewer"]', digest_of("x"), "ann", 5, 6)
        for bad in (
            replace(good, roles="[]"), replace(good, person=""), replace(good, digest="short"),
            replace(good, expires_at=5),
        ):  # fmt: skip
            with pytest.raises(FencepostError):
                app.store.add_api_token(bad, lambda kept: row_of(kept.person))
        app.store.add_api_token(good, lambda kept: row_of(kept.person))
        with pytest.raises(FencepostError):
            app.store.add_api_token(good, lambda kept: row_of(kept.person))
        assert len(app.store.api_tokens("default")) == len(app.store.audits(None, None)) == 1


def row_of(person: str) -> Audit:
    return Audit(5, "ann", "make token", f"token:{person}", "done", "r", "null", "null")


def test_scopes_narrow_roles_and_never_widen_them() -> None:
    assert narrowed(WHO, "ann", ["operator"]).of("ann") == {Role.OPERATOR, Role.VIEWER}
    assert narrowed(WHO, "vic", ["admin"]).of("vic") == {Role.VIEWER}
    assert narrowed(WHO, "eve", ["admin"]).of("eve") == set()
    assert narrowed(WHO, "vic", ["viewer"]).of("ann") == set(Role)
    assert narrowed(None, "shop", ["approver"]).of("shop") == {Role.APPROVER, Role.VIEWER}
    assert WHO.of("ann") == set(Role)


def test_a_revoked_token_is_not_taken_from_the_next_request_on(served: Served) -> None:
    client = served.as_("max")
    assert client.get("/runs").status_code == 200
    (made,) = served.app.store.api_tokens("default")
    api_tokens.revoke(served.app, made.no, by="ann", reason="max has left")
    assert client.get("/runs").status_code == 401


def test_two_persons_are_asked_for_over_http_too(serve: Serve) -> None:
    rules = Permissions({"ann": "admin", "max": "operator"}, two_persons=["cancel"])
    served = serve(worker=True, permissions=rules)
    served.as_("ann").post("/runs", json={"workflow": "ask", "id": "r", "input": {"name": "!"}})
    asked = served.as_("max").post("/runs/r/cancel", json={"reason": "no"}, headers={"If-Match": "*"})
    assert (asked.status_code, asked.json()["type"]) == (409, "urn:fencepost:second-person-needed")
    (kept,) = served.call(served.app.proposals())
    assert (asked.json()["ids"]["proposal"], kept.proposed_by) == (str(kept.no), "max")
