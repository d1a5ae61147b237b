"""Who may do what: the roles, the one table of every verb of a person with the role that it needs, and the policy.

Pure. Where no policy was declared, everybody who can write to the ledger may do everything. Asking for the role before
a verb, and keeping what waits for a second person, is `runtime.permits` and `runtime.proposing`; what a verb does is
`runtime.verbs`.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable, Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from fencepost.core.compensation import UNSETTLED
from fencepost.core.duration import microseconds
from fencepost.core.errors import DeclarationError
from fencepost.core.identity import canonical
from fencepost.core.records import History, Operation
from fencepost.core.states import OperationState


class Role(StrEnum):
    """What a person may do in a namespace; one may have several."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    APPROVER = "approver"
    ADMIN = "admin"


MEANINGS: Mapping[Role, str] = {
    Role.VIEWER: "looks: reads runs, evidence and audit, and does no verb",
    Role.OPERATOR: "brings runs to their end; looks too",
    Role.APPROVER: "answers the approvals that runs wait for; looks too",
    Role.ADMIN: "has every role, and the verbs that concern the code's versions or the whole ledger",
}

_IMPLIED: Mapping[Role, frozenset[Role]] = {
    Role.VIEWER: frozenset({Role.VIEWER}),
    Role.OPERATOR: frozenset({Role.OPERATOR, Role.VIEWER}),
    Role.APPROVER: frozenset({Role.APPROVER, Role.VIEWER}),
    Role.ADMIN: frozenset(Role),
}


def implied_by(roles: Iterable[str]) -> frozenset[Role]:
    """These roles, and those that go with them."""
    return frozenset(implied for role in roles for implied in _IMPLIED[Role(role)])


class Compares(StrEnum):
    """What a verb compares with what the person was shown, so that nobody decides about what has changed."""

    RUN_VERSION = "the run's row version"
    SCHEDULE_VERSION = "the schedule's row version"
    PROPOSAL = "the row version that the first person saw"
    DIGEST = "the digest of the call"
    NAME = "the wait's name, used once"
    NAME_ALONE = "nothing: done twice it is done once"
    EPOCH = "nothing: it is about the ledger as it stands"


class Verb(NamedTuple):
    """One verb of a person. `takes`: who owns the run loses it. `overrides`: it may set a guarantee aside by name."""

    role: Role
    does: str
    compares: Compares = Compares.RUN_VERSION
    takes: bool = False
    overrides: bool = False


