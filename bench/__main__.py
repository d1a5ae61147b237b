"""Starts the benchmark from a shell: `python -m bench`.

It only hands over to `frame`, which reads the options.
"""

import sys

from bench.frame import main

if __name__ == "__main__":
    sys.exit(main())
