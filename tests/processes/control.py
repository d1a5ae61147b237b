"""Switches the reconciliation of unknown operations off in a worker, to show that the tests would notice.

`again` is what most engines do: whatever is not known is sent again, without asking, under a new key. `assume` is the
other guess: whatever was dispatched is taken to have happened. Both leave the ledger, leases and recovery as they are.
"""

from fencepost.core.recovery import Dispatch, LookUp, decide
from fencepost.core.states import OperationState
from fencepost.effects import call, perform
from fencepost.effects.answers import Found
from fencepost.runtime import performing
from tests.processes.workflows import Made

MODES = ("", "again", "assume")

_ANOTHER = "-another"


def apply(mode: str) -> None:
    """Make this process guess in the given way; "" leaves it as it is."""
    assert mode in MODES
    seams = (perform.decide, performing.Hands._ask, call.Attempting.known_digest)
    assert all(seams), "what is replaced here is still there"
    if mode == "again":
        perform.decide = _again
        call.Attempting.known_digest = property(lambda attempting: None)
    elif mode == "assume":
        perform.decide = _assume
        performing.Hands._ask = _found


def _again(operation, contract, moment):
    if operation.state is not OperationState.UNKNOWN:
        return decide(operation, contract, moment)
    if not operation.key.endswith(_ANOTHER):
        operation.key += _ANOTHER
    return Dispatch(len(operation.attempts) + 1)


def _assume(operation, contract, moment):
    return LookUp() if operation.state is OperationState.UNKNOWN else decide(operation, contract, moment)


async def _found(*_):
    return Found(Made(id="assumed"))
