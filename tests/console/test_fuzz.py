"""The API fuzzed from its own schema, on a real ledger with a worker: no error of ours, and no answer it does not tell.

`make api-fuzz` runs it; SEED= chooses what is sent. Schemathesis sends what fits the schema and what does not, follows
answers to the next requests, and compares every answer with what the schema says of it.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fencepost import App, Queue, Schedule
from fencepost.receiving import WebhookEndpoint
from tests.console import shop
from tests.console.conftest import Serve

SECONDS = os.environ.get("SECONDS", "40")
SEED = os.environ.get("SEED", "1")

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "missing_required_header",
    "unsupported_method",
    "ignored_auth",
)
"""Left out: that everything which fits the schema is taken, since what a run takes is decided by the run."""


def payments(app: App) -> dict[str, WebhookEndpoint]:
    return {"payments": WebhookEndpoint(app, secrets="whsec_" + "c2VjcmV0" * 4, route=lambda _: None)}


@pytest.mark.timeout(600)
def test_no_server_error_and_no_answer_that_the_schema_does_not_tell(serve: Serve, tmp_path: Path) -> None:
    nightly = Schedule("nightly", shop.ask, "you", cron="0 3 * * *")
    rules = {"schedules": [nightly], "queues": [Queue("mail", concurrency=1)]}
    served = serve(worker=True, app=rules, webhooks=payments)
    served.as_("ann").post(
        "/runs", json={"workflow": "ask", "id": "invoice:tenant-42:inv-1847", "input": {"name": "!"}}
    )
    command = [
        Path(sys.executable).with_name("schemathesis"), "run", f"{served.url}/api/v1/openapi.json",
        "--header", f"Authorization: Bearer {served.token('ann', 'admin')}", "--checks", ",".join(CHECKS),
        "--seed", SEED, "--max-examples", "10", "--max-time", SECONDS, "--no-shrink", "--continue-on-failure",
    ]  # fmt: skip
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-8_000:] + done.stderr[-2_000:]
    assert "Test cases:" in done.stdout
    checked = served.as_("ann", "admin").get("/check").json()
    assert checked["found"] == []
    assert served.as_("vic", "viewer").get("/audit/verify").json()["broken"] is None
