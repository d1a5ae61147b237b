"""The zombie matrix as tests: one fault beside its control in every run of the tests, all of them with services.

Whoever wants to look at it reads what `make zombies` prints. What is played is in `faults`.
"""

from urllib.request import urlopen

import pytest

from fencepost.testing.world import World
from tests.polling import until
from tests.services import wanted
from tests.zombies.__main__ import on_postgres, on_sqlite
from tests.zombies.faults import FAULTS
from tests.zombies.wires import Wires


@pytest.mark.timeout(300)
def test_an_owner_that_comes_back_at_any_point_of_a_dispatch_changes_nothing(tmp_path):
    matrix = on_sqlite(tmp_path, [fault for fault in FAULTS if fault.name == "stopped"], ["stopped"])
    assert matrix.failures() == [], "\n".join(matrix.lines())
    assert all(matrix.harm().values())


if wanted.are_wanted():  # so that a run without services skips nothing

    @pytest.mark.timeout(900)
    def test_the_whole_matrix_holds_on_files(tmp_path):
        matrix = on_sqlite(tmp_path, FAULTS)
        assert matrix.failures() == [], "\n".join(matrix.lines())

    @pytest.mark.timeout(900)
    def test_the_whole_matrix_holds_on_postgres(tmp_path, postgres_server):
        matrix = on_postgres(postgres_server, tmp_path, FAULTS)
        assert matrix.failures() == [], "\n".join(matrix.lines())


def test_a_wire_that_was_cut_delivers_what_was_sent_when_it_is_healed(tmp_path):
    with World.start(tmp_path) as world, Wires() as wires:
        url = wires.to(world.books.url)
        assert urlopen(f"{url}/entries", timeout=10).status == 200  # noqa: S310 - an address on this machine
        wires.cut()
        with pytest.raises(TimeoutError):
            urlopen(f"{url}/entries", timeout=0.2)  # noqa: S310 - the same
        seen = world.counts()["entries"].lookups
        wires.heal()
        until(lambda: world.counts()["entries"].lookups > seen, "the request whose sender has gone")


def test_a_severed_wire_takes_nothing(tmp_path):
    with World.start(tmp_path) as world, Wires() as wires:
        url = wires.to(world.books.url)
        wires.sever()
        with pytest.raises(OSError, match=r"reset|refused|closed"):
            urlopen(f"{url}/entries", timeout=10)  # noqa: S310 - the same
        wires.heal()
        assert urlopen(f"{url}/entries", timeout=10).status == 200  # noqa: S310 - the same
