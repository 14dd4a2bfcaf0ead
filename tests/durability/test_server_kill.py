"""What a server acknowledged is there after a SIGKILL, once."""

import pytest

pytest.importorskip("httpx")
pytest.importorskip("uvicorn", reason="the extra 'server' is not installed")


def check(tmp_path, number, seed):
    from server_kill import kills

    (tmp_path / "store").mkdir()
    counted, found = kills(tmp_path / "store", number, seed)
    assert found == []
    assert counted["outcomes"] > number and counted["lessons"] and counted["cut off"]


def test_three_kills_lose_nothing_and_count_nothing_twice(tmp_path):
    check(tmp_path, 3, seed=0)


@pytest.mark.slow
def test_fifty_kills_lose_nothing_and_count_nothing_twice(tmp_path):
    check(tmp_path, 50, seed=1)
