"""SEC and Knapsack-RL change what a run draws, and a killed run draws what one that was never stopped draws."""

from collections import Counter
from importlib import import_module

import numpy as np
import pytest

import tiny_language
from evolvent.core.errors import BadInput
from evolvent.evaluate.live import Live
from evolvent.runs.language.run import LanguageRun
from language_runs import killed_in_update, rows, settings, start
from run_folders import begin, stable

folder = tiny_language.fixture(max_position_embeddings=512)
WORLD = '''
PROMPTS = [{"prompt": f"{i}?", "kind": "open" if i % 2 else "closed", "split": split}
           for split, numbers in (("train", range(24)), ("heldout", range(100, 104))) for i in numbers]
STOP, MAX_TOKENS = (), 2


def reward(completion, prompt, kind):
    """Half of all answers to a question that is open are right, none to one that is closed."""
    return float(kind == "open" and ord((completion or "x")[0]) % 2)
'''


@pytest.fixture
def world(tmp_path):
    (tmp_path / "world.py").write_text(WORLD)
    return f"graded:{tmp_path}/world.py"


def played(path, config, **how):
    """The tasks of each update in order, as (kind, attempts), and the run's folder."""
    drawn, collect = [], LanguageRun.collect

    def noted(self, *args, **kwargs):
        episodes = collect(self, *args, **kwargs)
        kinds = {e.group: "open" if int(e.task_id.split("/")[1]) % 2 else "closed" for e in episodes}
        drawn.append([(kinds[group], n) for group, n in Counter(e.group for e in episodes).items()])
        return episodes

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LanguageRun, "collect", noted)
        result, _, _ = start("grpo", config, path, **how)
    return drawn, result


def configured(folder, world, **plan):
    return settings("grpo", folder, env=world, updates=12, prompts=4, group=4, kl=0.0, lr=0.0, plan=plan)


def test_what_teaches_comes_more_often(folder, world, tmp_path, monkeypatch):
    monkeypatch.setattr("evolvent.runs.language.curriculum.RATE", 0.9)
    monkeypatch.setattr("evolvent.runs.language.curriculum.TEMPERATURE", 0.2)
    shares = {}
    for how in ("none", "sec"):
        drawn, run = played(tmp_path / how, configured(folder, world, curriculum=how))
        shares[how] = np.mean([kind == "open" for update in drawn for kind, _ in update])
        assert all(n == 4 for update in drawn for _, n in update)
    assert abs(shares["none"] - 0.5) < 0.15 < 0.3 < shares["sec"] - shares["none"]
    share = np.array([[row["share_open"], row["share_closed"]] for row in rows(run)])
    assert share.sum(1) == pytest.approx(1.0) and share[3:, 0].mean() > 0.7


def test_attempts_go_where_they_are_worth_most(folder, world, tmp_path):
    drawn, run = played(tmp_path / "run", configured(folder, world, allocation="knapsack"))
    assert all(sum(n for _, n in update) == 16 for update in drawn) and drawn[0] == [(k, 4) for k, _ in drawn[0]]
    mean = {k: np.mean([n for update in drawn[2:] for kind, n in update if kind == k]) for k in ("open", "closed")}
    assert mean["open"] > mean["closed"] + 0.5
    assert any(row["attempts_most"] > 4 > row["attempts_least"] >= 2 for row in rows(run))


@pytest.mark.parametrize("plan", [{"curriculum": "sec"}, {"allocation": "knapsack"}])
def test_a_killed_run_draws_the_same(folder, world, tmp_path, plan):
    config = configured(folder, world, **plan)
    whole, finished = played(tmp_path / "whole", config)
    with killed_in_update(7):
        played(tmp_path / "killed", config)
    rest, resumed = played(tmp_path / "killed", config, resume=True)
    assert rest == whole[7:] and stable(resumed.path) == stable(finished.path)


@pytest.mark.parametrize(
    ("name", "plan", "more", "message"),
    [
        ("grpo", {"curriculum": "sec"}, {}, "chooses among kinds"),
        ("dapo", {"allocation": "knapsack"}, {}, "distributes attempts by itself"),
        ("dpo", {"curriculum": "sec"}, {"pairs": "pairs.jsonl"}, "taken as they are"),
    ],
)
def test_what_would_change_nothing_is_refused_before_a_model_is_loaded(
    tmp_path, monkeypatch, name, plan, more, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pairs.jsonl").write_text('{"prompt": "a", "chosen": "b", "rejected": "c"}\n')
    config = settings(name, "no such model", env="arithmetic:largest", plan=plan, **more)
    opened = begin(tmp_path / "run", name, config)
    with opened, Live(plain=True) as live, pytest.raises(BadInput, match=message):
        import_module(f"evolvent.algos.{name}").run(config, opened, live)
