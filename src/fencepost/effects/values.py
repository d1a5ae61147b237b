"""The typed door: every value that is stored passes here, out as canonical JSON, in as its declared type.

One rule: a value that does not come back equal in value and type is refused when it is saved, with its path, what it
was and what to do. So a date under `Any`, a zone's name, a private attribute or a subclass never changes silently; it
comes back whole or it does not leave. Types are read and written by pydantic; the rule is ours.

Sets are written sorted, so that a request's fingerprint does not depend on the hash seed. Numbers are written as given:
Decimal("100") and Decimal("100.00") have different fingerprints, and the second is refused as another request rather
than sent as a second effect. `sameness` compares; `core.identity` says what canonical JSON and fingerprints are.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable
from typing import Any, NoReturn

from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUndefinedAnnotation
from pydantic_core import SchemaSerializer, SchemaValidator
from pydantic_core.core_schema import (
    CoreConfig,
    CoreSchema,
    SerializerFunctionWrapHandler,
    wrap_serializer_function_ser_schema,
)
from typing_extensions import TypedDict  # pydantic reads this one on every Python version

from fencepost.core.errors import DeclarationError, Misuse, ValueRefused
from fencepost.core.identity import Part, canonical_of_plain, path_text
from fencepost.core.standin import PURGED, missing
from fencepost.effects.culprit import (
    ABSENT,
    a_value,
    at,
    declared_at,
    described,
    first_problem,
    is_of_another_type,
    largest,
    name_of,
    one_line,
    unwritable,
)
from fencepost.effects.hidden import hidden
from fencepost.effects.sameness import difference, same
from fencepost.effects.secret import written_as_mark

__all__ = ["MIB", "VALUE_MAX", "ArgumentsDoor", "Door", "hints_of", "result_door", "same"]

MIB = 1024 * 1024
"""Bytes; what a value may have to stand in its own row, and the limit of a signal's, a schedule's or a progress's."""

VALUE_MAX = 16 * MIB
"""Bytes of JSON; the limit of an argument and of a result. Above `MIB` they are kept apart (`store.apart`)."""

# Bytes of any content pass; models decide for their own fields (their `ser_json_bytes` and `val_json_bytes`).
_BYTES_AS_BASE64 = CoreConfig(ser_json_bytes="base64", val_json_bytes="base64")


_DECLARE_IT = "pass a value of the declared type, or declare the type that it has"


