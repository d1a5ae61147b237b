"""Jobs on many runs over HTTP: listed and shown as on the command line, paused by anybody who may, and gone on with."""

from fencepost import Permissions
from fencepost.core.bulk import BulkState
from fencepost.runtime import bulking
from fencepost.runtime.bulk import Selection
from tests.cli.conftest import Command, fencepost
from tests.console.conftest import Serve, Served
from tests.console.test_same_documents import steady

__all__ = ["fencepost"]


def begun(served: Served) -> int:
    """A job to cancel three runs, whose process was killed after the first."""
    ann = served.as_("ann", "admin")
    for number in range(3):
        ann.post("/runs", json={"workflow": "ask", "id": f"r{number}", "input": {"name": "!"}})
    job = bulking.begin(served.app, "cancel", Selection(state="ready"), by="ann", reason="all of them")
    assert job is not None
    next(bulking.carry_out(served.app, job, by="ann"))
    return job.no


def test_a_job_is_gone_on_with_where_it_stopped_and_each_run_is_done_once(
    served: Served, url: str, fencepost: Command
) -> None:
    no, maxim = begun(served), served.as_("max")
    (listed,) = maxim.get("/bulk/jobs").json()["jobs"]
    assert (listed["no"], listed["done"], listed["left"], listed["actor"]) == (no, 1, 2, "ann")
    paused = maxim.post(f"/bulk/jobs/{no}/pause", json={"reason": "wait"}).json()
    assert (paused["verb"], paused["job"]["state"]) == ("pause", BulkState.PAUSED)
    again = served.as_("ann").post("/bulk/jobs/99/resume", json={"reason": "which?"})
    assert (again.status_code, again.json()["ids"]) == (404, {"bulk": "99"})

    done = maxim.post(f"/bulk/jobs/{no}/resume", json={"reason": "go on"}).json()
    assert (done["verb"], [one["run"] for one in done["runs"]]) == ("cancel", ["r1", "r0"])
    assert served.rows().count(("ann", "cancel", "done")) == 1
    assert served.rows().count(("max", "cancel", "done")) == 2
    refused = maxim.post(f"/bulk/jobs/{no}/resume", json={"reason": "once more"})
    assert (refused.status_code, refused.json()["type"]) == (409, "urn:fencepost:verb-refused")

    assert maxim.get("/bulk/jobs").json()["jobs"] == []
    for path, command in {
        "/bulk/jobs?all=true": ("bulks", "--all"), f"/bulk/jobs/{no}": ("bulks", "show", str(no)),
    }.items():  # fmt: skip
        assert steady(maxim.get(path).json()) == steady(fencepost(*command, "--db", url, "--json").json), path


def test_whoever_only_looks_stops_no_job(serve: Serve) -> None:
    served = serve(permissions=Permissions({"ann": "admin", "vic": "viewer"}))
    no, vic = begun(served), served.as_("vic", "admin")
    for verb in ("pause", "resume"):
        assert vic.post(f"/bulk/jobs/{no}/{verb}", json={"reason": "no"}).status_code == 403
    assert vic.get(f"/bulk/jobs/{no}").json()["job"]["left"] == 2
    assert served.rows().count(("vic", "pause bulk", "refused")) == 1
