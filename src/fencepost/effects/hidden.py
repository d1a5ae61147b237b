"""What must not be written down: the values of secrets that this process has revealed, and what an app redacts.

One list for the whole process, since a secret is one wherever its value turns up. A value that holds one is refused at
the door (`values`); in what the engine writes down itself - messages, tracebacks, replies, kept bad output, people's
reasons - it is replaced before it leaves memory. A value is known in its own form and as JSON, a URL and base64 write
it; a part of it, or a digest, is not. Revealing secrets is `secret`'s matter.
"""

from __future__ import annotations

import base64
import json
import re
import threading
from collections import OrderedDict
from collections.abc import Callable
from urllib.parse import quote, quote_plus

VALUE_CHARACTERS_MIN = 8
"""A shorter one would be found in texts that have nothing to do with it."""

VALUES_MAX = 1_000
"""So many values are known at a time, the latest ones: credentials that rotate come and go."""

Redactor = Callable[[str], str]


class Hidden:
    """Knows what to hide. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._names: OrderedDict[str, str] = OrderedDict()
        self._forms: dict[str, str] = {}
        self._pattern: re.Pattern[str] | None = None
        self._redactors: tuple[Redactor, ...] = ()

    def __bool__(self) -> bool:
        """Whether there is anything to hide."""
        return self._pattern is not None or bool(self._redactors)

    def know(self, value: str, name: str) -> None:
        """Hide this value from now on, as that of the secret with this name; one that is too short cannot be."""
        if value in self._names or len(value) < VALUE_CHARACTERS_MIN:
            return
        with self._lock:
            self._names[value] = name
            while len(self._names) > VALUES_MAX:
                self._names.popitem(last=False)
            forms = {form: name for value, name in self._names.items() for form in _forms(value)}
            longest_first = sorted(forms, key=len, reverse=True)
            self._forms, self._pattern = forms, re.compile("|".join(map(re.escape, longest_first)))

    def redact_with(self, redactor: Redactor) -> None:
        """Have every text that is hidden from pass through this too."""
        with self._lock:
            self._redactors = (*self._redactors, redactor)

    def redact_no_more(self, redactor: Redactor) -> None:
        """Take back one `redact_with`."""
        with self._lock:
            left = list(self._redactors)
            if redactor in left:
                left.remove(redactor)
            self._redactors = tuple(left)

    def __call__(self, text: str) -> str:
        """The text without what is to be hidden."""
        if self._pattern is not None:
            forms = self._forms
            text = self._pattern.sub(lambda found: f"[secret {forms.get(found[0], '')}]", text)
        for redactor in self._redactors:
            text = _redacted(redactor, text)
        return text

    def found_in(self, text: str) -> str | None:
        """The name of a secret whose value is in this text; None if no known one is."""
        found = None if self._pattern is None else self._pattern.search(text)
        return None if found is None else self._forms.get(found[0], "")


def _forms(value: str) -> set[str]:
    """A value as it is, and as JSON, a URL and base64 write it."""
    raw = value.encode("utf-8", "surrogatepass")
    return {
        value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], repr(value)[1:-1],
        quote(raw), quote(raw, safe=""), quote_plus(raw), base64.b64encode(raw).decode().rstrip("="),
        base64.urlsafe_b64encode(raw).decode().rstrip("="),
    }  # fmt: skip


def _redacted(redactor: Redactor, text: str) -> str:
    """What the app's own function makes of a text; one that fails hides the whole of it."""
    try:
        kept = redactor(text)
    except Exception as error:  # noqa: BLE001 - the app's own code may raise anything
        return f"[not redacted, so left out: {type(error).__name__}]"
    return kept if isinstance(kept, str) else f"[not redacted, so left out: {type(kept).__name__}]"


hidden = Hidden()
"""What this process hides."""
