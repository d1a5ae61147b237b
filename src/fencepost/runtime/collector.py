"""Quiets the cyclic garbage collector in a process that does nothing but work on runs.

It changes the whole process, so that whoever starts one calls it, and no library. What a worker does is `worker`.
"""

from __future__ import annotations

import gc

COLLECTOR_THRESHOLD = 10_000
"""New containers before the collector looks at the youngest ones; Python's own default is 700."""


def quiet_collector() -> None:
    """Let the cyclic garbage collector look less often, and never at what a worker has loaded.

    A worker's runs free themselves by reference count, and looking at thousands of live records after every few hundred
    new ones costs a tenth of its time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECTOR_THRESHOLD, *gc.get_threshold()[1:])
