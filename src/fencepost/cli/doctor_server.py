"""What `doctor` says of a ledger on a server: whether it keeps what it acknowledges, and whether there is room.

Each check is one small function over facts that the store has asked for. Everything that is in the rows is checked in
`doctor`, alike for both databases.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from fencepost.cli.doctor import OK, PROBLEM, WARNING, Check
from fencepost.core.duration import MILLISECOND, SECOND

if TYPE_CHECKING:
    from fencepost.store.postgres_open import ServerFacts

ROUND_TRIP_MAX = 5 * MILLISECOND
"""A server that is further away makes every step slow."""

AHEAD_MAX = 2 * SECOND
"""Clocks that differ by more confuse whoever reads times; leases do not rest on it."""

IDLE_SECONDS_MAX = 60
"""A transaction that waits longer for its client keeps others from rows, and the server from cleaning up."""

ROOM_MIN = 10
"""So few free connections are a warning."""


def settings(url: str) -> Iterator[Check]:
    """The checks of the server at this url, in order."""
    from fencepost.store.postgres_open import facts_at

    facts = facts_at(url)
    yield _durability(facts)
    yield _protection(facts)
    yield _room(facts)
    yield _distance(facts)
    yield _transactions(facts)


def _durability(facts: ServerFacts) -> Check:
    said = ", ".join(f"{name}={facts.settings[name]}" for name in ("fsync", "synchronous_commit", "full_page_writes"))
    version = int(facts.settings["server_version_num"]) // 10_000
    if facts.settings["fsync"] == "off":
        return Check("durability", PROBLEM, said, "set fsync = on in postgresql.conf and restart the server")
    if "off" in (facts.settings["synchronous_commit"], facts.settings["full_page_writes"]):
        return Check("durability", WARNING, said, "a crash of the server loses what was acknowledged; set it to on")
    return Check("durability", OK, f"PostgreSQL {version}, {said}")


def _protection(facts: ServerFacts) -> Check:
    if facts.is_encrypted:
        return Check("encryption", OK, "TLS")
    return Check("encryption", OK, "none; for another machine add sslmode=verify-full to the url")


def _room(facts: ServerFacts) -> Check:
    limit = int(facts.settings["max_connections"])
    said = f"{facts.in_use} of {limit} in use; each process of this ledger takes up to {facts.connections}"
    if facts.is_pooled:
        said += ", through a pooler, so that changes are looked for and not heard of"
    if limit - facts.in_use < max(ROOM_MIN, facts.connections):
        return Check("connections", WARNING, said, "raise max_connections, or put fewer into ?connections=")
    return Check("connections", OK, said)


def _distance(facts: ServerFacts) -> Check:
    said = f"{facts.round_trip / MILLISECOND:.1f} ms a round trip; its clock is {facts.ahead / SECOND:+.3f} s from ours"
    if facts.round_trip > ROUND_TRIP_MAX:
        return Check("distance", WARNING, said, "each step waits for one round trip: bring the workers nearer")
    if abs(facts.ahead) > AHEAD_MAX:
        return Check("distance", WARNING, said, "set both clocks by NTP; the ledger goes by the server's")
    return Check("distance", OK, said)


def _transactions(facts: ServerFacts) -> Check:
    if facts.oldest_idle_transaction > IDLE_SECONDS_MAX:
        return Check(
            "transactions", WARNING, f"one has waited for its client for {facts.oldest_idle_transaction} s",
            "find it in pg_stat_activity; it keeps others from rows",
        )  # fmt: skip
    return Check("transactions", OK, "none waits for its client")
