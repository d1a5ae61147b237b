"""Reads the url of a ledger on PostgreSQL: what is libpq's goes to libpq, what is Fencepost's is taken out.

    postgresql://user@host:5432/database?sslmode=verify-full&schema=fencepost&connections=5&pooler=transaction

`schema` (default `fencepost`) holds the tables; `connections` (default 5) bounds what one process opens, the one that
listens included; `pooler=transaction` says that a pooler lends a server connection per transaction. Everything else,
passwords and TLS among it, means what libpq says, also from PG* variables, the service file and the password file.
Nothing here connects, and no error shows the url, which may hold a password.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, urlencode

from fencepost.core.errors import Misuse, StoreUnavailable
from fencepost.store.queries import SCHEMA

SCHEMES = ("postgresql://", "postgres://")

CONNECTIONS = 5
_CONNECTIONS_MAX = 100
_SECRET = ("password=", "sslpassword=")
_OURS = ("schema", "connections", "pooler")
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")

# Notice in some 20 s that the other side is gone, while nothing is under way and while something is.
_KEEPALIVE = {
    "keepalives_idle": "10",
    "keepalives_interval": "3",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}

# What names several hosts, and the variables that libpq takes them from.
_PER_HOST = {"host": "PGHOST", "hostaddr": "PGHOSTADDR", "port": "PGPORT"}

# Statements are planned once a connection, maybe while the tables are small: never by reading a table from end to end,
# or by hashing one, and without compiling, or starting processes for, what takes microseconds. Planning each time takes
# longer than running them.
_PLANNING = (
    "-c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c enable_hashjoin=off -c enable_mergejoin=off "
    "-c jit=off -c max_parallel_workers_per_gather=0"
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a ledger is. `conninfo` is libpq's, and may hold a password, as `hosts` may, which has one for each host.

    `name` may be shown.
    """

    conninfo: bytes
    hosts: tuple[bytes, ...]
    name: str
    schema: str
    connections: int
    is_pooled: bool


def is_postgres(url: str) -> bool:
    """Whether a url names a ledger on PostgreSQL."""
    return url.startswith(SCHEMES)


def without_password(url: str) -> str:
    """A url as it may be shown; libpq finds the password elsewhere then."""
    if not is_postgres(url):
        return url
    plain, mark, query = url.partition("?")
    scheme, _, rest = plain.partition("://")
    account, at, place = rest.rpartition("@")
    parameters = "&".join(one for one in query.split("&") if not one.lower().startswith(_SECRET))
    return f"{scheme}://{account.partition(':')[0]}{at}{place}{mark if parameters else ''}{parameters}"


def place_of(url: str) -> Place:
    """What a url names.

    Raises `Misuse` for one that cannot be read, and `StoreUnavailable` when psycopg is not installed.
    """
    plain, ours = _parted(url)
    schema = ours.get("schema", SCHEMA)
    if not _NAME.fullmatch(schema) or schema.startswith("pg_"):
        raise Misuse(
            f"schema={schema!r} is no plain name", hint="lower-case letters, digits and _, such as schema=fencepost"
        )
    pooler = ours.get("pooler", "none")
    if pooler not in ("none", "session", "transaction"):
        raise Misuse(f"pooler={pooler!r}", hint="write pooler=transaction, or leave it out")
    is_pooled = pooler == "transaction"
    options = _options(plain, is_pooled=is_pooled)
    return Place(_conninfo(options), _hosts(options), _shown(options), schema, _connections(ours), is_pooled)


def _parted(url: str) -> tuple[str, dict[str, str]]:
    """The url without what is Fencepost's, and that."""
    plain, _, query = url.partition("?")
    # What stands before the last @ is an account: a / in it would make a host and a port of name and password.
    account, at, _ = plain.partition("://")[2].rpartition("@")
    if any(map(str.isspace, url)) or (at and "/" in account):
        raise _unreadable()
    try:
        given = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError:
        raise _unreadable() from None
    ours = {name: value for name, value in given if name in _OURS}
    theirs = urlencode([pair for pair in given if pair[0] not in _OURS], quote_via=quote)
    return f"{plain}?{theirs}" if theirs else plain, ours


def _connections(ours: dict[str, str]) -> int:
    text = ours.get("connections", str(CONNECTIONS))
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= _CONNECTIONS_MAX:
        raise Misuse(f"connections={text!r}", hint=f"a number from 1 to {_CONNECTIONS_MAX}")
    return int(text)


def _options(url: str, *, is_pooled: bool) -> dict[str, str]:
    """Libpq's options, completed by what Fencepost would rather have than libpq's own defaults."""
    try:
        from psycopg import OperationalError, pq
    except ImportError as error:
        raise StoreUnavailable(
            "a ledger on PostgreSQL needs psycopg, which is not installed",
            hint="pip install 'fencepost[postgres]'",
        ) from error
    try:
        parsed = pq.Conninfo.parse(url.encode())
    except OperationalError:
        raise _unreadable() from None
    given = {option.keyword.decode(): option.val.decode() for option in parsed if option.val is not None}
    by_environment = {
        option.keyword.decode() for option in parsed if option.envvar and option.envvar.decode() in os.environ
    }
    wanted = {"application_name": "fencepost", **_KEEPALIVE}
    options = {name: value for name, value in wanted.items() if name not in by_environment} | given
    options["client_encoding"] = "UTF8"
    if len(_listed(options, "host")) > 1:
        # Whichever takes writes: a ledger is of no use elsewhere.
        options.setdefault("target_session_attrs", os.environ.get("PGTARGETSESSIONATTRS", "read-write"))
    if not is_pooled:
        theirs = given.get("options") or os.environ.get("PGOPTIONS", "")
        options["options"] = f"{_PLANNING} {theirs}".strip()
    return options


def _conninfo(options: dict[str, str]) -> bytes:
    from psycopg.conninfo import make_conninfo

    return make_conninfo("", **options).encode()


def _hosts(options: dict[str, str]) -> tuple[bytes, ...]:
    """What goes to libpq for each host alone."""
    listed = {name: values for name in _PER_HOST if len(values := _listed(options, name)) > 1}
    number = max(map(len, listed.values()), default=1)
    if any(len(values) != number for values in listed.values()):
        raise _unreadable()
    of_each = [{name: values[place] for name, values in listed.items()} for place in range(number)]
    return tuple(_conninfo(options | of_one) for of_one in of_each)


def _listed(options: dict[str, str], name: str) -> list[str]:
    return (options.get(name) or os.environ.get(_PER_HOST[name], "")).split(",")


def _shown(options: dict[str, str]) -> str:
    """Which ledger this is, without what is secret or of no interest."""
    user = f"{options['user']}@" if "user" in options else ""
    port = f":{options['port']}" if "port" in options else ""
    return f"postgresql://{user}{options.get('host', '')}{port}/{options.get('dbname', '')}"


def _unreadable() -> Misuse:
    # Neither the url nor libpq's complaint, which quotes from it: a password may be what could not be read.
    return Misuse(
        "the url of the ledger cannot be read",
        hint="write postgresql://user@host:5432/database; write %xx for special characters in a password",
    )
