"""What the HTTP API answers, as the schema has it: the documents of `documents` and `story`, with a type for each key.

Instants are ISO 8601 in UTC. A document that does not fit its form here is an error of ours, which tests find.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from fencepost.core.states import RunState, SignalState

Instant = str
Value = Any
"""What a workflow or the outside handed in: any JSON."""


class Shown(BaseModel):
    """An answer: an object with these names, and no others."""

    model_config = ConfigDict(extra="forbid")


class RunRow(Shown):
    """A run as lists show it."""

    id: str = Field(examples=["invoice:tenant-42:inv-1847"])
    workflow: str = Field(examples=["approve_invoice"])
    workflow_version: int = Field(examples=[1])
    state: RunState
    label: str = Field(description="The state for people.")
    generation: int = Field(description="Raised each time that it changes hands.")
    version: int = Field(description="Of the row: raised by each change.")
    created_at: Instant
    changed_at: Instant
    ended_at: Instant | None
    wake_at: Instant | None
    hold: dict[str, Value] | None = Field(description="Why it is held: `reason`, `step`, `detail` and more.")
    turn: int = Field(description="How often it has continued.")
    parent: bool = Field(description="Whether another run has started it.")


class ListedRun(RunRow):
    """A run on a page of a list."""

    carried: bool | None = Field(
        description="False where no live worker knows its version; null where that is no question."
    )


class Runs(Shown):
    """A page of runs, newest first."""

    runs: list[ListedRun]
    next: int | None = Field(description="`after` of the next page; null at the end.")


class Done(Shown):
    """A run after a verb."""

    verb: str = Field(examples=["cancel"])
    run: RunRow


class Begun(Shown):
    """A run that was started, or was there already with the same input."""

    run: RunRow


class Sent(Shown):
    """A signal, as it is kept."""

    run: str
    signal: str = Field(description="Its id.")
    name: str
    state: SignalState


class Story(Shown):
    """Everything that is known of a run: the document of `fencepost show --json`."""

    run: dict[str, Value]
    waits_for: list[str] = Field(description="What has to happen before it goes on, in words.")
    verbs: list[str] = Field(description="The verbs that apply.")
    children: list[dict[str, Value]]
    cancellation: dict[str, Value] | None
    steps: list[dict[str, Value]]
    compensation: dict[str, Value] | None
    signals: list[dict[str, Value]]
    audit: list[dict[str, Value]]


Verified = Literal["done", "refused"]
