"""Passwords of accounts at the console: hashed with argon2id, and compared at the same cost whoever is asked for.

How often one may be tried is bounded for each name and for the whole console, in this process: guessing is slow, and so
is making the console hash. What an account is, is `core.accounts`. Needs `fencepost[console]`.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from threading import BoundedSemaphore, Lock

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from fencepost.core.accounts import Account
from fencepost.core.duration import MINUTE
from fencepost.core.errors import Misuse

CHARACTERS_MIN = 12
CHARACTERS_MAX = 512

TRIES_OF_A_NAME = 5
TRIES_OF_ALL = 60
WITHIN = 5 * MINUTE
"""So many tries are let through within this time (microseconds): of one name, and of all names together."""

NAMES_MAX = 1_000
"""Names whose tries are remembered; who is forgotten is still counted among all."""

_HASHER = PasswordHasher()
_NOBODYS = _HASHER.hash("nobody has this password")
_AT_ONCE = BoundedSemaphore(2)  # each takes 64 MiB for as long as it lasts


class PasswordTooShort(Misuse):
    """The password is too easy to guess, or too long to be one."""


def hashed(password: str) -> str:
    """What is kept of a new password. Raises `PasswordTooShort`."""
    if not CHARACTERS_MIN <= len(password) <= CHARACTERS_MAX:
        raise PasswordTooShort(
            "the password is too short, or far too long", hint=f"take {CHARACTERS_MIN} to {CHARACTERS_MAX} characters"
        )
    with _AT_ONCE:
        return _HASHER.hash(password.encode("utf-8", "surrogatepass"))


def is_theirs(account: Account | None, password: str) -> bool:
    """Whether it is the account's password; where there is none, it takes as long to say no."""
    kept = _NOBODYS if account is None else account.password
    try:
        with _AT_ONCE:
            _HASHER.verify(kept, password[:CHARACTERS_MAX].encode("utf-8", "surrogatepass"))
    except (VerificationError, InvalidHashError):
        return False
    return account is not None


@dataclass(slots=True)
class _Tries:
    left: float
    at: int


class Tries:
    """How often signing in was tried lately, by name. What is not used up comes back with time."""

    def __init__(self) -> None:
        self._of: OrderedDict[str, _Tries] = OrderedDict()
        self._all = _Tries(TRIES_OF_ALL, 0)
        self._lock = Lock()

    def take(self, person: str, now: int) -> bool:
        """Count one more; False: too many, and it must not be looked at. `now` is in microseconds, of any clock."""
        with self._lock:
            mine = self._of.setdefault(person, _Tries(TRIES_OF_A_NAME, now))
            self._of.move_to_end(person)
            if len(self._of) > NAMES_MAX:
                self._of.popitem(last=False)
            mine_left = _left(mine, TRIES_OF_A_NAME, now)
            all_left = _left(self._all, TRIES_OF_ALL, now)
            may = mine_left >= 1 and all_left >= 1
            mine.left, mine.at = mine_left - may, now
            self._all.left, self._all.at = all_left - may, now
            return may

    def forgive(self, person: str) -> None:
        """Forget the tries of somebody who has come in."""
        with self._lock:
            self._of.pop(person, None)


def _left(tries: _Tries, most: int, now: int) -> float:
    return min(float(most), tries.left + max(0, now - tries.at) * most / WITHIN)
