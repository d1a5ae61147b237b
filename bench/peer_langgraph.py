"""Measures LangGraph with its SQLite or PostgreSQL checkpointer, each checkpoint stored before the next node.

A run is a graph of ten nodes in a row with `durability="sync"`, invoked from threads: over the saver's one connection
to a file (WAL, synchronous=FULL, as the saver sets it), or over a pool of twenty to a server. For long histories one
node loops, as an agent's would: a graph of a thousand nodes would cost more. There is no worker that could idle, wake,
drain a queue or recover: an application invokes its threads again, so those modes are missing.
"""

import os
import sqlite3
from importlib.metadata import version
from typing import Any, TypedDict
from uuid import uuid4

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph

from bench.counters import counting, durability, emit_cost
from bench.load import by_threads, emit_history, emit_ten
from bench.modes import CONCURRENCIES, STEPS, Request, emit, parser, request

PEER = "langgraph"
_COST_RUNS = 100
_POOL = 20


class State(TypedDict):
    """What a node takes and returns."""

    number: int
    until: int


def count(state: State) -> dict[str, int]:
    """The trivial step: a small value in, a small value out."""
    return {"number": state["number"] + 1}


def more_or_end(state: State) -> str:
    """Where the looping node goes next."""
    return END if state["number"] >= state["until"] else "count"


def row_of_nodes(saver: Any) -> Any:
    """The graph of ten nodes, one after the other."""
    graph = StateGraph(State)
    names = [f"count_{position}" for position in range(STEPS)]
    for name in names:
        graph.add_node(name, count)
    for before, after in zip([START, *names], [*names, END], strict=True):
        graph.add_edge(before, after)
    return graph.compile(checkpointer=saver)


def looping_node(saver: Any) -> Any:
    """The graph of one node that comes back to itself until the state says stop."""
    graph = StateGraph(State)
    graph.add_node("count", count)
    graph.add_edge(START, "count")
    graph.add_conditional_edges("count", more_or_end, ["count", END])
    return graph.compile(checkpointer=saver)


def one_run(graph: Any, steps: int = STEPS) -> None:
    """Makes one run in a thread (LangGraph's word for a run's history) of its own and checks its result."""
    config = {"configurable": {"thread_id": str(uuid4())}, "recursion_limit": steps + 5}
    ended = graph.invoke({"number": 0, "until": steps}, config, durability="sync")
    assert ended["number"] == steps, ended


def open_saver(asked: Request) -> Any:
    """The saver on a new file, whose connection threads may share, or on an empty database."""
    if asked.server is None:
        saver: Any = SqliteSaver(sqlite3.connect(asked.state / "langgraph.sqlite", check_same_thread=False))
    else:
        from langgraph.checkpoint.postgres import PostgresSaver
        from psycopg.rows import dict_row
        from psycopg_pool import ConnectionPool

        options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
        saver = PostgresSaver(ConnectionPool(asked.server, min_size=1, max_size=_POOL, open=True, kwargs=options))
    saver.setup()
    return saver


def settings(asked: Request, saver: Any) -> str:
    """What durability rests on, read back."""
    if asked.server is not None:
        return durability(asked.server)
    names = ("journal_mode", "synchronous")
    return ", ".join(f"{name}={saver.conn.execute(f'PRAGMA {name}').fetchone()[0]}" for name in names)


def cost(asked: Request, saver: Any) -> None:
    """Prints the line of mode `cost`."""
    assert asked.server is not None, "a file has no statistics"
    graph = row_of_nodes(saver)
    one_run(graph)
    with counting(asked.server) as spent:
        for _ in range(_COST_RUNS):
            one_run(graph)
        saver.conn.close()
    emit_cost(PEER, 1, spent, _COST_RUNS * STEPS)


def main() -> None:
    """Prints the lines of the mode that the command line names."""
    os.environ["LANGSMITH_TRACING"] = "false"  # a tracing key in the caller's environment would send every run away
    asked = request(parser("peer_langgraph", ("ten", "history", "cost")))
    saver = open_saver(asked)
    if asked.mode == "history":
        graph = looping_node(saver)
        one_run(graph)
        emit_history(PEER, lambda steps: one_run(graph, steps))
    elif asked.mode == "cost":
        cost(asked, saver)
    else:
        graph = row_of_nodes(saver)
        one_run(graph)
        for concurrency in CONCURRENCIES:
            emit_ten(PEER, concurrency, by_threads(lambda: one_run(graph), concurrency, asked.seconds))
        emit(PEER, "about", version=version("langgraph"), settings=settings(asked, saver))
    if asked.server is not None:
        saver.conn.close()


if __name__ == "__main__":
    main()
