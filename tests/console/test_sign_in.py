"""Coming in and going: links are good once, sessions end, passwords cannot be guessed, forms of others are refused."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from fencepost import App, Permissions
from fencepost.console.headers import HEADERS, STRICT_TRANSPORT
from fencepost.console.passwords import TRIES_OF_A_NAME, TRIES_OF_ALL, WITHIN, Tries, hashed, is_theirs
from fencepost.console.server import Place
from fencepost.core.accounts import IDLE_MAX, INVITATION_LASTS, SEEN_EVERY, SESSION_LASTS, Account, Session
from fencepost.core.api_tokens import digest_of
from fencepost.core.errors import FencepostError, Misuse, VerbRefused
from fencepost.core.records import Audit
from fencepost.runtime import accounts
from tests.console.conftest import Serve, Served
from tests.console.visit import Browser, signed_in
from tests.runtime.stage import Clock, played
from tests.services.encrypted import Authority

PASSWORD = "correct horse battery"
START = {"workflow": "ask", "id": "r", "input": {"name": "!"}}


def invited(served: Served, person: str = "vic", *roles: str) -> str:
    return accounts.invite(served.app, person, roles or ("viewer",), by="ann", reason="for a test")[0]


# -- links ------------------------------------------------------------------------------------------------------------


@played
async def test_the_ledger_has_nothing_by_which_to_come_in(url: str) -> None:
    async with App(url, workflows=[]) as app:
        link, kept = accounts.invite(app, "vic", ["viewer"], by="ann", reason="to look")
        secret = accounts.come_in(app, link, password=hashed(PASSWORD))
        session = accounts.visitor(app, secret)
        account = app.store.account("default", "vic")
        told = repr([kept, session, account, app.store.audits(None, None), app.store.invitation(kept.digest)])
        for hidden in (link, secret, PASSWORD):
            assert hidden not in told
        assert [(row.actor, row.verb, row.run_id) for row in app.store.audits("default", None)] == [
            ("ann", "invite", "account:vic"),
            ("vic", "sign in", "account:vic"),
        ]
        assert (await app.check()).found == []


@played
async def test_a_link_is_good_once_for_an_hour_and_only_in_its_namespace(url: str) -> None:
    clock = Clock()
    app, other = App(url, workflows=[]), App(url, workflows=[], namespace="other")
    app.clock = other.clock = clock
    async with app, other:
        link, _ = accounts.invite(app, "vic", ["viewer"], by="ann", reason="r")
        late, _ = accounts.invite(app, "vic", ["viewer"], by="ann", reason="r")
        assert accounts.come_in(other, link) is None
        secret = accounts.come_in(app, link)
        assert accounts.visitor(app, secret).person == "vic"
        assert accounts.visitor(other, secret) is None
        assert accounts.come_in(app, link) is None
        clock.offset = INVITATION_LASTS
        assert accounts.come_in(app, late) is None


@played
async def test_who_is_shut_out_is_out_of_every_session_and_has_neither_link_nor_password(url: str) -> None:
    async with App(url, workflows=[]) as app:
        first, second = (accounts.invite(app, "vic", ["viewer"], by="ann", reason="r")[0] for _ in range(2))
        secret = accounts.come_in(app, first, password=hashed(PASSWORD))
        accounts.close(app, "vic", by="ann", reason="she has left")
        assert accounts.visitor(app, secret) is None
        assert accounts.come_in(app, second) is None
        assert app.store.account("default", "vic") is None
        with pytest.raises(VerbRefused, match="neither an account nor a session"):
            accounts.close(app, "vic", by="ann", reason="once more")
        again = accounts.come_in(app, accounts.invite(app, "vic", ["viewer"], by="ann", reason="r")[0])
        accounts.sign_out(app, accounts.visitor(app, again))
        assert [row.verb for row in app.store.audits("default", "account:vic")][-1] == "sign out"
        assert (await app.check()).found == []


def test_looking_at_a_link_uses_nothing_up(served: Served) -> None:
    link, vic = invited(served), Browser(served)
    for _ in range(3):
        assert vic.get("/sign-in", link=link).status == 200
    assert vic.get("/").reply.url.path == "/sign-in"
    assert vic.send(vic.get("/sign-in", link=link).form("/sign-in")).reply.url.path == "/"


def test_a_password_chosen_with_a_link_lets_in_the_next_time(served: Served) -> None:
    link, vic = invited(served), Browser(served)
    form = vic.get("/sign-in", link=link).form("/sign-in")
    assert vic.send(form, new_password="short").status == 422
    assert vic.send(form, new_password=PASSWORD).reply.url.path == "/"
    again = Browser(served)
    form = again.get("/sign-in").form("/sign-in")
    assert again.send(form, person="vic", password=PASSWORD + "!").status == 403
    assert again.send(form, person="nobody", password=PASSWORD).status == 403
    assert again.get("/").reply.url.path == "/sign-in"
    assert again.send(form, person="vic", password=PASSWORD).reply.url.path == "/"


@played
async def test_of_two_who_use_a_link_at_once_one_comes_in(url: str) -> None:
    async with App(url, workflows=[]) as app:
        _, kept = accounts.invite(app, "vic", ["viewer"], by="ann", reason="r")
        now = app.store.now()
        row = Audit(now, "vic", "sign in", "account:vic", "done", "r", "null", "null")
        both = [Session(digest * 64, "default", "vic", '["viewer"]', now, now) for digest in "ab"]
        assert [app.store.let_in(one, row, invitation=kept.digest) for one in both] == [True, False]
        assert app.store.session(both[1].digest) is None
        assert len(app.store.audits("default", None)) == 2


# -- sessions ---------------------------------------------------------------------------------------------------------


def test_a_session_ends_by_its_age_by_idleness_or_by_hand() -> None:
    session = Session("d", "default", "vic", '["viewer"]', 0, 0)
    assert session.is_open_at(IDLE_MAX - 1)
    assert not session.is_open_at(IDLE_MAX)
    busy = replace(session, seen_at=SESSION_LASTS - 1)
    assert busy.is_open_at(SESSION_LASTS - 1)
    assert not busy.is_open_at(SESSION_LASTS)
    assert not replace(session, ended_at=1).is_open_at(0)


@played
async def test_a_session_in_use_stays_open_and_costs_one_write_in_a_while(url: str) -> None:
    clock, app = Clock(), App(url, workflows=[])
    app.clock = clock
    async with app:
        secret = accounts.come_in(app, accounts.invite(app, "vic", ["viewer"], by="ann", reason="r")[0])
        began = accounts.visitor(app, secret).began_at
        clock.offset = SEEN_EVERY // 2
        assert accounts.visitor(app, secret).seen_at == began
        assert accounts.visitor(app, secret).seen_at == began
        for minutes in range(1, 5):
            clock.offset = minutes * (IDLE_MAX - SEEN_EVERY)
            assert accounts.visitor(app, secret) is not None, minutes
        clock.offset += IDLE_MAX + SEEN_EVERY
        assert accounts.visitor(app, secret) is None


@played
async def test_of_sessions_that_are_long_over_no_rows_are_kept(url: str) -> None:
    clock, app = Clock(), App(url, workflows=[])
    app.clock = clock
    async with app:
        first, second = (_come_in(app) for _ in range(2))
        clock.offset = SESSION_LASTS
        _come_in(app)
        assert app.store.session(digest_of(first)) is not None
        clock.offset = 2 * SESSION_LASTS + 60_000_000
        third = _come_in(app)
        assert [app.store.session(digest_of(one)) for one in (first, second)] == [None, None]
        assert accounts.visitor(app, third) is not None


def _come_in(app: App) -> str:
    secret = accounts.come_in(app, accounts.invite(app, "vic", ["viewer"], by="ann", reason="r")[0])
    assert secret is not None
    return secret


def test_signing_out_ends_the_session_itself_and_not_only_the_cookie(served: Served) -> None:
    vic = signed_in(served, "vic", "viewer")
    cookie = dict(vic.client.cookies)
    vic.send(vic.get("/").form("/sign-out"))
    vic.client.cookies.update(cookie)
    assert vic.get("/").reply.url.path == "/sign-in"


def test_strangers_see_the_sign_in_page_and_nothing_else(served: Served) -> None:
    served.as_("ann").post("/runs", json=START)
    for cookie in ({}, {"fencepost_session": "x" * 43}, {"fencepost_session": ""}, {"__Host-fencepost_session": "x"}):
        stranger = Browser(served)
        stranger.client.cookies.update(cookie)
        for place in ("/", "/runs", "/runs/r", "/runs/nobody"):
            assert stranger.get(place).reply.url.path == "/sign-in"
        refused = stranger.post("/runs/r/cancel", {"form": "", "version": "*", "reason": "r"})
        assert refused.reply.url.path == "/sign-in"
    assert served.app.store.find("default", "r").state == "ready"


def test_whoever_has_no_role_any_more_sees_nothing_although_signed_in(serve: Serve) -> None:
    served = serve(permissions=Permissions({"ann": "admin"}))
    eve = signed_in(served, "eve", "admin", may=False)
    for place in ("/", "/runs", "/live/front", "/audit", "/charts", "/contracts", "/flow", "/proposals"):
        assert eve.get(place).status == 403, place


def test_the_token_of_a_program_is_no_session_and_a_session_no_token(served: Served) -> None:
    token, vic = served.token("vic", "viewer"), signed_in(served, "vic", "viewer")
    assert Browser(served).get("/").reply.url.path == "/sign-in"
    stranger = Browser(served)
    stranger.client.headers["Authorization"] = f"Bearer {token}"
    assert stranger.get("/").reply.url.path == "/sign-in"
    assert vic.client.get("/api/v1/runs").status_code == 401


# -- forms ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "https://evil.example"}, {"Origin": "null"}, {"Origin": ""}, {"Origin": "http://127.0.0.1:1"}],
    ids=str,
)
def test_a_form_of_another_origin_is_refused_and_does_nothing(served: Served, headers: dict[str, str]) -> None:
    served.as_("ann").post("/runs", json=START)
    ann = signed_in(served, "ann", "operator")
    form = ann.get("/runs/r").form("/runs/r/cancel")
    assert ann.post(form.action, form.fields | {"reason": "r"}, **headers).status == 403
    assert ann.post("/sign-in", {"link": invited(served)}, **headers).status == 403
    assert ann.post("/sign-out", form.fields, **headers).status == 403
    without = ann.client.post(form.action, data=form.fields | {"reason": "r"})
    assert without.status_code == 403
    assert served.app.store.find("default", "r").state == "ready"


def test_a_form_without_the_sessions_own_token_is_refused_and_does_nothing(served: Served) -> None:
    served.as_("ann").post("/runs", json=START)
    ann, other = signed_in(served, "ann", "operator"), signed_in(served, "ann", "operator")
    form, theirs = (one.get("/runs/r").form("/runs/r/cancel") for one in (ann, other))
    for token in ("", "x", theirs.fields["form"], "\ud7ff"):
        assert ann.post(form.action, form.fields | {"form": token, "reason": "r"}).status == 403
    without = {name: value for name, value in form.fields.items() if name != "form"}
    assert ann.post(form.action, without | {"reason": "r"}).status == 403
    assert served.app.store.find("default", "r").state == "ready"
    assert ann.send(form, reason="r").status == 200
    assert served.app.store.find("default", "r").state == "cancelling"


@pytest.mark.parametrize("kind", ["application/json", "text/plain", "multipart/form-data; boundary=x", ""])
def test_a_form_of_another_kind_is_refused(served: Served, kind: str) -> None:
    served.as_("ann").post("/runs", json=START)
    ann = signed_in(served, "ann", "operator")
    form = ann.get("/runs/r").form("/runs/r/cancel")
    body = "&".join(f"{name}={value}" for name, value in (form.fields | {"reason": "r"}).items())
    sent = ann.client.post(form.action, content=body, headers={"Origin": ann.origin, "Content-Type": kind})
    assert sent.status_code == 422
    twice = ann.client.post(
        form.action, content=f"{body}&reason=other",
        headers={"Origin": ann.origin, "Content-Type": "application/x-www-form-urlencoded"},
    )  # fmt: skip
    assert twice.status_code == 422
    assert served.app.store.find("default", "r").state == "ready"


def test_looking_changes_nothing(served: Served) -> None:
    served.as_("ann").post("/runs", json=START)
    ann = signed_in(served, "ann", "admin")
    before, rows = served.app.store.find("default", "r"), served.rows()
    for place in ("/", "/runs", "/runs/r", "/runs/r?done=cancel", "/sign-in", "/runs/r/cancel", "/sign-out"):
        ann.get(place)
    assert (served.app.store.find("default", "r"), served.rows()) == (before, rows)


# -- headers ----------------------------------------------------------------------------------------------------------


def test_every_answer_has_the_headers_and_no_page_holds_script_or_style(served: Served) -> None:
    served.as_("ann").post("/runs", json=START)
    ann, stranger = signed_in(served, "ann", "admin"), Browser(served)
    answers = [
        ann.get(place) for place in ("/", "/runs", "/runs/r", "/runs/nobody", "/static/console.css", "/runs?x=1")
    ]
    answers += [stranger.get("/sign-in"), stranger.post("/sign-in", {"person": "x", "password": "y"})]
    answers += [stranger.get(place) for place in ("/api/v1/runs", "/api/v1/openapi.json", "/health", "/no/such/place")]
    for answer in answers:
        headers = answer.reply.headers
        for name, value in HEADERS.items():
            if name != "Cache-Control" or "static" not in str(answer.reply.url):
                assert headers[name] == value, answer.reply.url
        assert "unsafe" not in headers["Content-Security-Policy"]
        for tag, named in answer.tags:
            assert tag != "style"
            assert "style" not in named
            assert tag != "script" or str(named["src"]).startswith("/static/")
        assert not re.search(r"(?:src|href|action)=\"(?:https?:)?//", answer.html)
    assert "Strict-Transport-Security" not in answers[0].reply.headers


def test_the_cookie_is_httponly_and_strict_and_on_loopback_without_what_browsers_disagree_about(
    served: Served,
) -> None:
    vic = Browser(served)
    vic.client.follow_redirects = False
    said = vic.post("/sign-in", {"link": invited(served)}).reply.headers["set-cookie"]
    assert re.fullmatch(r"fencepost_session=[\w-]{43}; HttpOnly; Max-Age=43200; Path=/; SameSite=strict", said)


# -- guessing ---------------------------------------------------------------------------------------------------------


def test_a_password_is_tried_so_often_and_no_more_and_then_not_even_the_right_one(served: Served) -> None:
    link, vic = invited(served), Browser(served)
    vic.send(vic.get("/sign-in", link=link).form("/sign-in"), new_password=PASSWORD)
    thief = Browser(served)
    form = thief.get("/sign-in").form("/sign-in")
    answers = [thief.send(form, person="vic", password=f"guess {number}").status for number in range(7)]
    assert answers == [403] * TRIES_OF_A_NAME + [429] * (7 - TRIES_OF_A_NAME)
    assert thief.send(form, person="vic", password=PASSWORD).status == 429
    assert thief.get("/").reply.url.path == "/sign-in"
    by_link = Browser(served)
    assert by_link.send(by_link.get("/sign-in", link=invited(served)).form("/sign-in")).reply.url.path == "/"


def test_tries_come_back_with_time_and_all_names_together_have_a_bound_too() -> None:
    tries = Tries()
    assert [tries.take("vic", 0) for _ in range(6)] == [True] * 5 + [False]
    assert tries.take("vic", WITHIN // TRIES_OF_A_NAME)
    assert not tries.take("vic", WITHIN // TRIES_OF_A_NAME)
    tries = Tries()
    assert sum(tries.take(f"name {number}", 0) for number in range(1_000)) == TRIES_OF_ALL
    assert not tries.take("somebody else", 0)


def test_a_password_is_kept_as_a_hash_and_compared_also_where_there_is_none() -> None:
    account = Account("default", "vic", '["viewer"]', hashed(PASSWORD), 0)
    assert account.password.startswith("$argon2id$")
    assert is_theirs(account, PASSWORD)
    assert not is_theirs(account, PASSWORD + " ")
    assert not is_theirs(None, "nobody has this password")
    with pytest.raises(Misuse):
        hashed("x" * 11)


@played
async def test_the_ledger_itself_refuses_an_account_whose_password_is_no_hash(url: str) -> None:
    async with App(url, workflows=[]) as app:
        link, kept = accounts.invite(app, "vic", ["viewer"], by="ann", reason="r")
        with pytest.raises(FencepostError):
            accounts.come_in(app, link, password="in the clear")
        assert accounts.invited(app, link) == kept
        assert app.store.account("default", "vic") is None


def test_nobody_invites_who_may_not(serve: Serve) -> None:
    served = serve(permissions=Permissions({"ann": "admin", "vic": "viewer"}))
    with pytest.raises(Misuse, match="lacks the role admin for invite"):
        accounts.invite(served.app, "vic", ["admin"], by="vic", reason="more")
    for person, roles in (("", ["viewer"]), ("x", []), ("x", ["king"]), ("v\u202eic", ["viewer"])):
        with pytest.raises(Misuse):
            accounts.invite(served.app, person, roles, by="ann", reason="r")
    assert not served.app.store.was_anybody_invited("default")


def test_over_tls_the_cookie_is_bound_to_the_host_and_browsers_are_told_to_stay(serve: Serve, tmp_path: Path) -> None:
    authority = Authority("one")
    signed = authority.sign("localhost")
    for name, text in (("cert.pem", signed.certificate), ("key.pem", signed.key)):
        (tmp_path / name).write_bytes(text)
    served = serve(place=Place(port=0, certificate=tmp_path / "cert.pem", key=tmp_path / "key.pem"))
    vic = Browser(served)
    vic.client.follow_redirects = False
    reply = vic.post("/sign-in", {"link": invited(served)}).reply
    assert reply.status_code == 303
    assert re.fullmatch(
        r"__Host-fencepost_session=[\w-]{43}; HttpOnly; Max-Age=43200; Path=/; SameSite=strict; Secure",
        reply.headers["set-cookie"],
    )
    assert reply.headers["Strict-Transport-Security"] == STRICT_TRANSPORT
    front = vic.get("/")
    assert front.status == 200
    assert vic.send(front.form("/sign-out")).status == 303
    assert vic.post("/sign-in", {"link": invited(served)}, Origin=vic.origin.replace("https", "http")).status == 403


def test_behind_a_proxy_that_ends_tls_it_is_as_over_tls_and_nobody_else_is_believed(serve: Serve) -> None:
    for proxies, secure in ((("127.0.0.1",), True), (("192.0.2.1",), False)):
        served = serve(place=Place(port=0, proxies=proxies))
        vic = Browser(served)
        vic.client.follow_redirects = False
        through = {"X-Forwarded-Proto": "https", "Host": "console.example", "Origin": "https://console.example"}
        reply = vic.post("/sign-in", {"link": invited(served)}, **through).reply
        assert reply.status_code == (303 if secure else 403)
        assert reply.headers.get("set-cookie", "").startswith("__Host-") is secure
