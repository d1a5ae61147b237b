"""`Schedule`: a workflow that is started at the instants of a cron line, as an app declares it.

It only checks and holds what was declared. The workers of the app write it into the ledger when they begin and fire it
when it is due (`firing`); what becomes of missed and overlapping instants is decided in `core.schedule`.
"""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Any, Literal

from fencepost.core.duration import microseconds, spelled
from fencepost.core.errors import DeclarationError, ValueRefused
from fencepost.core.identity import check_name, check_run_id
from fencepost.core.schedule import CATCH_UP_WITHIN_MAX, CatchUp, Definition, Overlap, run_id
from fencepost.effects.values import MIB
from fencepost.runtime.timetable import Timetable
from fencepost.runtime.workflow import Workflow
from fencepost.store.apart import is_large


class Schedule:
    """A workflow that is started at the instants of a cron line.

    Args:
        name: by which the ledger and people know it; the run's id is `schedule:NAME:INSTANT`.
        workflow: what is started; one of the app's.
        *args: its arguments, the same for each run, and
        **kwargs: by name. Which instant a run stands for is `run.scheduled_for`.
        cron: five fields, such as `"0 3 * * *"`.
        zone: in whose time they are meant. A time that the clocks leave out fires right after the gap, one that they
            show twice fires at the first; with `*` in the hours the line keeps real time.
        overlap: while the run before is not over (a held one is not), `"skip"` leaves an instant out, `"queue"` starts
            it when that run has ended, `"allow"` starts it at once.
        catch_up: of the instants that passed while no worker was there, `"all"`, the `"last"` or `"none"` are started.
        catch_up_within: those that are older never are; 31 days at most.
        on_behalf_of: the principal for whom the runs act.

    Raises:
        DeclarationError: the line, the zone or a policy cannot be used.
        ValueRefused: the input is not the workflow's, or cannot be stored and read back.
    """

    def __init__(
        self,
        name: str,
        workflow: Workflow[..., Any],
        *args: Any,
        cron: str,
        zone: str = "UTC",
        overlap: Literal["skip", "queue", "allow"] = "skip",
        catch_up: Literal["all", "last", "none"] = "last",
        catch_up_within: str | timedelta = "1d",
        on_behalf_of: str | None = None,
        **kwargs: Any,
    ) -> None:
        self.name = check_name(name, what="schedule name")
        if not isinstance(workflow, Workflow):
            raise DeclarationError(
                f"schedule {name!r} starts {workflow!r}, which is no workflow",
                hint="pass the function that @workflow() decorates",
            )
        within = microseconds(catch_up_within, what="catch_up_within")
        if within > CATCH_UP_WITHIN_MAX:
            raise DeclarationError(
                f"schedule {name!r} catches up within {spelled(within)}",
                hint=f"{spelled(CATCH_UP_WITHIN_MAX)} at most; start what is older by hand",
            )
        self.workflow = workflow
        self.timetable = Timetable(cron, zone)
        check_run_id(run_id(name, self.timetable.text(0)))
        text, fingerprint = workflow.encode(args, kwargs)
        if is_large(text, MIB):
            raise ValueRefused(
                f"the input of schedule {name!r} is larger than {MIB} bytes",
                hint="pass a reference to the data: it is stored once more with each run that is started",
                ids={"path": "input", "limit": str(MIB)},
            )
        self.definition = Definition(
            workflow.name,
            workflow.version,
            on_behalf_of,
            text,
            fingerprint,
            self.timetable.cron,
            zone,
            _one_of(Overlap, overlap, f"overlap of schedule {name!r}"),
            _one_of(CatchUp, catch_up, f"catch_up of schedule {name!r}"),
            within,
        )

    def __repr__(self) -> str:
        return f"<schedule {self.name}: {self.definition.workflow} at {' '.join(self.definition.times)}>"


def _one_of(kind: type[StrEnum], value: str, what: str) -> str:
    if value not in set(kind):
        raise DeclarationError(f"{what} is {value!r}", hint=f"one of: {', '.join(kind)}")
    return str(kind(value).value)
