"""Baselines of text environments: what chance, silence and other people's answers are paid."""

import numpy as np
import pytest

from evolvent import envs
from evolvent.core.errors import BadInput
from evolvent.envs.text.microwave import success_probability
from evolvent.runs.language import baselines as tb


def test_random_commands_heat_the_pancake_as_often_as_they_must():
    env = envs.load("microwave")
    seeds = [tb.play(env, env.tasks("train", 1500, 0), tb.random_command, seed=s) for s in range(3)]
    summary = tb.summary(seeds)
    exact = success_probability(0.5, 0.5)
    assert summary["success"]["ci95"][0] < exact < summary["success"]["ci95"][1] and summary["attempts"] == 4500
    low, high = summary["return"]["ci95"]
    assert low < 2 * exact - 1 < high and high - low < 0.1
    assert summary["return"]["mean"] == pytest.approx(np.mean(summary["by_seed"]))


def test_doing_nothing_and_always_the_first_command():
    env = envs.load("microwave")
    tasks = env.tasks("train", 2, 0)
    for policy in (tb.nothing, lambda turn, _: turn.admissible[0]):  # the first command opens: the door is never shut
        summary = tb.summary([tb.play(env, tasks, policy)])
        assert summary["return"] == {"mean": -1.0, "ci95": [-1.0, -1.0]} and summary["steps"] == 5


def test_borrowed_answers_are_right_as_often_as_answers_repeat():
    env = envs.load("arithmetic:parity")
    policy = tb.borrowed(env.tasks("train", 200, 0))
    summary = tb.summary([tb.play(env, env.tasks("heldout", 300, 0), policy, seed=1)])
    assert 0.4 < summary["success"]["mean"] < 0.6
    assert tb.summary([tb.play(env, env.tasks("heldout", 9, 0), tb.random_command)])["success"]["mean"] == 0.0
    with pytest.raises(BadInput, match="carries its answer"):
        tb.borrowed(envs.load("microwave").tasks("train", 2, 0))


def test_the_same_seed_draws_the_same_and_another_seed_others():
    env = envs.load("overcooked")
    tasks = env.tasks("train", 3, 0)
    first, again, other = (tb.play(env, tasks, tb.random_command, seed=s) for s in (0, 0, 1))
    assert [e.rewards_T.tolist() for e in first] == [e.rewards_T.tolist() for e in again]
    assert [e.rewards_T.tolist() for e in first] != [e.rewards_T.tolist() for e in other]
    assert first[0].rewards_T.tolist() != first[1].rewards_T.tolist()


def test_attempts_that_do_not_count_are_left_out_and_a_seed_must_have_one_that_does():
    env = envs.load("microwave")
    one, two = tb.play(env, env.tasks("train", 2, 0), tb.nothing)
    one.valid = False
    assert tb.summary([[one, two]])["attempts"] == 1
    with pytest.raises(BadInput, match="valid attempt"):
        tb.summary([[one]])
