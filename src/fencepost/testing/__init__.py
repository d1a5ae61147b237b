"""What users need for their own tests: an outside world that fails on request and counts everything, and replays.

This module only names; the pieces are in the room `world` and in `replaying`.
"""

from fencepost.testing.replaying import always_replay, dump_history, load_history, replay
from fencepost.testing.world import (
    CollectionSummary,
    Configure,
    Fault,
    HttpService,
    Keys,
    LookUp,
    MailService,
    World,
    WorldFiles,
)

__all__ = [
    "CollectionSummary",
    "Configure",
    "Fault",
    "HttpService",
    "Keys",
    "LookUp",
    "MailService",
    "World",
    "WorldFiles",
    "always_replay",
    "dump_history",
    "load_history",
    "replay",
]
