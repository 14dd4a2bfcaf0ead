"""Searches in worlds whose rewards are on other scales: the same search finds the same, whatever a world counts in."""

import json
import textwrap

import pytest

from evolvent.algos.openr import omega
from evolvent.cli import run as command
from evolvent.search import values
from evolvent.search.search import State
from search_toy import Written, search_of

WORLD = textwrap.dedent('''
    """Four steps of four commands; each right one earns a quarter, and all of them together are right."""

    from evolvent.core.errors import BadInput
    from evolvent.core.protocols import Task, Turn

    class Steps:
        name, instructions, labels, stop, max_tokens = "steps", "", ("Q", "A"), ("\\n",), 4

        def __init__(self, low, high):
            self.reward_range = (low, high)

        def tasks(self, split, n, seed):
            if split not in ("train", "heldout"):
                raise BadInput("unknown split", got=split)
            return [Task(f"{split}-{i}", f"{split} {i}", split=split, seed=i) for i in range(n)]

        def reset(self, task, seed=0):
            self.task, self.at, self.good = task, 0, 0
            return Turn("0", admissible=("a", "b", "c", "d"))

        def step(self, action):
            self.at += 1
            self.good += action == "abcd"[(self.task.seed + self.at) % 4]
            low, high = self.reward_range
            if self.at < 4:
                return Turn(f"{self.at} {self.good}", admissible=("a", "b", "c", "d"))
            paid = low + (high - low) * self.good / 4
            return Turn("", reward=paid, success=self.good == 4, terminated=True)

        def review(self, task, seed=0):
            return None

        def advance(self, number):
            pass

        def close(self):
            pass

    def make(low: float, high: float):
        return Steps(low, high)
''')


def found(tmp_path, name, *flags):
    (tmp_path / "steps.py").write_text(WORLD)
    out = tmp_path / name
    command.main(
        [
            "search",
            "--model",
            "none",
            "--widths",
            "4",
            "--tasks",
            "4",
            "--budget-tokens",
            "0",
            "--plain",
            "--budget-calls",
            "150",
            "--out",
            str(out),
            *flags,
        ]
    )
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [(row["phase"], row["success"], row["tokens"], row["answer"], row["value"]) for row in rows]


@pytest.mark.parametrize("oracle", [("--value", "flat", "--verifier"), ("--value", "rollouts")])
def test_an_oracle_searches_alike_whatever_the_scale_of_rewards_is(tmp_path, oracle):
    searches = ("--search", "mcts_rollout", "mcts_alpha", "rap", "rstar", "dfs_v", "beam", *oracle)
    one, *others = (
        found(tmp_path, f"{low}", "--env", f"{tmp_path}/steps.py:make,low={low},high={high}", *searches)
        for low, high in ((0, 1), (-1, 1), (-64, 0), (0.5, 128.5))
    )
    assert any(success for _, success, *_ in one)
    for other in others:
        assert other == one


def test_what_was_cut_off_or_lost_is_the_least_and_not_the_best():
    def end(reward):
        return State(0, 0, "?", (), reward=reward)

    assert values.reward([end(-100.0), end(-50.0), end(0.0)], (-100.0, 0.0)).tolist() == [0.0, 0.5, 1.0]


class Partly(Written):
    """Ends say whether they are right, apart from what they pay."""

    def state(self, node):
        state = super().state(node)
        return State(
            state.node,
            state.task,
            state.question,
            state.steps,
            ended=state.ended,
            reward=state.reward,
            right=self.names[node] == "good" if state.ended else None,
        )


@pytest.mark.parametrize(("name", "paid", "mc"), [("bad", 0.3, 0.0), ("bad", 60.0, 0.0), ("good", 0.0, 1.0)])
def test_a_step_is_labelled_by_what_is_right_and_not_by_what_it_is_paid(name, paid, mc):
    space = Partly({"root": {"step": (1.0, 0.0)}, "step": {name: (1.0, 0.0)}}, {name: paid})
    (result,) = omega.run(search_of(space), omega.Config(samples=4, searches=4))
    assert {space.names[node]: share for node, share in result.mc.items()} == {"root": mc, name: mc}
