"""The recovery table: every field for every step, and --check names each blank."""

import json
import re

import pytest

from fencepost import Absent, App, Fenced, Run, SyncCall, effect, workflow
from fencepost.cli.target import load_app
from fencepost.core.contract import Contract, KeyPromise, LookUpPromise, Retry
from fencepost.core.guarantee import blanks
from fencepost.runtime.contracts import HEADINGS, RecoveryRow, recovery_table
from fencepost.targets import LargestSeen, SqlFence
from tests.cli.conftest import SHOP

BLANK_APP = "examples/blank_contract.py:app"


@pytest.fixture
def rows():
    """The shop's rows by step."""
    return {row.step: row for row in recovery_table(load_app(SHOP))}


def test_every_field_has_a_heading_in_order():
    assert list(HEADINGS) == list(RecoveryRow.__slots__)


def test_every_step_has_a_row_compensations_included(rows):
    assert set(rows) == {"spell", "book", "book_by_hand", "take_back", "ring", "hand_over", "weigh"}
    assert rows["take_back"].kind == "effect, compensates book, compensates book_by_hand"
    assert rows["spell"].workflows == ("greet 1", "greet 2", "wave 1", "wave 2")


def test_a_row_says_what_was_declared_and_what_it_buys(rows):
    ring, book = rows["ring"], rows["book"]
    assert (ring.input, ring.output) == ("gate: str", "str")
    assert ring.key == "in header Idempotency-Key; window: 1d; scope: not declared"
    assert ring.safe_to_run_again.startswith("only as the same request under its key, until ")
    assert ring.guarantee.startswith("keyed: applied once inside the key's window and scope")
    assert "it is only a bell" in ring.compensation
    assert book.safe_to_run_again == "no; a person settles it"
    assert book.compensation.startswith("take_back; started by the workflow or an operator; run again: held")
    assert (book.reference, book.budget, book.timeout_and_settle) == (
        "id",
        "1 attempts within 15m",
        "timeout 1s, settle 1h",
    )


def test_a_deadline_that_cannot_be_enforced_is_an_assumption(monkeypatch):
    monkeypatch.setattr("fencepost.effects.transport.deadline_assumption", lambda: "assumed: nobody stops a process")
    rows = {row.step: row for row in recovery_table(load_app(SHOP))}
    assert "assumed: nobody stops a process" in rows["ring"].assumptions


def fenced_row(fence, resource, *, consistent):
    def find(call, account: str) -> Absent:
        return Absent()

    @effect(fence=Fenced(fence, resource), reconcile=find, consistent=consistent, settle="1h", attempt_timeout="1m")
    def book(call: SyncCall, account: str) -> None:
        call.token(account)

    @workflow(version=1)
    async def pay(run: Run, account: str) -> None:
        await run.do(book(account))

    app = App("sqlite:///nowhere.db", workflows=[pay])
    return next(row for row in recovery_table(app) if row.step == "book")


def test_a_fence_is_shown_with_its_resource_and_rests_on_no_deadline():
    row = fenced_row(SqlFence(lambda: None), lambda account: account, consistent=True)

    assert row.fence == "SQL guard row; resource: a function of (account: str)"
    assert row.guarantee.startswith("fenced: applied once, with no clock assumption; behind it: looked-up, held")
    assert row.assumptions == (
        "every writer of the resource sends its token, and SQL guard row never forgets the highest",
    )


def test_a_fence_without_consistent_look_up_is_an_assumption():
    row = fenced_row(SqlFence(lambda: None), "account:7", consistent=False)

    assert row.fence == "SQL guard row; resource: account:7"
    assert row.guarantee.startswith("looked-up: ")
    assert any(text.startswith("fence without consistent look-up: ") for text in row.assumptions)
    assert row.blanks == ()


def test_a_weak_fence_is_shown_with_its_weakness_and_counts_as_none():
    row = fenced_row(LargestSeen("printer"), "printer:1", consistent=True)

    assert row.fence == "printer; resource: printer:1; weak, counts as none"
    assert row.guarantee.startswith("looked-up: ")
    assert row.assumptions[-1].startswith("printer is no fence: it learns tokens from writes alone")


def test_text_markdown_and_json_hold_the_same_rows(fencepost, rows):
    document = fencepost("contract", SHOP, "--json").json
    assert [set(step) for step in document["steps"]] == [set(HEADINGS)] * len(rows)
    assert document["blanks"] == 0
    text = fencepost("contract", SHOP).out
    markdown = fencepost("contract", SHOP, "--markdown").out.splitlines()
    assert len(markdown) == 2 + len(rows)
    for line in markdown:
        assert len(re.findall(r"(?<!\\)\|", line)) == len(HEADINGS) + 1
    for row in rows.values():
        assert row.guarantee in text
        assert row.guarantee in "\n".join(markdown)


def test_check_of_an_app_without_a_blank_is_done(fencepost):
    ended = fencepost("contract", SHOP, "--check")
    assert (ended.code, ended.out) == (0, "7 steps, no blank\n")


def test_check_names_each_step_and_one_of_each_kind_of_blank(fencepost):
    ended = fencepost("contract", BLANK_APP, "--check")
    assert ended.code == 3
    *lines, last = ended.out.splitlines()
    # A contract with every blank at once names every kind that there is.
    kinds = set(_every_kind())
    assert {line.partition(": ")[2].partition(" (")[0] for line in lines} == kinds
    assert len({line.partition(":")[0] for line in lines}) == len(lines) == len(kinds)
    assert last == "7 steps, 7 blanks"


def _every_kind():
    worst = Contract(
        "worst",
        attempt_timeout=None,
        financial=True,
        key=KeyPromise(1, "header"),
        look_up=LookUpPromise("ask"),
        retry=Retry(attempts=None),
    )
    return [blank.kind for blank in [*blanks(worst), *blanks(Contract("nothing"))]]


def test_check_writes_json_too(fencepost):
    ended = fencepost("contract", BLANK_APP, "--check", "--json")
    assert ended.code == 3
    assert ended.json["blanks"] == 7
    assert [step["step"] for step in json.loads(ended.out)["steps"] if step["blanks"]]


def test_blank_cells_are_printed_as_blank(fencepost):
    rows = {step["step"]: step for step in fencepost("contract", BLANK_APP, "--json").json["steps"]}
    assert rows["notify"]["guarantee"] == "BLANK"
    assert rows["pay"]["compensation"] == "BLANK"
    assert rows["top_up"]["reference"] == "BLANK"
    assert rows["print_label"]["timeout_and_settle"] == "timeout BLANK, settle not declared"
    assert rows["book_courier"]["budget"] == "BLANK attempts within 15m"
    assert rows["order_parcel"]["timeout_and_settle"] == "timeout 1m, settle BLANK"


def test_a_table_is_either_markdown_or_json(fencepost):
    assert fencepost("contract", SHOP, "--markdown", "--json").code == 2