class Door:
    """Carries values of one declared type in and out of storage.

    `annotation` is anything that pydantic can read. `where` is how paths in errors start ("request", "result"; "" for
    values whose own keys say it). `limit` is the largest text in bytes of UTF-8. `redacts`: texts that are marked
    `Redacted` are replaced; otherwise a value that holds one is refused.

    Raises:
        DeclarationError: if pydantic cannot read and write the annotation.
    """

    __slots__ = ("_dump", "_marked", "_redacts", "_validate", "annotation", "limit", "where")

    def __init__(self, annotation: Any, *, where: str, limit: int = MIB, redacts: bool = True) -> None:
        self.annotation = annotation
        self.where = where
        self.limit = limit
        self._redacts = redacts
        self._dump, self._validate, self._marked = _form(annotation, where)

    def encode(self, value: Any) -> str:
        """The canonical JSON text of `value`.

        Raises:
            ValueRefused: if it would not come back equal in value and type, or is larger than the limit; `ids` holds
                the `path`, and for the latter also `size` and `limit` in bytes.
        """
        return self.carry(value)[0]

    def carry(self, value: Any) -> tuple[str, Any]:
        """The text of `value`, and the copy that every later reader gets; saves a `decode` after `encode`.

        Raises:
            ValueRefused: as `encode` does.
        """
        if not self._marked:
            return self._carry(value, None)
        text, copy = self._carry(value, _REVEAL)  # nothing else of it may change
        marked, redacted = self._carry(copy, None, compares=False)
        if text != marked and not self._redacts:
            parts = tuple(reversed(difference(copy, redacted) or []))
            hint = "pass a Secret, or a reference: a step that is resumed would get the mark in its place"
            self._refuse(parts, "it is marked Redacted, so it cannot be stored", hint, None)
        return marked, redacted

    def _carry(self, value: Any, context: dict[str, bool] | None, *, compares: bool = True) -> tuple[str, Any]:
        try:
            plain = self._dump(value, mode="json", by_alias=False, round_trip=True, warnings=False, context=context)
        except Exception as error:  # noqa: BLE001 - a type's own serializer may raise anything
            self._refuse_unwritable(value, error)
        text = canonical_of_plain(plain, where=self.where)
        size = len(text) if text.isascii() else len(text.encode())
        if size > self.limit:
            self._refuse_size(plain, size)
        if hidden and context is None and (name := hidden.found_in(text)) is not None:
            hint = "leave it out, or mark its field Redacted; a step is handed a secret by its name, as a Secret"
            self._refuse((), f"it holds the value of secret {name!r}", hint, None)
        try:
            copy = self._validate(text, by_alias=True, by_name=True)
        except Exception as error:  # noqa: BLE001 - a type's own validator may raise anything
            self._refuse_unreadable(value, error)
        parts = difference(value, copy) if compares else None
        if parts is not None:
            self._refuse_change(value, copy, parts)
        return text, copy

    def decode(self, text: str) -> Any:
        """The value of a stored text, or of a text from outside that is to have this type.

        Raises:
            ValueRefused: if the text is no JSON of the declared type; `ids["path"]` says where. Or if the text is not
                here: encrypted by a key that is not, or purged.
        """
        if text.startswith("{ ") and (why := missing(text)) is not None:
            hint = "nothing brings it back" if why == PURGED else "open the ledger with the app's codec"
            self._refuse((), f"its value cannot be read here: {why}", hint, None)
        try:
            return self._validate(text, by_alias=True, by_name=True)
        except Exception as error:  # noqa: BLE001 - a type's own validator may raise anything
            parts, problem = first_problem(error)
            hint = f"give JSON of the declared type, {name_of(self.annotation)}; was that type changed since?"
            self._refuse(parts, problem, hint, error)

    def _refuse_unwritable(self, value: Any, error: Exception) -> NoReturn:
        parts, culprit = unwritable(value)
        problem = f"{described(culprit)} cannot be written as JSON: {one_line(error)}"
        hint = 'declare its type; for bytes in a model set ser_json_bytes="base64" and val_json_bytes="base64"'
        self._refuse(parts, problem, hint, error)

    def _refuse_size(self, plain: Any, size: int) -> NoReturn:
        path = path_text(self.where, largest(plain))
        raise ValueRefused(
            f"{path}: {self.where or 'the request'} is {size} bytes as JSON, more than the limit of {self.limit}",
            hint="keep the data where it belongs and pass a reference to it",
            ids={"path": path, "size": str(size), "limit": str(self.limit)},
        )

    def _refuse_unreadable(self, value: Any, error: Exception) -> NoReturn:
        parts, problem = first_problem(error)
        found = at(value, parts)
        declared = declared_at(self.annotation, parts)
        if is_of_another_type(found, declared):
            self._refuse(parts, f"is {a_value(found)}; {name_of(declared)} is declared", _DECLARE_IT, error)
        what = "does not come back" if found is ABSENT else f"is {described(found)}, which does not come back"
        self._refuse(parts, f"{what}: {problem}", _DECLARE_IT, error)

    def _refuse_change(self, value: Any, copy: Any, parts: list[Part]) -> NoReturn:
        path = tuple(reversed(parts))
        was, became = described(at(value, path)), described(at(copy, path))
        change = f"is {was} and would come back as {became if was != became else 'another one'}"
        self._refuse(path, change, _DECLARE_IT, None)

    def _refuse(self, parts: tuple[Part, ...], problem: str, hint: str, cause: Exception | None) -> NoReturn:
        path = path_text(self.where, parts)
        # A validation error's text repeats the data, which is nobody's business in a log.
        cause = None if isinstance(cause, ValidationError) else cause
        raise ValueRefused(f"{path}: {problem}", hint=hint, ids={"path": path}) from cause


class Carried:
    """A value's text together with the copy that reading it gives; the copy is handed out once.

    Whoever gets a value first spares reading it again; everybody later reads the text, so that no two share an object.
    """

    __slots__ = ("_copy", "_fresh", "text")

    def __init__(self, text: str, copy: Any) -> None:
        self.text = text
        self._copy = copy
        self._fresh = True

    def take(self, door: Door) -> Any:
        """The value."""
        if self._fresh:
            self._fresh = False
            copy, self._copy = self._copy, None
            return copy
        return door.decode(self.text)


