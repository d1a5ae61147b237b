"""An exception as text that can always be stored, whatever the exception does when it is asked about itself.

The process that reads the record may lack the exception's class, and the object may hold sockets or locks, so only
names and text are kept, bounded in length, without what is to be `hidden`. What an exception proves about an attempt is
decided in `core.classify`.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable

from fencepost.core.errors import ErrorRecord, FencepostError
from fencepost.effects.hidden import hidden

CLASS_NAME_CHARACTERS_MAX = 256
MESSAGE_CHARACTERS_MAX = 4_096
TRACEBACK_CHARACTERS_MAX = 16_384
_FRAMES_MAX = 40
_MARK = "\n[… {} characters left out …]\n"


def error_record(error: BaseException) -> ErrorRecord:
    """Class, message and traceback of `error`, each bounded in length and free of lone surrogates.

    The class name is qualified (`shop.errors.CardDeclined`; built-in classes by their bare name). Of a text that is too
    long the beginning and the end are kept. Never raises, except that an interrupt from the keyboard passes.
    """
    return ErrorRecord(
        class_name=_bounded(_asked(lambda: _class_name(type(error)), "unnamed class"), CLASS_NAME_CHARACTERS_MAX),
        message=_bounded(_asked(lambda: str(error), "its message could not be read"), MESSAGE_CHARACTERS_MAX),
        traceback=_bounded(_asked(lambda: _frames(error), ""), TRACEBACK_CHARACTERS_MAX),
    )


def for_a_log(error: BaseException) -> str:
    """An error as a log may hold it: without what is to be hidden; with its frames where it is none of ours."""
    record = error_record(error)
    return record.message if isinstance(error, FencepostError) else f"{record.said}\n{record.traceback}"


def _class_name(kind: type[BaseException]) -> str:
    # Read from `type` itself: a metaclass may answer for the class, and need not answer with text.
    name = type.__dict__["__qualname__"].__get__(kind)
    module = type.__dict__["__module__"].__get__(kind)
    return name if module == "builtins" or not isinstance(module, str) else f"{module}.{name}"


def _frames(error: BaseException) -> str:
    whole = _asked(lambda: "".join(traceback.format_exception(error, limit=-_FRAMES_MAX)), "")
    # Its notes, causes or message failed; where it was raised is still known.
    return whole or "".join(traceback.format_tb(error.__traceback__, limit=-_FRAMES_MAX))


def _asked(question: Callable[[], str], otherwise: str) -> str:
    try:
        answer = question()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - its own methods may raise anything, also what ends a task
        return f"{otherwise} ({type.__dict__['__name__'].__get__(type(error))})" if otherwise else ""
    return answer if isinstance(answer, str) else otherwise


def _bounded(text: str, limit: int) -> str:
    # str's own methods: the answer may be a subclass that answers differently.
    if hidden:
        text = hidden(str.__str__(text))  # whole: of a secret that was cut the rest would be left
    length = str.__len__(text)
    if length > limit:
        kept = (limit - len(_MARK) - 20) // 2
        left_out = _MARK.format(length - 2 * kept)
        text = str.__getitem__(text, slice(kept)) + left_out + str.__getitem__(text, slice(length - kept, None))
    return str.encode(text, "utf-8", "replace").decode()
