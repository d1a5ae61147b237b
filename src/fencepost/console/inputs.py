"""A workflow's arguments from a JSON object by their names: how a run is started by whoever has no code of it.

Each value is read as its parameter's type. What a command line makes of a single value is the command line's; how
arguments are stored is `effects.values`.
"""

from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Mapping
from typing import Any

from fencepost.core.errors import Misuse
from fencepost.effects.values import Door
from fencepost.runtime.workflow import Workflow


def missing_in(declared: Workflow[..., Any], given: Mapping[str, Any]) -> list[str]:
    """The parameters that have no default and are not given."""
    return [one.name for one in _parameters(declared) if one.name not in given and one.default is one.empty]


def called_with(declared: Workflow[..., Any], given: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """What to call the workflow with; parameters with defaults may be left out.

    Raises:
        Misuse: a name is missing, or is none of its parameters.
        ValueRefused: a value is not of its parameter's type.
    """
    parameters = _parameters(declared)
    missing = missing_in(declared, given)
    unknown = sorted(set(given) - {one.name for one in parameters})
    if missing or unknown:
        says = f"needs {', '.join(missing)}" if missing else f"takes no {', '.join(unknown)}"
        takes = ", ".join(one.name for one in parameters) or "nothing"
        raise Misuse(f"workflow {declared.name} {says}", hint=f"it takes: {takes}")
    hints = typing.get_type_hints(declared.function, include_extras=True)
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for parameter in parameters:
        if parameter.name not in given:
            continue
        decoded = Door(hints[parameter.name], where=parameter.name).decode(json.dumps(given[parameter.name]))
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY or len(args) < parameters.index(parameter):
            kwargs[parameter.name] = decoded
        else:
            args.append(decoded)
    return args, kwargs


def _parameters(declared: Workflow[..., Any]) -> list[inspect.Parameter]:
    return list(inspect.signature(declared.function).parameters.values())[1:]
