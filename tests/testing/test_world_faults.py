"""How the world's services misbehave over HTTP: what a client sees, what is counted. Mail has a file of its own."""

import json
import socket
import threading

import httpx2
import pytest

from fencepost.core.errors import Misuse
from fencepost.testing.world import Fault, Keys, World
from tests.polling import until


def post(client, world, body=None, key="k", **options):
    headers = {"Idempotency-Key": key}
    return client.post(world.tasks.url + "/tasks", json=body or {"a": 1}, headers=headers, **options)


def counted(world):
    seen = world.counts()["tasks"]
    return seen.requests, seen.objects


def test_a_reply_dropped_after_the_commit_leaves_the_effect_which_the_key_then_replays(world, client):
    world.configure("tasks", faults=[Fault(do="reset", when="after")])
    with pytest.raises((httpx2.ReadError, httpx2.RemoteProtocolError)):
        post(client, world)
    assert counted(world) == (1, 1)
    assert post(client, world).headers["idempotent-replayed"] == "true"
    assert counted(world) == (2, 1)
    assert world.counts()["tasks"].faults == {"reset after": 1}


def test_a_request_dropped_before_the_commit_has_no_effect(world, client):
    world.configure("tasks", faults=[Fault(do="reset", when="before")])
    with pytest.raises((httpx2.ReadError, httpx2.RemoteProtocolError)):
        post(client, world)
    assert counted(world) == (1, 0)


def test_a_request_dropped_at_its_head_never_became_whole(world, client):
    world.configure("tasks", faults=[Fault(do="reset", when="head")])
    with pytest.raises(httpx2.TransportError):
        post(client, world)
    assert counted(world) == (0, 0)
    assert world.counts()["tasks"].broken == 1


def test_a_client_that_breaks_off_is_counted_as_broken(world):
    host, port = world.tasks.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(b"POST /tasks HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
    until(lambda: world.counts()["tasks"].broken == 1, "the broken request to be counted")
    assert counted(world) == (0, 0)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 408, 409, 425, 429, 500, 503])
def test_the_next_requests_are_refused_in_front_without_effect(world, client, status):
    world.configure("tasks", faults=[Fault(do="answer", status=status, times=2, code="no")])
    replies = [post(client, world) for _ in range(3)]
    assert [reply.status_code for reply in replies] == [status, status, 201]
    assert replies[0].json()["error"]["code"] == "no"
    seen = world.counts()["tasks"]
    assert (seen.requests, seen.objects, seen.refusals) == (3, 1, {status: 2})


@pytest.mark.parametrize("text", ["30", "Wed, 21 Oct 2026 07:28:00 GMT", "0.5", "-1", "soon", "315360000"])
def test_retry_after_is_sent_as_the_raw_text_that_was_given(world, client, text):
    world.configure("tasks", faults=[Fault(do="answer", status=429, retry_after=text)])
    assert post(client, world).headers["retry-after"] == text


def test_a_failure_answered_after_the_commit_is_no_proof(world, client):
    world.configure("tasks", faults=[Fault(do="answer", when="after", status=500)])
    assert post(client, world).status_code == 500
    assert counted(world) == (1, 1)


def test_a_reply_held_after_the_commit_goes_out_when_it_is_released(world, client):
    world.configure("tasks", faults=[Fault(do="wait", when="after", hold=True, name="h")])
    replies = []
    sender = threading.Thread(target=lambda: replies.append(post(client, world)))
    sender.start()
    world.until_waiting("h")
    assert (counted(world), replies) == ((1, 1), [])
    world.release("h")
    sender.join()
    assert replies[0].status_code == 201
    assert world.waiting("h") == 0


def test_a_request_delayed_before_the_commit_lands_though_its_client_went_away(world, client):
    world.configure("tasks", faults=[Fault(do="wait", when="before", milliseconds=300)])
    with pytest.raises(httpx2.ReadTimeout):
        post(client, world, timeout=0.1)
    assert counted(world) == (1, 0)
    until(lambda: counted(world) == (1, 1), "the late request to land")


def test_a_malformed_reply_says_success_and_is_no_json(world, client):
    world.configure("tasks", faults=[Fault(do="malformed")])
    reply = post(client, world)
    assert reply.status_code == 201
    with pytest.raises(json.JSONDecodeError):
        reply.json()
    assert counted(world) == (1, 1)


def test_a_huge_reply_is_padded_to_the_size(world, client):
    world.configure("tasks", faults=[Fault(do="huge", size=3_000_000)])
    reply = post(client, world)
    assert len(reply.content) > 3_000_000
    assert reply.json()["id"] == "task-1"


