"""What users need for their own tests: an outside world that fails on request and counts everything.

This module only names; the pieces are in the room `world`.
"""

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
]
