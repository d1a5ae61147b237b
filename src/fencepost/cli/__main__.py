"""The command line from a shell without the installed script: `python -m fencepost.cli`.

What it understands is `main`.
"""

import sys

from fencepost.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
