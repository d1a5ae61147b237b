"""Stand-ins for what surrounds the driver: declared steps, the facade that workflow code sees, and a history."""

from fencepost.core.asks import Completion, Recorded, Withdrawn
from fencepost.core.driver import Driver
from fencepost.core.errors import ErrorRecord

STARTED_AT = 1_000


class Bound:
    """A bound step, child or wait whose stored payload is its value."""

    __slots__ = ("fingerprint", "version")

    def __init__(self, request="", version=1):
        self.fingerprint = f"digest of {request}"
        self.version = version

    def decode(self, payload):
        return payload

    def __eq__(self, other):
        return (self.fingerprint, self.version) == (other.fingerprint, other.version)

    __hash__ = None


class Run:
    """What a workflow in these tests sees: one short method for each kind of ask."""

    def __init__(self, driver):
        self.driver = driver
        self.wait_for = driver.wait
        self.sleep, self.gather, self.race = driver.sleep, driver.gather, driver.race
        self.now, self.uuid, self.random = driver.now, driver.uuid, driver.random

    def effect(self, name, item=None, request="", version=1):
        return self.driver.do("effect", name, item, Bound(request, version))

    def read(self, name, request=""):
        return self.driver.do("read", name, None, Bound(request))

    def compute(self, name):
        return self.driver.do("compute", name, None, Bound())

    def wait(self, name, request=""):
        return self.driver.wait(name, Bound(request))

    def child(self, name):
        return self.driver.child(name, Bound())

    def compensate(self, reason="undo"):
        return self.driver.compensate(reason, lambda payload: payload)


def begin(workflow, *, recorded=None, run_id="run-1"):
    """A driver that has not started, for `async def workflow(run)`."""
    return Driver(
        lambda run, _: workflow(run), None, run_id=run_id, started_at=STARTED_AT, facade=Run, recorded=recorded
    )


def done(position, payload=None, at=STARTED_AT + 1):
    return Completion(position, payload, None, at)


def failed(position, message="refused", at=STARTED_AT + 1):
    return Completion(position, None, ErrorRecord("shop.Refused", message, "Traceback ..."), at)


CANCEL = done("cancel", "stop it")


def play(workflow, *completions, recorded=None):
    """Start a run and deliver the completions; the driver, and the moves of each advance as short texts."""
    driver = begin(workflow, recorded=recorded)
    told = [short(driver.start())]
    told.extend(short(driver.deliver(completion)) for completion in completions)
    return driver, told


def short(moves):
    """Moves as texts: the position of an ask, `-` and the position of what is withdrawn."""
    return [f"-{move.position}" if isinstance(move, Withdrawn) else move.position for move in moves]


def as_recorded(ask, *, final=False):
    return Recorded(ask.kind, ask.name, ask.fingerprint, ask.version, final)
