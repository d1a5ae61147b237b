"""The conformance suite of an idempotent endpoint: real servers on loopback, counted at what the application did."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.polling import until
from tests.receiving.shop import LARGE

ORDER = {"name": "a"}


# -- once -------------------------------------------------------------------------------------------------------------


def test_a_duplicate_gets_the_first_result_and_nothing_is_done_again(shop):
    server = shop.serve()
    first, second = server.send("k", ORDER), server.send("k", ORDER)

    assert (first.status, first.body) == (second.status, second.body) == (201, b'{"made": "a"}')
    assert (first.is_replayed, second.is_replayed) == (False, True)
    assert second.headers["location"] == "/orders/a"
    assert "x-kept" not in second.headers
    assert shop.done == ["a"]


def test_the_results_outlive_the_process_and_reach_every_other_one(shop):
    one, other = shop.serve(), shop.serve()
    assert one.send("k", ORDER).status == 201
    one.kill()

    assert other.send("k", ORDER).is_replayed
    assert shop.serve().send("k", ORDER).is_replayed
    assert shop.done == ["a"]


def test_of_many_at_once_at_two_processes_one_is_done_and_all_are_answered_alike(shop):
    servers = shop.serve(), shop.serve()
    with ThreadPoolExecutor(16) as threads:
        sent = [threads.submit(servers[number % 2].send_until_answered, "k", ORDER) for number in range(32)]
        said = [one.result() for one in sent]

    assert {(one.status, one.body) for one in said} == {(201, b'{"made": "a"}')}
    assert sum(not one.is_replayed for one in said) == 1
    assert shop.done == ["a"]


def test_different_keys_and_different_callers_do_not_touch_each_other(shop):
    server = shop.serve()
    with ThreadPoolExecutor(8) as threads:
        sent = [threads.submit(server.send_until_answered, f"k{number}", {"name": f"{number}"}) for number in range(12)]
        assert {one.result().status for one in sent} == {201}
    assert len(shop.done) == 12
    assert server.send("k1", {"name": "of ben"}, x_account="ben").status == 201
    assert len(shop.done) == 13


def test_another_request_under_a_known_key_is_refused(shop):
    server = shop.serve()
    server.send("k", ORDER)
    for said in (
        server.send("k", {"name": "b"}),
        server.send("k", ORDER, method="PATCH"),
        server.send("k", ORDER, content_type="text/plain"),
    ):
        assert said.status == 422
    assert server.send("k", ORDER).is_replayed
    assert shop.done == ["a"]


def test_while_the_first_is_in_work_a_duplicate_is_asked_to_come_back(shop):
    server = shop.serve()
    shop.tell("trouble", "wait")
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(server.send, "k", ORDER)
        until(lambda: shop.has("waiting"), "the handler to be in work")
        second = threads.submit(server.send, "k", ORDER)
        if not (shop.atomic and shop.url.startswith("sqlite")):  # there the handler waits for the file's one writer
            assert second.result().waits
        shop.tell("go")
        assert first.result().status == 201
        assert second.result().waits or second.result().is_replayed
    assert server.send("k", ORDER).is_replayed
    assert shop.done == ["a"]


# -- breaking off -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("break_off", ["kill", "raise"])
@pytest.mark.parametrize("when", ["early", "late"])
def test_an_atomic_handler_that_breaks_off_has_done_everything_or_nothing(atomic, break_off, when):
    lost, other = atomic.serve(), atomic.serve()
    atomic.tell("trouble", f"{break_off} {when}")
    said = lost.send("k", ORDER)
    if break_off == "kill":
        assert said is None
    else:  # what was committed is told, whatever the handler raised afterwards
        assert said.status == (500 if when == "early" else 201)
    assert atomic.done == ([] if when == "early" else ["a"])

    said = other.send_until_answered("k", ORDER)
    assert (said.status, said.body, said.is_replayed) == (201, b'{"made": "a"}', when == "late")
    assert atomic.done == ["a"]


@pytest.mark.parametrize("break_off", ["kill early", "kill late", "raise early", "raise late", "fail"])
def test_what_broke_off_beside_its_receipt_is_unknown_and_never_run_again_by_itself(beside, break_off):
    lost, other = beside.serve(within="1s"), beside.serve(within="1s")
    beside.tell("trouble", break_off)
    said = lost.send("k", ORDER)
    assert said is None if "kill" in break_off else said.status == 500
    done = beside.done
    assert done == ([] if "early" in break_off else ["a"])

    if "kill" in break_off:
        assert other.send("k", ORDER).waits, "nobody knows yet that it was killed"
    for _ in range(2):
        said = other.send_until_answered("k", ORDER)
        assert (said.status, "retry-after" in said.headers) == (409, False)
        assert b"not known" in said.body
    assert other.send("k", {"name": "b"}).status == 422
    assert beside.done == done


@pytest.mark.parametrize("break_off", ["kill early", "kill late", "raise early", "raise late"])
def test_a_look_up_says_what_became_of_it_and_only_if_nothing_did_it_is_run(beside, break_off):
    lost, other = beside.serve(within="1s", looks=True), beside.serve(within="1s", looks=True)
    beside.tell("trouble", break_off)
    lost.send("k", ORDER)

    said = other.send_until_answered("k", ORDER)
    assert said.status == 201
    assert said.body == (b'{"made": "a"}' if "early" in break_off else b'{"found": "a"}')
    assert other.send("k", ORDER).body == said.body
    assert beside.done == ["a"]


def test_a_look_up_that_cannot_tell_leaves_it_unknown(beside):
    server = beside.serve(within="1s", looks=True)
    beside.tell("trouble", "raise late")
    beside.tell("cannot tell")
    server.send("k", ORDER)
    assert server.send("k", ORDER).status == 409
    assert b"not known" in server.send_until_answered("k", ORDER).body
    (beside.folder / "cannot tell").unlink()
    assert server.send_until_answered("k", ORDER).body == b'{"found": "a"}'
    assert beside.done == ["a"]


def test_an_answer_whose_transaction_was_not_committed_is_told_to_nobody(atomic):
    server = atomic.serve()
    atomic.tell("trouble", "forget")
    said = server.send("k", ORDER)
    assert (said.status, atomic.done) == (500, [])
    assert b"not committed" in said.body
    assert server.send("k", ORDER).status == 201
    assert atomic.done == ["a"]


def test_a_refusal_that_is_about_the_moment_leaves_the_key_free_for_the_same_request(shop):
    server = shop.serve()
    shop.tell("trouble", "refuse")
    assert server.send("k", ORDER).status == 403
    if not shop.atomic:
        assert server.send("k", {"name": "b"}).status == 422
    said = server.send("k", ORDER)
    assert (said.status, said.is_replayed) == (201, False)
    assert shop.done == ["a"]


# -- time -------------------------------------------------------------------------------------------------------------


def test_a_key_is_kept_for_longer_than_senders_rely_on_it_and_then_forgotten(shop):
    server = shop.serve(window="1h", kept="2h")
    assert server.send("k", ORDER).status == 201
    for seconds in (3_600, 7_190):
        shop.tell("later", f"{seconds}")
        assert server.send("k", ORDER).is_replayed
    shop.tell("later", "7210")
    said = server.send("k", {"name": "b"})
    assert (said.status, said.is_replayed) == (201, False)
    assert server.send("k", {"name": "b"}).is_replayed
    assert shop.done == ["a", "b"]


def test_an_unknown_key_is_not_forgotten(beside):
    server = beside.serve(window="1h", kept="2h")
    beside.tell("trouble", "raise late")
    server.send("k", ORDER)
    beside.tell("later", "100000")
    assert server.send("k", ORDER).status == 409
    assert beside.done == ["a"]


# -- what is no operation ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [None, "", " ", "x" * 256, "\x07"])
def test_a_request_without_a_proper_key_is_refused(shop, key):
    said = shop.serve().send(key, ORDER)
    assert said.status == 400
    assert said.headers["content-type"] == "application/problem+json"
    assert shop.done == []


def test_where_no_key_is_needed_a_request_without_one_is_done_each_time(beside):
    server = beside.serve(required=False)
    assert [server.send(None, ORDER).status for _ in range(2)] == [201, 201]
    assert server.send("k", ORDER).status == 201
    assert server.send("k", ORDER).is_replayed
    assert beside.done == ["a", "a", "a"]


def test_other_methods_are_passed_on(beside):
    server = beside.serve()
    assert [server.send("k", ORDER, method="PUT").is_replayed for _ in range(2)] == [False, False]
    assert beside.done == ["a", "a"]


def test_a_body_that_is_too_large_is_refused_before_anything_is_done(shop):
    server = shop.serve()
    assert server.send("k", {"name": "a" * 2_000}).status == 413
    assert server.send("k", ORDER).status == 201
    assert shop.done == ["a"]


def test_an_answer_that_is_too_large_reaches_its_sender_whole_and_is_not_kept(beside):
    server = beside.serve()
    beside.tell("trouble", "large")
    said = server.send("k", ORDER)
    assert (said.status, said.body) == (201, b"x" * LARGE)
    again = server.send("k", ORDER)
    assert (again.status, "retry-after" in again.headers) == (409, False)
    assert b"answered with 201" in again.body
    assert beside.done == ["a"]
