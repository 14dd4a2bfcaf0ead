"""P3: the policy as it is says what is difficult, anew in each epoch; what is chosen is imitated, and scoring costs."""

import json
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import torch

import tiny_language
from evolvent.algos.p3 import Config, breaks
from evolvent.algos.p3.pruning import difficulty
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.evaluate.live import Live
from evolvent.models.language import model as language
from evolvent.models.language.model import Row
from evolvent.runs.language.config import Plan
from evolvent.runs.language.frozen import evaluate_language
from evolvent.runs.shell import Shell
from language_runs import rows, start
from run_folders import Killed, stable

folder = tiny_language.fixture()
N = 20


def said(i):
    return f" {'ab'[i % 2]}\n{'a' * (i + 1)}\nb"


@pytest.fixture
def config(folder, tmp_path):
    data = [{"prompt": f"Ask: {i}{'x' * (i % 5)}\nSay:", "completion": said(i)} for i in range(N)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in data))
    plan = Plan(dtype="float32", eval_every=0)
    rows = str(tmp_path / "rows.jsonl")
    return Config(model=folder, data=rows, heldout=0.0, updates=3, select=6, lr=0.02, plan=plan)


def epochs(run):
    files = sorted((run.path / "chosen").glob("*.json"))
    return [json.loads(path.read_text()) for path in files]


@contextmanager
def killed_in_shell(number):
    log = Shell.log

    def killed(self, *args):
        if self.update == number:
            raise Killed
        return log(self, *args)

    with pytest.MonkeyPatch.context() as during, pytest.raises(Killed):
        during.setattr(Shell, "log", killed)
        yield
    torch.manual_seed(12345)


def test_difficulty_is_that_of_the_policy_now(config, tmp_path):
    run, _, summary = start("p3", config, tmp_path / "run")
    f_EN = np.array([epoch["difficulty"] for epoch in epochs(run)])
    assert f_EN.shape == (3, N) and (np.diff(f_EN, axis=0) != 0.0).mean() > 0.9, "scored anew"
    assert len(set(f_EN[:, 3])) == 3, "the difficulty of one example is another one in each epoch"
    assert f_EN[-1].mean() < f_EN[0].mean()
    model = language.load(config.model, dtype="float32")
    prompt, lines = model.encode("Ask: 3xxx\nSay:", start=True), [" b\n", "aaaa\n", "b."]
    answer = np.append(model.encode("".join(lines))[:-1], model.tokenizer.eos_token_id)
    with torch.no_grad():
        logp = model.logprobs([Row(prompt, answer)]).logp_K.numpy()
    own = difficulty(np.split(logp, np.cumsum([len(line) for line in lines])[:-1]))
    assert f_EN[0][3] == pytest.approx(own, abs=1e-4)
    log = rows(run)
    assert [row["percentile"] for row in log] == pytest.approx([45, 45 + 50 / 3, 45 + 100 / 3])
    for epoch, row in zip(epochs(run), log, strict=True):
        f_N = np.array(epoch["difficulty"])
        assert len(set(epoch["chosen"])) == 6 and f_N[epoch["chosen"]].max() <= np.percentile(f_N, row["percentile"])
    assert summary["steps"] == 18 and summary["examples"] == N and summary["policy_updates"] == 3
    for name in ("scoring_cpu_s", "choosing_cpu_s", "learning_cpu_s"):
        assert summary[name] == pytest.approx(sum(row[name] for row in log), abs=1e-6)
    assert min(summary["scoring_cpu_s"], summary["learning_cpu_s"]) > 0


def test_controls_differ_in_what_they_choose(config, tmp_path):
    chosen = {}
    for how in ("p3", "pace", "random", "all"):
        run, _, _ = start("p3", replace(config, choose=how, updates=2), tmp_path / how)
        found = epochs(run)
        chosen[how] = [tuple(epoch["chosen"]) for epoch in found]
        assert all((epoch["difficulty"] is None) == (how in ("random", "all")) for epoch in found)
    assert all(sorted(epoch) == list(range(N)) for epoch in chosen["all"])
    assert all(len(epoch) == 6 for how in ("p3", "pace", "random") for epoch in chosen[how])
    assert len({frozenset(epochs[0]) for epochs in chosen.values()}) == 4


@pytest.mark.parametrize("how", ["p3", "random"])
def test_a_killed_run_goes_on_with_the_same_choices(config, tmp_path, how):
    config = replace(config, choose=how)
    whole, _, _ = start("p3", config, tmp_path / "whole")
    with killed_in_shell(1):
        start("p3", config, tmp_path / "killed")
    resumed, _, _ = start("p3", config, tmp_path / "killed", resume=True)
    assert stable(resumed.path) == stable(whole.path) and epochs(resumed) == epochs(whole)


def test_lines_of_an_answer():
    assert breaks(["a", "\n", "b", " ", "\n", "\n", "c\n"]) == [2, 6]
    assert breaks(["\n", "a", "\n\n"]) == [] == breaks([]) and breaks(["a\n", "b"]) == [1]


def test_without_examples_it_says_so(config, tmp_path):
    with pytest.raises(BadInput, match="--data"):
        start("p3", replace(config, data=""), tmp_path / "run")


def test_rows_that_are_held_out_are_never_chosen_and_judge(config, tmp_path):
    run, _, summary = start("p3", replace(config, heldout=0.5, choose="all"), tmp_path / "run")
    assert summary["examples"] == N / 2 == summary["heldout_examples"] == summary["heldout_loss"]["n"]
    assert [len(epoch["chosen"]) for epoch in epochs(run)] == [N // 2] * 3
    assert summary["score"]["value"] < summary["before"]["value"]
    with Live(plain=True) as live:
        found = evaluate_language(Config, RunFolder.open(run.path), live)
    assert found["heldout_loss"]["value"] == pytest.approx(summary["heldout_loss"]["value"], rel=1e-5)
