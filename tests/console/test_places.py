"""Where a console listens, and what leaves it: tokens pass in the clear on this machine only, and stand in no log."""

import logging
from pathlib import Path

import httpx2
import pytest

from fencepost import App, Misuse
from fencepost.console import api_flow
from fencepost.console.server import Place
from tests.console import shop
from tests.console.conftest import Serve
from tests.services.encrypted import Authority

CERTIFICATE, KEY = Path("cert.pem"), Path("key.pem")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "localhost"])
def test_on_this_machine_nothing_more_is_needed(host: str) -> None:
    Place(host).check()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "example.org", "localhost.example.org", ""])  # noqa: S104 - it is refused
def test_elsewhere_tls_or_a_proxy_is_needed(host: str) -> None:
    with pytest.raises(Misuse, match="in the clear"):
        Place(host).check()
    Place(host, certificate=CERTIFICATE, key=KEY).check()
    Place(host, proxies=("192.0.2.1",)).check()


def test_half_of_a_key_pair_is_none() -> None:
    for half in (Place(certificate=CERTIFICATE), Place(key=KEY)):
        with pytest.raises(Misuse, match="needs a certificate and its key"):
            half.check()


def test_a_service_speaks_to_a_console_with_tls(serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = Authority("one")
    signed = authority.sign("localhost")
    for name, text in (("cert.pem", signed.certificate), ("key.pem", signed.key), ("ca.pem", authority.certificate)):
        (tmp_path / name).write_bytes(text)
    place = Place(port=0, certificate=tmp_path / "cert.pem", key=tmp_path / "key.pem")
    served = serve(worker=True, place=place)
    token = served.token("shop")
    with pytest.raises(httpx2.TransportError):
        httpx2.get(served.url.replace("https", "http") + "/api/v1/openapi.json")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    with App(served.url, workflows=shop.WORKFLOWS, token=token).sync as app:
        handle = app.start(shop.ask, "!", id="r")
        app.signal("r", "word", "yes", id="evt-1")
        assert handle.result(within="10s") == "yes!"


def test_no_token_is_written_to_a_log_whatever_goes_wrong(
    serve: Serve, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    served = serve()
    token, job = served.token("ann", "admin"), "fpc_" + "j" * 40
    ann = served.client(token)
    ann.get("/runs")
    ann.post("/runs", content=b"{")
    served.client(None).post(f"/jobs/{job}/done", json=1)
    served.client(job).post("/jobs/done", json=1)
    served.client(f"{token}x").get("/runs")

    def fails(*_: object) -> None:
        raise RuntimeError("the shelf fell over")

    monkeypatch.setattr(api_flow, "_with_lengths", fails)
    broken = ann.get("/queues")
    assert (broken.status_code, broken.headers["content-type"]) == (500, "application/problem+json")
    assert "shelf" not in broken.text
    ours = [one for one in caplog.records if one.name.startswith(("fencepost", "uvicorn"))]
    assert any("the shelf fell over" in (one.exc_text or "") for one in ours)
    written = " ".join(f"{one.getMessage()} {one.exc_text} {vars(one)}" for one in ours) + "".join(capfd.readouterr())
    assert token not in written
    assert job not in written
