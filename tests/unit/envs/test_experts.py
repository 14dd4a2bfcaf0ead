"""Experts of text worlds: every command is one of those offered, and they lead to the goal."""

from importlib.util import find_spec

import pytest

from evolvent import envs
from evolvent.algos.trad.experts import play_expert, steps_of
from evolvent.core.errors import EnvError
from evolvent.envs.text import _jvm, alfworld, twx


@pytest.mark.parametrize(
    ("spec", "steps"),
    [("household:food,swap=true,long=true", 6), ("household:entertainment,rooms=2", 11), ("household:food,rooms=1", 6)],
)
def test_a_household_is_kept_in_the_fewest_commands(spec, steps):
    env = envs.load(spec)
    for task in (*env.tasks("train", 1, 0), *env.tasks("heldout", 6, 0)):
        episode = play_expert(env, task, 0)
        assert episode.success and episode.n_steps == len(steps_of(episode)) == steps
        assert steps_of(episode)[0][0].startswith("Goal: ")


@pytest.mark.skipif(not (find_spec("textworld_express") and _jvm.java()), reason="needs textworld-express and Java")
@pytest.mark.parametrize("game", ["twc", "coin", "cookingworld", "mapreader", "arithmetic", "sorting"])
def test_the_path_of_the_package_is_an_expert(game):
    env = twx.make(game, step_limit=60)
    for task in env.tasks("train", 3, seed=0):
        env.reset(task)
        said = env.expert(task)
        with pytest.raises(EnvError, match="none was begun"):
            env.step(said[0])  # the game of the expert has replaced the one being played
        assert play_expert(env, task, 0).n_steps == len(said)


@pytest.mark.compiled
def test_the_expert_of_alfworld_knows_no_more_than_is_seen():
    env = alfworld.make(step_limit=200)
    for task in env.tasks("train", 6, seed=2):
        did = [command for _, command in steps_of(play_expert(env, task, 0))]
        first = next(i for i, command in enumerate(did) if command.startswith("take "))
        assert all(command.startswith(("go to ", "open ")) for command in did[:first])
    short = alfworld.make("two", step_limit=3)
    with pytest.raises(EnvError, match="did not reach the goal"):
        play_expert(short, short.tasks("train", 1, seed=2)[0], 0)