class ArgumentsDoor:
    """Carries the arguments of one step or workflow function as one JSON object, by parameter name.

    The first parameter (`call`, `run`) is not stored. Defaults are stored with the rest, so that a changed default is
    a changed request. Errors name paths such as `request.lines[3].amount`.

    Raises:
        DeclarationError: if a parameter has no annotation or one that cannot be read, if there is no first parameter,
            or one that takes any number of arguments (`*args`, `**kwargs`).
    """

    __slots__ = ("_ahead", "_door", "_names", "_signature", "_step")

    def __init__(self, function: Callable[..., Any], *, limit: int = MIB) -> None:
        self._step = function.__name__
        hints = hints_of(function)
        parameters = list(inspect.signature(function).parameters.values())
        if not parameters or parameters[0].kind not in _BY_POSITION:
            raise DeclarationError(
                f"{self._step} takes no first parameter", hint="a step's is `call: Call`, a workflow's `run: Run`"
            )
        for parameter in parameters[1:]:
            _check_parameter(self._step, parameter, hints)
        self._signature = inspect.Signature(parameters[1:])
        self._names = tuple(self._signature.parameters)
        self._ahead = sum(parameter.kind in _BY_POSITION for parameter in parameters[1:])
        form = _object_of({name: hints[name] for name in self._names})
        self._door = Door(form, where="", limit=limit, redacts=False)

    @property
    def signature(self) -> inspect.Signature:
        """The parameters after the first."""
        return self._signature

    @property
    def by_position(self) -> tuple[str, ...]:
        """The parameters that are passed by position."""
        return self._names[: self._ahead]

    @property
    def by_name(self) -> tuple[str, ...]:
        """The parameters that are passed by name."""
        return self._names[self._ahead :]

    def encode(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """The canonical JSON object of a call's arguments.

        Raises:
            Misuse: if they do not fit the signature.
            ValueRefused: as `Door.encode` does.
        """
        return self.carry(args, kwargs)[0]

    def carry(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
        """The text of the arguments, and the copies that the body gets.

        Raises:
            Misuse, ValueRefused: as `encode` does.
        """
        if not kwargs and len(args) == len(self._names) == self._ahead:
            bound = dict(zip(self._names, args, strict=True))
        else:
            bound = self._bind(args, kwargs)
        try:
            text, copy = self._door.carry(bound)
        except ValueRefused as error:
            error.ids.setdefault("step", self._step)
            raise
        return text, *self._spread(copy)

    def decode(self, text: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and keyword arguments, to be passed after `call`.

        Raises:
            ValueRefused: if the text does not hold each parameter in its declared type, and nothing else.
        """
        return self._spread(self._door.decode(text))

    def _spread(self, bound: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        values = [bound[name] for name in self._names]
        if self._ahead == len(values):
            return tuple(values), {}
        return tuple(values[: self._ahead]), dict(zip(self._names[self._ahead :], values[self._ahead :], strict=True))

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            hint = f"call it as {self._step}{self._signature}"
            raise Misuse(f"{self._step}: {error}", hint=hint, ids={"step": self._step}) from error
        bound.apply_defaults()
        return bound.arguments


def result_door(function: Callable[..., Any], *, limit: int = MIB) -> Door:
    """The door of what `function` returns, by its return annotation; `None` is a type like any other.

    Raises:
        DeclarationError: if the annotation is missing or cannot be read.
    """
    hints = hints_of(function)
    if "return" not in hints:
        hint = "write what it returns, `-> None` if nothing: results are stored by their declared type"
        raise DeclarationError(f"{function.__name__} declares no result type", hint=hint)
    return Door(hints["return"], where="result", limit=limit)


# -- declarations -------------------------------------------------------------------------------------------------

_BY_POSITION = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_ANY_NUMBER = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of a function, those written as text included.

    Raises:
        DeclarationError: if one names what is not there.
    """
    try:
        return typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError, SyntaxError) as error:
        raise DeclarationError(
            f"an annotation of {function.__name__} cannot be read: {error}",
            hint="define the type at the top of a module, above the function, and import it at run time",
        ) from error


def _check_parameter(step: str, parameter: inspect.Parameter, hints: dict[str, Any]) -> None:
    if parameter.kind in _ANY_NUMBER:
        hint = "name each parameter, or take a list or a model: a request is stored by parameter name"
        raise DeclarationError(f"{step} takes any number of arguments as `{parameter}`", hint=hint)
    if parameter.name not in hints:
        hint = f"write `{parameter.name}: SomeType`: arguments are stored by their declared type"
        raise DeclarationError(f"parameter {parameter.name!r} of {step} has no annotation", hint=hint)


def _object_of(fields: dict[str, Any]) -> Any:
    # A dict rather than a model: any parameter name will do, also `copy`, `_` and `model_config`.
    # Any keeps mypy from reading a class statement into a call whose fields are known at run time only.
    form = typing.cast("Any", TypedDict)("Arguments", fields)
    config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64", extra="forbid")
    form.__pydantic_config__ = config
    return form


_Form = tuple[Callable[..., Any], Callable[..., Any], bool]
"""What writes values of a type as plain JSON data, what reads their text, and whether a text in them is `Redacted`."""

_REVEAL = {"reveal": True}


def _form(annotation: Any, where: str) -> _Form:
    try:
        try:
            return _cached_form(annotation)
        except TypeError:  # not hashable, such as Annotated[int, {"a": "dict"}]
            return _new_form(annotation)
    except (PydanticUserError, PydanticSchemaGenerationError, PydanticUndefinedAnnotation, TypeError) as error:
        raise DeclarationError(
            f"{where or 'a parameter'}: {name_of(annotation)} cannot be stored: {one_line(error)}",
            hint="use a pydantic model, a dataclass, or built-in types; define what they name before this declaration",
        ) from error


def _new_form(annotation: Any) -> _Form:
    adapter = TypeAdapter(annotation)
    if not adapter.pydantic_complete:
        adapter.rebuild(raise_errors=True)
    schema, sets = _with_sorted_sets(adapter.core_schema)
    # Built here rather than taken from the adapter, which accepts no config beside a model's. Where there are sets,
    # the serializers that nested models hold ready must be built anew too.
    serializer = SchemaSerializer(schema, _BYTES_AS_BASE64, _use_prebuilt=not sets)
    marked = _is_in(schema, written_as_mark)
    return serializer.to_python, SchemaValidator(adapter.core_schema, _BYTES_AS_BASE64).validate_json, marked


_cached_form = functools.lru_cache(maxsize=1024)(_new_form)


def _is_in(node: Any, function: Callable[..., Any]) -> bool:
    """Whether a schema names a function anywhere."""
    if isinstance(node, dict):
        return any(value is function or _is_in(value, function) for value in node.values())
    return isinstance(node, list | tuple) and any(_is_in(inner, function) for inner in node)


def _with_sorted_sets(schema: CoreSchema) -> tuple[CoreSchema, int]:
    """The schema with each set written in the order of its members' texts, and how many sets it holds."""
    found = 0

    def walk(node: Any) -> Any:
        nonlocal found
        if isinstance(node, list | tuple):
            return type(node)(map(walk, node))
        if not isinstance(node, dict):
            return node
        copy = {key: inside(key, value) for key, value in node.items()}
        if node.get("type") in _SETS and "serialization" not in node:
            found += 1
            inner = typing.cast("CoreSchema", {key: value for key, value in copy.items() if key != "ref"})
            copy["serialization"] = wrap_serializer_function_ser_schema(_sorted_set, schema=inner)
        return copy

    def inside(key: str, value: Any) -> Any:
        if key in _BY_NAME and isinstance(value, dict):  # its keys are a user's names, also "type" and "default"
            return {name: walk(schema) for name, schema in value.items()}
        return value if key in _NO_SCHEMA else walk(value)

    return walk(schema), found


_SETS = ("set", "frozenset")
_BY_NAME = frozenset({"fields", "choices"})
_NO_SCHEMA = frozenset({"metadata", "default", "cls", "config", "expected", "members"})


def _sorted_set(value: Any, write: SerializerFunctionWrapHandler) -> Any:
    written = write(value)
    return sorted(written, key=canonical_of_plain) if isinstance(written, list) else written
