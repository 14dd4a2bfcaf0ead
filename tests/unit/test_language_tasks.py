"""A world with few tasks can be trained on: they come again; what is held out does not, and the run says so."""

from dataclasses import replace

import pytest

from evolvent.core.errors import BadInput
from evolvent.core.protocols import Task
from evolvent.rollout.language_config import LanguageConfig, Plan
from evolvent.rollout.language_tasks import drawn, run_tasks

CONFIG = LanguageConfig(env="few", updates=3, prompts=4, plan=Plan(eval_tasks=8))


class Few:
    """A world that refuses to give more tasks than it has, as those of other packages do."""

    def __init__(self, train, heldout):
        self.has = {"train": train, "heldout": heldout}

    def tasks(self, split, n, seed):
        if n > self.has[split]:
            raise BadInput("too many tasks", got=n, expected=f"about {self.has[split]}")
        return [Task(f"{split}/{(i + seed) % self.has[split]}", "", "few", split, i) for i in range(n)]


def test_too_few_tasks_come_again_and_the_run_says_so():
    said = []
    train, heldout = run_tasks(Few(5, 3), CONFIG, said.append)
    assert len(train) == 12 and len({t.id for t in train}) == 3
    assert [t.id for t in train[:3]] == [t.id for t in train[3:6]]
    assert len(heldout) == 2 == len({t.id for t in heldout})
    assert "fewer than 12 different training tasks: 3" in said[0] and "fewer than 8 held-out tasks" in said[1]


def test_enough_tasks_are_those_of_the_world_and_nothing_is_said():
    said = []
    train, heldout = run_tasks(Few(40, 40), CONFIG, said.append)
    assert len({t.id for t in train}) == 12 and len(heldout) == 8 and not said
    other, _ = run_tasks(Few(40, 40), replace(CONFIG, seed=1), said.append)
    assert [t.id for t in other] != [t.id for t in train]


def test_an_update_that_draws_anew_gets_all_it_asks_for():
    assert len(drawn(Few(3, 1), 8, 0)) == 8


def test_a_world_without_tasks_is_refused():
    with pytest.raises(BadInput, match="too many tasks"):
        run_tasks(Few(9, 0), CONFIG, print)
