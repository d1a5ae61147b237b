"""What the demo is going to do, drawn from its seed: the invoices, the faults that strike them, the blows at workers.

Both sides get the same plan: the same papers, the same faults at the first request that carries an invoice's number,
the same blows after equally many requests. Nothing here starts or strikes anything; that is `drive` and `crew`.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fencepost.testing import Configure, Fault, Keys, LookUp

WORKERS = 2
PAUSE_SECONDS = 4.0
"""Longer than lease and margin, so that others take over; shorter than the span of the mail, whose client only the
declared `settle` bounds."""

Kind = Literal["kill", "pause"]
"""Of a blow: SIGKILL, or SIGSTOP past the lease and then SIGCONT."""

MALFORMED = "malformed.txt"
HANDWRITTEN = "spanish.txt"
"""The file of which the example's model first answers badly."""


@dataclass(frozen=True)
class Paper:
    """One invoice as it comes in: its number, the file it was made from, and its text."""

    number: str
    file: str
    text: str

    @property
    def is_legible(self) -> bool:
        """Whether a machine can read it; otherwise a clerk types what is on the paper."""
        return self.file != MALFORMED


@dataclass(frozen=True)
class Blow:
    """Something done to a worker once the world has seen so many requests."""

    after_requests: int
    slot: int
    how: Kind


@dataclass(frozen=True)
class Minimum:
    """What must at least have been injected for the demo to prove anything."""

    kills: int
    pauses: int
    dropped_replies: int
    takeovers: int


@dataclass(frozen=True)
class Plan:
    """Everything that is decided before the first process starts."""

    seed: int
    papers: tuple[Paper, ...]
    settings: tuple[Configure, ...]
    blows: tuple[Blow, ...]
    minimum: Minimum


def draw(seed: int, invoices: int, samples: Path) -> Plan:
    """Draw the plan; `samples` is the folder with the invoices' texts."""
    rng = random.Random(f"demo {seed}")
    papers = _papers(rng, invoices, samples)
    blows = _blows(rng, invoices)
    faults = {name: tuple(_faults(rng, name, papers)) for name in _STRUCK}
    kills = sum(blow.how == "kill" for blow in blows)
    minimum = Minimum(kills, len(blows) - kills, dropped_replies=invoices // 2, takeovers=kills)
    return Plan(seed, papers, _settings(faults), blows, minimum)


# -- papers -----------------------------------------------------------------------------------------------------------


def _papers(rng: random.Random, invoices: int, samples: Path) -> tuple[Paper, ...]:
    """One malformed paper, at least one handwritten, the others in all languages, in a drawn order."""
    usual = sorted(path.name for path in samples.glob("*.txt") if path.name != MALFORMED)
    files = [MALFORMED, HANDWRITTEN, *(usual[index % len(usual)] for index in range(invoices))][:invoices]
    rng.shuffle(files)
    return tuple(paper_of(f"INV-{index:04}", samples / file) for index, file in enumerate(files, 1))


def paper_of(number: str, file: Path) -> Paper:
    """The paper that this file makes, under a number of its own."""
    text = file.read_text(encoding="utf-8")
    return Paper(number, file.name, text.replace(_SAMPLE_NUMBERS[file.name], number))


_SAMPLE_NUMBERS = {
    "english.txt": "NW-2217",
    "french.txt": "FA-3310",
    "german.txt": "RE-88412",
    "japanese.txt": "AB-0391",
    "malformed.txt": "HE-5528",
    "polish.txt": "FV-145",
    "spanish.txt": "IN-7705",
}

# -- faults -----------------------------------------------------------------------------------------------------------

DROPPED = "dropped reply"

_DROP = Fault(do="reset", when="after", name=DROPPED)
_LOSE = Fault(do="reset", when="before", name="lost request")
_LATE_REPLY = Fault(do="wait", when="after", milliseconds=2_600, name="late reply")
_SLOW_WORK = Fault(do="wait", when="before", milliseconds=2_600, name="slow work")
_BUSY = Fault(do="answer", status=429, retry_after="1", name="rate limited")
_DOWN = Fault(do="answer", status=503, name="unavailable")
_MAIL_BUSY = Fault(do="answer", status=451, name="try again later")

_STRUCK: dict[str, tuple[tuple[Fault, float], ...]] = {
    "tasks": ((_BUSY, 0.15), (_DOWN, 0.1), (_DROP, 0.2), (_LATE_REPLY, 0.1), (_SLOW_WORK, 0.1)),
    "messages": ((_MAIL_BUSY, 0.1), (_DROP, 0.2), (_LATE_REPLY, 0.05)),
    "payments": ((_BUSY, 0.1), (_DROP, 0.1), (_LOSE, 0.05)),
    "entries": ((_BUSY, 0.1), (_DROP, 0.15), (_SLOW_WORK, 0.05), (_DOWN, 0.1)),
}
"""Which faults strike the requests for a collection, and which share of the invoices each strikes."""

_DISTANCE = (
    Fault(do="wait", when="before", milliseconds=40, rate=0.5, times=None, name="usual way there"),
    Fault(do="wait", when="after", milliseconds=80, times=None, name="usual way back"),
)
"""No service answers at once; blows then fall between a commit and its reply as well."""


def _faults(rng: random.Random, collection: str, papers: tuple[Paper, ...]) -> Iterator[Fault]:
    for fault, share in _STRUCK[collection]:
        for paper in rng.sample(papers, max(1, round(share * len(papers)))):
            yield fault.model_copy(update={"collection": collection, "body": paper.number})


def _settings(faults: dict[str, tuple[Fault, ...]]) -> tuple[Configure, ...]:
    """Keys at the task service only; a bank that cannot be asked; faults belong to a whole service."""
    none, silent = Keys(honoured=False), LookUp(offered=False)
    by_invoice = ("invoice",)
    return (
        Configure(service="tasks", collection="tasks", identity=by_invoice, faults=(*faults["tasks"], *_DISTANCE)),
        Configure(service="mail", identity=("subject",), faults=(*faults["messages"], *_DISTANCE)),
        Configure(service="books", collection="payments", keys=none, look_up=silent, identity=by_invoice),
        Configure(service="books", collection="entries", keys=none, identity=by_invoice),
        Configure(service="books", faults=(*faults["payments"], *faults["entries"], *_DISTANCE)),
    )


# -- blows ------------------------------------------------------------------------------------------------------------

_REQUESTS_PER_INVOICE = 4
_FIRST, _LAST = 0.08, 0.7
"""Blows fall while so much of the work is done: early enough that there is still something in the worker's hands."""


def _blows(rng: random.Random, invoices: int) -> tuple[Blow, ...]:
    """Twice as many kills as pauses, spread over the work with some jitter; the first two are one of each."""
    pauses = 1 + invoices // 20
    rest: list[Kind] = ["pause" for _ in range(pauses - 1)]
    rest += ["kill" for _ in range(2 * pauses - 1)]
    rng.shuffle(rest)
    kinds: list[Kind] = ["kill", "pause", *rest]
    work = invoices * _REQUESTS_PER_INVOICE
    step = (_LAST - _FIRST) / len(kinds)
    moments = [_FIRST + step * (index + rng.random()) for index in range(len(kinds))]
    return tuple(
        Blow(max(1, round(moment * work)), rng.randrange(WORKERS), how)
        for moment, how in zip(moments, kinds, strict=True)
    )
