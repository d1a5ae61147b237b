"""What is seen from outside over HTTP: numbers, traces and workers as at every other door, and a word for anybody."""

import re

import pytest

from fencepost import Permissions
from fencepost.core.errors import StoreUnavailable
from tests.cli.conftest import Command, fencepost
from tests.console.conftest import Serve, Served
from tests.console.test_schema import OPERATIONS
from tests.polling import until

__all__ = ["fencepost"]


def families(text: str) -> list[str]:
    """Every line without its value."""
    return [line if line.startswith("#") else re.sub(r" \S+$", "", line) for line in text.splitlines()]


def test_the_numbers_are_those_of_the_command_line_and_take_a_token(serve: Serve, url: str, fencepost: Command) -> None:
    served = serve(permissions=Permissions({"vic": "viewer", "ann": "admin"}))
    told = served.as_("vic", "viewer").get("/metrics")
    (kind,) = OPERATIONS["GET /api/v1/metrics"]["responses"]["200"]["content"]
    assert (told.status_code, told.headers["content-type"]) == (200, kind)
    assert families(told.text) == families(fencepost("metrics", "--db", url).out)
    assert told.text.endswith("# EOF\n")
    for caller, status in ((served.client(None), 401), (served.as_("nobody", "admin"), 403)):
        for path in ("/metrics", "/health", "/traces/r", "/bulk/jobs"):
            assert caller.get(path).status_code == status, path


def test_a_run_that_nobody_works_on_is_told_and_so_is_the_worker_that_comes(serve: Serve) -> None:
    alone = serve()
    ann = alone.as_("ann")
    ann.post("/runs", json={"workflow": "ask", "id": "r", "input": {"name": "!"}})
    until(lambda: ann.get("/health").json()["waiting"], "it to wait")
    assert ann.get("/health").json()["well"] is False
    assert ann.get("/traces/nobody").status_code == 404
    served = serve(worker=True)
    seen = until(lambda: (said := ann.get("/health").json())["waiting"] == 0 and said, "a worker")
    (worker,) = seen["workers"]
    assert (seen["well"], worker["overdue"]) == (True, 0)
    assert worker["lease"] == served.app.host.lease.id


def test_whoever_has_no_token_is_told_whether_the_console_is_well_and_nothing_else(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    stranger = served.client(None)
    stranger.base_url = served.url
    told = stranger.get("/health")
    assert (told.status_code, told.json()) == (200, {"well": True})
    assert stranger.head("/health").status_code == 200
    assert stranger.post("/health").status_code == 405
    assert stranger.get("/metrics").status_code == 404
    monkeypatch.setattr(served.app.host.store, "now", broken)
    told = stranger.get("/health")
    assert (told.status_code, told.json()) == (503, {"well": False})


def broken() -> int:
    """A ledger that is gone."""
    raise StoreUnavailable("the server at db.internal is gone")
