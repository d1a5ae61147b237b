"""What a function's code refers to by name: through its globals, its closure, and attributes of modules.

Found without running anything, so a value that is only reached by computing it is not found. Who looks for steps in it
is `runtime.workflow`, who looks for clients that retry is `layers`.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any


def mentioned(function: FunctionType) -> Iterator[Any]:
    """The values of the names in the code, modules among them; those that are not bound yet are left out."""
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # a name that is not bound yet
            continue
    names = list(_names(function.__code__))
    for name in names:
        value = function.__globals__.get(name)
        if value is not None:
            yield value
        if isinstance(value, ModuleType):
            yield from (getattr(value, attribute, None) for attribute in names)


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
