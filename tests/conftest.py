"""What holds for every test: how hypothesis runs. Fixtures live in the room that they serve, servers in `services`."""

import os

from hypothesis import HealthCheck, settings

from tests.services.fixtures import dialect, own_server, pooler, postgres, postgres_server, url

__all__ = ["dialect", "own_server", "pooler", "postgres", "postgres_server", "url"]

# No deadline: how long one example takes on a shared machine says nothing about the rule under test.
# print_blob: a failure names what reproduces it.
settings.register_profile("house", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
# The same examples on every run of a gate, so that a change is judged by what it changed.
settings.register_profile("gate", parent=settings.get_profile("house"), derandomize=True, database=None)
settings.load_profile("gate" if os.environ.get("CI") else "house")
