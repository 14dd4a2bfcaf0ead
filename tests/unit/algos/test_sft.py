"""SFT and RAFT as runs: examples of three kinds, numbers after a kill, before and after, what is refused."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import letters_env
import tiny_language
from evolvent.algos import raft, sft
from evolvent.cli import main
from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.evaluate.live import Live
from evolvent.learn.tokens.batch import token_batch
from evolvent.learn.tokens.logprobs import TokenLogprobs
from evolvent.learn.tokens.objectives_of_papers import REINFORCE
from evolvent.models.language import model as language
from evolvent.runs.language.config import Plan
from evolvent.runs.language.examples import fitted
from evolvent.runs.language.imitation import imitated
from evolvent.runs.language.rows import read_rows, split_rows
from evolvent.runs.language.tuning import lr_factor
from language_runs import killed_in_update
from language_runs import start as started
from run_folders import Killed, begin, stable, weights

pytestmark = pytest.mark.usefixtures("one_thread")
folder = tiny_language.fixture(max_position_embeddings=512, hidden_size=64, intermediate_size=96)
SUM = "arithmetic:addition"
YES_OR_NO = """
from evolvent.core.protocols import Correction, Task, Turn
from evolvent.envs.text._text import TextEnv


class World(TextEnv):
    name, labels, stop, max_tokens, reward_range = "own", ("Q", "A"), ("\\n",), 5, (0.0, 1.0)
    instructions = ""

    def tasks(self, split, n, seed):
        found = [a + b + c for a in "ab" for b in "uvwxyz" for c in "012345"]
        return [Task(t, t, split=split) for t in found if (t[2] == "5") == (split == "heldout")][:n]

    def reset(self, task, seed=0):
        self.answer = {"a": "no", "b": "yes"}[task.text[0]]
        return Turn(task.text)

    def step(self, action):
        right = action == self.answer
        return Turn("", reward=float(right), terminated=True, success=right)

    def review(self, task, seed):
        return Correction({"a": "no", "b": "yes"}[task.text[0]])


def make():
    return World()
