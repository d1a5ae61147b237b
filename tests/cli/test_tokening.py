"""`fencepost token`: shown once by whoever made it, listed without what it could be used by, and revoked."""

from fencepost.core.api_tokens import PREFIX

REASON = ("--reason", "the shop's service", "--by", "ann")


def test_a_token_is_shown_once_and_then_listed_and_revoked(fencepost, db, started):
    started("greet", "you")
    made = fencepost("token", "make", "shop", "--role", "operator", "--role", "viewer", "--db", db, *REASON)
    text = made.out.strip()
    assert (made.code, text.startswith(PREFIX)) == (0, True)
    assert "cannot be shown again" in made.err
    (listed,) = fencepost("token", "--db", db, "--json").json["tokens"]
    assert (listed["name"], listed["roles"], listed["state"]) == ("shop", ["operator", "viewer"], "live")
    revoked = fencepost("token", "revoke", str(listed["number"]), "--db", db, *REASON)
    assert revoked.out == "token 1 of shop is revoked\n"
    after = fencepost("token", "--db", db)
    assert "revoked" in after.out
    assert text not in after.out + str(listed) + fencepost("audit", "--db", db, "--json").out


def test_a_token_that_cannot_be_is_refused(fencepost, db, started):
    started("greet", "you")
    for arguments in (("--role", "king"), ("--role", "viewer", "--lasts", "soon")):
        refused = fencepost("token", "make", "shop", *arguments, "--db", db, *REASON)
        assert refused.code in (1, 2)
        assert "(" in refused.err
    assert fencepost("token", "--db", db).err == "no tokens\n"
