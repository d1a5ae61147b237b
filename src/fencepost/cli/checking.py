"""`fencepost check`: looks through a whole ledger for what contradicts itself, and names each contradiction.

Reads only. Which rules there are is `core.contradictions`; walking through the ledger is `runtime.checking`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencepost.cli import terminal
from fencepost.cli.exits import Exit
from fencepost.cli.options import AppOption, AsJson, Db
from fencepost.console.documents import checked_document
from fencepost.console.printable import printable

if TYPE_CHECKING:
    from fencepost.runtime.checking import Checked


def check(*, app: AppOption = None, db: Db = None, as_json: AsJson = False) -> Exit:
    """Look through the whole ledger for contradictions between runs, operations, evidence and audit.

    Reads all namespaces, from one moment, while workers go on; changes nothing. A ledger that only Fencepost has
    written has none, except that a run whose owner was lost is named until a worker takes it over.

    With --json: `runs`, `operations`, `audits` (how many were looked at), `contradictions` (how many), `found` (a list
    of `rule`, `namespace`, `run`, `where`, `says`), `rules` (a sentence for each rule that is broken).
    """
    from fencepost.cli.target import app_for, opened
    from fencepost.runtime.checking import SENTENCES
    from fencepost.runtime.checking import check as look_through

    with opened(app_for(app, db, None, with_code=False)) as ledger:
        checked = look_through(ledger.store)
    broken = list(dict.fromkeys(one.rule for one in checked.found))
    if as_json:
        terminal.document(checked_document(checked))
    else:
        for name in broken:
            terminal.say(f"{name}: {SENTENCES[name]}", *_of_rule(name, checked))
        if checked.count > len(checked.found):
            terminal.say(f"and {checked.count - len(checked.found):,} more")
        what = "contradiction" if checked.count == 1 else "contradictions"
        looked = f"{checked.runs:,} runs, {checked.operations:,} operations, {checked.audits:,} audit rows"
        terminal.say(f"{checked.count:,} {what} in {looked}")
    return Exit.FINDINGS if checked.count else Exit.DONE


def _of_rule(name: str, checked: Checked) -> list[str]:
    return [
        f"  {printable(one.run) + ': ' if one.run else ''}{printable(one.where)}: {printable(one.says)}"
        for one in checked.found
        if one.rule == name
    ]