"""


def rows_of(n):
    """Talks in which the second answer is the first one backwards."""
    for i in range(n):
        word = f"{'abc'[i % 3]}{'xyz'[i // 3 % 3]}{i % 7}"
        said = (("user", f"say {word}"), ("assistant", word), ("user", "back"), ("assistant", word[::-1]))
        yield {"messages": [{"role": role, "content": content} for role, content in said]}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows_of(40)))
    return str(path)


def settings(model, *, plan=(), **more):
    kept = Plan(**{"dtype": "float32", "eval_every": 0, "eval_tasks": 8, "lora_rank": 0, **dict(plan)})
    return sft.Config(**{"model": model, "lr": 0.01, "prompts": 8, "epochs": 2, "seed": 1, **more}, plan=kept)


def run(config, path, *, resume=False, system=sft):
    with begin(path, system.__name__.rpartition(".")[2], config, resume=resume) as folder, Live(plain=True) as live:
        return system.run(config, folder, live, resume=resume)


# ------------------------------------------------------------------------------------------------ rows
def test_the_held_out_loss_falls_within_a_budget_and_answers_are_said(folder, data, tmp_path):
    found = run(settings(folder, data=data, epochs=25), tmp_path / "run")
    before, after = found["heldout_loss_before"], found["heldout_loss"]
    assert before["value"] > 5.0 and after["value"] < before["value"] / 4
    assert found["score"]["value"] == after["value"] and found["score"]["higher_is_better"] is False
    assert found["before"]["value"] == before["value"] and before["n"] == after["n"] == found["heldout_examples"]
    assert found["policy_updates"] == found["updates"] == math.ceil(found["examples"] * 25 / 8)
    model = language.load(str(tmp_path / "run" / "model"), dtype="float32", lora_rank=0)
    learned = split_rows(read_rows(Path(data)), 0.1)[0][:8]
    asked = [model.conversation(row.messages[:1]) for row in learned]
    said = model.sample(asked, seeds=range(8), max_tokens=8, temperature=0)
    assert sum(one.text == row.messages[1]["content"] for one, row in zip(said, learned, strict=True)) >= 4


@pytest.mark.parametrize("source", ["data", "env"])
def test_a_killed_run_goes_on_to_the_same_numbers(source, folder, data, tmp_path, monkeypatch):
    more = {"data": data, "plan": {"lora_rank": 4, "eval_every": 2}}
    if source == "env":
        more = {"env": f"{SUM}", "tasks": 24, "plan": {"lora_rank": 4, "save_every": 2}}
    config = settings(folder, **more)
    want = run(config, tmp_path / "whole")
    batch = sft.imitate

    def killed(run, ledger, **how):
        if run.update == 3:
            raise Killed
        return batch(run, ledger, **how)

    with monkeypatch.context() as during, pytest.raises(Killed):
        during.setattr(sft, "imitate", killed)
        run(config, tmp_path / "cut")
    torch.manual_seed(1)
    found = run(config, tmp_path / "cut", resume=True)
    assert {**found, "seconds": 0} == {**want, "seconds": 0}
    assert stable(tmp_path / "cut") == stable(tmp_path / "whole")
    assert weights(tmp_path / "cut") == weights(tmp_path / "whole")


def test_rows_that_changed_are_refused_when_a_run_goes_on(folder, data, tmp_path):
    copy = tmp_path / "rows.jsonl"
    copy.write_bytes(Path(data).read_bytes())
    config = settings(folder, data=str(copy), updates=2)
    run(config, tmp_path / "run")
    copy.write_text(copy.read_text().replace("back", "bakc"))
    with pytest.raises(BadInput, match="rows have changed"):
        run(config, tmp_path / "run", resume=True)


@pytest.mark.parametrize("seed", range(6))
def test_any_rows_packed_have_the_loss_and_gradient_of_rows_one_by_one(folder, tmp_path, seed):
    """Nothing of one row is seen by another, however they share passes: prompts alike, equal rows, growing talks."""
    draw = np.random.default_rng(seed)
    words = ["ab", "abc", "abd", "b", "<|im_end|>", "q"]

    def row():
        n = int(draw.integers(1, 4))
        said = [{"role": ("user", "assistant")[i % 2], "content": str(draw.choice(words))} for i in range(2 * n)]
        return {"messages": said}

    some = [row() for _ in range(int(draw.integers(2, 9)))]
    some.append(some[0])
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(f"{json.dumps(one)}\n" for one in some))
    model = tiny_language.stir(language.load(folder, dtype="float32", lora_rank=2))
    episodes = fitted(read_rows(path), model, chat=False, stop=(), longest=512).episodes
    got = [of_batch(model, episodes, micro) for micro in (1, 40, 4096)]
    alone = [of_batch(model, [one], 4096) for one in episodes]
    tokens = sum(n for _, _, n in alone)
    loss = sum(value * n for value, _, n in alone) / tokens
    slopes = sum(slope * n for _, slope, n in alone) / tokens
    for value, slope, n in got:
        assert n == tokens and value == pytest.approx(loss, abs=1e-5)
        assert float((slope - slopes).norm()) < 5e-5 * float(slopes.norm())  # float32, summed in another order


def of_batch(model, episodes, micro):
    """Loss, gradient and number of tokens."""
    batch = token_batch(episodes, imitated(episodes), level="step")
    batch = replace(batch, units=REINFORCE.prepare(batch.units))
    total, parameters = 0.0, model.trainable()
    slopes = [torch.zeros_like(p) for p in parameters]
    for _, part in batch.passes(TokenLogprobs(model), micro):
        loss = REINFORCE.terms(part.units, *part.logprobs(TokenLogprobs(model))).loss
        total += float(loss.detach())
        slopes = [a + b for a, b in zip(slopes, torch.autograd.grad(loss, parameters), strict=True)]
    return total, torch.cat([s.flatten() for s in slopes]), len(batch.units)


def test_only_answers_have_a_slope(folder, tmp_path):
    """The loss does not move with the logits that predict what users and tools say."""
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(next(rows_of(1))))
    model = language.load(folder, dtype="float32", lora_rank=0)
    (episode,) = fitted(read_rows(path), model, chat=False, stop=(), longest=512).episodes
    last = episode.n_steps - 1
    ids = torch.tensor(np.concatenate([episode.context_ids(last), episode.step_tokens(last)]), dtype=torch.int64)
    learned = np.zeros(len(ids), bool)
    for t in range(episode.n_steps):
        start = len(episode.context_ids(t))
        learned[start : start + len(episode.step_tokens(t))] = True
    with torch.no_grad():
        logits = model.logprobs([language.Row(ids[:1].numpy(), ids[1:].numpy())], want=("logits",)).logits_KV
    logits = logits.requires_grad_()
    nll = torch.nn.functional.cross_entropy(logits, ids[1:], reduction="none")
    value, _, n = of_batch(model, [episode], 4096)
    assert n == learned.sum() and value == pytest.approx(float(nll[learned[1:]].mean().detach()), abs=1e-5)


def test_the_learning_rate_rises_and_falls():
    rates = [lr_factor(i, 10, 0.2, "cosine") for i in range(10)]
    assert rates[:3] == [0.5, 1.0, 1.0] and rates[6] == pytest.approx(0.5) and 0 < rates[-1] < 0.05
    assert rates[2:] == sorted(rates[2:], reverse=True)
    assert [lr_factor(i, 4, 0.0, "linear") for i in range(4)] == [1.0, 0.75, 0.5, 0.25]
    assert {lr_factor(i, 5, 0.0, "constant") for i in range(5)} == {1.0}
    assert lr_factor(0, 1, 1.0, "cosine") == 1.0


def test_rank_and_targets_are_those_asked_for(folder, data, tmp_path):
    plan = {"lora_rank": 3, "lora_alpha": 6, "lora_targets": ("all-linear",), "dtype": "bfloat16"}
    run(settings(folder, data=data, updates=1, plan=plan), tmp_path / "run")
    adapter = json.loads((tmp_path / "run" / "model" / "adapter_config.json").read_text())
    assert (adapter["r"], adapter["lora_alpha"]) == (3, 6)
    kinds = {name.rpartition(".")[2] for name in adapter["target_modules"]}
    assert kinds == {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}
    with pytest.raises(BadInput, match="does not fit"):
        run(settings(folder, data=data, updates=1, plan={"lora_rank": 3, "lora_targets": ("none",)}), tmp_path / "no")


# ------------------------------------------------------------------------------------------------ attempts, answers
def test_the_answers_of_an_environment_are_learned_in_its_own_prompts(folder, tmp_path):
    own = tmp_path / "own.py"
    own.write_text(YES_OR_NO)
    found = run(settings(folder, env=str(own), tasks=60, epochs=8), tmp_path / "run")
    assert found["before"]["success_mean"] == 0.0 and found["greedy"]["success_mean"] >= 0.8
    assert found["heldout_loss"]["value"] < found["heldout_loss_before"]["value"] / 4
    assert found["score"]["name"] == "held-out return, greedy" and found["heldout_examples"] == 8
    assert Episode.from_dict(next(RunFolder.open(tmp_path / "run").read_episodes())).success


def test_recorded_successes_are_learned_and_failures_are_not(folder, tmp_path):
    started("grpo", grpo(folder), tmp_path / "first")
    with pytest.raises(BadInput, match="no recorded attempt succeeded"):
        run(settings(folder, recorded=str(tmp_path / "first")), tmp_path / "none")
    found = run(
        settings(folder, recorded=str(tmp_path / "first"), which="all", prompts=8, lr=1e-3, epochs=3),
        tmp_path / "second",
    )
    assert found["examples"] + found["heldout_examples"] == 12 and found["heldout_examples"] > 0
    losses = [row["loss"] for row in stable(tmp_path / "second") if "update" in row]
    assert losses[2] < losses[0]


def grpo(folder):
    from evolvent.algos import grpo as system

    plan = Plan(dtype="float32", eval_every=0, eval_tasks=2, lora_rank=2, record=99)
    return system.Config(env=SUM, model=folder, updates=2, prompts=2, group=3, plan=plan)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "one place"),
        ({"data": "x", "recorded": "y"}, "one place"),
        ({"data": "x", "heldout": 1.0}, "out of bounds"),
        ({"data": "x", "warmup": -0.1}, "out of bounds"),
        ({"data": "none.jsonl"}, "no such file"),
        ({"env": "microwave"}, "tells no answers"),
    ],
)
def test_what_cannot_be_learned_from_is_refused(more, said, folder, tmp_path):
    with pytest.raises(BadInput, match=said):
        run(settings(folder, **more), tmp_path / "run")


# ------------------------------------------------------------------------------------------------ rejection sampling
def attempt(group, reward):
    episode = Episode(group, group=group)
    episode.observe("q", token_ids=[1])
    episode.act("a", token_ids=[2, 3], reward=reward)
    episode.end(terminated=True, success=reward == 1.0)
    return episode


def test_the_best_of_each_task_is_kept():
    said = [attempt("a", 0.2), attempt("a", 0.7), attempt("a", 0.7), attempt("b", 0.0), attempt("b", 0.0)]
    said += [attempt("c", 1.0), attempt("c", 1.0)]
    kept = np.flatnonzero(~np.isnan(raft.best(said).values("step"))).tolist()
    assert kept == [1, 5]  # of b nothing: all failed alike
    assert np.flatnonzero(~np.isnan(raft.successes(said).values("step"))).tolist() == [5, 6]


def test_raft_learns_what_it_kept_and_goes_on_after_a_kill(tmp_path):
    writer = tiny_language.write(tmp_path / "writer")
    letters_env.teach(writer)
    plan = Plan(dtype="float32", eval_every=0, eval_tasks=4)
    config = raft.Config(
        env=f"{letters_env.__file__}:make", model=writer, updates=6, prompts=8, group=8, lr=0.03, plan=plan
    )
    want = run(config, tmp_path / "whole", system=raft)
    done = [row for row in stable(tmp_path / "whole") if "update" in row]
    assert done[-1]["return"] > done[0]["return"] and done[0]["left_out"] >= 7 / 8
    with killed_in_update(3):
        run(config, tmp_path / "cut", system=raft)
    found = run(config, tmp_path / "cut", resume=True, system=raft)
    assert {**found, "seconds": 0} == {**want, "seconds": 0} and stable(tmp_path / "cut") == stable(tmp_path / "whole")


# ------------------------------------------------------------------------------------------------ command line
def test_the_commands_of_a_run_of_rows(folder, data, tmp_path, capsys):
    out = tmp_path / "run"
    with pytest.raises(SystemExit):
        main(["run", "sft", "--help"])
    said = capsys.readouterr().out
    assert "--data" in said and "evolvent run sft --env" in said
    words = ["--model", folder, "--dtype", "float32", "--lora-rank", "4", "--lora-targets", "q_proj", "o_proj"]
    main(["run", "sft", "--data", data, *words, "--epochs", "1", "--out", str(out), "--plain"])
    said = capsys.readouterr().out
    assert "36 examples to learn from" in said and "held-out loss after update 0" in said and "left" in said
    html = (out / "report.html").read_text()
    assert "held-out loss, nats a token" in html and "Loss of examples" in html
    main(["eval", str(out), "--env", SUM, "--episodes", "4", "--plain"])
    assert json.loads((out / "eval-arithmetic-addition.json").read_text())["n"] == 4
    main(["export", "verl", str(out), "--rule", "step_return_to_go", "--out", str(tmp_path / "batch.npz")])
    assert (tmp_path / "batch.npz").exists()
    main(["eval", str(out), "--plain"])
    found = json.loads((out / "eval.json").read_text())
    assert found["heldout_loss"] == json.loads((out / "summary.json").read_text())["heldout_loss"]
