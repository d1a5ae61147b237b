"""Everything that both databases do alike: each room's verbs, in one class that a store makes its own.

What is left to a store is how a transaction begins and ends on its database, and how a batch is committed.
"""

from __future__ import annotations

from fencepost.store.accounts import AccountVerbs
from fencepost.store.api_tokens import ApiTokenVerbs
from fencepost.store.bulks import BulkVerbs
from fencepost.store.containments import ContainmentVerbs
from fencepost.store.custody import CustodyVerbs
from fencepost.store.ends import EndVerbs
from fencepost.store.jobs import JobVerbs
from fencepost.store.measuring import MeasuringVerbs
from fencepost.store.overview import OverviewVerbs
from fencepost.store.people import PeopleVerbs
from fencepost.store.purging import PurgeVerbs
from fencepost.store.queues import QueueVerbs
from fencepost.store.schedules import ScheduleVerbs
from fencepost.store.signals import SignalVerbs


class LedgerVerbs(
    SignalVerbs,
    ScheduleVerbs,
    QueueVerbs,
    ContainmentVerbs,
    JobVerbs,
    EndVerbs,
    PeopleVerbs,
    BulkVerbs,
    MeasuringVerbs,
    CustodyVerbs,
    PurgeVerbs,
    ApiTokenVerbs,
    AccountVerbs,
    OverviewVerbs,
):
    """The verbs that are written once, over named statements."""