VERBS: Mapping[str, Verb] = {
    "resume": Verb(Role.OPERATOR, "lets a held or failed run go on", takes=True),
    "reconcile": Verb(Role.OPERATOR, "has unknown effects asked about now", takes=True),
    "retry": Verb(Role.OPERATOR, "gives an effect that failed for good a new budget", takes=True),
    "settle": Verb(Role.OPERATOR, "says whether an unknown effect happened", takes=True, overrides=True),
    "settle conflict": Verb(Role.OPERATOR, "says what stands after a conflict", takes=True, overrides=True),
    "cancel": Verb(Role.OPERATOR, "stops what has not begun; the run's owner carries it out"),
    "compensate": Verb(Role.OPERATOR, "has a run's effects compensated", takes=True),
    "compensate step": Verb(Role.OPERATOR, "has one effect of a run compensated, and nothing else of it", takes=True),
    "forward": Verb(Role.OPERATOR, "has what failed done the other way that its effect declares", takes=True),
    "redecide": Verb(Role.OPERATOR, "has a model's decision made anew", takes=True, overrides=True),
    "terminate": Verb(Role.OPERATOR, "ends a run at once", takes=True),
    "reopen": Verb(Role.OPERATOR, "lets a run that has ended go on", takes=True),
    "migrate": Verb(Role.ADMIN, "pins a run to another version of its workflow", takes=True),
    "signal": Verb(Role.OPERATOR, "sends a run what it waits for, by hand", Compares.NAME),
    "approve": Verb(Role.APPROVER, "allows the one call that a run asks for", Compares.DIGEST),
    "deny": Verb(Role.APPROVER, "refuses the one call that a run asks for", Compares.DIGEST),
    "confirm": Verb(Role.VIEWER, "carries out what another person proposed; takes that verb's role as well",
                    Compares.PROPOSAL, takes=True),
    "decline": Verb(Role.OPERATOR, "closes what was proposed, by oneself or by another", Compares.PROPOSAL),
    "contain": Verb(Role.OPERATOR, "lets nothing new be sent toward something", Compares.NAME_ALONE),
    "release": Verb(Role.OPERATOR, "lets what was contained be sent toward again", Compares.NAME_ALONE),
    "pause queue": Verb(Role.OPERATOR, "lets no run of a queue begin or go on", Compares.NAME_ALONE),
    "resume queue": Verb(Role.OPERATOR, "lets the runs of a paused queue go on", Compares.NAME_ALONE),
    "pause bulk": Verb(Role.OPERATOR, "lets nobody go on with a job on many runs", Compares.NAME_ALONE),
    "resume bulk": Verb(Role.OPERATOR, "lets somebody go on with a job on many runs", Compares.NAME_ALONE),
    "pause schedule": Verb(Role.OPERATOR, "lets a schedule start nothing", Compares.SCHEDULE_VERSION),
    "resume schedule": Verb(Role.OPERATOR, "lets a paused schedule go on", Compares.SCHEDULE_VERSION),
    "fire schedule": Verb(Role.OPERATOR, "starts a run of a schedule now", Compares.SCHEDULE_VERSION),
    "remove schedule": Verb(Role.ADMIN, "removes a schedule that no code declares", Compares.SCHEDULE_VERSION),
    "restored": Verb(Role.ADMIN, "says that the ledger was restored from a backup", Compares.EPOCH),
    "close lost time": Verb(Role.ADMIN, "says that nothing more turns up from the lost time", Compares.EPOCH),
    "purge": Verb(Role.ADMIN, "removes what runs hold that ended long ago", Compares.NAME_ALONE),
    "make token": Verb(Role.ADMIN, "lets somebody call over HTTP, with the scopes of a token", Compares.NAME_ALONE),
    "revoke token": Verb(Role.ADMIN, "lets a token be taken no more", Compares.NAME_ALONE),
    "invite": Verb(Role.ADMIN, "lets somebody into the console, by a link that is good once", Compares.NAME_ALONE),
    "close account": Verb(Role.ADMIN, "ends somebody's account and sessions at the console", Compares.NAME_ALONE),
    "look": Verb(Role.VIEWER, "reads over HTTP: runs, evidence and audit", Compares.NAME_ALONE),
    "check": Verb(Role.ADMIN, "looks through all namespaces for contradictions, over HTTP", Compares.NAME_ALONE),
    "start": Verb(Role.OPERATOR, "starts a run over HTTP", Compares.NAME_ALONE),
}  # fmt: skip
"""Every verb of a person, and which role it needs: a verb without a row here cannot be done by anybody."""

OVERRIDE = "override"
TERMINATE_UNKNOWN = "terminate an unknown"

CASES: Mapping[str, str] = {
    OVERRIDE: "a person's early \"did not happen\", which loses the effect's guarantee, or a new decision over effects "
    "that stand",
    TERMINATE_UNKNOWN: "terminate, while an effect of the run is unknown",
    **{verb: f"every {verb}" for verb, found in VERBS.items() if found.compares is Compares.RUN_VERSION},
}
"""What two persons can be asked for, beside compensations above a limit."""

RISKY = (OVERRIDE, TERMINATE_UNKNOWN, "reopen")
"""What two persons are best asked for."""


class Above(NamedTuple):
    """Compensating an effect whose request has a larger number in this field takes two persons.

    `field` is a parameter's name, or the way to it: "cents", "payment.cents".
    """

    field: str
    limit: float

    def exceeded_by(self, request: str) -> bool:
        """Whether a stored request is above it; one that has no number there is not, one that is not readable is.

        A decimal number is stored as a text, and counts as the number that it is; another text counts as above.
        """
        try:
            found: Any = json.loads(request)
        except ValueError:
            return True
        for name in self.field.split("."):
            found = found.get(name) if isinstance(found, dict) else None
        if isinstance(found, str):
            try:
                found = float(found)
            except ValueError:
                return True
            return not found <= self.limit
        return isinstance(found, int | float) and not isinstance(found, bool) and found > self.limit


