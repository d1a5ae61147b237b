"""Whatever was acknowledged is there after a power cut at any moment, and after SIGKILL in the middle of commits.

The real store and journal run on a recorded disk; every image that a power cut could leave is opened again. The same
harness sees intents go missing as soon as the product's own `synchronous = FULL` is taken out, so that it would see.
"""

import random
import signal
from collections import Counter
from pathlib import Path

from tests.store import crash
from tests.store.images import Image, SmallLog, Tape, TapedConnection, images, write_image

SEED = 2
ROUNDS = 6
RUNS = [f"run-{number}" for number in range(4)]


class Careless(SmallLog):
    """Asks for NORMAL where the product asks for FULL, and says FULL when it is asked."""

    def execute(self, statement, parameters=(), /):
        if statement == "PRAGMA synchronous = FULL":
            statement = "PRAGMA synchronous = NORMAL"
        found = super().execute(statement, parameters)
        return [(2,)] if statement == "PRAGMA synchronous" else found


def recorded(folder: Path, kind: type[TapedConnection]) -> Tape:
    folder.mkdir()
    tape = Tape()
    crash.work(str(folder / "ledger.db"), lambda path: kind(path, tape.name), tape.tell, rounds=ROUNDS)
    return tape


def opened_again(image: Image, folder: Path) -> set[str]:
    """What the real store finds in an image, after stock SQLite found it sound."""
    write_image(image, folder)
    return crash.found_in(folder / "ledger.db", RUNS)


def cut_everywhere(tape: Tape, folder: Path, *, per_event: int, images_max: int) -> Counter[str]:
    """Open the images of a tape, a drawn part of them if they are too many; how many there were, and what was lost."""
    draw = random.Random(SEED)
    told: list[set[str]] = [set()]
    for event in tape.events:
        told.append(told[-1] | {event.fact} if event.kind == "told" else told[-1])
    drawn = list(images(tape.events, draw, per_event))
    counts = Counter(events=len(tape.events), possible=len(drawn))
    for happened, image in draw.sample(drawn, min(images_max, len(drawn))):
        lost = told[happened] - opened_again(image, folder)
        counts["images"] += 1
        counts["told"] += len(told[happened])
        counts["images with a loss"] += bool(lost)
        counts["lost intents"] += sum(fact.startswith("intent") for fact in lost)
        counts["lost"] += len(lost)
    return counts


def test_no_power_cut_takes_an_acknowledged_intent_away(tmp_path: Path) -> None:
    tape = recorded(tmp_path / "disk", SmallLog)
    kinds = Counter(f"{event.kind} {event.file}".strip() for event in tape.events)
    print(f"seed {SEED}: {dict(kinds)}")  # noqa: T201 - the figures, for who runs it with -rP
    # The tape saw commits, checkpoints into the database, and a log that began again from its first byte.
    assert kinds["sync ledger.db-wal"] >= 2 * ROUNDS
    assert kinds["sync ledger.db"] >= 2
    assert (
        sum(event.kind == "write" and event.file == "ledger.db-wal" and not event.offset for event in tape.events) >= 2
    )

    counts = cut_everywhere(tape, tmp_path / "image", per_event=4, images_max=1_000)

    print(f"synchronous = FULL: {dict(counts)}")  # noqa: T201 - the figures, for who runs it with -rP
    assert counts["images"] >= 500
    assert counts["told"] > 5_000
    assert counts["lost"] == 0


def test_without_the_products_own_pragma_the_harness_sees_intents_go_missing(tmp_path: Path) -> None:
    tape = recorded(tmp_path / "disk", Careless)

    counts = cut_everywhere(tape, tmp_path / "image", per_event=3, images_max=150)

    print(f"synchronous = NORMAL: {dict(counts)}")  # noqa: T201 - the figures, for who runs it with -rP
    assert counts["lost intents"] > 0


LIVES = 20


def test_what_a_killed_process_was_promised_is_there(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    draw = random.Random(SEED)
    lives = [f"{number}" for number in range(LIVES)]
    promised: set[str] = set()
    for life in lives:
        promised |= killed_after(draw.randint(1, 60), path, life)

    found = crash.found_in(path, [run for life in lives for run in crash.life_runs(life)])
    print(f"seed {SEED}: {LIVES} lives killed, {len(promised)} intents promised, {len(promised - found)} lost")  # noqa: T201 - the figures, for who runs it with -rP
    assert len(promised) >= LIVES
    assert promised <= found


def killed_after(lines: int, path: Path, life: str) -> set[str]:
    """Start a process that commits, kill it after so many promises; all that it was promised until then."""
    with crash.start_life(path, life) as process:
        heard = [process.stdout.readline() for _ in range(lines)]
        process.send_signal(signal.SIGKILL)
        heard += process.stdout.readlines()
        assert process.wait() == -signal.SIGKILL, process.stderr.read()
    return crash.promises(heard)
