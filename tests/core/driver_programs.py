"""Random workflow programs: a tree of what workflows can do, a generator, an interpreter on a driver, and an oracle.

The interpreter runs a program as a real coroutine with real `try` blocks. The oracle computes the result of programs
without races and cancels from the outcomes of their steps alone: no coroutine, no order, none of the driver's code.
"""

from dataclasses import dataclass, field
from typing import Any

from fencepost.core.errors import Cancelled, StepFailed

NAMES = ["a", "b", "a/b", "a#2", "sleep", "cancel", "gather:1.0"]


@dataclass(frozen=True)
class Step:
    """One ask; `tag` is unique to this place of the program and is its request."""

    kind: str  # effect, model, read, compute, wait, child, sleep or compensate
    name: str
    item: str | None
    tag: str


@dataclass(frozen=True)
class Look:
    """Write down the time, an id and a draw."""


@dataclass(frozen=True)
class Fail:
    """Raise an exception of the workflow's own."""

    tag: str


@dataclass(frozen=True)
class Foreign:
    """Await something that only an event loop could answer."""

    def __await__(self):
        yield "a foreign thing"


@dataclass(frozen=True)
class Block:
    """Children in sequence, side by side, or racing."""

    how: str  # sequence, gather or race
    children: tuple[Any, ...]


@dataclass(frozen=True)
class Try:
    """A body with a handler, a clean-up, or both; `catches_cancel` says whether the handler swallows a cancel."""

    body: Any
    handler: Any
    final: Any
    catches_cancel: bool


# -- generating ---------------------------------------------------------------------------------------------------


@dataclass
class Generator:
    """Draws programs. `is_plain` leaves out what makes a result depend on the order of completions."""

    rng: Any
    is_plain: bool = False
    tags: int = 0
    shared: list[Step] = field(default_factory=list)

    def program(self):
        return Block("sequence", tuple(self.node(4) for _ in range(self.rng.randint(2, 5))))

    def node(self, depth):
        draw = self.rng.random()
        if depth == 0 or draw < 0.35:
            return self.leaf()
        if draw < 0.75:
            how = self.rng.choice(["sequence", "gather", "gather"] if self.is_plain else ["sequence", "gather", "race"])
            return Block(how, tuple(self.node(depth - 1) for _ in range(self.rng.randint(1, 3))))
        handler = self.node(depth - 1) if self.rng.random() < 0.7 else None
        final = self.leaf() if handler is None or self.rng.random() < 0.3 else None
        return Try(self.node(depth - 1), handler, final, self.rng.random() < 0.3)

    def leaf(self):
        draw = self.rng.random()
        if draw < 0.03:
            return Fail(self.tag())
        if draw < 0.16 and not self.is_plain:
            return Look()
        if draw < 0.162 and not self.is_plain:
            return Foreign()
        if draw < 0.26 and self.shared:
            return self.rng.choice(self.shared)
        return self.step()

    def step(self):
        kind = self.rng.choice(
            ["effect", "effect", "effect", "read", "model", "compute", "wait", "child", "sleep", "compensate"]
        )
        tag, name = self.tag(), self.rng.choice(NAMES)
        if kind == "effect" and self.rng.random() < 0.6:
            step = Step(kind, name, tag, tag)
            self.shared.append(step)
            return step
        # Without an item the name must be its own; now and then it is not, which is a mistake to be found.
        if kind == "effect" and (self.is_plain or self.rng.random() < 0.96):
            name = f"{name} {tag}"
        return Step(kind, name, None, tag)

    def tag(self):
        self.tags += 1
        return f"t{self.tags}"


# -- running ------------------------------------------------------------------------------------------------------


async def execute(run, node, trace):
    """Run a node as workflow code does; `trace` gets what it sees, in the order in which it sees it."""
    match node:
        case Step():
            value = await run.step(node)
            trace.append((node.tag, value))
            return value
        case Look():
            trace.append((run.now(), str(run.uuid()), run.random().randint(0, 999)))
            return None
        case Fail(tag):
            trace.append(tag)
            raise ValueError(tag)
        case Foreign():
            return await node
        case Block("sequence", children):
            return [await execute(run, child, trace) for child in children]
        case Block(how, children):
            fork = run.gather if how == "gather" else run.race
            # A bare step takes the other way into a fork: an awaitable that is no coroutine.
            return await fork(
                *(run.step(child) if isinstance(child, Step) else execute(run, child, trace) for child in children)
            )
        case Try():
            return await attempt(run, node, trace)
    raise AssertionError(node)


async def attempt(run, node, trace):
    caught = (Exception, Cancelled) if node.catches_cancel else (Exception,)
    try:
        return await execute(run, node.body, trace)
    except caught as error:
        trace.append(described(error))
        if node.handler is None:
            raise
        return ("handled", await execute(run, node.handler, trace))
    finally:
        if node.final is not None:
            await execute(run, node.final, trace)


def described(error):
    """What can be compared of an exception: its class, its words, and its siblings."""
    words = error.record.message if isinstance(error, StepFailed) else str(error)
    return (type(error).__name__, words, tuple(described(other) for other in getattr(error, "others", ())))


# -- what must come out -------------------------------------------------------------------------------------------


@dataclass
class Failure(Exception):
    """The oracle's picture of an exception."""

    kind: str
    words: str
    others: tuple["Failure", ...] = ()

    def described(self):
        return (self.kind, self.words, tuple(other.described() for other in self.others))


def expected(node, outcomes):
    """The value of a plain program, or a raised Failure; `outcomes(step)` is (value, whether it failed)."""
    match node:
        case Step():
            value, is_failed = outcomes(node)
            if is_failed:
                raise Failure("StepFailed", value)
            return None if node.kind == "sleep" else value
        case Fail(tag):
            raise Failure("ValueError", tag)
        case Block("sequence", children):
            return [expected(child, outcomes) for child in children]
        case Block("gather", children):
            return expected_of_gather(children, outcomes)
        case Try():
            return expected_of_try(node, outcomes)
    raise AssertionError(node)


def expected_of_gather(children, outcomes):
    values, failures = [], []
    for child in children:
        try:
            values.append(expected(child, outcomes))
        except Failure as failure:
            failures.append(failure)
    if failures:
        first, *rest = failures
        raise Failure(first.kind, first.words, (*first.others, *rest))
    return tuple(values)


def expected_of_try(node, outcomes):
    try:
        try:
            return expected(node.body, outcomes)
        except Failure:
            if node.handler is None:
                raise
            return ("handled", expected(node.handler, outcomes))
    finally:
        if node.final is not None:
            expected(node.final, outcomes)
