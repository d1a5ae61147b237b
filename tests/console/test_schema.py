"""What the API says of itself: OpenAPI 3.1, with an example for each body and answer that fits, and every refusal."""

from typing import Any

import jsonschema_rs
import pytest

from fencepost import App
from fencepost.console import problems
from fencepost.console.server import create_app
from tests.console.conftest import Served

SCHEMA = create_app(App("sqlite:///unused.db", workflows=[])).openapi()
OPERATIONS = {
    f"{method.upper()} {path}": operation
    for path, ways in SCHEMA["paths"].items()
    for method, operation in ways.items()
}


def fits(value: Any, schema: dict[str, Any]) -> bool:
    return jsonschema_rs.is_valid(schema | {"components": SCHEMA["components"]}, value)


@pytest.mark.parametrize("name", OPERATIONS)
def test_each_body_and_each_answer_has_an_example_that_fits(name: str) -> None:
    operation = OPERATIONS[name]
    assert operation["description"]
    for said in (operation.get("requestBody", {}), *operation["responses"].values()):
        for media, content in said.get("content", {}).items():
            if content.get("schema"):
                assert fits(content["example"], content["schema"]), (name, media, content["example"])


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_refusal_is_a_problem_document(name: str) -> None:
    for status, response in OPERATIONS[name]["responses"].items():
        if int(status) >= 400:
            assert list(response["content"]) == [problems.MEDIA_TYPE], (name, status)


def test_the_operations_are_named_once_and_the_schema_is_served_to_anybody(served: Served) -> None:
    names = [one["operationId"] for one in OPERATIONS.values()]
    assert len(set(names)) == len(names)
    told = served.client(None).get("/openapi.json")
    assert (told.status_code, told.json()["openapi"]) == (200, "3.1.0")


def test_every_error_that_may_end_a_request_has_one_status_and_a_meaning() -> None:
    for kind, status in problems.STATUSES:
        assert status in problems.MEANINGS, kind
        first = next(other for other, _ in problems.STATUSES if issubclass(kind, other))
        assert first is kind, f"{kind.__name__} is hidden behind {first.__name__}"
