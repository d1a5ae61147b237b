"""The API's own description, OpenAPI 3.1: what the framework reads out of the code, and what it leaves out.

Added are an example for each body and answer, problem documents under their own media type, and the header under which
a request is done once. What an address takes and answers is declared beside its handler.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from fastapi import FastAPI

from fencepost.console import idempotent, problems

Schema = dict[str, Any]

JSON = "application/json"
_REFERENCE = "#/components/schemas/"

KEY: Schema = {
    "name": idempotent.HEADER,
    "in": "header",
    "required": False,
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
    "description": f"The request's own key: sent again under it within {idempotent.WINDOW}, it is done once.",
    "example": "4d0c1d1e-5a0f-4f4e-8a52-0c2f5c1d7a11",
}


class Described(FastAPI):
    """A FastAPI application whose description tells all of that."""

    @cached_property
    def _described(self) -> Schema:
        made = super().openapi()
        known = made.get("components", {}).get("schemas", {})
        for method, operation in _operations(made):
            _tell_problems(operation)
            if method == "post" and operation.get("security"):
                operation.setdefault("parameters", []).append(KEY)
            for content in _contents(operation):
                if JSON in content and not content[JSON].get("examples") and content[JSON].get("schema"):
                    content[JSON]["example"] = example_of(content[JSON]["schema"], known)
        return made

    def openapi(self) -> Schema:
        """The whole description."""
        return self._described


def example_of(schema: Mapping[str, Any], known: Mapping[str, Schema]) -> Any:
    """A value that fits a schema: what its fields give as examples, and of the others the plainest."""
    found: Mapping[str, Any] = schema
    if "$ref" in schema:
        found = known[str(schema["$ref"]).removeprefix(_REFERENCE)]
    if found.get("examples"):
        return found["examples"][0]
    for plain in ("default", "const"):
        if plain in found:
            return found[plain]
    if "enum" in found:
        return found["enum"][0]
    if "anyOf" in found:
        return (
            None if any(one.get("type") == "null" for one in found["anyOf"]) else example_of(found["anyOf"][0], known)
        )
    return _plainest(found, known)


def _plainest(schema: Mapping[str, Any], known: Mapping[str, Schema]) -> Any:
    match schema.get("type"):
        case "object":
            return {name: example_of(one, known) for name, one in schema.get("properties", {}).items()}
        case "array":
            return [example_of(schema["items"], known)]
        case "integer":
            return 1
        case "boolean":
            return False
        case "string":
            return "text"
        case _:
            return None


def _operations(made: Schema) -> Iterator[tuple[str, Schema]]:
    for path in made["paths"].values():
        yield from path.items()


def _contents(operation: Schema) -> Iterator[Schema]:
    for one in (operation.get("requestBody", {}), *operation["responses"].values()):
        yield one.get("content", {})


def _tell_problems(operation: Schema) -> None:
    """Every refusal is a problem document, and so it is described."""
    for status, response in operation["responses"].items():
        if problems.is_problem(int(status)):
            # The framework describes it under the media type of what the address answers otherwise.
            [said] = [one for one in response["content"].values() if one]
            response["content"] = {problems.MEDIA_TYPE: said | {"example": problems.example(int(status))}}
