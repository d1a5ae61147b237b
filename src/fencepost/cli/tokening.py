"""API tokens on the command line: made and shown once, listed without their secrets, and revoked.

Who may make one, and what it is good for, is `runtime.api_tokens`.
"""

from __future__ import annotations

from typing import Annotated

import typer

from fencepost.cli import terminal
from fencepost.cli.exits import Exit, Usage
from fencepost.cli.options import AppOption, AsJson, By, Db, Namespace, Reason, somebody
from fencepost.console.documents import token_row
from fencepost.console.printable import printable

Person = Annotated[str, typer.Argument(metavar="NAME", help="Under whose name is done what is done with it.")]
Roles = Annotated[
    list[str], typer.Option("--role", metavar="ROLE", help="viewer, operator, approver or admin; repeatable.")
]
Lasts = Annotated[str, typer.Option("--lasts", metavar="DURATION", help="Until it expires.")]
Never = Annotated[bool, typer.Option("--never-expires", help="It is good until it is revoked.")]
Number = Annotated[int, typer.Argument(metavar="NUMBER", help="Its number, as `token` lists it.")]


def token(
    context: typer.Context, *, app: AppOption = None, db: Db = None, namespace: Namespace = None,
    as_json: AsJson = False,
) -> Exit:  # fmt: skip
    """List the tokens by which services and people call over HTTP. The tokens themselves are stored nowhere.

    With --json: `tokens` (`number`, `name`, `roles`, `state`, `made_by`, `made_at`, `expires_at`, `revoked_by`,
    `revoked_at`).
    """
    from fencepost.cli.target import app_for, opened

    if context.invoked_subcommand is not None:
        return Exit.DONE
    with opened(app_for(app, db, namespace, with_code=False)) as ledger:
        found, now = ledger.store.api_tokens(ledger.namespace), ledger.store.now()
    rows = [token_row(one, now) for one in found]
    if as_json:
        terminal.document({"tokens": rows})
    elif not rows:
        terminal.remark("no tokens")
    else:
        terminal.table(
            ("token", "name", "roles", "state", "made by", "expires"),
            [
                (
                    str(row["number"]), row["name"], ", ".join(row["roles"]), row["state"], row["made_by"],
                    row["expires_at"] or "never",
                )
                for row in rows
            ],
        )  # fmt: skip
    return Exit.DONE


def make(
    name: Person, *, role: Roles, reason: Reason, lasts: Lasts = "90d", never_expires: Never = False, by: By = None,
    app: AppOption = None, db: Db = None, namespace: Namespace = None, as_json: AsJson = False,
) -> Exit:  # fmt: skip
    """Make a token, and show it this once. Its roles narrow what NAME may do; they give nothing.

    With --json: as `token` lists it, and `token`: the token itself.
    """
    from fencepost.cli.target import app_for, opened
    from fencepost.core.errors import DeclarationError
    from fencepost.runtime import api_tokens

    with opened(app_for(app, db, namespace, with_code=False)) as ledger:
        length = api_tokens.NEVER if never_expires else lasts
        try:
            text, made = api_tokens.make(ledger, name, role, by=somebody(by), reason=reason, lasts=length)
        except DeclarationError as error:
            raise Usage(error.message, hint=error.hint) from error
        now = ledger.store.now()
    if as_json:
        terminal.document(token_row(made, now) | {"token": text})
    else:
        terminal.say(text)
        terminal.remark(f"token {made.no} of {printable(name)}: keep it, it cannot be shown again")
    return Exit.DONE


def revoke(
    number: Number, *, reason: Reason, by: By = None, app: AppOption = None, db: Db = None,
    namespace: Namespace = None, as_json: AsJson = False,
) -> Exit:  # fmt: skip
    """Take a token no more, from the next request on.

    With --json: as `token` lists it.
    """
    from fencepost.cli.target import app_for, opened
    from fencepost.runtime import api_tokens

    with opened(app_for(app, db, namespace, with_code=False)) as ledger:
        found = api_tokens.revoke(ledger, number, by=somebody(by), reason=reason)
        now = ledger.store.now()
    if as_json:
        terminal.document(token_row(found, now))
    else:
        terminal.say(f"token {found.no} of {printable(found.person)} is revoked")
    return Exit.DONE
