"""Clients and servers that are killed, and many processes at once, on PostgreSQL."""

import os
import signal
import time

import psycopg
import pytest
from kill_driver import campaign
from share_driver import share

from evolvent.memory.maintenance.verify import verify
from evolvent.memory.memory import Memory

pytestmark = pytest.mark.postgres


def template(postgres, name):
    """A URL with a place for the number of the store."""
    return f"{postgres}{'&' if '?' in postgres else '?'}schema={name}_{os.getpid()}_{{n}}"


def test_6_kills(postgres):
    done = campaign(6, seed=6, template=template(postgres, "kill"))
    assert done.kills == 6 and done.acknowledged > 6


@pytest.mark.slow
def test_300_kills(postgres):
    done = campaign(300, seed=0, template=template(postgres, "kills"))
    assert done.kills == 300 and done.acknowledged > 1500


def test_three_processes_with_three_threads(postgres_store):
    done = share(postgres_store(), processes=3, threads=3, seconds=2.0)
    assert done["done"]["settled"] > 0


@pytest.mark.slow
def test_sixteen_processes_with_eight_threads_for_a_minute(postgres_store):
    done = share(postgres_store(), processes=16, threads=8, seconds=60.0)
    assert done["done"]["settled"] > 1000
    least, most = done["verbs_of_a_process"].values()
    assert most < 5 * least, f"a process starves: {least} verbs, another {most}"


@pytest.mark.skipif("EVOLVENT_TEST_POSTGRES" in os.environ, reason="a server that is not ours is not crashed")
def test_a_server_that_crashes_loses_nothing_acknowledged(postgres, postgres_store):
    """A backend is killed: the server throws all sessions out and recovers from its log; memories find it again."""
    with Memory(postgres_store(), policy="memrl", embedder="hash:32") as memory:
        for round_ in range(3):
            for i in range(5):
                memory.remember(f"task {round_} {i}", f"body {round_} {i}")
                memory.settle(memory.recall(f"task {round_} {i}", k=1), 1.0)
            before = memory.items()
            with psycopg.connect(postgres) as connection:
                os.kill(connection.info.backend_pid, signal.SIGKILL)
            time.sleep(0.3)
            assert memory.items() == before and verify(memory) == []
        assert len(before) == 15 == sum(item.n for item in before)
