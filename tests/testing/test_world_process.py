"""The world as a process: killed, started again on the same folder, started from a shell, left behind by its parent."""

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fencepost.core.errors import Misuse
from fencepost.testing.world import Configure, Fault, Keys, LookUp, World, WorldFiles
from fencepost.testing.world.request import Request
from fencepost.testing.world.service import Service
from tests.polling import until


def post(client, world, key, **body):
    return client.post(world.tasks.url + "/tasks", json=body, headers={"Idempotency-Key": key})


def test_a_world_killed_after_a_reply_has_lost_no_count(tmp_path, client):
    with World.start(tmp_path) as world:
        for n in range(5):
            assert post(client, world, f"k{n}", n=n).status_code == 201
        world.kill()
        seen = WorldFiles(tmp_path).summary()["tasks"]
        assert (seen.requests, seen.objects, seen.keys) == (5, 5, 5)
        assert [task["n"] for task in WorldFiles(tmp_path).objects("tasks")] == [0, 1, 2, 3, 4]
        assert [seen.body for seen in world.files.requests("tasks")][:1] == ['{"n":0}']


def test_a_world_killed_while_it_holds_a_reply_has_the_effect_in_its_file(tmp_path, client):
    settings = [Configure(service="tasks", faults=(Fault(do="wait", when="after", hold=True, name="h"),))]
    with World.start(tmp_path, settings=settings) as world:
        with pytest.raises(Exception, match="timed out"):
            client.post(world.tasks.url + "/tasks", json={}, headers={"Idempotency-Key": "k"}, timeout=0.3)
        world.kill()
    with World.start(tmp_path) as world:
        assert post(client, world, "k").headers["idempotent-replayed"] == "true"
        assert world.counts()["tasks"].objects == 1


def test_a_world_started_again_keeps_objects_keys_clock_misses_and_ordinals(tmp_path, client):
    with World.start(tmp_path) as world:
        world.configure("tasks", look_up=LookUp(lag_lookups=2))
        world.advance("tasks", "1h")
        post(client, world, "k", a=1)
        assert client.get(world.tasks.url + "/tasks").json() == []
        client.post(world.tasks.url + "/tasks/task-1/cancel")
    with World.start(tmp_path) as world:
        world.configure("tasks", look_up=LookUp(lag_lookups=2), keys=Keys(window_seconds=3600))
        assert [len(client.get(world.tasks.url + "/tasks").json()) for _ in range(2)] == [0, 1]
        assert client.get(world.tasks.url + "/tasks/task-1").json()["state"] == "cancelled"
        world.configure("tasks", faults=[Fault(do="answer", status=503, ordinal=2)])
        assert post(client, world, "k", a=1).status_code == 503
        assert post(client, world, "k", a=1).json()["id"] == "task-1"
        assert post(client, world, "k2", a=1).json()["id"] == "task-2"
        world.advance("tasks", "59m")
        assert post(client, world, "k", a=1).headers["idempotent-replayed"] == "true"
        world.advance("tasks", "2m")
        assert post(client, world, "k", a=1).json()["id"] == "task-3"


def test_a_torn_last_line_is_not_counted_and_cut_off_at_the_next_start(tmp_path, client):
    with World.start(tmp_path) as world:
        post(client, world, "k")
    with (tmp_path / "tasks.jsonl").open("ab") as file:
        file.write(b'{"event":"commit","at":1')
    assert WorldFiles(tmp_path).summary()["tasks"].objects == 1
    with World.start(tmp_path) as world:
        post(client, world, "k2")
        assert world.counts()["tasks"].objects == 2


def test_a_line_that_the_disk_refuses_leaves_no_piece_and_is_not_believed(tmp_path, monkeypatch):
    service = Service("tasks", tmp_path, seed=0)
    request = Request("POST", "/tasks", (), {}, b'{"a": 1}')
    service.perform(service.arrive(request))

    def full(_descriptor):
        raise OSError(errno.ENOSPC, "no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="no space"):
            service.arrive(request)
    service.perform(service.arrive(request))
    seen = WorldFiles(tmp_path).summary()["tasks"]
    assert (seen.requests, seen.objects) == (2, 2)


@pytest.mark.parametrize("read", [lambda files: files.summary(), lambda files: files.objects("tasks")])
def test_a_folder_that_holds_no_world_is_refused(tmp_path, read):
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(Misuse, match="holds no world"):
            read(WorldFiles(folder))
    assert list(tmp_path.iterdir()) == []


def test_a_service_that_is_not_there_is_named(tmp_path):
    with pytest.raises(Misuse, match="no service 'taks'"):
        WorldFiles(tmp_path).lines("taks")


def test_a_file_is_no_place_for_a_world(tmp_path):
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "in it"):
        with pytest.raises(Misuse, match="needs a folder of its own"):
            World.start(place)


@pytest.mark.parametrize("end", [World.kill, World.close])
def test_a_world_that_has_ended_cannot_be_steered_and_is_still_counted(tmp_path, end):
    with World.start(tmp_path) as world:
        end(world)
        for steer in (
            lambda: world.configure("tasks", faults=[]),
            lambda: world.release("h"),
            lambda: world.until_waiting("h"),
            lambda: world.advance("tasks", "1h"),
        ):
            with pytest.raises(Misuse, match="has ended"):
                steer()
        assert world.counts()["tasks"].requests == 0
        world.kill()


def test_a_second_world_on_one_folder_is_refused(tmp_path):
    with World.start(tmp_path), pytest.raises(Misuse, match="already runs"):
        World.start(tmp_path)


def test_a_wrong_setting_at_start_is_named(tmp_path):
    with pytest.raises(Misuse, match="no service 'taks'"):
        World.start(tmp_path, settings=[Configure(service="taks", keys=Keys())])


def test_from_a_shell_it_prints_its_addresses_and_ends_cleanly_on_sigterm(tmp_path):
    command = [sys.executable, "-m", "fencepost.testing.world", "--folder", str(tmp_path), "--seed", "7"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        said = json.loads(process.stdout.readline())
        assert said["pid"] == process.pid
        assert set(said) == {"pid", "tasks", "books", "mail", "mail_smtp", "admin"}
        process.send_signal(signal.SIGTERM)
        _, complaints = process.communicate(timeout=10)
    assert (process.returncode, complaints) == (0, "")


def test_it_ends_quietly_with_open_connections_and_held_requests(tmp_path, client):
    with World.start(tmp_path) as world:
        post(client, world, "k")
        world.configure("tasks", faults=[Fault(do="wait", when="after", hold=True, name="h")])
        with pytest.raises(Exception, match="timed out"):
            client.post(world.tasks.url + "/tasks", json={}, timeout=0.3)
        world.until_waiting("h")
    assert world._process.returncode == 0
    assert (tmp_path / "world.stderr").read_text() == ""


def test_a_world_ends_when_the_process_that_started_it_is_killed(tmp_path):
    program = (
        "import sys; from fencepost.testing.world import World; w = World.start(sys.argv[1]);"
        "print(w.pid, flush=True); sys.stdin.read()"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with parent:
        world = int(parent.stdout.readline())
        parent.kill()
    until(lambda: not is_running(world), "the world to end")


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
