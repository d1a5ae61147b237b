"""Every verb of a person on a run, by its name: the function that carries it out, for those who have only the name.

Which role a verb needs is in `core.permissions`, whose table is compared with this one by a test; what applies to a run
as it is, `applicable`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fencepost.core.records import Run
from fencepost.runtime import migrating, verbs

ON_RUNS: Mapping[str, Callable[..., Run]] = {
    "resume": verbs.resume,
    "reconcile": verbs.reconcile,
    "retry": verbs.retry,
    "settle": verbs.settle,
    "settle conflict": verbs.settle_conflict,
    "cancel": verbs.cancel,
    "compensate": verbs.compensate,
    "compensate step": verbs.compensate_step,
    "forward": verbs.forward,
    "redecide": verbs.redecide,
    "terminate": verbs.terminate,
    "reopen": verbs.reopen,
    "migrate": migrating.migrate,
}
"""Each takes the app, the run, its own arguments, and `by`, `reason` and `version`."""


def name_of(function: Callable[..., Run]) -> str:
    """The name of the verb that a function carries out."""
    return next(name for name, known in ON_RUNS.items() if known is function)
