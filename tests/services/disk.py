"""A disk that is full when a test says so, under a PostgreSQL of the test's own: its files do not grow then.

Neither a small file system nor a quota can be had without rights, so that the server preloads `full.c`, built here with
the machine's C compiler. What a server makes of it, and what its ledger does, is the tests' matter.
"""

import shutil
import subprocess
from pathlib import Path

from tests.polling import until
from tests.services.postgres import Cluster, NotHere, room, unprivileged

SOURCE = Path(__file__).with_name("full.c")
HOW_TO_GET_IT = "`apt-get install -y gcc libc6-dev` brings it on Debian; any PATH with cc will do"
NO_ROOM = "No space left on device"


class Disk:
    """Room, until `fill`."""

    def __init__(self) -> None:
        compiler = shutil.which("cc")
        if compiler is None:
            raise NotHere(f"there is no C compiler on this machine, to make a disk full with; {HOW_TO_GET_IT}")
        self.folder = room("fencepost-disk-", unprivileged())
        library, self._flag = self.folder / "full.so", self.folder / "full"
        built = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(SOURCE), "-ldl"]
        done = subprocess.run(built, check=False, capture_output=True, text=True)
        if done.returncode:
            raise NotHere(f"{SOURCE.name} could not be built: {done.stderr.strip()}; {HOW_TO_GET_IT}")
        self.environment = {"LD_PRELOAD": str(library), "FENCEPOST_FULL": str(self._flag)}

    def fill(self, part: str) -> None:
        """Leave no room for files with `part` in their paths: "base/" for tables, "pg_wal/" for the log."""
        told = self._flag.with_suffix(".new")
        told.write_text(part, "ascii")
        told.chmod(0o644)
        told.replace(self._flag)

    def free(self) -> None:
        """There is room again."""
        self._flag.unlink(missing_ok=True)

    def remove(self) -> None:
        """Delete what was built."""
        shutil.rmtree(self.folder, ignore_errors=True)


class OnDisk(Cluster):
    """A server on such a disk."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        super().__init__(environment=disk.environment)

    def complaints(self, of: str) -> int:
        """How often its log says so, and that it is for want of room."""
        said = (self.folder / "log").read_text("utf-8", errors="replace").splitlines()
        return sum(of in line and NO_ROOM in line for line in said)

    def revive(self) -> None:
        """Start it again if it has ended, as a supervisor would, until it takes connections."""

        def is_up() -> bool:
            if self.has_ended():
                self.start()
            return self.is_ready()

        until(is_up, "the server to have recovered", seconds_max=60)

    def remove(self) -> None:
        super().remove()
        self.disk.remove()
