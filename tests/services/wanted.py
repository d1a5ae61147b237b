"""Real servers for tests: whether they are wanted, and what to do where one is not on this machine.

`make test-services` sets FENCEPOST_TEST_SERVICES; a plain `make test` starts nothing. A test that asks for a server
that cannot be started is skipped with a sentence that says how to get it, and fails where skipping is no option (CI).
How a server is started is in the file of its name.
"""

import os

WANTED = "FENCEPOST_TEST_SERVICES"


def are_wanted() -> bool:
    """Whether tests may start servers."""
    return bool(os.environ.get(WANTED))


def must_be_there() -> bool:
    """Whether a server that cannot be started is a failure and no reason to skip."""
    return bool(os.environ.get("CI"))
