"""A memory as the value of a search: filled from the outcomes of one search, it leads the next one to the goal."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from evolvent import Memory
from evolvent.cli import run as command
from evolvent.core.errors import BadInput
from evolvent.runs.search.config import SearchConfig, check_value
from evolvent.runs.search.memory_value import MemoryValue, Options, parsed
from evolvent.search.search import State

VAULT = """
from evolvent.core.protocols import Task, Turn

CODE = ("b0", "c1", "a2", "b3")

class Vault:
    name, instructions, labels, stop, max_tokens, reward_range = "vault", "", ("At", "Turn"), ("\\n",), 4, (0.0, 1.0)

    def tasks(self, split, n, seed):
        return [Task(f"{split}{seed}.{i}", f"open the vault number {10 * seed + i}", split=split, seed=i)
                for i in range(n)]

    def reset(self, task, seed=0):
        self.turned = []
        return Turn(task.text, self._dial())

    def _dial(self):
        return tuple(f"{letter}{len(self.turned)}" for letter in "abc")

    def step(self, action):
        self.turned.append(action)
        done, right = len(self.turned) == len(CODE), tuple(self.turned) == CODE
        return Turn("click", self._dial(), float(right), terminated=done, success=right)

    def review(self, task, seed=0):
        return None

    def advance(self, pass_number):
        pass

    def close(self):
        pass

def make():
    return Vault()
"""


def searched(place, name, *more):
    (place / "vault.py").write_text(VAULT)
    command.main(
        [
            "search",
            "--model",
            "none",
            "--env",
            str(place / "vault.py"),
            "--budget-tokens",
            "0",
            "--plain",
            "--out",
            str(place / name),
            "--widths",
            "3",
            *more,
        ]
    )
    return json.loads((place / name / "summary.json").read_text())["arms"][0], place / name


def fill(store, run):
    """As the page on search says it."""
    text = (Path(__file__).parents[3] / "docs" / "search.md").read_text(encoding="utf-8")
    (block,) = [code for code in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL) if "def fill(" in code]
    page: dict = {}
    exec(compile(block, "docs/search.md", "exec"), page)
    page["fill"](store, run, embedder="hash:4096")


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    place = tmp_path_factory.mktemp("vault")
    _, run = searched(
        place, "first", "--search", "rap", "--value", "flat", "--tasks", "1", "--budget-calls", "300", "--paths", "200"
    )
    fill(place / "states.db", run)
    return place


def test_values_of_a_memory_lead_a_search_to_the_goal_and_uniform_ones_do_not(filled):
    """A beam of one walks straight to one of 81 ends."""
    store = filled / "states.db"
    with Memory(store) as memory:
        before = memory.bank.store.row("SELECT count(*) FROM recall")
    more = ("--search", "beam", "--keep", "1", "--tasks", "4", "--seed", "1", "--budget-calls", "12")
    flat, _ = searched(filled, "flat", *more, "--value", "flat")
    led, out = searched(filled, "led", *more, "--value", f"memory:{store},k=1,gate=0.5")
    assert (flat["successes"], led["successes"]) == (0, 4)
    with Memory(store) as memory:
        assert memory.bank.store.row("SELECT count(*) FROM recall") == before  # no receipt
    mixed, _ = searched(filled, "mixed", *more, "--value", f"flat+memory:{store},k=1,gate=0.5")
    assert mixed["successes"] == 4
    values = [json.loads(line)["value"] for line in (filled / "mixed" / "metrics.jsonl").open()]
    whole = [json.loads(line)["value"] for line in (out / "metrics.jsonl").open()]
    assert values == pytest.approx([v / 2 for v in whole], abs=1e-5)


def test_the_value_is_the_kernel_mean_of_what_is_recalled(tmp_path):
    with Memory(tmp_path / "m.db", policy="memrl", embedder="hash", reward_range=(-1, 1)) as memory:
        for reward in (1.0, 1.0, -1.0):
            memory.remember("count the red apples\none", "one", merge=1.0)
            memory.settle(memory.recall("count the red apples\none", k=1), reward)
        (item,) = memory.search("count the red apples\none", k=1)
        value = MemoryValue(memory, Options(k=1, gate=0.5))
        same, far = value([State(1, 0, "count the red apples", ("one",)), State(2, 0, "sing", ("loudly",))])
    assert item.n == 3 and item.similarity == pytest.approx(1.0)
    assert same == pytest.approx((3 * (item.value + 1) / 2 + 0.25) / 3.5)  # as a share of the reward range
    assert far == 0.5


def test_the_store_is_a_file_a_run_folder_or_one_with_commas(tmp_path):
    assert parsed("memory:a,b/x.db,k=7, gate=.2") == ("a,b/x.db", Options(k=7, gate=0.2))
    with Memory(tmp_path / "memory.db", embedder="hash") as memory:
        memory.remember("a question", "an answer")
    check_value(SearchConfig(model="none", value=f"memory:{tmp_path}"))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("memory:nowhere.db", "there is no memory"),
        ("memory:", "no store is named"),
        ("memory:empty.db", "is empty"),
        ("memory:some.db,k=0", "no memory is asked"),
        ("memory:some.db,k=many", "wrong type"),
        ("memory:some.db,gates=1", "unknown option"),
        ("memory:some.db,gate=1", "gate is no similarity"),
        ("memory:some.db,scope=other", "no such scope"),
        ("memory:some.db,policy=none", "compares no texts"),
        ("memory:some.db,policy=best", "best"),
        ("flat+memory:nowhere.db", "there is no memory"),
    ],
)
def test_a_memory_that_cannot_judge_is_refused_before_anything_is_loaded(tmp_path, monkeypatch, spec, message):
    monkeypatch.chdir(tmp_path)
    Memory("empty.db", embedder="hash").close()
    with Memory("some.db", embedder="hash") as memory:
        memory.remember("a question", "an answer")
    with pytest.raises(BadInput, match=message):
        check_value(SearchConfig(model="none", value=spec))
    assert sorted(path.name for path in tmp_path.glob("*.db")) == ["empty.db", "some.db"]


def test_judging_reads_a_text_once(filled, monkeypatch):
    with Memory(filled / "states.db", policy="rag") as memory:
        value, asked = MemoryValue(memory, Options(k=1, gate=0.5)), []
        search = memory.search
        monkeypatch.setattr(memory, "search", lambda text, **how: asked.append(text) or search(text, **how))
        states = [State(n, 0, "open the vault number 0", (move,)) for n, move in enumerate(("b0", "a0", "b0"))]
        right, wrong, again = value(states)
    assert len(asked) == 2 and right == again > wrong and np.isfinite([right, wrong]).all()
