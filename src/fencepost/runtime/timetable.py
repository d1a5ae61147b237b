"""When a cron line falls due in a time zone, over the changes of its clocks.

The line has five fields, in the syntax of cron. Two kinds of lines meet a change of the clocks differently, as in
Debian's cron:

- An hour field that begins with `*` makes an *interval*: the line is matched against every minute that really passes,
  so that `*/15 * * * *` fires every fifteen minutes through both changes.
- Any other line names *times of day*. A time that the clocks leave out fires at the first moment after the gap, one
  that they show twice fires at the first of the two, and several that fall together fire once.

Reading the line is `cronsim`'s part. What is done at an instant is decided in `core.schedule`.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from fencepost.core.duration import SECOND
from fencepost.core.errors import DeclarationError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIELDS = 5
_MICROSECOND = timedelta(microseconds=1)


class Timetable:
    """The instants of one cron line in one zone.

    Raises:
        DeclarationError: the line cannot be read or never falls due, or the system does not know the zone.
    """

    def __init__(self, cron: str, zone: str) -> None:
        self.cron = " ".join(cron.split())
        self.zone = _zone(zone)
        self._line = _times_of_day(_checked(self.cron))
        self.after(0)

    def after(self, instant: int) -> int:
        """The first instant later than this one; microseconds since the Unix epoch."""
        # What the clocks show twice lies behind us the second time, so the line's own next is not always later.
        for moment in CronSim(self._line, self._local(instant)):
            found = (moment.astimezone(UTC) - _EPOCH) // _MICROSECOND
            if found > instant:
                return found
        raise DeclarationError(
            f"the cron line {self.cron!r} never falls due", hint="no month has a day that it asks for"
        )

    def text(self, instant: int) -> str:
        """An instant as the zone's clocks show it, with the offset: `2026-11-30T03:00:00+01:00`."""
        return self._local(instant).isoformat(timespec="seconds")

    def _local(self, instant: int) -> datetime:
        return (_EPOCH + timedelta(seconds=instant // SECOND)).astimezone(self.zone)


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise DeclarationError(
            f"this system knows no time zone {name!r}",
            hint='write a name such as "Europe/Berlin"; where the system has no zones, install the package tzdata',
        ) from error


def _checked(cron: str) -> list[str]:
    fields = cron.split()
    if len(fields) != _FIELDS:
        raise DeclarationError(
            f"the cron line {cron!r} has {len(fields)} fields, not five",
            hint='minute, hour, day of month, month, day of week: "0 3 * * *" is each day at three',
        )
    try:
        CronSim(cron, _EPOCH)
    except CronSimError as error:
        raise DeclarationError(
            f"the cron line {cron!r} cannot be read: {error}",
            hint='minute, hour, day of month, month, day of week: "0 3 * * *" is each day at three',
        ) from error
    return fields


def _times_of_day(fields: list[str]) -> str:
    """The line, with every minute written as a range where the hours are named: cronsim goes by either field's star."""
    minute, hour, *days = fields
    if minute.startswith("*") and not hour.startswith("*"):
        minute = f"0-59{minute[1:]}"
    return " ".join([minute, hour, *days])
