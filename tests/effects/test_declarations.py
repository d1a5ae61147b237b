"""A declaration that cannot be meant is refused where it is written, with what to write instead."""

from __future__ import annotations

from typing import Annotated, Any

import pytest

from fencepost.core.contract import Retry
from fencepost.core.errors import DeclarationError
from fencepost.effects.answers import Absent, Found
from fencepost.effects.call import Call, SyncCall
from fencepost.effects.declare import Effect, compute, effect, read
from fencepost.effects.model import model
from fencepost.effects.promises import Stands
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow


async def makes(call: Call, order: str, *, count: int = 1) -> str:
    return order


def refused(declare, *said):
    with pytest.raises(DeclarationError) as caught:
        declare()
    for part in said:
        assert part in str(caught.value)


# -- the first parameter ----------------------------------------------------------------------------------------------


def plain_with_call(call: Call, x: int) -> int:
    return x


async def async_with_sync_call(call: SyncCall, x: int) -> int:
    return x


async def without_call(x: int) -> int:
    return x


async def unannotated(call, x: int) -> int:
    return x


async def of_run(run: Run, x: int) -> int:
    return x


STEPS = [effect(on_unknown="hold"), read(), compute(), model(output=int)]
each_decorator = pytest.mark.parametrize("decorate", STEPS, ids=["effect", "read", "compute", "model"])


@each_decorator
def test_a_plain_body_takes_a_sync_call_and_an_async_one_a_call(decorate):
    refused(lambda: decorate(plain_with_call), "`def plain_with_call` takes a Call", "write `call: SyncCall`")
    refused(lambda: decorate(async_with_sync_call), "takes a SyncCall", "write `call: Call`")


@each_decorator
@pytest.mark.parametrize(
    ("body", "written"), [(without_call, "`x: int`"), (unannotated, "`call`"), (of_run, "`run: Run`")]
)
def test_a_body_without_its_call_is_refused(decorate, body, written):
    refused(lambda: decorate(body), f"is {written}", "first parameter is `call: Call`")


def test_a_workflow_takes_a_run_first():
    async def no_run(x: int) -> None: ...

    async def bare(run, x: int) -> None: ...

    refused(lambda: workflow()(no_run), "`x: int`", "`run: Run`")
    refused(lambda: workflow()(makes), "`call: Call`", "`run: Run`")
    refused(lambda: workflow()(bare), "is `run`", "`run: Run`")


def test_annotations_written_as_text_or_with_remarks_are_read():
    async def remarked(call: Annotated[Call, "the call"], x: int) -> int:
        return x

    async def either(call: Call | SyncCall, x: int) -> int:
        return x

    async def of_text(run: "Run") -> None: ...  # noqa: UP037 - text in text, as older code has it

    assert read()(remarked).name == "remarked"
    assert read()(either).name == "either"
    assert workflow()(of_text).name == "of_text"


# -- the decorators ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("decorator", [effect, read, compute, model, workflow])
def test_a_decorator_without_parentheses_says_so(decorator):
    refused(lambda: decorator(makes), "without parentheses", f"write @{decorator.__name__}(...)")


@pytest.mark.parametrize("decorator", [read, compute])
@pytest.mark.parametrize("retry", [Retry(attempts=None), Retry(within=None)])
def test_a_budget_that_does_not_end_is_refused(decorator, retry):
    refused(lambda: decorator(retry=retry), "does not end", "attempts= and within=")


# -- what an effect names ---------------------------------------------------------------------------------------------


async def finds(call: Call, order: str, *, count: int) -> Found[str] | Absent:
    return Absent()


async def finds_less(call: Call, order: str) -> Found[str] | Absent:
    return Absent()


async def finds_more(call: Call, order: str, reference: str, *, count: int) -> Found[str] | Absent:
    return Absent()


async def finds_by_another_name(call: Call, order: str, *, number: int) -> Found[str] | Absent:
    return Absent()


def finds_with_the_wrong_call(call: Call, order: str, *, count: int) -> Found[str] | Absent:
    return Absent()


def declared(**given: Any) -> Effect[..., Any]:
    return effect(on_unknown="hold", **given)(makes)


def test_a_look_up_that_fits_is_taken_also_one_that_takes_anything():
    async def anything(call: Call, *args: object, **kwargs: object) -> Absent:
        return Absent()

    declared(reconcile=finds)
    declared(reconcile=anything)
    declared(reconcile=lambda call, order, count: Absent())


@pytest.mark.parametrize("look_up", [finds_less, finds_more, finds_by_another_name])
def test_a_look_up_that_cannot_be_called_is_refused(look_up):
    shape = "it is called as (call, order, count=count)"
    refused(lambda: declared(reconcile=look_up), f"reconcile={look_up.__name__} does not fit makes", shape)


def test_a_look_up_with_the_wrong_call_or_order_or_a_decorator_is_refused():
    async def pays(call: Call, payer: str, payee: str) -> str:
        return payer

    async def finds_payment(call: Call, payee: str, payer: str) -> Absent:
        return Absent()

    @read()
    async def finds_as_a_step(call: Call, order: str, *, count: int) -> str:
        return order

    refused(lambda: declared(reconcile=finds_with_the_wrong_call), "takes a Call", "write `call: SyncCall`")
    refused(lambda: effect(reconcile=finds_payment)(pays), "in another order", "(call, payer, payee)")
    refused(lambda: declared(reconcile=finds_as_a_step), "is a step", "without decorator")


def test_a_load_takes_the_reference():
    async def loads(call: Call, reference: str) -> str:
        return reference

    async def loads_all(call: Call) -> str:
        return ""

    declared(load=loads)
    refused(lambda: declared(load=loads_all), "load=loads_all does not fit makes", "(call, reference)")


def test_a_compensation_takes_the_arguments_the_result_and_the_reference():
    @effect(on_unknown="hold")
    async def undo(call: Call, order: str, count: int, result: str | None, reference: str | None) -> None: ...

    @effect(on_unknown="hold")
    async def undo_less(call: Call, order: str, reference: str | None) -> None: ...

    declared(compensate=undo)
    declared(compensate=Stands("it stays"))
    refused(
        lambda: declared(compensate=undo_less),
        "compensate=undo_less does not fit makes",
        "(call, order, count, result, reference)",
    )
