"""Which addresses only this machine can reach, so that what is sent there passes no network.

Where the console may listen is `server`'s, whom it believes `providers`'.
"""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it; a name is not looked up, and counts if it is `localhost`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
