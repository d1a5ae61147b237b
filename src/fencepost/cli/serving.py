"""`fencepost console`: serves the console of an app, until it is told to end.

What it answers is `fencepost.console`; where it may listen is decided there too. It works on no run: workers do.
"""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fencepost.cli import terminal
from fencepost.cli.exits import Exit, Usage
from fencepost.cli.options import AppArgument, Db, Namespace, login
from fencepost.console.printable import printable

if TYPE_CHECKING:
    from fencepost.console.providers import Provider
    from fencepost.console.server import Place
    from fencepost.runtime.app import App

Host = Annotated[str, typer.Option(metavar="ADDRESS", help="Where it listens.")]
Port = Annotated[int, typer.Option(min=0, max=65_535, metavar="N", help="The port; 0 for any that is free.")]
Certificate = Annotated[Path | None, typer.Option("--tls-certificate", metavar="FILE", help="Serve HTTPS with it.")]
Key = Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="The certificate's key.")]
ProviderFile = Annotated[
    Path | None, typer.Option("--provider", metavar="FILE", help="Who else proves who people are: an OpenID provider.")
]
Proxies = Annotated[
    list[str] | None,
    typer.Option("--behind-proxy", metavar="ADDRESS", help="A proxy that ends TLS before it; repeatable."),
]


def console(
    app: AppArgument, *, host: Host = "127.0.0.1", port: Port = 8420, certificate: Certificate = None, key: Key = None,
    behind: Proxies = None, provider: ProviderFile = None, db: Db = None, namespace: Namespace = None,
) -> Exit:  # fmt: skip
    """Serve the console: pages for people, and the HTTP API on the ledger of an app. Needs fencepost[console].

    The first start prints a link by which whoever starts it comes in, once; later, and for others, there is
    `fencepost account invite`. Programs need a token: `fencepost token make`. Beyond this machine it is served with
    TLS, or behind a proxy that ends it. --provider names a file that declares an OpenID provider and what its groups
    may do.
    """
    import asyncio

    from fencepost.cli.target import app_for, require_ledger

    try:
        from fencepost.console.providers import read_provider
        from fencepost.console.server import Place
    except ModuleNotFoundError as missing:
        raise Usage(f"{missing.name} is not installed", hint="pip install 'fencepost[console]'") from missing
    place = Place(host, port, certificate, key, tuple(behind or ()))
    place.check()
    found = app_for(app, db, namespace)
    require_ledger(found)
    asyncio.run(_serve(found, place, None if provider is None else read_provider(provider)))
    return Exit.DONE


async def _serve(app: App, place: Place, provider: Provider | None) -> None:
    import asyncio

    from fencepost.console.server import API, create_app, server

    async with app:
        serving = server(create_app(app, provider=provider), place)
        with _listening(place) as listening:
            where = listening.getsockname()
            host = f"[{where[0]}]" if listening.family is socket.AF_INET6 else where[0]
            at = f"{place.scheme}://{printable(host)}:{where[1]}"
            terminal.say(f"the console is at {at}{API}")
            await asyncio.to_thread(_let_the_first_in, app, at)
            await serving.serve(sockets=[listening])


def _let_the_first_in(app: App, at: str) -> None:
    """Where nobody was ever let in, print a link for whoever starts it, if they may let people in at all."""
    from fencepost.core.errors import Misuse
    from fencepost.runtime import accounts

    name = login()
    if not name or app.store.was_anybody_invited(app.namespace):
        return
    try:
        secret, _ = accounts.invite(app, name, ["admin"], by=name, reason="the console's first start")
    except Misuse as refused:
        terminal.remark(f"nobody can sign in yet: {printable(refused.message)}; `fencepost account invite`")
        return
    terminal.say(f"sign in, once, within an hour: {at}/sign-in?link={secret}")


def _listening(place: Place) -> socket.socket:
    """The socket, taken before anything is said of it. Raises `Usage` where it is not to be had."""
    family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
    try:
        return socket.create_server((place.host, place.port), family=family)
    except OSError as error:
        raise Usage(f"{place.host} port {place.port}: {error.strerror}", hint="give --host and --port") from error
