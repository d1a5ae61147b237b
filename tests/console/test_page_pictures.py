"""The pictures in their pages: drawn from the ledger, in the reader's language, harmless whatever stands in a name."""

from urllib.parse import quote

from tests.console.conftest import Serve
from tests.console.visit import signed_in
from tests.polling import until

HOSTILE = "r/</svg><script>alert(1)</script>"


def test_a_run_has_its_timeline_and_what_failed_comes_first_on_demand(serve: Serve) -> None:
    served = serve(worker=True)
    ann = served.as_("ann")
    ann.post("/runs", json={"workflow": "ask", "id": HOSTILE, "input": {"name": HOSTILE}})
    until(lambda: served.app.store.find("default", HOSTILE).state == "waiting", "its wait")
    vic = signed_in(served, "vic", "viewer")
    by_time, eventful = vic.get("/runs/" + quote(HOSTILE)), vic.get("/runs/" + quote(HOSTILE), eventful="first")
    for page in (by_time, eventful):
        assert page.status == 200
        assert "fp-timeline" in str(next(attributes for tag, attributes in page.tags if tag == "svg")["class"])
        assert "<script>alert" not in page.html
        assert not [one for one in page.tags if one[0] == "style" or "style" in one[1]], "its policy allows none"


def test_charts_are_shown_of_a_time_that_is_chosen_and_of_no_other(serve: Serve) -> None:
    vic = signed_in(serve(worker=True), "vic", "viewer")
    for within in ("1h", "7d"):
        page = vic.get("/charts", within=within)
        assert [tag for tag, _ in page.tags].count("svg") == 4
    assert vic.get("/charts", within="1y").status == 422


def test_pictures_are_in_the_readers_language(serve: Serve) -> None:
    vic = signed_in(serve(worker=True), "vic", "viewer", language="ja")
    assert "直近" in vic.get("/charts").html or "実行" in vic.get("/charts").html
