"""The receiver's memory: every state against every event, two that want the same key, and what a person may say."""

import json
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from fencepost.core.errors import DeclarationError, Misuse, VerbRefused
from fencepost.core.states import ReceiptState
from fencepost.core.transitions import RECEIPT, ReceiptEvent
from fencepost.receiving import Answer, NotDone, Receipts, Request, Terms
from fencepost.receiving import receipts as room
from fencepost.receiving.receipts import Key
from fencepost.store import queries, transaction

HOUR = 3_600_000_000
KEY = Key("ann", "k")
REQUEST = Request("POST", "/orders", "", {}, b"{}")
MADE = Answer.json(201, {"made": "a"}, [("location", "/orders/a")])
TERMS = Terms(caller=lambda _: "ann", window="1h", kept="2h", within="1m")


class Clock:
    now = HOUR

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def receipts(url: str, clock: Clock):
    with Receipts(url, clock=clock) as receipts:
        yield receipts


def put_in(receipts: Receipts, state: ReceiptState | None) -> None:
    """A key in this state, had by "one" where somebody has it."""
    if state is None:
        return
    assert receipts.begin(KEY, REQUEST, TERMS, "one")
    if state is ReceiptState.ANSWERED:
        assert receipts.answer(KEY, "one", MADE, TERMS)
    elif state is ReceiptState.UNKNOWN:
        assert receipts.lose(KEY, "one")
    elif state is ReceiptState.FREE:
        assert receipts.release(KEY, "one", TERMS)


def pass_time(clock: Clock, state: ReceiptState | None, event: ReceiptEvent) -> None:
    """Let the time come at which an event is legal, where that depends on it."""
    if state is ReceiptState.ANSWERED and event is ReceiptEvent.BEGIN:
        clock.now += 2 * HOUR
    if state is ReceiptState.IN_PROGRESS and event is ReceiptEvent.ASK:
        clock.now += HOUR


def happen(receipts: Receipts, event: ReceiptEvent) -> bool:
    """Whether any of the ways in which an event can come about changes something, or says again what holds."""
    match event:
        case ReceiptEvent.BEGIN:
            return receipts.begin(KEY, REQUEST, TERMS, "other")
        case ReceiptEvent.ANSWER:
            return receipts.answer(KEY, "one", MADE, TERMS) or settled(receipts, MADE) or recorded(receipts)
        case ReceiptEvent.RELEASE:
            return receipts.release(KEY, "one", TERMS) or settled(receipts, None)
        case ReceiptEvent.LOSE:
            return receipts.lose(KEY, "one")
        case ReceiptEvent.ASK:
            return receipts.ask(KEY, "one", "other", TERMS)


def settled(receipts: Receipts, answer: Answer | None) -> bool:
    try:
        receipts.settle(*KEY, answer, by="ann", reason="she looked")
    except VerbRefused:
        return False
    return True


def recorded(receipts: Receipts) -> bool:
    values = {**KEY._asdict(), "fingerprint": REQUEST.fingerprint, "owner": "other", "within": TERMS.within}
    return receipts._run("record_receipt", **values, **room.answered(MADE, TERMS)).changed == 1


@pytest.mark.parametrize("event", list(ReceiptEvent))
@pytest.mark.parametrize("state", [None, *ReceiptState])
def test_each_event_does_what_the_table_says_and_nothing_else(receipts, clock, state, event):
    put_in(receipts, state)
    pass_time(clock, state, event)
    before = receipts.find(KEY)

    assert happen(receipts, event) is RECEIPT.allows(state, event)
    found = receipts.find(KEY)
    if RECEIPT.allows(state, event):
        assert found.state is RECEIPT.after(state, event)
    else:
        assert (found and found[:6]) == (before and before[:6])


def test_the_database_knows_the_same_states():
    for dialect in ("sqlite", "postgres"):
        text = (Path(room.__file__).parent / "sql" / dialect / "receipts.sql").read_text("utf-8")
        listed = text.partition("CHECK (state IN (")[2].partition(")")[0]
        assert [name.strip(" '") for name in listed.split(",")] == list(ReceiptState)


def test_both_databases_know_the_same_queries():
    def names(dialect: str) -> set[str]:
        text = (Path(room.__file__).parent / "sql" / dialect / "receipts.sql").read_text("utf-8")
        return set(queries.read(text))

    only_there = {"begin_making", "lock_making", "create_schema", "create_clock", "commit_making"}
    assert names("postgres") - only_there == names("sqlite") - {"anything_is_there", "write_ahead"}


def test_of_many_that_want_a_key_one_has_it(url):
    with Receipts(url) as receipts, ThreadPoolExecutor(8) as threads:
        had = list(threads.map(lambda owner: receipts.begin(KEY, REQUEST, TERMS, f"{owner}"), range(24)))
    assert sum(had) == 1


def test_a_new_file_that_another_process_is_making_is_waited_for(tmp_path, monkeypatch):
    """SQLite lets nobody wait who changes the mode of a file: of two that open one, the second is told "locked"."""
    maker = sqlite3.connect(tmp_path / "receipts.db", isolation_level=None)
    maker.execute("BEGIN IMMEDIATE")

    def until_it_is_made(pauses: object) -> bool:
        maker.execute("COMMIT")
        return True

    monkeypatch.setattr(transaction._Pauses, "wait", until_it_is_made)
    with closing(maker), Receipts(f"sqlite:///{tmp_path / 'receipts.db'}") as receipts:
        assert receipts.find(KEY) is None
        assert not maker.in_transaction, "control: it was in the way"


