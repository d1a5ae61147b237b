"""The recovery table of an app: what happens to each of its steps when something goes wrong, one row a step.

Computed from what is declared and from nothing else: the rungs come from `core.guarantee`, the rules are those that
`core.recovery` and `core.classify` follow. Rows are plain text; the command line and the console lay them out.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from fencepost.core.contract import Contract, Retry
from fencepost.core.duration import spelled
from fencepost.core.guarantee import Rung, blanks, guarantee, ladder
from fencepost.effects.compensation import Compensation
from fencepost.effects.culprit import name_of
from fencepost.effects.declare import Effect, Step
from fencepost.effects.layers import stack_of
from fencepost.effects.model import ModelStep
from fencepost.effects.promises import Stands

if TYPE_CHECKING:
    from fencepost.runtime.app import App
    from fencepost.runtime.workflow import Workflow

HEADINGS: dict[str, str] = {
    "step": "step",
    "kind": "class",
    "workflows": "used by",
    "input": "input",
    "output": "output",
    "safe_to_run_again": "safe to run again?",
    "key": "key",
    "look_up": "look-up",
    "fence": "fence",
    "reference": "reference",
    "compensation": "compensation",
    "cancel": "on cancel",
    "forward": "another way",
    "retryable_errors": "retryable errors",
    "retry_owner": "retry owner",
    "sends": "sends at most",
    "backoff": "backoff",
    "budget": "budget",
    "final_state": "final state",
    "timeout_and_settle": "timeout and settle",
    "guarantee": "guarantee",
    "assumptions": "assumptions",
    "blanks": "blanks",
}
"""The fields of a row, in order, with what a table writes over them."""

BLANK = "BLANK"
"""What stands in a cell that had to be declared and is not."""

OTHER_CLIENTS = "a client other than call.http keeps to its own timeout unless `guard.watch` holds its connection"


@dataclass(frozen=True, slots=True)
class RecoveryRow:
    """One step. Every field is text for people, except `assumptions` and `blanks`: one text for each of them."""

    step: str
    kind: str
    workflows: tuple[str, ...]
    input: str
    output: str
    safe_to_run_again: str
    key: str
    look_up: str
    fence: str
    reference: str
    compensation: str
    cancel: str
    forward: str
    retryable_errors: str
    retry_owner: str
    sends: str
    backoff: str
    budget: str
    final_state: str
    timeout_and_settle: str
    guarantee: str
    assumptions: tuple[str, ...]
    blanks: tuple[str, ...]


def recovery_table(app: App) -> list[RecoveryRow]:
    """A row for each step of the app's workflows, compensations included, in the order in which code refers to them."""
    used: dict[int, tuple[Step[..., Any], list[str]]] = {}
    for declared in app.workflows.values():
        for step in declared.steps:
            used.setdefault(id(step), (step, []))[1].append(_named(declared))
    undoes = _compensated(step for step, _ in used.values())
    rows = [
        _effect_row(app, step, tuple(names), undoes.get(id(step), []))
        if isinstance(step, Effect)
        else _plain_row(step, tuple(names))
        for step, names in used.values()
    ]
    return _strictly(app, rows) if app.strict else rows


def _named(declared: Workflow[..., Any]) -> str:
    """A workflow with its version, and what it declares for its effects if its code raises."""
    back = ", compensates on failure" if declared.on_failure == "compensate" else ""
    return f"{declared.name} {declared.version}{back}"


def _strictly(app: App, rows: list[RecoveryRow]) -> list[RecoveryRow]:
    """To a strict app a second layer that retries is a blank too."""
    off = {stack.step: stack.off for stack in app.stacks() if stack.repeats}
    return [
        replace(row, blanks=(*row.blanks, f"second layer retries ({off[row.step]})")) if row.step in off else row
        for row in rows
    ]


def _compensated(steps: Iterator[Step[..., Any]]) -> dict[int, list[str]]:
    """Which effects each compensating effect is declared for."""
    found: dict[int, list[str]] = {}
    for step in steps:
        if isinstance(step, Effect) and isinstance(step.declared.compensate, Compensation):
            found.setdefault(id(step.declared.compensate.effect), []).append(step.name)
    return found


# -- effects ----------------------------------------------------------------------------------------------------------