@pytest.mark.parametrize("do", ["truncate", "half-close"])
def test_a_reply_that_breaks_off_leaves_the_effect(world, client, do):
    world.configure("tasks", faults=[Fault(do=do, when="after")])
    with pytest.raises(httpx2.RemoteProtocolError):
        post(client, world)
    assert counted(world) == (1, 1)


def test_a_request_read_slowly_keeps_its_client_sending(world, client):
    world.configure("tasks", faults=[Fault(do="slow-read", hold=True, name="slow")])
    body = b'{"a": "' + b"x" * 16_000_000 + b'"}'
    with pytest.raises(httpx2.WriteTimeout):
        client.post(world.tasks.url + "/tasks", content=body, timeout=0.3)
    assert counted(world) == (0, 0)
    assert world.release("slow") == 1
    until(lambda: world.counts()["tasks"].broken == 1, "the request to break off")
    world.configure("tasks", faults=[Fault(do="slow-read", milliseconds=20, size=100)])
    assert post(client, world, {"a": "x" * 500}).status_code == 201


def test_a_fault_strikes_only_what_its_patterns_match(world, client):
    fault = Fault(do="answer", status=503, key="bad-*", collection="tasks", path="/tasks", body='"a"', times=None)
    world.configure("tasks", faults=[fault])
    assert [post(client, world, key=key).status_code for key in ("good-1", "bad-1", "bad-2")] == [201, 503, 503]
    assert post(client, world, {"b": 1}, key="bad-3").status_code == 201
    assert client.get(world.tasks.url + "/tasks").status_code == 200
    world.configure("tasks", faults=[Fault(do="answer", status=503, method="GET")])
    assert client.get(world.tasks.url + "/tasks").status_code == 503


def test_faults_come_in_turn_and_may_skip_or_wait_for_the_nth_request_of_a_key(world, client):
    world.configure("tasks", faults=[Fault(do="answer", status=429), Fault(do="answer", status=503, skip=1)])
    assert [post(client, world, key=f"a{n}").status_code for n in range(4)] == [429, 201, 503, 201]
    world.configure("tasks", faults=[Fault(do="answer", status=503, ordinal=2, times=None)])
    keys = ("x", "y", "x", "y", "x")
    assert [post(client, world, key=key).status_code for key in keys] == [201, 201, 503, 503, 201]
    world.configure("tasks", faults=[])
    assert post(client, world, key="x").status_code == 201


def test_drawn_faults_depend_on_seed_and_key_and_never_on_the_order_of_arrival(tmp_path, client):
    keys = [f"key-{n}" for n in range(60)]

    def struck(folder, seed, order):
        with World.start(tmp_path / folder, seed=seed) as world:
            world.configure("tasks", faults=[Fault(do="answer", status=503, rate=0.3, times=None)])
            return {key for key in order if post(client, world, key=key).status_code == 503}

    first = struck("a", 7, keys)
    assert 8 <= len(first) <= 28
    assert struck("b", 7, keys[::-1]) == first
    assert struck("c", 8, keys) != first


def test_a_rate_of_zero_never_strikes_and_a_rate_of_one_always(world, client):
    fault = {"do": "answer", "status": 503, "times": None}
    world.configure("tasks", faults=[Fault(**fault, rate=0)])
    assert {post(client, world, key=str(n)).status_code for n in range(10)} == {201}
    world.configure("tasks", faults=[Fault(**fault, rate=1)])
    assert {post(client, world, key=str(n)).status_code for n in range(10)} == {503}


@pytest.mark.parametrize(
    "settings",
    [
        {"do": "reset"},
        {"do": "wait", "when": "after"},
        {"do": "wait", "when": "after", "hold": True},
        {"do": "malformed", "when": "before"},
        {"do": "slow-read", "body": "a"},
        {"do": "answer", "when": "after", "stored": True},
        {"do": "answer", "stauts": 500},
        {"do": "answer", "rate": 1.5},
    ],
)
def test_a_fault_that_makes_no_sense_is_refused_where_it_is_written(settings):
    with pytest.raises(Misuse) as refused:
        Fault(**settings)
    assert "\n" not in str(refused.value)
    assert "pydantic" not in str(refused.value)
    assert "Fault takes do, when, name" in refused.value.hint


def test_a_wrong_setting_of_a_running_world_is_refused_and_changes_nothing(world):
    for change in (
        lambda: world.configure("taks", faults=[]),
        lambda: world.configure("tasks", faults=["reset"]),
        lambda: world.configure("tasks", keys={"honored": False}),
        lambda: world.release(None),
    ):
        with pytest.raises(Misuse) as refused:
            change()
        assert "pydantic" not in str(refused.value)


def test_a_connection_carries_one_request_after_another_also_without_keys(world, client):
    world.configure("tasks", keys=Keys(honoured=False))
    for _ in range(5):
        assert post(client, world).status_code == 201
    assert counted(world) == (5, 5)
