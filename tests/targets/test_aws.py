"""A refusal after the client sent a request twice proves nothing; who is asked without AWS is a stand-in."""

import io
import json
from types import SimpleNamespace

import pytest

from fencepost import FenceRefused, Permanent, Unresolved
from fencepost.targets import DynamoFence, ObjectFence


class ClientError(Exception):
    def __init__(self, code: str, retries: int | None) -> None:
        super().__init__(code)
        metadata = {} if retries is None else {"RetryAttempts": retries}
        self.response = {"Error": {"Code": code}, "ResponseMetadata": metadata}


class Refusing:
    """A client whose conditional writes are all refused, after so many retries."""

    exceptions = SimpleNamespace(
        ClientError=ClientError, ConditionalCheckFailedException=ClientError, NoSuchKey=KeyError
    )

    def __init__(self, code: str, retries: int | None, body: bytes = b"{}") -> None:
        self._error = ClientError(code, retries)
        self._body = body

    def get_object(self, **_):
        return {"Body": io.BytesIO(self._body), "ETag": '"1"'}

    def put_object(self, **_):
        raise self._error

    update_item = put_object


@pytest.mark.parametrize(("retries", "error"), [(0, FenceRefused), (1, Unresolved), (None, Unresolved)])
def test_a_refusal_proves_something_only_if_the_request_was_sent_once(retries, error):
    with pytest.raises(error):
        ObjectFence(Refusing("PreconditionFailed", retries), "plans").write("plan", 1, lambda now: now)
    with pytest.raises(error):
        DynamoFence(Refusing("ConditionalCheckFailedException", retries), "accounts").write("account", 1, {})


def test_any_other_error_is_left_as_it_is():
    with pytest.raises(ClientError, match="ConditionalRequestConflict"):
        ObjectFence(Refusing("ConditionalRequestConflict", 0), "plans").write("plan", 1, lambda now: now)


def test_an_object_that_is_no_json_has_no_place_for_the_token():
    with pytest.raises(Permanent, match="no JSON object"):
        ObjectFence(Refusing("PreconditionFailed", 0, b"\x89PNG"), "plans").raise_to("plan", 1)
    with pytest.raises(Permanent, match="no JSON object"):
        ObjectFence(Refusing("PreconditionFailed", 0, json.dumps([]).encode()), "plans").raise_to("plan", 1)
