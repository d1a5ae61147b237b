"""What a ledger keeps encrypted is decoded for who may do something, and not for who may only look, by every door."""

from fencepost.store.aes_gcm import AesGcm
from tests.console.conftest import Serve
from tests.console.visit import signed_in
from tests.polling import until

SECRET = "canary-4711"


def test_who_may_only_look_sees_no_payload_of_an_encrypted_ledger(serve: Serve) -> None:
    served = serve(worker=True, app={"codec": AesGcm({"k1": b"k" * 32})})
    max_, vic = served.as_("max", "operator"), served.as_("vic", "viewer")
    max_.post("/runs", json={"workflow": "order", "id": "r", "input": {"order": {"id": SECRET}}})
    until(lambda: served.app.store.find("default", "r").state == "succeeded", "its end")
    for role, reads in (("operator", True), ("approver", True), ("admin", True), ("viewer", False)):
        browser = signed_in(served, f"who {role}", role)
        for place in ("/", "/runs", "/runs/r", "/audit", "/proposals"):
            assert (SECRET in browser.get(place).html) is (reads and place == "/runs/r"), (role, place)
    assert SECRET in max_.get("/runs/r").text
    assert SECRET in max_.get("/outcomes/r").text
    for path in ("/runs/r", "/outcomes/r", "/runs", "/audit", "/traces/r"):
        assert SECRET not in vic.get(path).text, path
    assert vic.get("/outcomes/r").status_code == 403
    assert vic.get("/runs/r").status_code == 200


def test_of_a_ledger_in_the_clear_everybody_who_looks_sees_the_payloads(serve: Serve) -> None:
    served = serve()
    served.as_("max").post("/runs", json={"workflow": "ask", "id": "r", "input": {"name": SECRET}})
    assert SECRET in signed_in(served, "vic", "viewer").get("/runs/r").html
