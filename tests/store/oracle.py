"""An independent model of the ledger: dictionaries and plain rules, written from the protocol and not from the store.

It judges every group, verb and decision by itself and says what must be visible afterwards. It shares no code with
the store: moves come in as data, states are compared by their values, and neither SQL nor the transition tables are
asked. What each kind of move does is in `oracle_rules`; histories are drawn and compared in `oracle_histories`.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from typing import Any

from tests.store.oracle_rules import FINAL_RUN, RULES, Facts, Refused, awaited, changed, kept, require

_OF_A_CHILD = ("id", "workflow", "workflow_version", "input", "fingerprint", "parent_step")
_OF_AN_ATTEMPT = ("began", "wakes", "ids", "turns")


class Oracle:
    """One ledger as it must be. `books` holds a run's facts by its number."""

    def __init__(self) -> None:
        self.leases: dict[str, Facts] = {}
        self.books: dict[int, Facts] = {}
        self.keys: dict[str, tuple[int, str, str]] = {}
        self.audits: list[tuple[str, str]] = []

    # -- groups ---------------------------------------------------------------------------------------------------

    def commit(self, groups: Sequence[Any]) -> list[str]:
        """What each group must be answered: moved, stale, illegal, duplicate or evidence."""
        return [self._commit(group) for group in groups]

    def _commit(self, group: Any) -> str:
        answer = self.attempt(group.run, group.moves)
        if answer == "moved":
            self._see(group.observations)
            return answer
        self._see([*group.observations, *group.if_refused, *reports(group)])
        # Whoever does not own the run hears that first, whatever else is wrong.
        return answer if self.books[group.run]["generation"] == group.generation else "stale"

    def attempt(self, no: int, moves: Iterable[Any]) -> str:
        """Make moves of one run, all or none."""
        book, keys = deepcopy(self.books[no]), dict(self.keys)
        book.update(
            began=[], wakes=False, ids={other["id"] for other in self.books.values()},
            turns={(other["id"], other["turn"]) for other in self.books.values()},
        )  # fmt: skip
        try:
            for move in moves:
                require(book["generation"] == move.generation)
                RULES[type(move).__name__](book, move, keys)
        except Refused as refusal:
            return refusal.why
        self.books[no], self.keys = book, keys
        for move in book["began"]:
            self._begin(book, move)
        if book["wakes"]:
            self._wake(self.books[book["parent"]], book["ended_at"])
        return "moved"

    def _begin(self, book: Facts, move: Any) -> None:
        """A run that another one has asked for, or its next turn: a row of its own, with nothing of the old one."""
        copied = ("namespace", "principal")
        if type(move).__name__ == "StartChild":
            given = {name: getattr(move, name) for name in _OF_A_CHILD} | {"parent": book["no"], "resource": None}
            self._open({**{name: book[name] for name in copied}, **given}, None, move.at)
            return
        copied = (*copied, "id", "workflow", "workflow_version", "fingerprint", "parent", "parent_step")
        no = self._open(
            {**{name: book[name] for name in copied}, "input": move.input, "resource": None}, move.lease, move.at
        )
        self.books[no].update(
            turn=book["turn"] + 1, generation=book["generation"] + 1, version=book["version"] + 1,
            signals={name: signal for name, signal in book["signals"].items() if signal["state"] == "kept"},
        )  # fmt: skip
        for name in self.books[no]["signals"]:
            del book["signals"][name]

    @staticmethod
    def _wake(parent: Facts, at: int) -> None:
        """A child has ended: its parent looks at once, or as soon as its owner gives it up."""
        if parent["ended_at"] is not None:
            return
        owned = parent["lease"] is not None
        parent.update(woken=owned, version=parent["version"] + 1)
        if not owned and parent["state"] in ("waiting", "cancelling", "compensating"):
            parent["wake_at"] = min(kept(parent["wake_at"], at), at)

    def _see(self, observations: Iterable[Any]) -> None:
        for seen in observations:
            facts = seen if isinstance(seen, dict) else seen._asdict()
            self.books[facts["run"]]["seen"].append(facts)

    # -- leases ---------------------------------------------------------------------------------------------------

    def take_lease(self, lease: Any) -> None:
        self.leases[lease.id] = {name: getattr(lease, name) for name in lease.__slots__}

    def renew_lease(self, name: str, now: int, expires_at: int) -> bool:
        lease = self.leases[name]
        if lease["state"] != "live":
            return False
        lease.update(renewed_at=max(lease["renewed_at"], now), expires_at=expires_at)
        return True

    def end_lease(self, name: str, now: int) -> bool:
        lease = self.leases[name]
        if lease["state"] != "live":
            return False
        lease.update(state="ended", closed_at=now)
        return True

    def visible_leases(self) -> list[Facts]:
        owners = {book["lease"] for book in self.books.values()}
        found = [lease for lease in self.leases.values() if lease["state"] == "live" or lease["id"] in owners]
        return sorted(found, key=lambda lease: (-lease["taken_at"], lease["id"]))

    # -- runs -----------------------------------------------------------------------------------------------------

    def start_run(self, new: Any) -> tuple[int, bool]:
        """The run's number, and whether it is new."""
        for no, book in self.books.items():
            if (book["namespace"], book["id"]) == (new.namespace, new.id) and book["state"] != "continued":
                return no, False
        given = {name: getattr(new, name) for name in (*_OF_A_CHILD, "namespace", "principal", "parent", "resource")}
        return self._open(given, new.lease, new.at, wake_at=new.wake_at), True

    def _open(self, given: Facts, lease: str | None, at: int, *, wake_at: int | None = None) -> int:
        no, owned = -len(self.books) - 1, lease is not None
        self.books[no] = {
            **given, "no": no, "lease": lease, "state": "running" if owned else "ready", "generation": int(owned),
            "version": 0, "wake_at": None if owned else kept(wake_at, at), "result": None, "error": None, "hold": None,
            "cancel": None, "delivered": 0, "created_at": at, "changed_at": at, "ended_at": None,
            "takeovers": 0, "operations": {}, "attempts": {}, "steps": {}, "signals": {}, "seen": [], "answers": 0,
            "turn": 0, "woken": False, "begun": False, "behind": None, "queue": None, "queue_key": None, "priority": 0,
        }  # fmt: skip
        return no

    def number(self, number_of: Callable[[str, int], int]) -> None:
        """Give runs that have begun since the last call the database's own numbers; a refused one may leave a gap."""
        for no in [no for no in self.books if no < 0]:
            book = self.books.pop(no)
            book["no"] = number_of(book["id"], book["turn"])
            self.books[book["no"]] = book

    def next_wake(self, margin: int) -> int | None:
        times = [book["wake_at"] for book in self.books.values() if book["lease"] is None and self.may_begin(book)]
        for name in {book["lease"] for book in self.books.values()} - {None}:
            lease = self.leases[name]
            times.append(kept(lease["closed_at"], lease["expires_at"] + margin))
        return min((time for time in times if time is not None), default=None)

    def may_begin(self, book: Facts) -> bool:
        """One that keeps a place in line begins when every earlier one has left it and no later one is at work.

        While an effect of another one is unknown, only what is unknown itself goes on, or is being stopped.
        """
        if book["resource"] is None or book["state"] not in ("ready", "compensating") or is_unsettled(book):
            return True
        others = [one for one in self.books.values() if one["resource"] == book["resource"] and one is not book]
        if any(is_unsettled(one) for one in others if keeps_line(one)):
            return False
        open_ones = [one for one in others if one["ended_at"] is None]
        is_first = all(one["no"] > book["no"] for one in open_ones)
        return book["state"] != "ready" or (is_first and not any(at_work(one) for one in open_ones))

    def claim(self, name: str, now: int, margin: int, limit: int, claimed: list[int] | None) -> None:
        """Take over what was claimed (None: the claimer heard that its own lease is over); complains if it may not."""
        due = self.next_wake(margin)
        if due is None or due > now or limit < 1:
            assert claimed == [], "nothing was due"
            return
        for lease in self.leases.values():
            if lease["state"] == "live" and lease["expires_at"] + margin <= now:
                lease.update(state="expired", closed_at=now)
        assert (claimed is None) == (self.leases[name]["state"] != "live"), "only a live lease may claim"
        if claimed is None:
            return
        orphans = {
            no for no, book in self.books.items() if book["lease"] and self.leases[book["lease"]]["state"] != "live"
        }
        ripe = {
            no for no, book in self.books.items()
            if book["lease"] is None and book["wake_at"] is not None and book["wake_at"] <= now
            and self.may_begin(book)
        }  # fmt: skip
        assert len(claimed) == len(set(claimed)) == min(limit, len(orphans | ripe)), "every due run, once, up to limit"
        assert set(claimed) <= orphans | ripe, "only what was due"
        for no in claimed:
            self._count_takeover(self.books[no])
            self._take_over(self.books[no], name, now)

    def _count_takeover(self, book: Facts) -> None:
        """A takeover from a lost worker counts; one before which something was answered begins anew."""
        if book["lease"] is None:
            return
        answered = sum(step["state"] != "open" for step in book["steps"].values())
        answered += sum(attempt["outcome"] != "unresolved" for attempt in book["attempts"].values())
        answered += sum(seen["kind"] == "look-up" for seen in book["seen"])
        in_a_row = book["takeovers"] if book["answers"] == answered else 0
        is_lost = self.leases[book["lease"]]["state"] == "expired"
        book.update(takeovers=in_a_row + is_lost, answers=answered)

    @staticmethod
    def _take_over(book: Facts, lease: str, now: int) -> None:
        book["begun"] = True
        if book["state"] in ("ready", "waiting"):
            book["state"] = "running"
        book.update(generation=book["generation"] + 1, version=book["version"] + 1)
        book.update(lease=lease, wake_at=None, changed_at=now, woken=False)
        for operation in book["operations"].values():
            if operation["state"] == "dispatched":
                changed(operation, now, book["generation"], state="unknown")

    # -- signals and decisions ------------------------------------------------------------------------------------

    def signal(self, no: int, signal: Any, now: int) -> Facts:
        """The signal as it is stored now: with the run's last turn, unless an earlier one has taken it."""
        turns = [book for book in self.books.values() if book["id"] == self.books[no]["id"]]
        for earlier in turns:
            if signal.id in earlier["signals"]:
                return earlier["signals"][signal.id]
        book = turns[-1]
        if signal.id not in book["signals"]:
            facts = {name: getattr(signal, name) for name in signal.__slots__}
            reason = unwelcome(book, signal.name)
            if reason:
                facts.update(state="refused", reason=reason, closed_at=now)
            book["signals"][signal.id] = facts
        stored = book["signals"][signal.id]
        # Also one that comes once more and is still kept: whoever waits looks.
        waits = book["state"] in ("waiting", "cancelling", "compensating") and book["lease"] is None
        if waits and stored["state"] == "kept" and (book["wake_at"] is None or book["wake_at"] > now):
            book.update(wake_at=now, version=book["version"] + 1, changed_at=now)
        return stored

    def signalled(self, lease: str) -> list[int]:
        found = []
        for no, book in self.books.items():
            unrecorded = book["cancel"] is not None and all(s["kind"] != "cancel" for s in book["steps"].values())
            if book["lease"] == lease and (unrecorded or book["woken"] or awaited(book)):
                found.append(no)
        return found

    def decide(self, no: int, moves: Sequence[Any], observations: Sequence[Any], verb: str) -> str:
        """What a decision's moves must come to; nothing of it stays when they are refused."""
        answer = self.attempt(no, moves)
        if answer == "moved":
            self._see(observations)
            self.audits.append((verb, self.books[no]["id"]))
        return answer

    # -- what is visible ------------------------------------------------------------------------------------------

    def visible(self, no: int) -> Facts:
        """A run's history in the shape of the store's own, as plain data."""
        book = self.books[no]
        return {
            "run": self.visible_run(no),
            "steps": list(book["steps"].values()),
            "operations": [self._operation(book, place) for place in book["operations"]],
            "signals": list(book["signals"].values()),
            "children": self._children(no),
            "observations": [
                {name: value for name, value in facts.items() if name not in ("run", "step", "item")}
                for facts in book["seen"]
                if not facts["step"]
            ],
            "rival": None,  # of a run in no queue
        }

    def _children(self, no: int) -> list[Facts]:
        found = [other for other, book in self.books.items() if book["parent"] == no and book["state"] != "continued"]
        return [self.visible_run(other) for other in found]

    def visible_run(self, no: int) -> Facts:
        hidden = {"operations", "attempts", "steps", "signals", "seen", "answers", "woken", "begun", *_OF_AN_ATTEMPT}
        return {name: value for name, value in self.books[no].items() if name not in hidden}

    @staticmethod
    def _operation(book: Facts, place: tuple[str, str]) -> Facts:
        facts = {name: value for name, value in book["operations"][place].items() if name != "count"}
        numbers = sorted(number for (*owner, number) in book["attempts"] if tuple(owner) == place)
        seen = [dict(facts) for facts in book["seen"] if (facts["step"], facts["item"]) == place]
        for observation in seen:
            del observation["run"], observation["step"], observation["item"]
        return {
            **facts,
            "item": facts["item"] or None,
            "after": (),
            "attempts": [book["attempts"][(*place, number)] for number in numbers],
            "observations": seen,
        }


