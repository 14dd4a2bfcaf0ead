"""Many processes and threads on one store: sums equal, no lock error, nobody starves."""

import os
import sqlite3
import subprocess
import sys
import threading
import time

import pytest
from share_driver import share

from evolvent.memory.maintenance.verify import verify
from evolvent.memory.memory import Memory
from evolvent.memory.store.turn import Turn


def test_four_processes_with_two_threads(tmp_path):
    done = share(str(tmp_path / "a.db"), processes=4, threads=2, seconds=3.0)
    assert done["done"]["settled"] > 0


@pytest.mark.postgres
def test_three_processes_with_two_threads_on_postgresql(postgres_store):
    assert share(postgres_store(), processes=3, threads=2, seconds=3.0)["done"]["settled"] > 0


@pytest.mark.slow
def test_sixteen_processes_with_eight_threads_for_a_minute(tmp_path):
    done = share(str(tmp_path / "a.db"), processes=16, threads=8, seconds=60.0)
    assert done["done"]["settled"] > 1000
    least, most = done["verbs_of_a_process"].values()
    assert most < 5 * least, f"a process starves: {least} verbs, another {most}"


def test_who_has_just_written_waits_for_who_came_before(tmp_path):
    """A writer that never pauses lets others in: without turns SQLite lets them sleep, and they hardly ever write."""
    path = tmp_path / "a.db"
    with Memory(path, policy="rag", embedder="hash:32") as memory:
        memory.meta_set("n", 0)
    code = (
        "import sys, time; from evolvent.memory.memory import Memory\n"
        "m = Memory(sys.argv[1], policy='rag', sync='normal'); print('ready', flush=True); sys.stdin.readline()\n"
        "end, n = time.monotonic() + 2.0, 0\n"
        "while time.monotonic() < end:\n"
        "    with m.transaction():\n"
        "        time.sleep(0.003); n += 1\n"
        "print(n)"
    )
    crowd = [
        subprocess.Popen([sys.executable, "-c", code, str(path)], stdin=-1, stdout=-1, text=True) for _ in range(4)
    ]
    for one in crowd:
        assert one.stdout and one.stdout.readline() == "ready\n"
    for one in crowd:
        assert one.stdin
        one.stdin.write("go\n")
        one.stdin.flush()
    written = sorted(int(one.communicate(timeout=120)[0]) for one in crowd)
    assert written[-1] < 4 * written[0], written


def test_a_stopped_process_that_has_the_turn_blocks_nobody_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr("evolvent.memory.store.turn._PATIENCE_S", 0.2)
    path = tmp_path / "a.db"
    with Memory(path, policy="rag", embedder="hash:32") as memory:
        memory.remember("task", "body")
        stopped = Turn(f"{path}-wal")
        assert stopped._take(time.monotonic()), "the turn was not to be had"
        assert not Turn(f"{path}-wal")._take(time.monotonic()), "two have the turn"
        assert memory.remember("another", "body") == "m2"
        stopped._give()
        stopped.close()


def test_without_a_log_to_lock_writers_do_without_a_turn(tmp_path, monkeypatch):
    monkeypatch.setattr("evolvent.memory.store.turn.fcntl", None)
    with Memory(tmp_path / "a.db", policy="rag", embedder="hash:32") as memory:
        failures: list[Exception] = []

        def work(number):
            try:
                with Memory(tmp_path / "a.db", policy="rag", sync="normal") as own:
                    for i in range(20):
                        own.remember(f"task {number} {i}", f"body {number} {i}")
            except Exception as error:  # noqa: BLE001  reported below
                failures.append(error)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures and len(memory.items()) == 80 and verify(memory) == []


def test_a_memory_that_is_closed_leaves_no_file_open(tmp_path):
    with Memory(tmp_path / "a.db", policy="rag", embedder="hash:32") as memory:
        memory.remember("task", "body")
    with pytest.raises(Exception, match="another embedder"):
        Memory(tmp_path / "a.db", embedder="hash:16")
    if os.path.isdir("/proc/self/fd"):
        links = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
        opened = [os.readlink(link) for link in links if os.path.islink(link)]
        assert not [name for name in opened if str(tmp_path) in name]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.db"], "something stayed beside the file"
    sqlite3.connect(tmp_path / "a.db").close()
