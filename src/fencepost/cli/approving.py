"""Shows a person which exact call a run asks to be allowed, and takes the answer: the command `approve`.

What is shown is what is sent back: the digest of the call goes along with the answer, which is refused if another call
waits by then. The guards and the audit are the runtime's (`runtime.signalling`).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fencepost.cli import terminal
from fencepost.cli.exits import Exit
from fencepost.cli.options import AppOption, AsJson, By, Db, Namespace, RunId, SignalId, somebody
from fencepost.console.printable import compact, printable

if TYPE_CHECKING:
    from fencepost.core.records import Signal, Step

WaitName = Annotated[str, typer.Argument(metavar="NAME", help="The name under which the run waits.")]
Deny = Annotated[bool, typer.Option("--deny", help="Do not allow it.")]
Comment = Annotated[str, typer.Option("--comment", metavar="TEXT", help="Kept with the answer and in the audit.")]
Digest = Annotated[
    str | None,
    typer.Option("--digest", metavar="HEX", help="Of the call that you were shown; refused if another one waits."),
]


def approve(
    run: RunId,
    name: WaitName,
    *,
    deny: Deny = False,
    comment: Comment = "",
    digest: Digest = None,
    id: SignalId = None,
    by: By = None,
    app: AppOption = None,
    db: Db = None,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> Exit:
    """Allow, or with --deny refuse, the one call that a run waits to be allowed.

    The call and its digest are printed first. Whether you may is asked when the approval is used.

    With --json: `run`, `name`, `signal` (its id), `state`, `approved`, `by`, `digest`, and `call` (null if it does not
    wait yet): `step`, `item`, `version`, `request`.
    """
    from fencepost.cli.target import app_for, opened, run_of
    from fencepost.core.approval import digest_waited_for
    from fencepost.runtime import signalling

    answer: dict[str, Any] = {"by": somebody(by), "approved": not deny, "comment": comment, "id": id}
    with opened(app_for(app, db, namespace, with_code=False)) as ledger:
        history = ledger.store.load(run_of(ledger, run).no)
        waiting = {digest_waited_for(step): _call(step) for step in signalling.waits_for_approval(history, name)}
        meant = {known: call for known, call in waiting.items() if digest in (None, known)}
        if not as_json:
            terminal.say(*(line for known, call in meant.items() for line in _shown(call, known or "")))
        if digest is None and len(meant) == 1:
            [digest] = meant  # what was shown just now, and nothing that may come after it
        kept = signalling.approve(ledger, run, name, digest=digest, **answer)
    _say_what_became_of_it(run, kept, waiting, as_json=as_json)
    return Exit.DONE


def _say_what_became_of_it(run: str, kept: Signal, waiting: dict[str | None, dict[str, Any]], *, as_json: bool) -> None:
    said = json.loads(kept.payload)
    if not as_json:
        word = "approved" if said["approved"] else "denied"
        terminal.say(f"{word} by {printable(kept.sender)}; the answer ({printable(kept.id)}) is {kept.state}")
        return
    terminal.document(
        {
            "run": run,
            "name": kept.name,
            "signal": kept.id,
            "state": kept.state.value,
            "approved": said["approved"],
            "by": kept.sender,
            "digest": said["digest"],
            "call": waiting.get(said["digest"]),
        }
    )


def _call(step: Step) -> dict[str, Any]:
    """The call that a wait's answer allows, as its row has it."""
    call = json.loads(step.detail or "{}").get("call") or {}
    request = None if step.request is None else json.loads(step.request)
    return {"step": call.get("step"), "item": call.get("item"), "version": call.get("version"), "request": request}


def _shown(call: dict[str, Any], digest: str) -> list[str]:
    item = "" if call["item"] is None else f", item {printable(call['item'])}"
    return [
        f"waits to be allowed: {printable(call['step'])}{item}, contract version {call['version']}",
        f"  with      {compact(call['request'], limit=None)}",
        f"  digest    {printable(digest)}",
    ]