class Permissions:
    """Who has which role in the app's namespace, and what two persons are asked for.

    The workers of an app that is given one write it into the ledger, where every process of the namespace finds it.

    Args:
        roles: of each person, by the name under which they act: "viewer", "operator", "approver", "admin".
        two_persons: verbs of a run, "override" or "terminate an unknown"; `Permissions.RISKY` are the usual ones.
        compensating_above: a limit above which compensating takes two persons.
        proposal_lasts: how long what the first person proposed can be confirmed.
        names_are_given: believe `--by` on the command line, for machines on which everybody has the same login; if not,
            a person can act only under the login name.

    Raises:
        DeclarationError: there is no such role or verb, the duration is none, or two names differ in nothing but case,
            spaces or the form of a letter.
    """

    RISKY = RISKY

    def __init__(
        self,
        roles: Mapping[str, str | Iterable[str]],
        *,
        two_persons: Iterable[str] = (),
        compensating_above: Above | None = None,
        proposal_lasts: str | timedelta = "24h",
        names_are_given: bool = False,
    ) -> None:
        self.roles = {person: _roles(person, some) for person, some in roles.items()}
        _require_persons_apart(self.roles)
        self.two_persons = frozenset(two_persons)
        self.compensating_above = compensating_above
        self.proposal_lasts = microseconds(proposal_lasts, what="proposal_lasts")
        self.names_are_given = names_are_given
        strange = sorted(self.two_persons - set(CASES))
        if strange:
            raise DeclarationError(f"two persons are asked for {strange[0]!r}", hint=f"one of: {', '.join(CASES)}")

    def of(self, person: str) -> frozenset[Role]:
        """Every role that a person has, those that go with another one included."""
        return implied_by(self.roles.get(person, ()))

    def lacks(self, person: str, verb: str) -> Role | None:
        """The role that the person lacks for a verb; None: they may."""
        needed = VERBS[verb].role
        return None if needed in self.of(person) else needed

    def as_text(self) -> str:
        """One JSON document, the same for the same policy."""
        above = self.compensating_above
        return canonical(
            {
                "roles": {person: sorted(role.value for role in some) for person, some in self.roles.items()},
                "two_persons": sorted(self.two_persons),
                "compensating_above": None if above is None else [above.field, above.limit],
                "proposal_lasts": self.proposal_lasts,
                "names_are_given": self.names_are_given,
            }
        )

    @classmethod
    def from_text(cls, text: str) -> Permissions:
        """The policy that `as_text` wrote."""
        told = json.loads(text)
        above = told["compensating_above"]
        return cls(
            told["roles"],
            two_persons=told["two_persons"],
            compensating_above=None if above is None else Above(*above),
            proposal_lasts=timedelta(microseconds=told["proposal_lasts"]),
            names_are_given=told["names_are_given"],
        )


def case_for_two(
    policy: Permissions,
    verb: str,
    history: History,
    *,
    override: bool,
    below: Iterable[Operation] = (),
    about: Operation | None = None,
) -> str | None:
    """Why a verb on this run takes two persons, as a screen says it; None: one may do it.

    `below` are the operations that compensating the run reaches beside its own: of earlier turns, and of its children.
    `about` is the one operation that the verb is about, if it is about one.
    """
    wanted = policy.two_persons
    if verb in wanted:
        return CASES[verb]
    if verb == "compensate step" and "compensate" in wanted:  # or a run would be compensated alone, step by step
        return CASES["compensate"]
    if override and OVERRIDE in wanted:
        return CASES[OVERRIDE]
    unsettled = any(one.state in UNSETTLED for one in history.operations)
    if verb == "terminate" and unsettled and TERMINATE_UNKNOWN in wanted:
        return CASES[TERMINATE_UNKNOWN]
    if verb in ("compensate", "compensate step") and (above := policy.compensating_above) is not None:
        reached = (*history.operations, *below) if about is None else (about,)
        large = next((one for one in reached if _may_stand(one) and above.exceeded_by(one.request)), None)
        if large is not None:
            return f"compensating {large.position}, whose {above.field} is above {above.limit:g}"
    return None


def _may_stand(operation: Operation) -> bool:
    """Whether it is an effect that stands, or that may be found to: what is unknown is settled first, and then too."""
    stands = operation.state is OperationState.SUCCEEDED or operation.state in UNSETTLED
    return stands and operation.compensates is None


def _require_persons_apart(persons: Iterable[str]) -> None:
    """Refuse two spellings of one name: with both, one person would be the first and the second one."""
    spelled: dict[str, str] = {}
    for person in persons:
        plain = " ".join(unicodedata.normalize("NFKC", person).casefold().split())
        other = spelled.setdefault(plain, person)
        if other != person:
            raise DeclarationError(
                f"{other!r} and {person!r} are one name in two spellings",
                hint="give each person one name, by which they act everywhere",
            )


def _roles(person: str, some: str | Iterable[str]) -> frozenset[Role]:
    wanted = [some] if isinstance(some, str) else list(some)
    strange = [one for one in wanted if one not in set(Role)]
    if strange or not person.strip():
        raise DeclarationError(
            f"{strange[0]!r} is no role" if strange else "a person has no name", hint=f"one of: {', '.join(Role)}"
        )
    return frozenset(map(Role, wanted))
