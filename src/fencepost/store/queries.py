"""Named SQL: loads the .sql files once and knows which parameters each block takes.

A block starts with `-- name: verb_object` and a line that says its purpose. Parameters are written `:name`; they are
translated to the driver's placeholders at load time (`?` for each, or one number a name), and a record's fields are
picked in C. PostgreSQL's tables are written with their schema, `fencepost.run`; a ledger in another schema has its name
put there. Nothing here runs a statement, and no statement is built from strings anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from operator import itemgetter
from typing import Any, NamedTuple

_NAME = re.compile(r"^-- name: (?P<name>\w+)$", re.MULTILINE)
_PARAMETER = re.compile(r"(?<![:\w]):(?P<name>[a-z_]+)")
_COMMENT = re.compile(r"^\s*--.*$", re.MULTILINE)

SCHEMA = "fencepost"
_SCHEMA = re.compile(r"\bfencepost(?=\.)|(?<=CREATE SCHEMA )fencepost\b|(?<=SCHEMA IF NOT EXISTS )fencepost\b")

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Query:
    """One named block: its statement with placeholders, the parameters in their order, and its purpose."""

    name: str
    purpose: str
    statement: str
    parameters: tuple[str, ...]

    def bind(self, /, **values: Any) -> Row:
        """The values in the order of the placeholders; a missing or surplus name is an error."""
        surplus = values.keys() - set(self.parameters)
        assert not surplus, f"{self.name} does not take {sorted(surplus)}"
        return tuple(values[name] for name in self.parameters)

    def binder(self, record: type[NamedTuple]) -> Callable[[Any], Row]:
        """What turns a `record` into the parameters: fields picked by position."""
        fields: tuple[str, ...] = record._fields
        picks = [fields.index(name) for name in self.parameters]
        if len(picks) == 1:
            only = picks[0]
            return lambda values: (values[only],)
        return itemgetter(*picks)


def read(text: str, *, numbered: bool = False) -> dict[str, Query]:
    """The named blocks of one .sql file."""
    found = {}
    parts = _NAME.split(text)
    for name, block in zip(parts[1::2], parts[2::2], strict=True):
        purpose = " ".join(line.strip()[3:] for line in _COMMENT.findall(block))
        body = _COMMENT.sub("", block).strip().removesuffix(";")
        parameters = tuple(match["name"] for match in _PARAMETER.finditer(body))
        if numbered:
            parameters = tuple(dict.fromkeys(parameters))
            numbers = {name: f"${number}" for number, name in enumerate(parameters, 1)}
            body = _PARAMETER.sub(lambda match, numbers=numbers: numbers[match["name"]], body)  # type: ignore[misc]  # the default is bound early
        else:
            body = _PARAMETER.sub("?", body)
        found[name] = Query(name, purpose, " ".join(body.split()), parameters)
    return found


def load(dialect: str, schema: str = SCHEMA) -> Mapping[str, Query]:
    """Every named block of `sql/<dialect>`; two blocks of one name are an error."""
    found: dict[str, Query] = {}
    for file in sorted(_folder(dialect).iterdir(), key=lambda entry: entry.name):
        if not file.name.endswith(".sql"):
            continue
        for name, query in read(in_schema(file.read_text("utf-8"), schema), numbered=dialect == "postgres").items():
            assert name not in found, f"two queries are named {name}"
            found[name] = query
    return found


def migrations(dialect: str, schema: str = SCHEMA) -> list[tuple[int, str, str]]:
    """The numbered migrations of `sql/<dialect>/migrations`: (number, name, script), in order."""
    found = []
    for file in _folder(dialect).joinpath("migrations").iterdir():
        number, _, name = file.name.removesuffix(".sql").partition("_")
        found.append((int(number), name, in_schema(file.read_text("utf-8"), schema)))
    return sorted(found)


def in_schema(text: str, schema: str) -> str:
    """A file's text, for tables in this schema; the caller has checked that it is a plain name."""
    return _SCHEMA.sub(schema, text)


def _folder(dialect: str) -> Any:
    return files("fencepost.store").joinpath("sql", dialect)
