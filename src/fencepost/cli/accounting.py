"""People at the console, from the command line: invited by a link that is good once, listed, and their accounts closed.

Who may invite, and how long a link is good, is `runtime.accounts`; a link's place is the console's.
"""

from __future__ import annotations

from typing import Annotated

import typer

from fencepost.cli import terminal
from fencepost.cli.exits import Exit
from fencepost.cli.options import AppOption, AsJson, By, Db, Namespace, Reason, somebody
from fencepost.console.documents import account_row
from fencepost.console.printable import printable

Person = Annotated[str, typer.Argument(metavar="NAME", help="Under whose name is done what they do.")]
Roles = Annotated[
    list[str], typer.Option("--role", metavar="ROLE", help="viewer, operator, approver or admin; repeatable.")
]
Place = Annotated[str, typer.Option("--at", metavar="URL", help="Where the console is.")]


def account(
    context: typer.Context, *, app: AppOption = None, db: Db = None, namespace: Namespace = None,
    as_json: AsJson = False,
) -> Exit:  # fmt: skip
    """List who comes to the console with a password. The passwords themselves are stored nowhere.

    With --json: `accounts` (`name`, `roles`, `changed_at`).
    """
    from fencepost.cli.target import app_for, opened

    if context.invoked_subcommand is not None:
        return Exit.DONE
    with opened(app_for(app, db, namespace, with_code=False)) as ledger:
        rows = [account_row(one) for one in ledger.store.accounts(ledger.namespace)]
    if as_json:
        terminal.document({"accounts": rows})
    elif not rows:
        terminal.remark("no accounts")
    else:
        terminal.table(
            ("name", "roles", "changed"), [(row["name"], ", ".join(row["roles"]), row["changed_at"]) for row in rows]
        )
    return Exit.DONE


def invite(
    name: Person, *, role: Roles, reason: Reason, at: Place = "http://127.0.0.1:8420", by: By = None,
    app: AppOption = None, db: Db = None, namespace: Namespace = None, as_json: AsJson = False,
) -> Exit:  # fmt: skip
    """Make a link by which NAME comes into the console, once, within an hour. Their roles there are these at most.

    With --json: `name`, `roles`, `expires_at` and `link`.
    """
    from fencepost.cli.target import app_for, opened
    from fencepost.console.documents import invitation_row
    from fencepost.runtime import accounts

    with opened(app_for(app, db, namespace, with_code=False)) as ledger:
        secret, made = accounts.invite(ledger, name, role, by=somebody(by), reason=reason)
    link = f"{at.rstrip('/')}/sign-in?link={secret}"
    if as_json:
        terminal.document(invitation_row(made) | {"link": link})
    else:
        terminal.say(printable(link, limit=None))
        terminal.remark(f"for {printable(name)}, once, within an hour: it cannot be shown again")
    return Exit.DONE


def close(
    name: Person, *, reason: Reason, by: By = None, app: AppOption = None, db: Db = None,
    namespace: Namespace = None, as_json: AsJson = False,
) -> Exit:  # fmt: skip
    """End somebody's account, links and sessions at the console, from the next request on. Tokens are `token revoke`'s.

    With --json: `name`.
    """
    from fencepost.cli.target import app_for, opened
    from fencepost.runtime import accounts

    with opened(app_for(app, db, namespace, with_code=False)) as ledger:
        accounts.close(ledger, name, by=somebody(by), reason=reason)
    if as_json:
        terminal.document({"name": name})
    else:
        terminal.say(f"{printable(name)} is signed in nowhere, and has no password here")
    return Exit.DONE
