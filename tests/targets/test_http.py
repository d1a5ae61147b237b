"""If-Match is a fence only at a server that really compares, with an ETag that covers the token."""

import json
from contextlib import closing

import httpx2
import pytest

from fencepost import FenceRefused, Misuse, Permanent, Unresolved
from fencepost.targets import HttpFence
from tests.targets.servers import Resources, served


@pytest.fixture
def resources():
    return Resources()


@pytest.fixture
def client(resources):
    with served(resources) as address, closing(httpx2.Client(base_url=address, trust_env=False)) as client:
        yield client


def approve(now):
    return now | {"state": "approved"}


def stored(resources, path="/order"):
    return json.loads(resources.stored[path][0])


def test_the_token_lives_in_the_representation_beside_the_content(client, resources):
    fence = HttpFence(client)

    fence.raise_to("order", 2)
    assert stored(resources) == {"fencepost_token": 2}
    assert fence.write("order", 2, approve) == {"state": "approved"}
    assert stored(resources) == {"fencepost_token": 2, "state": "approved"}

    fence.raise_to("order", 3)
    assert stored(resources) == {"fencepost_token": 3, "state": "approved"}


def test_the_token_may_live_in_a_header_that_the_target_stores(client, resources):
    fence = HttpFence(client, header="x-fence-token")

    fence.raise_to("order", 2)
    fence.write("order", 2, approve)

    assert resources.stored["/order"] == (b'{"state": "approved"}', "2")


def test_a_header_that_the_etag_does_not_cover_is_no_place_for_the_token(client, resources):
    resources.carelessness = "ETag without header"

    fence = HttpFence(client, header="x-fence-token")
    fence.write("order", 1, approve)

    with pytest.raises(Permanent, match="its version is still the same"):
        fence.raise_to("order", 2)


def test_a_field_that_the_server_drops_is_no_place_for_the_token(client, resources):
    resources.carelessness = "drops the field"

    with pytest.raises(Permanent, match="does not hold it"):
        HttpFence(client).raise_to("order", 2)


@pytest.mark.parametrize(("carelessness", "said"), [("weak ETags", "a weak ETag"), ("no ETags", "no ETag")])
def test_without_a_strong_etag_nothing_is_raised(client, resources, carelessness, said):
    HttpFence(client).write("order", 1, approve)
    resources.carelessness = carelessness

    with pytest.raises(Permanent, match=said):
        HttpFence(client).raise_to("order", 2)
    assert stored(resources)["fencepost_token"] == 1


def test_what_is_no_json_object_has_no_place_for_the_token(client, resources):
    resources.stored["/order"] = (b"[1, 2]", "")

    with pytest.raises(Permanent, match="no JSON object"):
        HttpFence(client).raise_to("order", 2)


def test_a_probe_shows_whether_the_server_compares(client, resources):
    fence = HttpFence(client)
    fence.write("order", 1, approve)
    before = dict(resources.stored)

    fence.probe("order")
    assert resources.stored == before

    resources.carelessness = "ignores If-Match"
    with pytest.raises(Permanent, match="an ETag that it never had"):
        fence.probe("order")
    assert resources.stored == before


# -- what a refusal proves --------------------------------------------------------------------------------------------


def test_a_change_by_somebody_without_a_token_is_a_refusal_that_may_be_tried_again(client, resources):
    fence = HttpFence(client)
    fence.write("order", 1, approve)

    def slowly(now):
        resources.stored["/order"] = (b'{"fencepost_token": 1, "by": "hand"}', "")
        return approve(now)

    with pytest.raises(FenceRefused, match="was changed"):
        fence.write("order", 2, slowly)
    assert stored(resources) == {"fencepost_token": 1, "by": "hand"}
    assert fence.write("order", 3, approve) == {"by": "hand", "state": "approved"}


def test_a_refusal_of_a_second_copy_proves_nothing(client, resources):
    fence = HttpFence(client)
    fence.write("order", 1, approve)
    resources.carelessness = "repeats a PUT"

    with pytest.raises(Unresolved, match="an earlier copy"):
        fence.write("order", 2, approve)
    assert stored(resources)["fencepost_token"] == 2


def test_a_raise_survives_a_repeated_request(client, resources):
    resources.carelessness = "repeats a PUT"

    HttpFence(client).raise_to("order", 2)

    assert stored(resources) == {"fencepost_token": 2}


def test_accepted_for_later_is_not_stored(client, resources):
    resources.carelessness = "answers 202"

    with pytest.raises(Unresolved, match="202"):
        HttpFence(client).write("order", 1, approve)


def test_a_refusal_whose_reason_cannot_be_read_proves_nothing(client, resources):
    fence = HttpFence(client)
    fence.write("order", 1, approve)

    def slowly(now):
        resources.stored["/order"] = (b"[]", "")
        return approve(now)

    with pytest.raises(Unresolved, match="could not be read"):
        fence.write("order", 2, slowly)


# -- no place at all --------------------------------------------------------------------------------------------------


def test_without_a_place_for_the_token_it_says_that_it_is_weak(client):
    fence = HttpFence(client, field=None)

    assert "no place for a token" in (fence.weakness or "")
    with pytest.raises(Misuse, match="cannot be told a token"):
        fence.raise_to("order", 2)
    assert HttpFence(client).weakness is None
