"""One step by its own address: its evidence, the rung on which it stands now, its buttons and its audit."""

import asyncio

from tests.console.conftest import Serve
from tests.console.visit import signed_in
from tests.runtime import test_every_verb as stages


def test_an_unknown_effect_is_shown_by_itself_and_settled_by_its_own_button(serve: Serve, url: str) -> None:
    asyncio.run(stages.staged(url, "settle"))
    served = serve(workflows=stages.CODE)
    ann, vic = signed_in(served, "ann", "admin"), signed_in(served, "vic", "viewer")
    (at,) = (one.position for one in served.app.store.load(served.app.store.find("default", "r").no).operations
             if one.state == "unknown")  # fmt: skip
    (place,) = {str(named["href"]) for tag, named in ann.get("/").tags if tag == "a" and "/step" in str(named["href"])}
    page = ann.get(place)
    assert page.status == 200
    assert "Stands on the rung held" in page.text
    assert {one.action for one in page.forms} >= {"/runs/r/settle"}
    assert all(one.action == "/sign-out" for one in vic.get("/step", run="r", at=at).forms)
    done = ann.send(page.form("/runs/r/settle", happened="false"), reason="she looked")
    assert done.status in (200, 409), "it is settled, or it is too early to believe that"
    assert "she looked" in ann.get("/step", run="r", at=at).text


def test_what_is_not_there_is_said_to_be_not_there(serve: Serve) -> None:
    served = serve()
    vic = signed_in(served, "vic", "viewer")
    served.as_("ann").post("/runs", json={"workflow": "ask", "id": "r", "input": {"name": "!"}})
    for run, at in (("r", "nowhere"), ("nobody", "x"), ("r", "")):
        assert vic.get("/step", run=run, at=at).status in (404, 422)
