"""What a server acknowledged is there after a SIGKILL, once."""

import pytest

pytest.importorskip("httpx")
pytest.importorskip("uvicorn", reason="the extra 'server' is not installed")


def check(tmp_path, number, seed):
    from server_kill import kills

    (tmp_path / "store").mkdir()
    counted, found = kills(tmp_path / "store", number, seed)
    assert found == []
    assert counted["outcomes"] > number and counted["lessons"] and counted["evidence"] and counted["cut off"]


def test_three_kills_lose_nothing_and_count_nothing_twice(tmp_path):
    check(tmp_path, 3, seed=0)


@pytest.mark.slow
def test_fifty_kills_lose_nothing_and_count_nothing_twice(tmp_path):
    check(tmp_path, 50, seed=1)


def test_the_driver_notices_what_is_lost_or_counted_twice(tmp_path):
    """A test that cannot fail is none."""
    from server_kill import Client, wrong

    from evolvent.memory.memory import Memory
    from evolvent.serve.attempts import Attempts
    from evolvent.serve.verdicts import Evidence

    attempts = Attempts(tmp_path / "a.db.attempts")
    attempts.add("default", {"repo": "/a"}, Evidence(0, None, "claim", "proxy", "c", None), "said")
    attempts.close()
    with Memory(tmp_path / "a.db", embedder="hash:64") as memory:
        memory.remember("a", "b")
        memory.settle(memory.recall("a"), 1.0, idempotency_key="once")
        memory.settle(memory.recall("a"), 1.0, idempotency_key="twice")
    client = Client(None, "c", 0)
    client.receipts, client.jobs, client.lessons = ["r1.x", "r2.x"], ["once", "twice"], {"m1": "b"}
    client.said = {"said": "r1.x"}
    assert wrong(tmp_path / "a.db", [client]) == []
    client.said = {"said": "r7.x", "never": None}
    assert len(wrong(tmp_path / "a.db", [client])) == 2
    client.said = {}
    client.receipts, client.jobs, client.lessons = ["r3.x"], ["never"], {"m1": "c", "m2": "d"}
    assert len(wrong(tmp_path / "a.db", [client])) == 4
    with Memory(tmp_path / "a.db") as memory:
        memory.remember("a", "b", merge=None)
    client.receipts, client.jobs, client.lessons = [], [], {}
    assert wrong(tmp_path / "a.db", [client]) == ["2 memories say 'b'"]