def unwelcome(book: Facts, name: str) -> str | None:
    """Why a signal comes too late: its run has ended, or the one wait of its name is over."""
    if book["state"] in FINAL_RUN:
        return "the run has ended"
    waits = [s for s in book["steps"].values() if s["kind"] == "wait" and s["name"] == name]
    over = [wait for wait in waits if not json.loads(wait["detail"] or "{}").get("many")]
    return "not waiting" if over and all(wait["state"] != "open" for wait in waits) else None


def reports(group: Any) -> list[Facts]:
    """The evidence in moves that were refused: whoever has lost its authority has still seen what it has seen."""
    return [
        {
            "run": move.run, "step": move.step, "item": move.item, "attempt": move.number, "kind": "reply",
            "says": move.to if move.to in ("applied", "not applied") else None, "evidence": move.evidence,
            "lease": None, "generation": group.generation, "current": 0, "began_at": None, "seen_at": move.at,
        }
        for move in group.moves
        if type(move).__name__ in ("SettleAttempt", "SettleFirst", "Succeed")
    ]  # fmt: skip


def keeps_line(book: Facts) -> bool:
    """Whether a run still stands in its line: it has not ended, or was ended by hand with an operation unknown."""
    return book["ended_at"] is None or (book["state"] == "terminated" and is_unsettled(book))


def is_unsettled(book: Facts) -> bool:
    """Whether an effect of the run is unknown."""
    return any(operation["state"] == "unknown" for operation in book["operations"].values())


def at_work(book: Facts) -> bool:
    """Whether a run that has not ended was claimed once, and does not stand ready to be claimed again."""
    return bool(book["begun"]) and book["state"] != "ready"
