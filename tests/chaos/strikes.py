"""What strikes: the server crashes or is restarted, commits lose their answers, wires go dead, workers are killed.

Each strike says what it is; when each comes is drawn from a seed. Whether anything went wrong is counted elsewhere.
"""

import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.services.fixtures import Place
from tests.services.wire import At, Wire

COMMAND = "import sys; from fencepost.cli.main import main; raise SystemExit(main(sys.argv[1:]))"
ROOT = Path(__file__).parents[2]


class Workers:
    """Worker processes, each replaced as soon as it was killed or has ended by itself."""

    def __init__(self, number: int, environment: dict[str, str], log: Path) -> None:
        self._environment = environment
        self._log = log
        self._places = [self._start() for _ in range(number)]
        self.ended_by_themselves = 0

    def _start(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-c", COMMAND, "worker", "tests.chaos.story:app"],
                env=self._environment, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def kill(self, place: int) -> None:
        """SIGKILL, and another in its place."""
        self._places[place].kill()
        self._places[place].wait()
        self._places[place] = self._start()

    def replace_dead(self) -> None:
        """As a supervisor would; one that ends without being killed is counted."""
        for place, process in enumerate(self._places):
            if process.poll() is not None:
                self.ended_by_themselves += 1
                self._places[place] = self._start()

    def __len__(self) -> int:
        return len(self._places)

    def close(self) -> None:
        for process in self._places:
            process.send_signal(signal.SIGINT)
        for process in self._places:
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class Strikes:
    """Draws strikes and carries them out, on its own thread until it is closed."""

    def __init__(self, place: Place, wire: Wire, workers: Workers, seed: int) -> None:
        self._draw = random.Random(seed)
        self._server = place.server
        self._wire = wire
        self._workers = workers
        self._over = threading.Event()
        self._pending: list[tuple[str, threading.Event]] = []
        self.done: Counter[str] = Counter()
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._strike_until_over, daemon=True)
        self._thread.start()

    def _strike_until_over(self) -> None:
        strikes: dict[Callable[[], None], int] = {
            self._kill: 3, self._crash_server: 1, self._restart_server: 1, self._lose_a_commit: 6, self._go_dead: 1,
        }  # fmt: skip
        try:
            while not self._over.wait(self._draw.uniform(0.1, 0.7)):
                self._draw.choices(list(strikes), list(strikes.values()))[0]()
                self._workers.replace_dead()
                self._count()
        except BaseException as error:  # noqa: BLE001 - told by whoever closes
            self.error = error

    def _kill(self) -> None:
        self._workers.kill(self._draw.randrange(len(self._workers)))
        self.done["workers killed"] += 1

    def _crash_server(self) -> None:
        self._server.restart(signal.SIGQUIT)
        self.done["server crashes"] += 1

    def _restart_server(self) -> None:
        self._server.restart(signal.SIGINT)
        self.done["server restarts"] += 1

    def _lose_a_commit(self) -> None:
        """The next COMMIT: never seen by the server, seen and not answered, or seen when nobody waits any more."""
        if self._pending:
            return
        what = self._draw.choice((At.CUT_BEFORE, At.CUT_AFTER, At.HELD))
        self._pending.append(("commits cut off", self._wire.once(b"COMMIT", what)))

    def _go_dead(self) -> None:
        """A connection on which nothing is heard any more, and nobody is told."""
        if self._pending:
            return
        self._pending.append(("dead connections", self._wire.once(b"COMMIT", At.SWALLOWED)))

    def _count(self) -> None:
        for name, event in list(self._pending):
            if event.is_set():
                self.done[name] += 1
                self._pending.remove((name, event))
                self._wire.release()

    def every_kind(self) -> bool:
        """Whether a worker was killed, the server went down and a commit was cut off; or nothing strikes any more."""
        done = self.done
        down = done["server crashes"] + done["server restarts"]
        return bool(down and done["workers killed"] and done["commits cut off"]) or not self._thread.is_alive()

    def close(self) -> None:
        """Strike no more; the server is there and the wire passes everything on. Raises what went wrong in striking."""
        self._over.set()
        self._thread.join()
        self._count()
        self._wire.choose = lambda sent: At.PASSED
        self._wire.release()
        if self.error is not None:
            raise self.error
