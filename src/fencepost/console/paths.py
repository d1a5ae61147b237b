"""What stands in the addresses of the HTTP API: a run's id may hold slashes, and everything else that ids may.

The ids themselves are checked where they are used.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Path
from pydantic import AfterValidator

from fencepost.console.api_forms import NAME_CHARACTERS_MAX, NUMBER_MAX, said

RunId = Annotated[
    str,
    Path(description="The run's id.", examples=["invoice:tenant-42:inv-1847"], max_length=NAME_CHARACTERS_MAX),
    AfterValidator(said),
]

Named = Annotated[
    str,
    Path(description="Its name.", examples=["nightly"], max_length=NAME_CHARACTERS_MAX),
    AfterValidator(said),
]

JobNumber = Annotated[int, Path(description="The job's number.", examples=[3], ge=1, le=NUMBER_MAX)]

ProposalNumber = Annotated[int, Path(description="The proposal's number.", examples=[7], ge=1, le=NUMBER_MAX)]
