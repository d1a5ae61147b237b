"""What the outside can promise: one file for each kind of target that compares tokens.

Each class is a `Fence` and has besides what a step's body needs to send its token with a write. All of them block, so
that a body that uses one is a plain `def`; clients and connections are the caller's own, with addresses, credentials
and time-outs. Nothing here knows of runs or of the ledger; which token is sent when is decided in `effects.perform`.
"""

from fencepost.core.fence import Fence
from fencepost.targets.consul import ConsulFence
from fencepost.targets.document import Seen
from fencepost.targets.dynamodb import DynamoFence
from fencepost.targets.etcd import EtcdFence
from fencepost.targets.http import HttpFence
from fencepost.targets.objects import ObjectFence
from fencepost.targets.seen import LargestSeen
from fencepost.targets.sql import SqlFence

__all__ = [
    "ConsulFence",
    "DynamoFence",
    "EtcdFence",
    "Fence",
    "HttpFence",
    "LargestSeen",
    "ObjectFence",
    "Seen",
    "SqlFence",
]