def test_what_is_said_twice_by_the_same_owner_is_said_once(receipts):
    """As when the answer of the database is lost, and the statement sent again."""
    assert [receipts.begin(KEY, REQUEST, TERMS, "one") for _ in range(2)] == [True, True]
    assert [receipts.answer(KEY, "one", MADE, TERMS) for _ in range(2)] == [True, True]
    assert not receipts.answer(KEY, "other", MADE, TERMS)


def test_who_lost_the_key_to_somebody_who_asks_can_write_nothing_more(receipts, clock):
    put_in(receipts, ReceiptState.IN_PROGRESS)
    assert not receipts.ask(KEY, "one", "other", TERMS), "it is in work"
    clock.now += HOUR
    assert receipts.ask(KEY, "one", "other", TERMS)
    assert not receipts.ask(KEY, "one", "third", TERMS)
    assert not receipts.answer(KEY, "one", MADE, TERMS)
    assert not receipts.lose(KEY, "one")
    assert receipts.begin_again(KEY, "other", TERMS)
    assert receipts.find(KEY).begun_at == clock.now


def test_an_answer_comes_back_as_it_was_kept(receipts):
    bytes_ = bytes(range(256))
    put_in(receipts, ReceiptState.IN_PROGRESS)
    headers = (("content-type", "image/png"), ("set-cookie", "secret"), ("etag", '"1"'))
    receipts.answer(KEY, "one", Answer(200, headers, bytes_), TERMS)
    assert receipts.find(KEY).answer == Answer(200, (("content-type", "image/png"), ("etag", '"1"')), bytes_)


# -- people -----------------------------------------------------------------------------------------------------------


def notes(receipts):
    """What is kept of those who have settled something, as anybody reads it who can read the table."""
    table = "fencepost_receipt" if receipts.dialect == "sqlite" else f"{receipts._schema}.receipt"
    asked = queries.Query("notes", "What is kept.", f"SELECT note FROM {table}", ())  # noqa: S608 - the table's name
    with receipts._lent() as caller:
        return [json.loads(note) for (note,) in caller.run(asked, {}).rows]


@pytest.mark.parametrize("answer", [MADE, None])
def test_a_person_settles_what_is_unknown_and_says_why(receipts, answer):
    put_in(receipts, ReceiptState.UNKNOWN)
    assert [one[:2] for one in receipts.unsettled()] == [KEY]

    for blank in ({"by": "ann", "reason": " "}, {"by": "", "reason": "she looked"}):
        with pytest.raises(Misuse, match="who does it and why"):
            receipts.settle(*KEY, answer, **blank)
    assert [one[:2] for one in receipts.unsettled()] == [KEY]
    receipts.settle(*KEY, answer, by="ann", reason="she looked")
    assert receipts.unsettled() == []
    assert notes(receipts) == [{"by": "ann", "reason": "she looked"}]
    found = receipts.find(KEY)
    assert found.answer == answer
    assert receipts.begin(KEY, REQUEST, TERMS, "other") is (answer is None)
    with pytest.raises(VerbRefused, match="not unsettled"):
        receipts.settle(*KEY, answer, by="ann", reason="again")


def test_what_is_in_work_is_nobodys_to_settle_before_its_time_is_over(receipts, clock):
    put_in(receipts, ReceiptState.IN_PROGRESS)
    assert receipts.unsettled() == []
    assert not settled(receipts, MADE)
    clock.now += HOUR
    assert [one.key for one in receipts.unsettled()] == ["k"]
    assert settled(receipts, MADE)


def test_only_what_is_over_is_forgotten(receipts, clock):
    for number, state in enumerate(ReceiptState):
        key = Key("ann", f"{number}")
        receipts.begin(key, REQUEST, TERMS, "one")
        if state is ReceiptState.ANSWERED:
            receipts.answer(key, "one", MADE, TERMS)
        elif state is ReceiptState.FREE:
            receipts.release(key, "one", TERMS)
        elif state is ReceiptState.UNKNOWN:
            receipts.lose(key, "one")
    assert receipts.forget() == 0
    clock.now += 3 * HOUR
    assert receipts.forget() == 2
    assert len(receipts.unsettled()) == 2


# -- terms ------------------------------------------------------------------------------------------------------------


def test_terms_that_cannot_be_kept_are_refused():
    for wrong in (
        {"window": "24h", "kept": "24h"},
        {"window": "24h", "kept": "1h"},
        {"atomic": True, "look_up": lambda _: NotDone()},
        {"body_max": -1},
        {"within": "0s"},
        {"retry_after": 0},
        {"window": "soon"},
    ):
        with pytest.raises(DeclarationError):
            Terms(caller=lambda _: "ann", **wrong)


def test_a_request_is_the_same_by_every_part_of_it():
    parts = {"method": "POST", "path": "/a", "query": "x=1", "headers": {"content-type": "text/plain"}, "body": b"b"}
    others = {"method": "PATCH", "path": "/b", "query": "", "headers": {"content-type": "text/html"}, "body": b"bb"}
    same = Request(**parts).fingerprint
    assert Request(**parts | {"headers": {"content-type": "text/plain", "date": "now"}}).fingerprint == same
    assert len({Request(**parts | {name: other}).fingerprint for name, other in others.items()} | {same}) == 6
    assert Request("POST", "/ab", "", {}, b"").fingerprint != Request("POST", "/a", "b", {}, b"").fingerprint
    assert json.loads(MADE.body) == {"made": "a"}
