"""Asks whether a person may do a verb, before anything is looked at: every verb of every door comes through here.

The policy is read from the ledger, where the workers of an app that has one have put it, so that a command line without
any code obeys it too. What is refused is audited by the verb's own path, or here where there is none. Which role a verb
needs is decided in `core.permissions`; who a person really is, by whoever calls.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from fencepost.core.errors import Misuse, NotPermitted, RunNotFound
from fencepost.core.permissions import VERBS, Compares, Permissions
from fencepost.core.records import Audit, Run
from fencepost.runtime import audit

if TYPE_CHECKING:
    from fencepost.store.api import Store

DECLARED = "declare permissions"

UNNAMED = "nobody named"
"""Who stands in the row of a verb that nobody would put a name to."""


class Asked(Protocol):
    """In whose ledger a verb is done, who may do it there, and whom this process speaks for."""

    @property
    def namespace(self) -> str:
        """Whose runs these are."""

    @property
    def login(self) -> str | None:
        """Whom this process speaks for; None: whoever it names."""

    @property
    def store(self) -> Store:
        """The opened ledger's store."""

    def policy(self) -> Permissions | None:
        """Who may do what; None: nobody has said it, and everybody may do everything."""


def require(app: Asked, verb: str, by: str) -> Permissions | None:
    """Refuse a verb to whoever lacks its role; the policy in force.

    Raises:
        NotPermitted: they lack it, or this process speaks for somebody else.
    """
    assert verb in VERBS, f"{verb} has no row in core.permissions"
    policy = app.policy()
    asked = {} if policy is None else {app.namespace: policy}
    if VERBS[verb].compares is Compares.EPOCH:
        # It is about the whole ledger: nobody gets it by naming a namespace for which nothing was declared.
        declared = {name: Permissions.from_text(text) for name, text in app.store.policies().items()}
        asked = {**declared, **asked}
    for namespace, one in asked.items():
        _require_by(one, app, verb, by, namespace)
    return policy


def _require_by(policy: Permissions, app: Asked, verb: str, by: str, namespace: str) -> None:
    ids = {"namespace": namespace}
    if app.login is not None and by != app.login and not policy.names_are_given:
        raise NotPermitted(
            f"{verb}: this command line speaks for {app.login!r}, not for {by!r}",
            hint="log in as yourself; only Permissions(names_are_given=True) believes --by",
            ids=ids,
        )
    lacks = policy.lacks(by, verb)
    if lacks is not None:
        raise NotPermitted(
            f"{by!r} lacks the role {lacks} for {verb}", hint="App(permissions=...) says who has which role", ids=ids
        )


def require_a_word(verb: str, by: str, reason: str, *, ids: Mapping[str, str] | None = None) -> None:
    """Refuse a verb that nobody does, or for no reason. Raises `Misuse`."""
    if not by.strip() or not reason.strip():
        raise Misuse(f"{verb} needs who does it and why", hint="give by= and reason=", ids=ids)


def ask(app: Asked, verb: str, about: str, *, by: str, reason: str) -> None:
    """Refuse a verb that is on no run to whoever may not do it, or says no reason; what is refused leaves its row.

    Raises:
        Misuse: who or why is missing.
        NotPermitted: they lack the verb's role.
    """
    try:
        require_a_word(verb, by, reason, ids={"about": about} if about else None)
        require(app, verb, by)
    except Misuse as refused:
        refuse(app, verb, about, by=by, reason=reason, why=refused.message)
        raise


def run_for(app: Asked, run_id: str, verb: str, *, by: str, reason: str) -> Run:
    """The run that a verb is meant for; a verb on one that is not there leaves its row under the id that was given.

    Raises:
        RunNotFound: no run has this id.
    """
    found = app.store.find(app.namespace, run_id)
    if found is not None:
        return found
    told = no_such_run(run_id)
    refuse(app, verb, run_id, by=by, reason=reason, why=told.message)
    raise told


def no_such_run(run_id: str) -> RunNotFound:
    """What is told of an id that no run has."""
    return RunNotFound(f"no run has the id {run_id!r}", hint="`fencepost runs` lists them", ids={"run": run_id})


def refuse(app: Asked, verb: str, about: str, *, by: str, reason: str, why: str) -> None:
    """Append the audit row of a verb that was refused before there was anything to look at."""
    told = f"{reason} (refused: {why})".replace("\0", "\\0")
    row = audit.of_refusal(app.namespace, verb, about, by=by or UNNAMED, why=told, now=app.store.now())
    app.store.audit(row)


def declare(store: Store, namespace: str, policy: Permissions) -> None:
    """Write an app's policy into its ledger; a row says what it was before, if it differs."""

    def audited(before: str | None, now: int) -> Audit:
        by, why = this_process(), "a worker of an app that declares it has begun"
        return Audit(now, by, DECLARED, "", "done", why, before or "null", text, namespace=namespace)

    text = policy.as_text()
    store.declare_policy(namespace, text, audited)


def this_process() -> str:
    """Who acts where code does, and no person."""
    return f"pid {os.getpid()} on {socket.gethostname()}"
