"""The audit by its pages: written out whole, and verified, with a row that somebody knows and without."""

import json

import pytest

from fencepost.store.governing import AuditFilter
from tests.console.conftest import Serve
from tests.console.visit import signed_in

ALL = AuditFilter("default", None, None, None, None, None, 1_000)


def test_the_audit_is_written_out_whole_whatever_a_page_shows(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencepost.console.page_audit.EXPORTED_AT_A_TIME", 2)
    served = serve()
    ann, vic = served.as_("ann", "admin"), signed_in(served, "vic", "viewer")
    for number in range(5):
        ann.post("/runs", json={"workflow": "ask", "id": f"r{number}", "input": {"name": "!"}})
        ann.post(f"/runs/r{number}/cancel", json={"reason": 'no, "never"'}, headers={"If-Match": "*"})
    written = vic.get("/audit/export")
    assert "attachment" in written.reply.headers["content-disposition"]
    rows = [json.loads(line) for line in written.html.splitlines()]
    assert [row["no"] for row in rows] == sorted((row["no"] for row in rows), reverse=True)
    assert [(row["actor"], row["run"]) for row in rows if row["verb"] == "cancel"] == [
        ("ann", f"r{number}") for number in reversed(range(5))
    ]
    assert len(rows) == len(served.app.store.list_audits(ALL))


def test_the_chain_is_verified_as_far_as_can_be_told(serve: Serve) -> None:
    served = serve()
    ann, vic = served.as_("ann", "admin"), signed_in(served, "vic", "viewer")
    ann.post("/runs", json={"workflow": "ask", "id": "r", "input": {"name": "!"}})
    ann.post("/runs/r/cancel", json={"reason": "no"}, headers={"If-Match": "*"})
    last = served.app.store.list_audits(ALL)[0]
    assert "without an anchor" in vic.get("/audit/verify").text
    known = vic.get("/audit/verify", no=str(last.no), hash=last.hash)
    assert "its end too" in known.text
    forged = vic.get("/audit/verify", no=str(last.no), hash="0" * 64)
    assert "Broken" in forged.text
    assert vic.get("/audit/verify", no="", hash="").status == 200
    assert vic.get("/audit/verify", no="x").status == 422
