"""What waits for a second person, and that person's answer: the commands `proposals`, `confirm` and `decline`.

When a verb takes two persons is the policy's matter (`core.permissions`), carrying one out the runtime's
(`runtime.confirming`). Here a person sees what exactly they would confirm.
"""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from fencepost.cli import terminal
from fencepost.cli.exits import Exit
from fencepost.cli.options import AppOption, AsJson, By, Db, Namespace, Reason, somebody
from fencepost.console.documents import proposal_row
from fencepost.console.printable import compact, instant, printable
from fencepost.core.standin import missing

Number = Annotated[int, typer.Argument(metavar="PROPOSAL", help="Its number, as `proposals` has it.")]
Every = Annotated[bool, typer.Option("--all", help="Also what was confirmed, declined or is over.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=10_000, help="Proposals at most, the newest first.")]


def proposals(
    *, every: Every = False, limit: Limit = 50, app: AppOption = None, db: Db = None, namespace: Namespace = None,
    as_json: AsJson = False,
) -> Exit:  # fmt: skip
    """List what one person has asked for and a second one has to confirm.

    With --json: `proposals` (`proposal`, `run`, `verb`, `arguments`, `version` of the run as the first person saw it,
    `reason`, `proposed_by`, `proposed_at`, `expires_at`, `state`, `closed_by`, `closed_at`).
    """
    from fencepost.cli.target import app_for, opened

    with opened(app_for(app, db, namespace, with_code=False)) as ledger:
        found = ledger.store.proposals(ledger.namespace, every=every, limit=limit)
        now = ledger.store.now()
    if as_json:
        terminal.document({"proposals": [proposal_row(one, now) for one in found]})
        return Exit.DONE
    if not found:
        terminal.remark("no proposals")
        return Exit.DONE
    terminal.table(
        ("proposal", "run", "verb", "with", "by", "until", "state", "why"),
        [
            (
                one.no, one.run_id, one.verb, missing(one.arguments) or compact(json.loads(one.arguments)),
                one.proposed_by, instant(one.expires_at), one.stands_at(now), one.reason,
            )
            for one in found
        ],
    )  # fmt: skip
    return Exit.DONE


def confirm(
    proposal: Number, *, reason: Reason, by: By = None, app: AppOption = None, db: Db = None,
    namespace: Namespace = None, as_json: AsJson = False,
) -> Exit:  # fmt: skip
    """Carry out what another person proposed, if the run is still as that person saw it.

    Verbs that need an effect's code need --app. With --json: `proposal`, `run`, `verb`, `state`, `generation`,
    `version`.
    """
    from fencepost.cli.target import app_for, opened
    from fencepost.runtime import confirming

    with opened(app_for(app, db, namespace, with_code=app is not None)) as ledger:
        after = confirming.confirm(ledger, proposal, by=somebody(by), reason=reason)
        found = ledger.store.proposal(ledger.namespace, proposal)
    assert found is not None, "it was just confirmed"
    if as_json:
        said: dict[str, Any] = {"proposal": proposal, "run": after.id, "verb": found.verb, "state": after.state.value}
        terminal.document(said | {"generation": after.generation, "version": after.version})
    else:
        terminal.say(f"{found.verb}: run {printable(after.id)} is {after.state}, as two persons wanted")
    return Exit.DONE


def decline(
    proposal: Number, *, reason: Reason, by: By = None, app: AppOption = None, db: Db = None,
    namespace: Namespace = None, as_json: AsJson = False,
) -> Exit:  # fmt: skip
    """Close a proposal, one's own or another's, without carrying it out.

    With --json: as a row of `proposals`.
    """
    from fencepost.cli.target import app_for, opened
    from fencepost.runtime import confirming

    with opened(app_for(app, db, namespace, with_code=False)) as ledger:
        closed = confirming.decline(ledger, proposal, by=somebody(by), reason=reason)
        now = ledger.store.now()
    if as_json:
        terminal.document(proposal_row(closed, now))
    else:
        terminal.say(f"proposal {proposal} is declined: nothing was done to run {printable(closed.run_id)}")
    return Exit.DONE
