"""The store's verbs about what is contained: added so that no dispatch misses it, taken away so that no run is left.

A dispatch looks at the table in its own write. On a server, whoever adds to it waits for the dispatches under way first
(`lock_containment`); a file has one writer at a time. A release wakes the runs that wait in a transaction of its own,
after the one that takes the row away: a run that is given up in between sees that nothing stops it any more, and one
that was forgotten because a process ended just then is found by any worker. Who contains what is `runtime.containing`.
"""

from __future__ import annotations

from dataclasses import asdict

from fencepost.core.containment import Containment
from fencepost.core.records import Audit
from fencepost.store import rows
from fencepost.store.statements import Statements
from fencepost.store.verbs import Verbs, whole


class ContainmentVerbs(Verbs):
    """What both stores do alike with containments."""

    @whole
    def contained(self, namespace: str) -> list[Containment]:
        """See `Store.contained`."""
        return [rows.containment(row) for row in self._read("all_contained", namespace=namespace)]

    @whole
    def contain(self, wanted: Containment, audit: Audit) -> tuple[Containment, bool]:
        """See `Store.contain`."""
        values = asdict(wanted)
        with self._writing() as work:
            work.lock("lock_containment")
            changed = work.change("contain", **{name: values[name] for name in self.queries["contain"].parameters}) == 1
            if changed:
                self._append(work, audit)
                work.announce()
            found = _found(work, wanted.mark)
            assert found is not None, "it was contained already, or is now"
            return found, changed

    def release(self, mark: str, audit: Audit) -> Containment | None:
        """See `Store.release`. Two transactions, so not `whole`: each of them is."""
        found = self._release(mark, audit)
        if found is not None:
            self._wake_behind(mark)
        return found

    @whole
    def _release(self, mark: str, audit: Audit) -> Containment | None:
        with self._writing() as work:
            found = _found(work, mark)
            if work.change("release", mark=mark) == 0 or found is None:
                work.was_in_vain()
                return None
            self._append(work, audit)
            work.announce()
            return found

    @whole
    def _wake_behind(self, mark: str) -> None:
        with self._writing() as work:
            work.change("wake_behind", mark=mark, now=self.now())
            work.announce()

    @whole
    def let_through(self, breaker: Containment, until: int, now: int) -> int | None:
        """See `Store.let_through`. The run is locked first, as by everybody who locks both."""
        with self._writing() as work:
            found = work.execute("next_behind", mark=breaker.mark)
            run = found[0][0] if found else None
            if run is None or not work.change("let_through", mark=breaker.mark, run=run, until=until, now=now):
                work.was_in_vain()
                return None
            work.change("wake_one_behind", run=run, now=now)
            work.announce()
            return int(run)

    def probed(self, mark: str, run: int, *, cool_down: int | None, now: int, audit: Audit) -> bool:
        """See `Store.probed`. A close is two transactions, as a release is."""
        if cool_down is not None:
            return self._shut_again(mark, run, cool_down, now)
        is_closed = self._close_breaker(mark, run, audit)
        if is_closed:
            self._wake_behind(mark)
        return is_closed

    @whole
    def _shut_again(self, mark: str, run: int, cool_down: int, now: int) -> bool:
        with self._writing() as work:
            return work.change("shut_again", mark=mark, run=run, cool_down=cool_down, probe_at=now + cool_down) == 1

    @whole
    def _close_breaker(self, mark: str, run: int, audit: Audit) -> bool:
        with self._writing() as work:
            if not work.change("close_breaker", mark=mark, run=run):
                work.was_in_vain()
                return False
            self._append(work, audit)
            work.announce()
            return True

    @whole
    def wake_forgotten(self, namespace: str) -> bool:
        """See `Store.wake_forgotten`."""
        if not self._read("waits_for_nothing", namespace=namespace):
            return False
        with self._writing() as work:
            work.change("wake_forgotten", namespace=namespace, now=self.now())
            work.announce()
        return True


def _found(reading: Statements, mark: str) -> Containment | None:
    found = reading.execute("find_contained", mark=mark)
    return rows.containment(found[0]) if found else None
