"""SPC on a tiny model that writes three letters: a critic learns from labels, then from games; or says it fails."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

import letters_env
import tiny_language
from evolvent.algos import spc
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.core.protocols import Completion
from evolvent.core.reward_kinds import reward_total
from evolvent.envs.text import chain
from evolvent.evaluate.live import Live
from evolvent.learn.tokens.units import Units
from evolvent.models.language import model as language
from evolvent.play.renderers import Text
from evolvent.runs.language.config import Plan
from evolvent.runs.search.run import _learned
from evolvent.runs.search.step_critic import VERDICTS, Judging, StepCritic, labelled_steps
from evolvent.search.search import State
from language_runs import killed_in_update, rows
from language_runs import start as started
from run_folders import stable

ENV = f"{letters_env.__file__}:mixed"
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def writer(tmp_path_factory):
    """A tiny model that writes three lines of ``a`` or ``b``."""
    size = {"hidden_size": 64, "intermediate_size": 128, "initializer_range": 0.2, "max_position_embeddings": 512}
    folder = tiny_language.write(tmp_path_factory.mktemp("writer") / "model", **size)
    letters_env.teach(folder)
    return folder


def settings(folder, **more):
    plan = Plan(dtype="float32", eval_every=0, eval_tasks=64, micro_tokens=4096, lora_rank=16)
    base = {
        "model": folder,
        "env": ENV,
        "updates": 2,
        "prompts": 4,
        "group": 2,
        "minibatches": 2,
        "lr": 5e-4,
        "imitate_lr": 0.004,
    }
    return spc.Config(**(base | more), plan=plan)


@pytest.mark.parametrize("agent", spc.AGENTS)
def test_the_loss_of_a_game_is_clipped_as_by_hand(agent):
    """A ratio of 1.3 costs -1.2 where it won and 1.3 where it lost, whatever the number of tokens."""
    loss = spc.objective(spc.Config(), agent)
    gains = torch.tensor([1.3]).log() * torch.tensor([0.6, 0.4]) * (1.0 if agent == "critic" else 2.0)
    for reward, want, moves in ((1.0, -1.2, False), (-1.0, 1.3, True)):
        zero = torch.zeros(2, dtype=torch.int64)
        units = Units(zero, torch.arange(2), zero, zero, zero, zero, torch.full((2,), reward), torch.full((2,), -1.0))
        logp = (gains - 1.0).requires_grad_()
        terms = loss.terms(loss.prepare(units), logp, torch.zeros(2))
        (gradient,) = torch.autograd.grad(terms.loss, logp)
        assert float(terms.loss.detach()) == pytest.approx(want, abs=1e-6)
        assert bool(gradient.any()) == moves


def answers(*said):
    """Drives a game: a sneaky step as text, a verdict as its number."""
    env, left = chain.make(3, digits=1), list(said)
    task = env.tasks("train", 1, 0)[0]
    step = labelled_steps(env, task)[1]
    asks, request, shown = spc.game(env, task, step, Text(), sneaks=isinstance(said[0], str)), None, []
    try:
        request = next(asks)
        while True:
            shown.append(request)
            one = left.pop(0)
            text, choice = (one, -1) if isinstance(one, str) else (VERDICTS[one], one)
            text = text.replace("RIGHT", step.right).replace("WRONG", step.wrong[0])
            request = asks.send(Completion(text, np.zeros(1, np.int32), np.zeros(1), choice=choice))
    except StopIteration as done:
        return done.value, shown, step


@pytest.mark.parametrize(
    ("said", "paid", "kinds"),
    [
        (("WRONG", 0), [1.0, -1.0], {"wrong_steps": 0.0, "accepted": 1.0, "fooled": 1.0}),
        (("WRONG", 1), [-1.0, 1.0], {"wrong_steps": 1.0, "accepted": 0.0, "fooled": 0.0}),
        ((0,), [1.0], {"right_steps": 1.0, "accepted": 1.0}),
        ((1,), [-1.0], {"right_steps": 0.0, "accepted": 0.0}),
        (("RIGHT",), [-1.0], {"fooled": 0.0}),
        (("",), [-1.0], {"fooled": 0.0}),
    ],
)
def test_the_winner_gets_what_the_loser_pays(said, paid, kinds):
    episode, shown, step = answers(*said)
    assert episode.rewards_T.tolist() == paid
    assert {kind: reward_total(episode, kind) for kind in episode.rewards_by_kind} == kinds
    if len(shown) == 2:
        assert step.right in shown[0].prompt and step.right not in shown[1].prompt  # the critic sees no solution


def test_steps_of_a_chain_have_wrong_ones_that_its_check_refuses():
    env = chain.make(4, digits=1)
    for task in env.tasks("heldout", 8, 0):
        for step in labelled_steps(env, task):
            assert spc._is_right(env, task, step.before, step.right) and len(step.wrong) >= 2
            assert not any(spc._is_right(env, task, step.before, wrong) for wrong in step.wrong)


def test_held_out_steps_are_right_and_wrong_about_as_often():
    world, won = Judging(chain.make(4, digits=1)), {"right_steps": 0, "wrong_steps": 0}
    for task in world.tasks("heldout", 60, 0):
        world.reset(task)
        rewards = world.step("Correct").info["rewards"]
        won[next(iter(rewards))] += 1
        assert rewards["accepted"] == 1.0 and rewards.get("right_steps", 0.0) == 1.0 - ("wrong_steps" in rewards)
    assert min(won.values()) >= 20


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_critic_learns_right_and_wrong_steps_apart_and_self_play_keeps_it(writer, tmp_path, seed):
    config = settings(writer, seed=seed, updates=6, imitate=4, prompts=16, epochs=6, minibatches=4)
    folder, _, found = started("spc", config, tmp_path / "run")
    greedy = found["greedy"]
    assert greedy["reward_right_steps_mean"] >= 0.8 and greedy["reward_wrong_steps_mean"] >= 0.8
    assert found["before"]["success_mean"] < 0.7 and found["baseline"]["success_mean"] < 0.7
    last = rows(folder)[-1]
    assert last["right_steps"] > 0.6 and last["wrong_steps"] > 0.6 and last["sneaky_wrong"] > 0.6
    model = language.load(writer, dtype="float32")
    critic = _learned(model, str(tmp_path / "run" / "critic"))
    assert isinstance(critic, StepCritic)
    tried = (("a", "a"), ("a", "b"), ("b", "a"), ())
    right, wrong, spoiled, none = critic([State(0, 0, "700", steps) for steps in tried])
    assert right > 2 * max(wrong, spoiled) and none == 1.0
    assert np.allclose(critic.judge([("700", ("a",)), ("700", ("a", "a"))]).prod(), right)


@pytest.mark.parametrize(("accepted", "warned"), [(0.97, True), (0.03, True), (0.6, False)])
def test_one_word_for_nearly_all_steps_is_said(writer, tmp_path, monkeypatch, accepted, warned):
    measured = spc._measured
    monkeypatch.setattr(spc, "_improve", lambda *args, **more: {"updates": 0.0})
    monkeypatch.setattr(spc, "_measured", lambda games: (measured(games)[0], accepted))
    folder, _, found = started("spc", settings(writer), tmp_path / "run")
    said = [warning for row in rows(folder) for warning in row.get("warnings", ())]
    assert found["policy_updates"] == 0
    assert any("#one-verdict" in one for one in said) == warned


def test_a_killed_run_goes_on_and_is_evaluated_frozen(writer, tmp_path):
    config = settings(writer)
    _, _, want = started("spc", config, tmp_path / "whole")
    with killed_in_update(1):
        started("spc", config, tmp_path / "cut")
    _, _, found = started("spc", config, tmp_path / "cut", resume=True)
    assert {**found, "seconds": 0} == {**want, "seconds": 0}
    assert stable(tmp_path / "cut") == stable(tmp_path / "whole")
    with Live(plain=True) as live:
        judged = spc.evaluate(RunFolder.open(tmp_path / "cut"), live)
    assert judged["greedy"] == want["greedy"]


def test_what_cannot_be_played_is_refused(writer, tmp_path):
    with pytest.raises(BadInput, match="does not label lines"):
        started("spc", settings("no such model", env="game24"), tmp_path / "a")
    with pytest.raises(BadInput, match="need a beginning"):
        started("spc", settings(writer, imitate=0), tmp_path / "b")
    with pytest.raises(BadInput, match="never be trained"):
        started("spc", settings(writer, imitate=2), tmp_path / "c")
    with pytest.raises(BadInput, match="right and wrong"):
        labelled_steps(SimpleNamespace(name="x", line_labels=lambda task: [("a", 0, True)]), SimpleNamespace(id="t"))
