"""Every target is a fence to a type checker too, and may be declared as one."""

from mypy import api

PROGRAM = """
import sqlite3

import httpx2

from fencepost import Fenced
from fencepost.targets import (
    ConsulFence, DynamoFence, EtcdFence, Fence, HttpFence, LargestSeen, ObjectFence, SqlFence,
)

client = httpx2.Client()
fences: list[Fence] = [
    SqlFence(lambda: sqlite3.connect("books.db")),
    EtcdFence(client), ConsulFence(client), HttpFence(client),
    ObjectFence(client, "plans"), DynamoFence(client, "accounts"), LargestSeen("printer"),
]
declared = [Fenced(fence, "account:7") for fence in fences]
"""


def test_every_target_is_a_fence(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)

    said, complaints, code = api.run(["--strict", str(program)])

    assert code == 0, said + complaints
