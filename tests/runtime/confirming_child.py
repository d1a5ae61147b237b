"""A process that confirms a proposal and kills itself with SIGKILL just before, or just after, the commit that does it.

    python -m tests.runtime.confirming_child URL PROPOSAL before|after

What must be in the ledger then is said in `test_two_persons`.
"""

import os
import signal
import sys

from fencepost.runtime.app import App
from fencepost.runtime.confirming import confirm


def main() -> None:
    url, proposal, when = sys.argv[1:]
    app = App(url, workflows=())
    app.probe = lambda point: os.kill(os.getpid(), signal.SIGKILL) if point.startswith(f"{when}:run:") else None
    confirm(app, int(proposal), by="bob", reason="I have looked")


if __name__ == "__main__":
    main()
