"""Tasks here, in processes and on Ray: side by side, done again where a worker dies, each once."""

import os
import sys
import time
from itertools import pairwise

import pytest

from evolvent.core.errors import BadInput
from evolvent.runs.population.tasks import workers

PLACES = ["2", "ray:2"]


def sleep(seconds):
    time.sleep(seconds)
    return seconds


def die_once(path, value):
    """Ends its process the first time."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return value
    os.kill(os.getpid(), 9)


def refuse():
    raise BadInput("this is refused", got=3)


def every(tasks):
    found = []
    while (done := tasks.next()) is not None:
        found.append(done)
    return found


@pytest.fixture(scope="module", params=PLACES)
def tasks(request):
    """Two workers that have begun."""
    if request.param.startswith("ray"):
        ray = pytest.importorskip("ray")
        ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # its workers cannot import this module
    with workers(request.param) as found:
        for round_ in range(2):
            for i in range(2):
                found.start(f"warm {round_} {i}", sleep, 0.5)
            every(found)
        yield found
    if request.param.startswith("ray"):
        ray.shutdown()


def test_two_workers_sleep_at_the_same_time(tasks):
    for i in range(4):
        tasks.start(f"response {i}", sleep, 1.0)
    done = every(tasks)
    wall = max(one.ended for one in done) - min(one.asked for one in done)
    assert wall / sum(one.ended - one.began for one in done) <= 0.6
    assert len({one.worker for one in done}) == 2


def test_a_task_whose_worker_dies_is_done_again_and_counts_once(tasks, tmp_path):
    tasks.start("before", sleep, 0.01)
    tasks.start("dies", die_once, str(tmp_path / "died"), 7)
    tasks.start("after", sleep, 0.02)
    assert sorted((one.name, one.value) for one in every(tasks)) == [("after", 0.02), ("before", 0.01), ("dies", 7)]


def test_what_a_task_raises_is_raised(tasks):
    tasks.start("refused", refuse)
    with pytest.raises(BadInput, match="this is refused"):
        every(tasks)


def test_here_one_follows_the_other_in_order():
    with workers(0) as tasks:
        for i in range(3):
            tasks.start(f"{i}", sleep, 0.0)
        done = every(tasks)
    assert [one.name for one in done] == ["0", "1", "2"]
    assert all(a.ended <= b.began for a, b in pairwise(done))


@pytest.mark.parametrize("asked", ["two", "-1", "ray:0", "3:2"])
def test_other_places_are_refused(asked):
    with pytest.raises(BadInput, match="ray:N"), workers(asked):
        pass
