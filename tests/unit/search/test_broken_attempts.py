"""Attempts that the world broke, and not the agent: a search goes on without them."""

from typing import Any

import pytest

from evolvent.core.errors import EnvError
from evolvent.core.protocols import Task, Turn
from evolvent.models.served.acting import Served
from evolvent.play.attempt import play
from evolvent.play.renderers import Text
from evolvent.play.settings import AttemptSettings
from evolvent.play.settings import Budget as Limits
from evolvent.search import beam, best_of_n, bfs_v, dfsdt, mcts_alpha, mcts_rollout, rap, rstar, values
from evolvent.search.attempts import Attempts
from evolvent.search.budget import Budget
from evolvent.search.record import records
from evolvent.search.search import Search
from evolvent.search.tree import Tree


class Walk:
    """Three steps left or right; behind some of them, or at the start, the world breaks."""

    name, instructions, labels, stop, max_tokens = "walk", "", ("At", "Go"), ("\n",), 4
    reward_range, conversation = (0.0, 1.0), False

    def __init__(self, breaks: str) -> None:
        self.breaks = breaks

    def reset(self, task: Task, seed: int = 0) -> Turn:
        if self.breaks == "start":
            raise EnvError("no more seats")
        self.path = ""
        return Turn("start", admissible=("left", "right"))

    def step(self, action: str) -> Turn:
        self.path += action[0]
        if self.path == self.breaks:
            raise EnvError("the server is down")
        right = self.path == "rlr"
        done = len(self.path) == 3
        return Turn("on", ("left", "right"), reward=float(right), terminated=done, success=right)


def of(breaks: str, **more: Any) -> tuple[Search, Attempts]:
    tree, env = Tree(1), Walk(breaks)

    def begin(limit: int):
        how = AttemptSettings(Text(), budget=Limits(turns=limit))
        return play(env, Task("t", "go"), how, seed=7, group="t")  # type: ignore[arg-type]

    space = Attempts(tree, [begin], Served(None), ["go"])
    return Search(tree, space, widths=(2,), **more), space


SEARCHES = [
    (best_of_n, {"paths": 6, "parallel": 3}),
    (beam, {}),
    (bfs_v, {"paths": 4}),
    (dfsdt, {"paths": 4}),
    (mcts_alpha, {"simulations": 12}),
    (rstar, {"paths": 4}),
    (mcts_rollout, {"paths": 4}),
    (rap, {"paths": 4}),
]


@pytest.mark.parametrize(("by", "settings"), SEARCHES, ids=lambda given: getattr(given, "__name__", ""))
def test_an_attempt_that_the_world_broke_is_left_out(by: Any, settings: Any):
    search, space = of("rr", verifier=values.reward)
    by.run(search, by.Config(**settings))
    found = search.of(0)
    assert found and all(path.ended for path in found)
    assert all(space.state(path.leaf).steps[:2] != ("right", "right") for path in found)
    broken = [n for n in range(len(search.tree)) if search.tree.dead[n]]
    assert len(broken) == len(space.broken) and all(space.episode(n) is None for n in broken)
    assert {str(error) for _, error in space.broken} <= {"the server is down"}
    assert bool(space.broken) == any("broke" in note for note in space.notes)


def test_a_task_that_cannot_begin_has_no_attempt():
    search, space = of("start")
    best_of_n.run(search, best_of_n.Config(paths=3))
    (path,) = search.of(0)
    assert not path.ended and space.episode(path.leaf) is None and len(space.broken) == 1
    assert records(search, space, [path.leaf]) == []


def test_samples_are_begun_only_where_calls_are_left_to_end_them():
    search, _ = of("", budget=Budget(calls=20))
    best_of_n.run(search, best_of_n.Config(paths=16, parallel=16))
    assert len(search.of(0)) == 6 and all(path.ended for path in search.of(0))  # three calls each
