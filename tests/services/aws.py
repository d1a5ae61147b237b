"""S3 and DynamoDB in a process of the test's own: moto, answering one request after the other.

In order, since S3 and DynamoDB compare and write in one step, and moto's threads do not. Run as a program it is that
process. Which tests run on it is the matter of their conftest.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

REGION = "eu-central-1"


@contextmanager
def started() -> Iterator[str]:
    """The address of a running moto."""
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.services.aws"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        text=True,
    )  # fmt: skip
    assert server.stdout is not None
    try:
        yield server.stdout.readline().strip()
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


def client(service: str, address: str, *, attempts: int = 1) -> Any:
    """A client of boto3 for it."""
    import boto3
    from botocore.config import Config

    return boto3.client(
        service, endpoint_url=address, region_name=REGION, aws_access_key_id="nobody", aws_secret_access_key="none",
        config=Config(retries={"total_max_attempts": attempts}, connect_timeout=2, read_timeout=10),
    )  # fmt: skip


def main() -> None:
    """Serve until killed."""
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    server = make_server("127.0.0.1", 0, DomainDispatcherApplication(create_backend_app), threaded=False)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)  # noqa: T201 - this is how it tells its starter
    server.serve_forever()


if __name__ == "__main__":
    main()