def _effect_row(app: App, effect: Effect[..., Any], workflows: tuple[str, ...], undoes: list[str]) -> RecoveryRow:
    contract = effect.contract
    bought = guarantee(contract)
    assumptions = () if bought is None else (*bought.assumptions, *_deadline_assumptions(app, contract))
    assumptions += _weakness(effect)
    return RecoveryRow(
        step=effect.name,
        kind=", ".join(["effect", *["financial"] * contract.financial, *(f"compensates {name}" for name in undoes)]),
        workflows=workflows,
        input=_input(effect),
        output=name_of(effect.results.annotation),
        safe_to_run_again=_again(contract),
        key=_key(app, effect),
        look_up=_look_up(contract),
        fence=_fence(effect),
        reference=contract.reference or (BLANK if contract.financial else "none"),
        compensation=_compensation(effect),
        cancel=_cancel(effect),
        forward=_forward(effect),
        retryable_errors=_retryable(contract),
        retry_owner="Fencepost; call.http repeats nothing by itself",
        sends=_sends(effect, app.clients),
        backoff=_backoff(contract.retry),
        budget=_budget(contract.retry),
        final_state=(
            "budget spent: failed if every attempt is proved not applied, else unknown; the run is held either way. "
            "A definite, permanent refusal: failed, raised in the workflow"
        ),
        timeout_and_settle=_span(contract),
        guarantee=BLANK if bought is None else f"{bought.rung}: {bought.promise}{_behind(contract)}",
        assumptions=assumptions,
        blanks=tuple(f"{blank.kind} ({blank.mend})" for blank in blanks(contract)),
    )


def _again(contract: Contract) -> str:
    rungs = ladder(contract)
    match rungs[0] if rungs else None:
        case Rung.ATOMIC:
            return "yes, since what did not commit with its result did not happen"
        case Rung.REPEATABLE:
            return "yes, declared harmless"
        case Rung.KEYED:
            return f"only as the same request under its key{_until(contract)}"
        case Rung.LOOKED_UP:
            return f"no; asked about, and sent again only if absent {spelled(contract.span)} after dispatch"
        case Rung.FENCED:
            return "no; asked about under a raised fence, and sent again only if absent"
        case Rung.HELD:
            return "no; a person settles it"
        case _:
            return f"{BLANK}: nothing is declared"


def _until(contract: Contract) -> str:
    before = contract.resend_before(0)
    return "" if before is None else f", until {spelled(before)} after the first dispatch"


def _behind(contract: Contract) -> str:
    rest = ladder(contract)[1:]
    return f"; behind it: {', '.join(rest)}" if rest else ""


def _key(app: App, effect: Effect[..., Any]) -> str:
    promise = effect.contract.key
    if promise is None:
        return "not sent"
    window = "no end" if promise.window is None else spelled(promise.window)
    scope = app.outside.scope(effect.declared.scope, effect.declared.target) or "not declared"
    stored = "; the target may replay a stored failure" if promise.replays_failures else ""
    return f"in {promise.carried_by}; window: {window}; scope: {scope}{stored}"


def _look_up(contract: Contract) -> str:
    promise = contract.look_up
    if promise is None:
        return "none"
    return f"{promise.name}{', consistent' if promise.consistent else ', may lag'}"


def _fence(effect: Effect[..., Any]) -> str:
    fenced = effect.declared.fence
    if fenced is None:
        return "none"
    resource = fenced.resource if isinstance(fenced.resource, str) else f"a function of ({_input(effect)})"
    return f"{fenced.fence.name}; resource: {resource}{'; weak, counts as none' if fenced.fence.weakness else ''}"


def _weakness(effect: Effect[..., Any]) -> tuple[str, ...]:
    """Why a declared fence counts as none. Contracts do not know of it, so that nothing is decided by it."""
    fenced = effect.declared.fence
    if fenced is None or fenced.fence.weakness is None:
        return ()
    return (f"{fenced.fence.name} is no fence: {fenced.fence.weakness}",)


def _compensation(effect: Effect[..., Any]) -> str:
    declared, contract = effect.declared.compensate, effect.contract
    if isinstance(declared, Stands):
        return f"none: the effect stands by declaration ({declared.why})"
    if declared is None:
        return BLANK if contract.financial else "none: the effect stands, and a compensated run says so"
    undo = declared.effect
    rungs = ladder(undo.contract)
    again = f"{rungs[0]}, under a key of its own" if rungs else BLANK
    policies = [getattr(policy, "__name__", "a policy") for policy in (undo.declared.policy, declared.policy) if policy]
    asked = f"asked first: {', '.join(policies)}; " if policies else ""
    held = "what it was done after is held back and the others go on" if declared.on_failure == "hold" else "all go on"
    return (
        f"{declared.name}; started by {declared.starters}; run again: {again}; budget: {_budget(undo.contract.retry)}; "
        f"{asked}{'restores the former state; ' if declared.restores else ''}"
        "evidence kept: its own attempts, replies and reference; "
        f"if it fails: shown as such, {held}, and the run never ends clean"
    )


