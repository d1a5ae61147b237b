"""Containing a target, resource, tenant, workflow or credential, and releasing it: a person's two verbs, audited.

From the commit of a `contain` on no new dispatch goes toward it, by whatever worker: the ledger refuses it in the write
that would allow it. Look-ups go on, and so does whatever was dispatched before. Runs that meet it wait, and go on by
themselves once it is released. A second click changes nothing and leaves no row. The guard is in the store's moves,
what a worker does that meets it is `effects.perform`.
"""

from __future__ import annotations

from dataclasses import asdict, replace

from fencepost.core.containment import Containment, Kind, kind_of, mark
from fencepost.core.identity import canonical, check_name
from fencepost.core.records import Audit
from fencepost.runtime.permits import Asked, ask


def contain(app: Asked, kind: str, name: str, *, by: str, reason: str) -> Containment:
    """Let no new dispatch go toward something, from now on and by any worker; how it is contained then.

    What is contained already stays as it is, with whom and why; what a breaker stops becomes this person's.

    Raises:
        Misuse: there is no such kind, or the name, who or why is missing.
        NotPermitted: they lack the role that it needs.
    """
    found = _asked(app, kind, name, "contain", by=by, reason=reason)
    wanted = Containment(mark(app.namespace, found, name), app.namespace, found, name, by, reason, app.store.now())
    return app.store.contain(wanted, audit(wanted, "contain", by=by, reason=reason, after=wanted))[0]


def release(app: Asked, kind: str, name: str, *, by: str, reason: str) -> Containment | None:
    """Let dispatches go toward something again, and the runs go on that wait for it; how it was contained.

    None: it was not. Of a breaker that is open: close it by hand.

    Raises:
        Misuse: there is no such kind, or the name, who or why is missing.
        NotPermitted: they lack the role that it needs.
    """
    found = _asked(app, kind, name, "release", by=by, reason=reason)
    wanted = mark(app.namespace, found, name)
    before = next((one for one in app.store.contained(app.namespace) if one.mark == wanted), None)
    if before is None:
        return None
    row = audit(replace(before, at=app.store.now()), "release", by=by, reason=reason, before=before)
    return app.store.release(wanted, row)


def _asked(app: Asked, kind: str, name: str, verb: str, *, by: str, reason: str) -> Kind:
    found = kind_of(kind)
    check_name(name, what=kind)
    ask(app, verb, f"{found}:{name}", by=by, reason=reason)
    return found


def audit(
    about: Containment, verb: str, *, by: str, reason: str, before: Containment | None = None,
    after: Containment | None = None,
) -> Audit:  # fmt: skip
    """The audit row of something that is contained or released; its kind and name stand for the run."""
    what = f"{about.kind}:{about.name}"
    return Audit(about.at, by, verb, what, "done", reason, _summary(before), _summary(after), namespace=about.namespace)


def _summary(one: Containment | None) -> str:
    if one is None:
        return canonical({"contained": False})
    shown = {name: value for name, value in asdict(one).items() if name in ("actor", "at", "cool_down")}
    return canonical({"contained": True} | shown)
