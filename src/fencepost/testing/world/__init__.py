"""The outside world as a process of its own: tasks, mail and books that fail on request and count everything.

Start it with `World.start(folder)`, or from a shell with `python -m fencepost.testing.world --folder DIR`; make it
misbehave with `configure`; read what really happened from `counts()`, or from the files alone with `WorldFiles`. This
module only names what users import; the pieces are in the modules beside it.
"""

from fencepost.testing.world.behaviour import Configure, Fault, Keys, LookUp
from fencepost.testing.world.counts import CollectionSummary, WorldFiles
from fencepost.testing.world.handle import HttpService, MailService, World

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
