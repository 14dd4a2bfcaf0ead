"""TextArena by name: games really played, alone and against chance; format failures are counted as the agent's."""

import importlib.util
import random
import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from evolvent.core.errors import BadInput, EnvError, MissingExtra
from evolvent.envs import load
from evolvent.envs.text import textarena
from evolvent.testing.env import check_env

pytestmark = pytest.mark.compiled  # the extra brings packages that are built from source


@pytest.mark.parametrize(
    "spec",
    [
        "textarena:GuessTheNumber-v0-hardcore",
        "textarena:TowerOfHanoi-v0",
        "textarena:TicTacToe-v0",
        "textarena:2048-v0-train",
    ],
)
def test_a_game_keeps_the_promises_of_an_environment(spec):
    assert "attempts" in check_env(load(spec))


def test_halving_finds_the_number():
    env = load("textarena:GuessTheNumber-v0,settings=max_number=40")
    for task in env.tasks("train", 5, seed=0):
        turn, low, high = env.reset(task), 1, 40
        while not turn.done:
            guess = (low + high) // 2
            turn = env.step(f"[{guess}]")
            hints = re.findall(r"The target number is (higher|lower)", turn.observation)
            low, high = (guess + 1, high) if hints[-1:] == ["higher"] else (low, guess - 1)
        assert turn.success and turn.reward == 1.0 and turn.info["invalid"] == 0
        assert turn.info["moves"] <= 6 and "correct" in turn.info["reason"]


@pytest.mark.parametrize("game", ["GuessTheNumber-v0", "GuessTheNumber-v0-train", "GuessTheNumber-v0-raw"])
def test_a_format_failure_is_the_agents_and_is_counted(game):
    env = load(f"textarena:{game}")
    task = env.tasks("train", 1, seed=0)[0]
    assert "Guess The Number" in env.reset(task).observation
    turn = env.step("I think it is <|im_end|>")
    assert not turn.done and turn.valid and turn.info["invalid"] == 1
    assert turn.observation.count("invalid move. Reason:") == 1
    turn = env.step("hm")
    assert turn.terminated and not turn.success and turn.valid and turn.info["invalid"] == 2
    assert "Invalid" in turn.info["reason"] and turn.reward < 1.0
    with pytest.raises(EnvError, match="over"):
        env.step("[1]")


def test_what_was_said_comes_back_as_plain_text():
    env = load("textarena:GuessTheNumber-v0")
    env.reset(env.tasks("train", 1, seed=0)[0])
    assert "<|im_end|>[5]" in env.step("<|im_end|>[5]").observation


def test_a_player_by_rules_beats_chance_and_seeds_decide_the_game():
    env = load("textarena:TicTacToe-v0")

    def play(task, seed, order):
        turn, seen = env.reset(task, seed), []
        while not turn.done:
            free = re.findall(r"\[(\d)\]", turn.observation.rpartition("Available Moves:")[2])
            turn = env.step(f"[{next(cell for cell in order if cell in free)}]")
            seen.append(turn.observation)
        return turn, seen

    tasks = env.tasks("train", 20, seed=0)
    rewards = [play(task, 0, "402681357")[0].reward for task in tasks]
    assert set(rewards) <= {-1.0, 0.0, 1.0} and sum(rewards) >= 10
    assert play(tasks[0], 3, "402681357")[1] == play(tasks[0], 3, "402681357")[1]
    assert any(play(tasks[0], 0, "402681357")[1] != play(tasks[0], seed, "402681357")[1] for seed in range(1, 6))


def test_the_global_generator_is_left_as_it_was():
    random.seed(5)
    before = random.getstate()
    env = load("textarena:GuessTheNumber-v0")
    env.reset(env.tasks("train", 2, seed=0)[0])
    env.step("[3]")
    assert random.getstate() == before


def test_games_on_threads_do_not_disturb_each_other():
    def play(seed):
        env = load("textarena:2048-v0-train")
        env.reset(env.tasks("train", 3, seed)[2])
        moves = random.Random(seed)
        return [env.step(f"[{moves.choice(('up', 'down', 'left', 'right'))}]").observation for _ in range(12)]

    alone = [play(seed) for seed in range(6)]
    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(play, range(6))) == alone


def test_step_limit_truncates():
    env = load("textarena:GuessTheNumber-v0,step_limit=2")
    task = env.tasks("train", 1, seed=0)[0]
    env.reset(task)
    env.step("x")
    turn = env.reset(task)
    for number in ("[1]", "[20]"):
        turn = env.step(number)
    assert turn.success or (turn.truncated and not turn.terminated and turn.reward == 0.0)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("textarena:GuesTheNumber-v0", "GuessTheNumber-v0"),
        ("textarena:GuessTheNumber-v0,settings=max_numbr=4", "max_numbr"),
        ("textarena:Nim-v0", "other players"),
        ("textarena:SecretMafia-v0", "other players"),
        ("textarena:TicTacToe-v0,step_limit=0", "step limit"),
    ],
)
def test_bad_options_say_what_is_expected(spec, words):
    with pytest.raises(BadInput, match=words):
        load(spec)


def test_a_game_that_does_not_start_says_why(monkeypatch):
    monkeypatch.delenv("OPENROUTER_API_KEY", raising=False)
    with pytest.raises(EnvError, match="OPENROUTER_API_KEY"):
        load("textarena:Debate-v0")


def test_without_the_package_the_error_names_the_extra(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MissingExtra, match=r"\.\[textarena\]"):
        load("textarena:TicTacToe-v0")


def test_a_game_with_few_starts_has_some_held_out():
    env = textarena.make("GuessTheNumber-v0")
    heldout, train = env.tasks("heldout", 2, seed=0), env.tasks("train", 5, seed=0)
    starts = [{env._start(task.seed) for task in split} for split in (heldout, train)]
    assert len(starts[0]) == 2 and not starts[0] & starts[1]
