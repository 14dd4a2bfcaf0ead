"""TextWorld: games compiled from a seed into the cache, played to their end."""

import pytest

from evolvent.core.errors import BadInput
from evolvent.envs.text import textworld
from evolvent.testing.env import check_env

pytestmark = pytest.mark.compiled


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    patch = pytest.MonkeyPatch()
    patch.setenv("EVOLVENT_CACHE", str(tmp_path_factory.mktemp("cache")))
    yield
    patch.undo()


def test_a_family_keeps_the_protocol():
    env = textworld.make("coin_collector", settings="level=1", step_limit=4)
    assert "attempts" in check_env(env, n=1)
    env.close()


def test_the_coin_is_found_and_taken():
    env = textworld.make("coin_collector", settings="level=1", step_limit=30)
    turn = env.reset(env.tasks("train", 1, seed=0)[0])
    assert turn.key.startswith("Goal: ") and "coin" in turn.key and not turn.key.count("go ")
    while not turn.done:
        take = [c for c in turn.admissible if c == "take coin"]
        turn = env.step((take or [c for c in turn.admissible if c.startswith("go ")])[0])
        assert turn.observation.startswith("Goal: ")  # a prompt may hold this situation and nothing else
    assert turn.success and turn.terminated and turn.reward == 1.0 and turn.info["score"] == 1.0
    env.close()


def test_reading_the_cookbook_stays_in_the_situation():
    env = textworld.make("cooking", settings="go=1+cook=0")
    turn = env.reset(env.tasks("train", 1, seed=0)[0])
    assert not any(c.startswith("examine counter") for c in turn.admissible)
    turn = env.step("examine cookbook")
    later = env.step("inventory")
    assert "It says: " in turn.key and "Ingredients" in later.key and "Ingredients" in later.observation
    env.close()


@pytest.mark.parametrize("game", ["quest", "simple", "treasure_hunter"])
@pytest.mark.slow
def test_the_other_families_compile_and_play(game):
    env = textworld.make(game, step_limit=5)
    turn = env.reset(env.tasks("heldout", 1, seed=0)[0])
    while not turn.done:
        turn = env.step(turn.admissible[0])
    env.close()


def test_the_games_for_training_can_be_few():
    env = textworld.make("coin_collector", games=3)
    assert (
        {t.seed for t in env.tasks("train", 3, seed=0)} == {t.seed for t in env.tasks("train", 3, seed=9)} == {0, 1, 2}
    )
    assert len(env.tasks("heldout", 40, seed=0)) == 40
    with pytest.raises(BadInput, match="too many tasks"):
        env.tasks("train", 4, seed=0)


def test_unknown_games_and_settings_are_refused():
    with pytest.raises(BadInput, match="no such game"):
        textworld.make("zork")
    with pytest.raises(BadInput, match="level"):
        textworld.make("coin_collector", settings="rooms=3")
