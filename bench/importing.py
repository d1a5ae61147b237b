"""Measures what it costs to import one package: time, modules and memory, in the fresh interpreter it runs in.

`python -m bench.importing PEER MODULE` prints one line of mode `import`. Compiled bytecode is there from an earlier
import, as it is for a user from the second start on. It imports nothing else that a contestant may share.
"""

import importlib
import resource
import sys
import time

_KIB_PER_MIB = 1024
_BYTES_PER_MIB = 1024**2


def main() -> None:
    """Imports first and reports afterwards, so that `json` and `argparse` are not counted for free."""
    peer, module = sys.argv[1:]
    before, begun = len(sys.modules), time.perf_counter()
    importlib.import_module(module)
    milliseconds, modules = (time.perf_counter() - begun) * 1e3, len(sys.modules) - before

    from bench.modes import emit

    # getrusage counts the peak in KiB on Linux and in bytes on macOS.
    unit = _BYTES_PER_MIB if sys.platform == "darwin" else _KIB_PER_MIB
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    emit(peer, "import", import_ms=milliseconds, modules=modules, rss_mib=peak)


if __name__ == "__main__":
    main()
