"""The runs, searched: by id, workflow, state, step, key, reference, error and time, and those retrying now.

What is searched for stands in the address, so that it can be kept and sent. Pages follow each other by key, and each
looks at a bounded number of runs: a page may be short, and still say where the search goes on. One run is `page_run`.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from fencepost.console.api_forms import NAME_CHARACTERS_MAX, NUMBER_MAX, readable
from fencepost.console.documents import run_row
from fencepost.console.page_frame import Page, address, shown
from fencepost.console.page_many import WHOLE, field_of
from fencepost.console.page_times import micros
from fencepost.console.page_visits import Visiting
from fencepost.core.records import Run
from fencepost.core.states import RunState
from fencepost.store.governing import RunSearch

if TYPE_CHECKING:
    from markupsafe import Markup

    from fencepost.console.page_visits import Visitor

router = APIRouter(route_class=Page, include_in_schema=False)

LOOKED_AT_MAX = 5_000
"""Among so many runs one page is searched."""


def given(text: Any) -> Any:
    """A field that was left empty is not asked for."""
    return text.strip() or None if isinstance(text, str) else text


def _instant(text: str) -> str:
    """A time as a browser's field has it, in UTC. Raises ValueError where it is none."""
    datetime.fromisoformat(text)
    return text


_Words = Annotated[str, Field(max_length=NAME_CHARACTERS_MAX), AfterValidator(readable)]
Text = Annotated[_Words | None, BeforeValidator(given)]
Time = Annotated[Annotated[str, AfterValidator(_instant)] | None, BeforeValidator(given)]


class Wanted(BaseModel):
    """What is searched for; a name that is not here is refused."""

    model_config = ConfigDict(extra="forbid")

    prefix: Text = None
    workflow: Text = None
    state: Annotated[RunState | None, BeforeValidator(given)] = None
    held_for: Text = None
    step: Text = None
    key: Text = None
    reference: Text = None
    error: Text = None
    since: Time = None
    until: Time = None
    retrying: bool = False
    after: Annotated[int, Field(ge=0, le=NUMBER_MAX)] | None = None

    @property
    def said(self) -> dict[str, str]:
        """What is asked for, as it stands in the address; without the page."""
        told = self.model_dump(exclude_none=True, exclude_defaults=True, exclude={"after"}, mode="json")
        return {name: "true" if value is True else str(value) for name, value in told.items()}

    def search(self, namespace: str) -> RunSearch:
        """The search in the ledger's terms."""
        asked = self.model_dump(exclude={"since", "until", "state"})
        state = None if self.state is None else self.state.value
        return RunSearch(namespace, state=state, since=_micros_of(self.since), until=_micros_of(self.until), **asked)


def _micros_of(text: str | None) -> int | None:
    if text is None:
        return None
    moment = datetime.fromisoformat(text)
    return micros((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat())


@router.get("/runs")
async def show_runs(request: Request, visitor: Visiting, wanted: Annotated[Wanted, Query()]) -> Response:
    """The page."""
    found = await asyncio.to_thread(_read, visitor, wanted)
    return shown(
        request, "runs.html", wanted=wanted, states=[one.value for one in RunState], most=LOOKED_AT_MAX, **found
    )


def _read(visitor: Visitor, wanted: Wanted) -> dict[str, Any]:
    store = visitor.caller.store
    found = store.search_runs(wanted.search(visitor.caller.namespace), LOOKED_AT_MAX)
    return {
        "runs": [_row(run) for run in found.runs],
        "following": None if found.following is None else _page_after(wanted, found.following),
        "first": None if wanted.after is None else address("runs", **wanted.said),
        "verbs": [verb for verb in WHOLE if visitor.may(verb)],
        "now": store.now(),
    }


def _row(run: Run) -> dict[str, Any]:
    hold = run_row(run)["hold"]
    return {
        "id": run.id,
        "field": field_of(run.id, run.version),
        "workflow": f"{run.workflow} {run.workflow_version}",
        "state": run.state.value,
        "created_at": run.created_at,
        "changed_at": run.changed_at,
        "why": hold.get("reason", "") if isinstance(hold, dict) else hold or "",
    }


def _page_after(wanted: Wanted, number: int) -> Markup:
    return address("runs", **wanted.said, after=number)
