"""What the world does with idempotency keys. Look-ups and faults have files of their own."""

import threading

import httpx2
import pytest

from fencepost.testing.world import Fault, Keys


def post(client, world, body, key=None, path="/tasks", **headers):
    sent = {**headers, **({} if key is None else {"Idempotency-Key": key})}
    return client.post(world.tasks.url + path, json=body, headers=sent)


def test_a_key_replays_the_first_result_and_makes_nothing_new(world, client):
    first, again = (post(client, world, {"title": "a"}, "k") for _ in range(2))
    assert (first.status_code, first.json()["id"]) == (201, "task-1")
    assert (again.status_code, again.json()) == (201, first.json())
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    seen = world.counts()["tasks"]
    assert (seen.requests, seen.objects, seen.replays, seen.keys) == (2, 1, 1, 1)


@pytest.mark.parametrize("status", [409, 422])
def test_a_key_with_another_body_is_refused_and_both_bodies_are_counted(world, client, status):
    world.configure("tasks", keys=Keys(mismatch=status))
    post(client, world, {"title": "a"}, "k")
    refused = post(client, world, {"title": "b"}, "k")
    assert (refused.status_code, refused.json()["error"]["code"]) == (status, "key_reused")
    seen = world.counts()["tasks"]
    assert (seen.objects, seen.bodies_per_key, seen.refusals) == (1, {"k": 2}, {status: 1})


def test_without_a_key_or_where_none_is_honoured_every_request_makes_an_object(world, client):
    post(client, world, {"title": "a"})
    post(client, world, {"title": "a"})
    world.configure("tasks", keys=Keys(honoured=False))
    post(client, world, {"title": "a"}, "k")
    post(client, world, {"title": "a"}, "k")
    seen = world.counts()["tasks"]
    assert (seen.requests, seen.objects, seen.replays) == (4, 4, 0)
    assert (seen.duplicates, seen.unidentified) == (1, 2)


def test_the_key_may_come_in_another_header_or_in_the_body(world, client):
    world.configure("tasks", keys=Keys(header="X-Request-Id", argument="dedupe"))
    post(client, world, {"title": "a"}, **{"X-Request-Id": "h"})
    post(client, world, {"title": "a"}, **{"X-Request-Id": "h"})
    post(client, world, {"title": "a", "dedupe": "b"})
    post(client, world, {"title": "a", "dedupe": "b"})
    seen = world.counts()["tasks"]
    assert (seen.objects, seen.bodies_per_key) == (2, {"h": 1, "b": 1})


def test_a_key_is_forgotten_when_its_window_has_passed_on_the_services_clock(world, client):
    world.configure("tasks", keys=Keys(window_seconds=900))
    post(client, world, {"title": "a"}, "k")
    world.advance("tasks", "14m")
    assert post(client, world, {"title": "a"}, "k").json()["id"] == "task-1"
    world.advance("tasks", "1m")
    assert post(client, world, {"title": "a"}, "k").json()["id"] == "task-2"


def test_a_key_protects_nothing_under_another_account_or_at_another_endpoint(world, client):
    world.configure("tasks", keys=Keys(scope=("Authorization",)))
    for account in ("one", "one", "two"):
        post(client, world, {"title": "a"}, "k", Authorization=account)
    assert world.counts()["tasks"].objects == 2
    client.post(world.books.url + "/entries", json={"a": 1}, headers={"Idempotency-Key": "k"})
    client.post(world.books.url + "/payments", json={"a": 1}, headers={"Idempotency-Key": "k"})
    assert world.counts()["entries"].objects == world.counts()["payments"].objects == 1


def test_a_stored_failure_is_replayed_for_ever(world, client):
    world.configure("tasks", faults=[Fault(do="answer", status=500, code="card_error", stored=True)])
    replies = [post(client, world, {"title": "a"}, "k") for _ in range(3)]
    assert [reply.status_code for reply in replies] == [500, 500, 500]
    assert replies[2].json()["error"]["code"] == "card_error"
    assert [reply.headers.get("idempotent-replayed") for reply in replies] == [None, "true", "true"]
    assert post(client, world, {"title": "a"}, "other").status_code == 201
    assert world.counts()["tasks"].objects == 1


def test_while_the_first_request_is_worked_on_its_key_is_in_progress(world, client):
    world.configure("tasks", faults=[Fault(do="wait", when="before", hold=True, name="work")])
    with pytest.raises(httpx2.ReadTimeout):
        client.post(world.tasks.url + "/tasks", json={"a": 1}, headers={"Idempotency-Key": "k"}, timeout=0.2)
    world.until_waiting("work")
    busy = post(client, world, {"a": 1}, "k")
    assert (busy.status_code, busy.json()["error"]["code"]) == (409, "in_progress")
    assert world.counts()["tasks"].objects == 0
    assert world.release("work") == 1
    done = post(client, world, {"a": 1}, "k")
    seen = world.counts()["tasks"]
    assert (done.status_code, seen.requests, seen.objects, seen.keys) == (201, 3, 1, 1)


def test_two_requests_at_once_with_one_key_make_one_object(world):
    replies = []

    def send():
        reply = httpx2.post(
            world.tasks.url + "/tasks", json={"a": 1}, headers={"Idempotency-Key": "k"}, trust_env=False
        )
        replies.append(reply.json()["id"])

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert replies == ["task-1"] * 8
    assert world.counts()["tasks"].objects == 1
