"""Histories of runs as the ledger would hold them, made to be drawn: short ones by hand, any one by hypothesis.

What a picture must show of them is said by the tests.
"""

from typing import Any

from hypothesis import strategies as st

from fencepost.core.duration import DAY, SECOND
from fencepost.core.records import LOOK_UP, REPLY, Attempt, Audit, History, Observation, Operation, Run, Step
from fencepost.core.states import OperationState, Outcome, RunState, StepState

BEGAN = 20_000 * DAY
REPLIED = '{"kind":"reply"}'
LOOKED = '{"kind":"look-up"}'


def run(**more: Any) -> Run:
    """A run that waits for nobody."""
    given: dict[str, Any] = {"state": RunState.SUCCEEDED, "generation": 1, "created_at": BEGAN, "result": "1"}
    given |= {"changed_at": BEGAN + SECOND, "ended_at": BEGAN + SECOND} | more
    return Run(
        1, "default", given.pop("id", "r"), "pay", 1, "{}", "", given.pop("state"), given.pop("generation"), 1, **given
    )  # fmt: skip


def attempt(
    number: int, at: int, *, generation: int = 1, outcome: Outcome = Outcome.APPLIED, lasts: int = 5_000,
    evidence: str = REPLIED, lease: str | None = None,
) -> Attempt:  # fmt: skip
    """One dispatch, `at` microseconds into its run."""
    known = outcome is not Outcome.UNRESOLVED
    return Attempt(
        number, BEGAN + at, BEGAN + at + SECOND, BEGAN + at + 2 * SECOND, lease or f"lease-{generation}", generation,
        outcome=outcome, evidence=evidence if known else None, settled_at=BEGAN + at + lasts if known else None,
    )  # fmt: skip


def operation(step: str, *attempts: Attempt, **more: Any) -> Operation:
    """An effect with these attempts."""
    given: dict[str, Any] = {"state": OperationState.SUCCEEDED, "item": None, "result": "1"} | more
    began = min((one.dispatched_at for one in attempts), default=BEGAN)
    changed = max((one.settled_at or one.dispatched_at for one in attempts), default=BEGAN)
    return Operation(
        1, step, given.pop("item"), step, 1, "k" * 64, 1, "{}", "", given.pop("state"), began, changed_at=changed,
        attempts=list(attempts), **given,
    )  # fmt: skip


def step(kind: str, name: str, at: int, lasts: int | None, **more: Any) -> Step:
    """A step that is no effect."""
    closed = None if lasts is None else BEGAN + at + lasts
    state = more.pop("state", StepState.OPEN if lasts is None else StepState.DONE)
    return Step(f"/{name}", kind, name, "", state, BEGAN + at, closed_at=closed, **more)


def late(at: int, *, of: int = 1, generation: int = 1, says: str = "applied") -> Observation:
    """What a former owner reported."""
    return Observation(REPLY, says, REPLIED, BEGAN + at, attempt=of, generation=generation, current=False)


def with_a_zombie() -> History:
    """A former owner's attempt is unknown, its heir looks and sends again, and then the former owner reports."""
    looked = Observation(LOOK_UP, "absent", LOOKED, BEGAN + 3 * DAY + 400_000, began_at=BEGAN + 3 * DAY + 300_000,
                         lease="lease-2", generation=2)  # fmt: skip
    charged = operation(
        "charge",
        attempt(1, 3 * DAY + 5_000, outcome=Outcome.UNRESOLVED),
        attempt(2, 3 * DAY + SECOND, generation=2, lasts=80_000),
        observations=[looked, late(3 * DAY + 2 * SECOND)],
    )
    steps = [step("model", "classify", 20_000, 880_000), step("wait", "decision", 900_000, 3 * DAY - 897_000)]
    created = operation("create", attempt(1, 2_000))
    ended = BEGAN + 3 * DAY + 3 * SECOND
    return History(run(generation=2, changed_at=ended, ended_at=ended), steps, [created, charged])


def verb(name: str, at: int, outcome: str = "done", **more: Any) -> Audit:
    """What a person did."""
    return Audit(BEGAN + at, "ann", name, "r", outcome, "she says so", "{}", "{}", no=at + 1, **more)


# -- any history ------------------------------------------------------------------------------------------------------

_moments = st.one_of(st.integers(0, 10_000), st.integers(0, 10 * SECOND), st.integers(0, 30 * DAY))
_names = st.sampled_from(["charge", "mail", "post_entry", "<script>", "請求"])


@st.composite
def _operations(draw: st.DrawFn, number: int, compensates: str | None = None) -> Operation:
    at, attempts = draw(_moments), []
    for count in range(draw(st.integers(0, 4))):
        outcome, generation = draw(st.sampled_from(Outcome)), draw(st.integers(1, 4))
        lasts = draw(st.integers(0, 10_000))
        attempts.append(attempt(count + 1, at, generation=generation, outcome=outcome, lasts=lasts))
        at += lasts + draw(_moments)
    told = [
        late(at, of=draw(st.integers(1, len(attempts))), generation=draw(st.integers(1, 4)))
        for _ in range(draw(st.integers(0, 2)))
        if attempts
    ]
    sent = [OperationState.DISPATCHED, OperationState.UNKNOWN, OperationState.SUCCEEDED, OperationState.FAILED]
    state = draw(st.sampled_from(sent if attempts else [OperationState.RESERVED, OperationState.CANCELLED]))
    name = draw(_names) if compensates is None else f"compensate {compensates}"
    return operation(
        name, *attempts, state=state, item=str(number) if compensates is None else None, observations=told,
        compensates=compensates, error='{"class":"X"}',
    )  # fmt: skip


@st.composite
def histories(draw: st.DrawFn, steps_max: int = 12) -> History:
    """Any history that the ledger could hold, and some that it could not."""
    operations = [draw(_operations(number)) for number in range(draw(st.integers(0, steps_max)))]
    backs = [draw(_operations(0, one.position)) for one in operations[: draw(st.integers(0, 2))]]
    kinds = st.sampled_from(["wait", "sleep", "model", "compute", "child"])
    lasting = st.one_of(st.none(), _moments)
    steps = [
        step(draw(kinds), f"s{number}", draw(_moments), draw(lasting)) for number in range(draw(st.integers(0, 6)))
    ]  # fmt: skip
    changed = BEGAN + draw(_moments)
    is_over = draw(st.booleans())
    whole = run(
        state=RunState.SUCCEEDED if is_over else RunState.WAITING, ended_at=changed if is_over else None,
        changed_at=changed, generation=draw(st.integers(1, 5)),
    )  # fmt: skip
    return History(whole, steps, operations + backs)
