"""What the world's objects are: look-ups with and without lag, actions, records that can be overwritten, identities."""

import httpx2
import pytest

from fencepost.core.errors import Misuse
from fencepost.testing.world import Keys, LookUp


def ids(client, url, **query):
    return [found["id"] for found in client.get(url, params=query).raise_for_status().json()]


def test_an_object_is_found_by_external_key_reference_or_id(world, client):
    url = world.tasks.url + "/tasks"
    client.post(url, json={"title": "Straße", "external_key": "e-1"})
    client.post(url, json={"title": "b"}, headers={"Idempotency-Key": "e-2"})
    assert ids(client, url, external_key="e-1") == ["task-1"]
    assert ids(client, url, external_key="e-2") == ["task-2"]
    assert ids(client, url, title="Straße") == ["task-1"]
    assert ids(client, url, external_key="nobody") == []
    assert client.get(url + "/task-1").json() == {
        "id": "task-1",
        "state": "open",
        "title": "Straße",
        "external_key": "e-1",
    }
    assert client.get(url + "/task-9").status_code == 404
    assert world.counts()["tasks"].lookups == 6


def test_a_look_up_may_use_another_field(world, client):
    world.configure("books", "payments", look_up=LookUp(field="reference"))
    client.post(world.books.url + "/payments", json={"amount": 1}, headers={"Idempotency-Key": "k"})
    assert ids(client, world.books.url + "/payments", reference="k") == ["payment-1"]


def test_a_look_up_that_lags_by_time_sees_the_object_when_the_services_clock_has_moved(world, client):
    world.configure("tasks", look_up=LookUp(lag_seconds=60))
    url = world.tasks.url + "/tasks"
    client.post(url, json={}, headers={"Idempotency-Key": "k"})
    assert ids(client, url, external_key="k") == []
    world.advance("tasks", "61s")
    assert ids(client, url, external_key="k") == ["task-1"]


def test_a_look_up_that_lags_by_number_sees_the_object_after_so_many_misses(world, client):
    world.configure("tasks", look_up=LookUp(lag_lookups=2))
    url = world.tasks.url + "/tasks"
    client.post(url, json={}, headers={"Idempotency-Key": "k"})
    assert [ids(client, url, external_key="k") for _ in range(4)] == [[], [], ["task-1"], ["task-1"]]


def test_a_service_that_offers_no_look_up_refuses_both_ways_of_asking(world, client):
    world.configure("tasks", look_up=LookUp(offered=False))
    url = world.tasks.url + "/tasks"
    client.post(url, json={})
    assert [client.get(url).status_code, client.get(url + "/task-1").status_code] == [405, 405]


def test_cancelling_twice_is_counted_twice_and_leaves_one_cancelled_task(world, client):
    url = world.tasks.url + "/tasks"
    client.post(url, json={"title": "a"})
    replies = [client.post(url + "/task-1/cancel") for _ in range(2)]
    assert [reply.json()["state"] for reply in replies] == ["cancelled", "cancelled"]
    assert client.post(url + "/task-2/cancel").status_code == 404
    seen = world.counts()["tasks"]
    assert (seen.requests, seen.objects, seen.actions) == (1, 1, {"cancel": 3})


@pytest.mark.parametrize(
    ("collection", "verb", "made"), [("entries", "reverse", "reversals"), ("payments", "refund", "refunds")]
)
def test_an_undo_under_another_key_is_done_twice_and_shows_as_a_duplicate(world, client, collection, verb, made):
    url = f"{world.books.url}/{collection}"
    identifier = client.post(url, json={"amount": 100}).json()["id"]
    for key in ("k", "k", "other"):
        reply = client.post(f"{url}/{identifier}/{verb}", json={"why": "x"}, headers={"Idempotency-Key": key})
        assert (reply.status_code, reply.json()["of"]) == (201, identifier)
    assert client.get(f"{url}/{identifier}").json()["state"] == f"{verb.removesuffix('e')}ed"
    assert ids(client, f"{world.books.url}/{made}", external_key="k") == [f"{made[:-1]}-1"]
    counts = world.counts()
    assert (counts[collection].actions, counts[collection].objects) == ({verb: 3}, 1)
    assert (counts[made].objects, counts[made].duplicates) == (2, 1)


def test_a_record_can_be_overwritten_and_a_stale_overwrite_takes_effect_and_is_counted(world, client):
    url = world.tasks.url + "/records/invoice-7"
    for generation in (1, 3, 2, 2):
        assert client.put(url, json={"generation": generation, "paid": True}).status_code == 200
    assert client.get(url).json()["generation"] == 2
    seen = world.counts()["records"]
    assert (seen.requests, seen.objects, seen.overwrites, seen.stale_overwrites) == (4, 1, 3, 1)


def test_objects_with_the_same_configured_identity_are_duplicates(world, client):
    world.configure("books", "entries", identity=["invoice", "line"], keys=Keys(honoured=False))
    for invoice, line in ((1, 1), (1, 2), (1, 1), (2, 1), (1, 1)):
        client.post(world.books.url + "/entries", json={"invoice": invoice, "line": line})
    client.post(world.books.url + "/entries", json={"invoice": 3})
    seen = world.counts()["entries"]
    assert (seen.objects, seen.duplicates, seen.unidentified) == (6, 2, 1)


@pytest.mark.parametrize("body", [b"{", b"[1]", b'"a"', b'{"a": NaN}', b'{"a": "\\ud800"}', b"\xff"])
def test_a_body_that_is_no_json_object_is_refused_and_counted(world, client, body):
    assert client.post(world.tasks.url + "/tasks", content=body).status_code == 400
    seen = world.counts()["tasks"]
    assert (seen.requests, seen.objects, seen.refusals) == (1, 0, {400: 1})


def test_what_leads_nowhere_is_refused_and_counted_elsewhere(world, client):
    assert client.post(world.tasks.url + "/nothing", json={}).status_code == 404
    assert client.post(world.tasks.url + "/tasks/task-1/cancel/now", json={}).status_code == 404
    assert client.delete(world.tasks.url + "/tasks/task-1").status_code == 405
    assert client.post(world.books.url + "/refunds", json={}).status_code == 405
    assert world.counts()["elsewhere"].requests == 2


def test_a_setting_that_no_service_has_is_refused_by_name(world):
    for service, collection, hint in (("books", "payment", "payment"), ("taks", "*", "taks")):
        with pytest.raises(Misuse, match=hint):
            world.configure(service, collection, keys=Keys())
    reply = httpx2.post(world._admin + "/configure", json={"service": "tasks", "key": {}}, trust_env=False)
    assert (reply.status_code, "key" in reply.json()["error"]["message"]) == (422, True)
    with pytest.raises(Misuse, match="there is no collection 'taks'"):
        world.files.objects("taks")
