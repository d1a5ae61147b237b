"""Whatever an exception does, its class, message and traceback can be stored and read where its class is unknown.

What follows from an exception for its attempt is tested with the classifiers.
"""

import json
import socket

import pytest

from fencepost.core.errors import ErrorRecord
from fencepost.core.identity import canonical
from fencepost.effects import failures
from fencepost.effects.failures import error_record


class CardDeclined(Exception):
    """Needs two arguments, so that nothing can build it from its text; holds what cannot be stored."""

    def __init__(self, code: str, *, line: socket.socket) -> None:
        super().__init__(code)
        self.code = code
        self.line = line

    def __str__(self) -> str:
        return f"card declined: {self.code}"


def raised(error: BaseException) -> ErrorRecord:
    try:
        raise error  # noqa: TRY301 - a traceback is needed, and this frame will do
    except BaseException as caught:  # noqa: BLE001 - what is caught is the subject
        return error_record(caught)


def test_class_message_and_traceback_of_an_exception_with_a_socket_are_kept():
    with socket.socket() as line:
        record = raised(CardDeclined("51", line=line))
    assert record.class_name == f"{__name__}.CardDeclined"
    assert record.message == "card declined: 51"
    assert "in raised" in record.traceback
    assert "card declined: 51" in record.traceback


def test_a_builtin_class_goes_by_its_bare_name():
    assert raised(ValueError("no")).class_name == "ValueError"


def test_the_cause_is_part_of_the_traceback():
    error = RuntimeError("second")
    error.__cause__ = OSError("first")
    assert "OSError: first" in raised(error).traceback


class MessageRaises(Exception):
    def __str__(self) -> str:
        raise RuntimeError


class MessageExits(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class MessageIsNoText(Exception):
    def __str__(self) -> str:
        return 5  # noqa: PLE0307 - that it is none is the case


class Sly(str):
    __slots__ = ()

    def __len__(self) -> int:
        return 0

    def __getitem__(self, key: object) -> str:
        raise RuntimeError

    def encode(self, *_: object) -> bytes:
        raise RuntimeError


class MessageIsSly(Exception):
    def __str__(self) -> str:
        return Sly("x" * 100_000)


class NotesRaise(Exception):
    @property
    def __notes__(self) -> list[str]:
        raise RuntimeError


class Disguised(type):
    def __getattribute__(cls, name: str) -> object:
        if name in {"__qualname__", "__module__", "__name__"}:
            raise SystemExit
        return super().__getattribute__(name)


class HasNoName(Exception, metaclass=Disguised):
    pass


class CausesItself(Exception):
    def __init__(self) -> None:
        super().__init__("round")
        self.__cause__ = self


HOSTILE = [
    MessageRaises(),
    MessageExits(),
    MessageIsNoText(),
    MessageIsSly(),
    NotesRaise("notes"),
    HasNoName("who"),
    CausesItself(),
    ExceptionGroup("many", [ValueError(str(number)) for number in range(1_000)]),
    ValueError("x" * 10_000_000),
    ValueError("\ud800" * 10_000),
    ValueError("\x00\x1b[31m"),
    type("N" * 10_000, (Exception,), {"__module__": 7})(),
    KeyboardInterrupt(),
    SystemExit(1),
]


@pytest.mark.parametrize("error", HOSTILE, ids=lambda error: type.__dict__["__name__"].__get__(type(error))[:20])
def test_a_hostile_exception_is_recorded_within_bounds(error: BaseException):
    record = raised(error)
    assert 0 < len(record.class_name) <= failures.CLASS_NAME_CHARACTERS_MAX
    assert len(record.message) <= failures.MESSAGE_CHARACTERS_MAX
    assert 0 < len(record.traceback) <= failures.TRACEBACK_CHARACTERS_MAX
    fields = [record.class_name, record.message, record.traceback]
    assert json.loads(canonical(fields)) == fields


def test_of_a_long_message_both_ends_are_kept():
    message = raised(ValueError("begin " + "x" * 100_000 + " end")).message
    assert message.startswith("begin ")
    assert message.endswith(" end")
    assert "characters left out" in message


def test_a_deep_recursion_leaves_its_last_frames():
    def deeper() -> None:
        deeper()

    try:
        deeper()
    except RecursionError as error:
        record = error_record(error)
    assert record.class_name == "RecursionError"
    assert "deeper" in record.traceback
