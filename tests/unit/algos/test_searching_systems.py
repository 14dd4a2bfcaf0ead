"""Systems that search while they learn, on a tiny random model: the policy alone improves, a killed run goes on."""

from importlib import import_module

import numpy as np
import pytest
import torch

import tiny_language
from evolvent.evaluate.live import Live
from evolvent.learn.critics.search_value import SearchValue
from evolvent.models.language import model as language
from evolvent.runs.language.config import Plan
from evolvent.runs.language.run import LanguageRun
from evolvent.runs.language.searching import ValueRows
from run_folders import Killed, begin, stable

SETTINGS = {
    "ts_llm": {"rollouts": 12, "simulations": 5, "widths": (9,), "group": 6, "prompts": 4, "epochs": 3},
}  # fmt: skip

pytestmark = pytest.mark.usefixtures("one_thread")
folder = tiny_language.fixture(max_position_embeddings=512)


def settings(name, folder, **more):
    plan = Plan(dtype="float32", eval_every=0, eval_tasks=2)
    base = {"model": folder, "env": "microwave:step_limit=4", "updates": 2, "lr": 0.01, **SETTINGS[name]}
    return import_module(f"evolvent.algos.{name}").Config(**(base | more), plan=plan)


def start(name, config, path, *, resume=False):
    with begin(path, name, config, resume=resume) as made, Live(plain=True) as live:
        return import_module(f"evolvent.algos.{name}").run(config, made, live, resume=resume)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_ts_llm_teaches_the_policy_what_its_search_found(folder, tmp_path, seed):
    found = start("ts_llm", settings("ts_llm", folder, seed=seed), tmp_path / "run")
    assert found["before"]["success_mean"] == 0.0
    assert found["greedy"]["success_mean"] == 1.0  # without any search
    first, second = (row for row in stable(tmp_path / "run") if "update" in row)
    assert second["right"] >= first["right"] > 0
    model = language.load(str(tmp_path / "run" / "model"), dtype="float32")
    value = SearchValue.load(model, tmp_path / "run" / "value")
    assert np.isfinite(value.judge([model.encode("open the microwave")])).all()


@pytest.mark.parametrize(("name", "more"), [("ts_llm", {"value": "lora"}), ("ts_llm", {"value": "probe", "seed": 2})])
def test_a_killed_run_goes_on_to_the_same_numbers(name, more, folder, tmp_path, monkeypatch):
    config = settings(name, folder, **more)
    want = start(name, config, tmp_path / "whole")
    log = LanguageRun.log

    def killed_in_the_second(self, *args, **kwargs):
        if self.update == 1:
            raise Killed
        log(self, *args, **kwargs)

    with monkeypatch.context() as during:
        during.setattr(LanguageRun, "log", killed_in_the_second)
        with pytest.raises(Killed):
            start(name, config, tmp_path / "cut")
    torch.manual_seed(12345)
    found = start(name, config, tmp_path / "cut", resume=True)
    assert {**found, "seconds": 0} == {**want, "seconds": 0}
    assert stable(tmp_path / "cut") == stable(tmp_path / "whole")


def test_rows_of_a_value_are_kept_by_task():
    rows = ValueRows(keep=2, seed=0)
    rows.add([(task, [(np.arange(i + 1), float(i)), (np.arange(9), 1.0)]) for task in "ab" for i in range(5)], 0)
    assert len(rows) == 20
    rows.add([("a", [(np.arange(3), -1.0)])], 1)
    contexts, targets = rows.columns()
    assert len(rows) == 2 * 2 * 2 + 1 and targets[-1] == -1.0
    other = ValueRows(keep=2, seed=0)
    other.load_state_dict(rows.state_dict())
    again, same = other.columns()
    assert same == targets and all(np.array_equal(a, b) for a, b in zip(again, contexts, strict=True))
    other.add([], 2)
    rows.add([], 2)
    assert other.columns()[1] == rows.columns()[1]
    empty = ValueRows(1, 0)
    empty.load_state_dict(ValueRows(1, 0).state_dict())
    assert len(empty) == 0