def _cancel(effect: Effect[..., Any]) -> str:
    cancel = effect.declared.cancel
    if cancel is None:
        return "the body is told; the target is not"
    name = getattr(cancel, "__name__", type(cancel).__name__)
    return f"{name} asks the target, once for each owner; its answer is evidence and no proof"


def _forward(effect: Effect[..., Any]) -> str:
    other = effect.declared.forward
    if other is None:
        return "none"
    return f"{other.name}, once this one is proved not to have happened; chosen by the workflow or an operator"


def _retryable(contract: Contract) -> str:
    definite = ", ".join(str(status) for status in sorted(contract.definite))
    return (
        "Transient, RateLimited, connection errors, 408, 425, 5xx; what may have happened is settled first. "
        f"Proof that it did not happen: no byte left, {definite}"
    )


def _span(contract: Contract) -> str:
    timeout = BLANK if contract.attempt_timeout is None else spelled(contract.attempt_timeout)
    needs_settle = contract.look_up is not None and contract.settle is None
    settle = BLANK if needs_settle else "not declared" if contract.settle is None else spelled(contract.settle)
    return f"timeout {timeout}, settle {settle}"


def _deadline_assumptions(app: App, contract: Contract) -> tuple[str, ...]:
    """What no contract declares and yet the rung rests on, unless a late request does no harm (`protocol` B3, B4)."""
    if ladder(contract)[0] in (Rung.REPEATABLE, Rung.ATOMIC, Rung.FENCED):
        return ()
    of_door = app.outside.options.assumption()
    return (OTHER_CLIENTS,) if of_door is None else (of_door, OTHER_CLIENTS)


# -- steps that change nothing outside --------------------------------------------------------------------------------


def _plain_row(step: Step[..., Any], workflows: tuple[str, ...]) -> RecoveryRow:
    model = step if isinstance(step, ModelStep) else None
    budget = _budget(step.retry)
    if model is not None:
        budget += f"; {model.format_attempts} answers in the wrong form"
    return RecoveryRow(
        step=step.name,
        kind=step.kind,
        workflows=workflows,
        input=_input(step),
        output=name_of(step.results.annotation),
        safe_to_run_again="until its result is stored; then never asked again" if model else "yes, it changes nothing",
        key="not needed",
        look_up="not needed",
        fence="not needed",
        reference="not needed",
        compensation="not needed",
        cancel="the body is cancelled, its answer is nobody's",
        forward="none",
        retryable_errors="Transient, RateLimited, Unresolved, connection errors"
        + ("; a malformed answer, within its own budget" if model else ""),
        retry_owner="Fencepost",
        sends=_sends(step),
        backoff=_backoff(step.retry),
        budget=budget,
        final_state="budget spent: the run is held. Any other error: failed, raised in the workflow",
        timeout_and_settle=f"timeout {spelled(step.attempt_timeout)}",
        guarantee="the accepted answer is stored once and reused" if model else "its result is stored once and reused",
        assumptions=(),
        blanks=() if step.retry.bounded else ("unbounded retry (give Retry both attempts= and within=)",),
    )


# -- shared -----------------------------------------------------------------------------------------------------------


def _input(step: Step[..., Any]) -> str:
    # Not the body's own: a model's stub is replaced by a body that takes anything.
    return ", ".join(map(_parameter, step.arguments.signature.parameters.values())) or "nothing"


def _parameter(parameter: inspect.Parameter) -> str:
    annotation = parameter.annotation
    return f"{parameter.name}: {annotation if isinstance(annotation, str) else name_of(annotation)}"


def _backoff(retry: Retry) -> str:
    return (
        f"{spelled(retry.first_delay)}, times {retry.factor:g}, up to {spelled(retry.longest_delay)}, "
        f"half of it drawn; Retry-After is honoured up to {spelled(retry.retry_after_max)}"
    )


def _sends(step: Step[..., Any], around: tuple[Any, ...] = ()) -> str:
    """How often one operation may be sent, with each layer that repeats beneath its attempts."""
    stack = stack_of(step, around)
    if stack.attempts is None:
        return BLANK
    return f"{stack}; to switch off: {stack.off}" if stack.layers else f"{stack.attempts}, one an attempt"


def _budget(retry: Retry) -> str:
    attempts = f"{retry.attempts} attempts" if retry.attempts is not None else f"{BLANK} attempts"
    return f"{attempts} within {spelled(retry.within) if retry.within is not None else BLANK}"
