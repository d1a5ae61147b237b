"""What contracts buy: rungs in order, their assumptions, and each kind of blank found by its name."""

from dataclasses import replace

import pytest

from fencepost.core.contract import CompensationPromise, Contract, KeyPromise, LookUpPromise, Retry
from fencepost.core.duration import DAY, HOUR, MINUTE, SECOND
from fencepost.core.errors import DeclarationError
from fencepost.core.guarantee import Rung, blanks, guarantee, ladder

BARE = Contract("pay", attempt_timeout=20 * SECOND, settle=30 * SECOND)
KEY = KeyPromise(window=DAY, carried_by="header Idempotency-Key")
KEYED = replace(BARE, key=KEY)
ASKED = replace(BARE, look_up=LookUpPromise("find"))
AUTHORITY = LookUpPromise("find", consistent=True)
HOLDS = replace(BARE, holds_on_unknown=True)


@pytest.mark.parametrize(
    ("contract", "rungs"),
    [
        (BARE, ()),
        (HOLDS, (Rung.HELD,)),
        (ASKED, (Rung.LOOKED_UP, Rung.HELD)),
        (KEYED, (Rung.KEYED, Rung.HELD)),
        (replace(KEYED, look_up=ASKED.look_up), (Rung.KEYED, Rung.LOOKED_UP, Rung.HELD)),
        (replace(BARE, fence="a", look_up=AUTHORITY), (Rung.FENCED, Rung.LOOKED_UP, Rung.HELD)),
        (replace(BARE, repeatable=True), (Rung.REPEATABLE, Rung.HELD)),
    ],
)
def test_ladder(contract, rungs):
    assert ladder(contract) == rungs


def test_a_fence_alone_is_no_rung():
    assert ladder(replace(BARE, fence="account")) == ()


def test_a_fence_with_a_lagging_look_up_buys_no_more_than_the_look_up():
    assert ladder(replace(ASKED, fence="account")) == ladder(ASKED)


def test_a_fence_without_a_consistent_look_up_is_named_and_no_blank():
    lagging, beside_a_key = replace(ASKED, fence="account"), replace(KEYED, fence="account")
    for contract in (lagging, beside_a_key):
        bought = guarantee(contract)
        assert bought is not None
        assert bought.assumptions[-1].startswith("fence without consistent look-up: account ")
        assert blanks(contract) == []


def test_a_fence_rests_on_every_writer_and_on_no_clock():
    bought = guarantee(replace(BARE, fence="account", look_up=AUTHORITY))
    assert bought is not None
    assert bought.assumptions == (
        "every writer of the resource sends its token, and account never forgets the highest",
    )


def test_a_key_that_may_not_be_resent_is_no_rung():
    assert ladder(replace(KEYED, holds_on_unknown=True)) == (Rung.HELD,)


def test_a_key_that_is_forgotten_before_an_attempt_ends_is_no_rung():
    assert ladder(replace(KEYED, key=replace(KEY, window=50 * SECOND))) == ()
    assert ladder(replace(KEYED, key=replace(KEY, window=50 * SECOND + 1))) == (Rung.KEYED, Rung.HELD)


def test_a_guarantee_names_its_assumptions():
    keyed = guarantee(KEYED)
    asked = guarantee(ASKED)
    assert keyed is not None
    assert keyed.assumptions == ("the target remembers the key for 1d",)
    assert asked is not None
    assert asked.assumptions == ("no request is still at work, and every result visible, 50s after dispatch",)
    assert guarantee(BARE) is None


@pytest.mark.parametrize("contract", [HOLDS, ASKED, KEYED, replace(BARE, fence="a", look_up=AUTHORITY)])
def test_every_rung_has_a_promise_in_words(contract):
    bought = guarantee(contract)
    assert bought is not None
    assert bought.rung is ladder(contract)[0]
    assert bought.promise


# -- blanks ---------------------------------------------------------------------------------------------------------

MONEY = replace(KEYED, financial=True, reference="id", compensation=CompensationPromise("refund"))

BLANKS = {
    "no rung": BARE,
    "financial without compensation": replace(MONEY, compensation=None),
    "financial without reference": replace(MONEY, reference=None),
    "retry window beyond key window": replace(KEYED, retry=Retry(within=25 * HOUR)),
    "no timeout": replace(KEYED, attempt_timeout=None),
    "unbounded retry": replace(KEYED, retry=Retry(attempts=None)),
    "look-up without settle": replace(ASKED, settle=None),
}


@pytest.mark.parametrize("kind", BLANKS)
def test_a_blank_is_found_by_name_and_says_what_to_declare(kind):
    found = blanks(BLANKS[kind])
    assert [(blank.kind, blank.effect) for blank in found] == [(kind, "pay")]
    assert found[0].mend


def test_every_blank_is_found_at_once():
    worst = Contract(
        "pay", attempt_timeout=None, financial=True, key=replace(KEY, window=2 * MINUTE), look_up=LookUpPromise("find"),
        retry=Retry(attempts=None, within=HOUR),
    )  # fmt: skip
    assert {blank.kind for blank in blanks(worst)} == set(BLANKS) - {"no rung"}


@pytest.mark.parametrize("contract", [KEYED, ASKED, HOLDS, MONEY, replace(BARE, repeatable=True)])
def test_a_whole_contract_has_no_blank(contract):
    assert blanks(contract) == []


@pytest.mark.parametrize("unbounded", [Retry(attempts=None), Retry(within=None), Retry(attempts=None, within=None)])
def test_a_retry_without_an_end_is_a_blank(unbounded):
    assert [blank.kind for blank in blanks(replace(KEYED, retry=unbounded))] == ["unbounded retry"]


def test_the_last_retry_must_be_over_inside_the_key_window():
    just_fits = DAY - 50 * SECOND - 1
    assert blanks(replace(KEYED, retry=Retry(within=just_fits))) == []
    assert [blank.kind for blank in blanks(replace(KEYED, retry=Retry(within=just_fits + 1)))] == [
        "retry window beyond key window"
    ]


def test_a_look_up_does_not_make_up_for_a_key_that_is_shorter_than_the_retries():
    short = replace(KEYED, look_up=LookUpPromise("find"), key=replace(KEY, window=10 * MINUTE))
    assert [blank.kind for blank in blanks(short)] == ["retry window beyond key window"]


def test_a_key_without_a_window_is_never_outlived():
    assert blanks(replace(KEYED, key=replace(KEY, window=None), retry=Retry(within=365 * DAY))) == []


# -- contracts that cannot be kept ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"version": 0},
        {"retry": Retry(attempts=0)},
        {"repeatable": True, "financial": True},
        {"repeatable": True, "holds_on_unknown": True},
    ],
)
def test_a_contract_that_contradicts_itself_is_refused(wrong):
    with pytest.raises(DeclarationError) as refused:
        replace(BARE, **wrong)
    assert refused.value.hint


def test_the_span_is_timeout_and_settle():
    assert BARE.span == 50 * SECOND
    assert replace(BARE, settle=None).span == 20 * SECOND
    assert replace(BARE, attempt_timeout=None).span == 90 * SECOND
