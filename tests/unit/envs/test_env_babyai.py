"""BabyAI as text: what the words say is what is there, and rules that read only the words fulfil the missions."""

import random
import re

import numpy as np
import pytest

from evolvent.core.errors import BadInput, EnvError
from evolvent.envs import load
from evolvent.envs.text import babyai
from evolvent.envs.text._sight import sight


def place_of(thing, text):
    """(steps ahead, steps to the right) of ``thing`` as the text tells it, or ``None``."""
    found = re.search(rf"an? [\w ]*{thing} (right in front|[^;.\n]*)", text)
    if not found:
        return None
    where = found.group(1)
    if where == "right in front":
        return 1, 0
    ahead, side = re.search(r"(\d+) steps? ahead", where), re.search(r"(\d+) steps? to the (left|right)", where)
    right = int(side.group(1)) * (1 if side.group(2) == "right" else -1) if side else 0
    return int(ahead.group(1)) if ahead else 0, right


def walk_to(thing, turn, search):
    """Rules over the words alone: go to ``thing``; where it is not seen, wander."""
    place = place_of(thing, turn.observation)
    left, right, forward = turn.admissible[:3]
    if place is None:
        blocked = "in front of you" in turn.observation
        return search.choice((left, right)) if blocked else search.choice((forward, forward, left, right))
    ahead, side = place
    if ahead > 1 or (ahead and side):
        return forward
    return left if side < 0 else right if side > 0 else forward


def share(env, choose, n=40):
    wins = 0
    for number, task in enumerate(env.tasks("train", n, seed=0)):
        draw, turn = random.Random(number), env.reset(task)
        while not turn.done:
            turn = env.step(choose(turn, draw))
        assert turn.success == turn.terminated == (turn.reward == 1.0)
        wins += turn.success
    return wins / n


def test_rules_that_read_walk_to_the_red_ball_and_chance_seldom_does():
    env = load("babyai:GoToRedBallNoDists")
    assert share(env, lambda turn, draw: walk_to("red ball", turn, draw)) >= 0.9
    assert 0.1 <= share(env, lambda turn, draw: draw.choice(turn.admissible)) <= 0.4
    assert share(env, lambda turn, draw: turn.admissible[0]) <= 0.15


def test_words_place_what_the_agent_sees():
    seen = np.ones((7, 7, 3), np.uint8)
    seen[3, 6] = (6, 1, 0)  # carried: not in the room
    seen[3, 5] = (2, 5, 0)  # a wall right in front
    seen[1, 6], seen[6, 2], seen[2, 3] = (5, 4, 0), (4, 2, 2), (7, 5, 0)
    assert sight(seen) == [
        "You see a yellow key 2 steps to the left; a grey box 3 steps ahead and 1 step to the left; "
        "a locked blue door 4 steps ahead and 3 steps to the right.",
        "A wall is right in front of you.",
    ]
    assert sight(np.ones((7, 7, 3), np.uint8)) == ["You see nothing."]


def test_long_commands_say_and_do_the_same():
    short, long = load("babyai:PickupDist"), load("babyai:PickupDist,long=true")
    task = short.tasks("train", 1, seed=3)[0]
    a, b, draw = short.reset(task), long.reset(task), random.Random(1)
    while not a.done:
        assert all(len(command.split()) >= 8 for command in b.admissible) and len(a.admissible) == len(b.admissible)
        assert a.observation == b.observation
        move = draw.randrange(len(a.admissible))
        a, b = short.step(a.admissible[move]), long.step(b.admissible[move])
    assert b.done


def test_a_level_offers_what_it_needs():
    def offered(level, choose):
        env, seen = babyai.make(level, step_limit=60), set()
        for task in env.tasks("train", 4, seed=0):
            turn, draw = env.reset(task), random.Random(0)
            while not turn.done:
                seen |= set(turn.admissible)
                turn = env.step(choose(turn, draw))
        return seen

    moves = {"turn left", "turn right", "go forward"}

    def eager(turn, draw):
        return turn.admissible[-1] if draw.random() < 0.5 else draw.choice(turn.admissible)

    assert offered("GoToLocal", eager) == moves
    assert offered("PutNextLocal", eager) == moves | {"pick up", "drop"}
    assert offered("OpenDoor", eager) == moves | {"toggle"}
    assert offered("UnlockLocal", eager) == moves | {"pick up", "drop", "toggle"}


def test_hands_fulfil_a_mission_and_are_shown_what_they_carry():
    env = babyai.make("PickupDist")
    for task in env.tasks("heldout", 8, seed=0):
        turn, search = env.reset(task), random.Random(0)
        thing = re.search(r"pick up (?:an?|the) (.+)", task.text).group(1).replace("object", r"\w+")
        while not turn.done:
            near = place_of(thing, turn.observation) == (1, 0)
            turn = env.step("pick up" if near else walk_to(thing, turn, search))
        assert turn.success, (task.text, turn.observation)
        assert re.search(rf"You carry an? [\w ]*{thing}", turn.observation)


def test_held_out_worlds_never_start_like_training_worlds():
    env = babyai.make("GoToObjS4")
    train, held = ({env.reset(t).observation + t.id for t in env.tasks(s, 40, seed=1)} for s in ("train", "heldout"))
    assert len(train) == len(held) == 40 and not train & held
    one_start = babyai.make("MiniGrid-Empty-5x5")
    with pytest.raises(BadInput, match="too many tasks"):
        one_start.tasks("train", 2, seed=0)


def test_rejected_worlds_are_not_printed(capsys):
    babyai.make("GoToRedBall").tasks("train", 60, seed=0)
    assert capsys.readouterr() == ("", "")


def test_limits_unknown_commands_and_the_end():
    env = babyai.make("GoToRedBallNoDists", step_limit=3)
    task = env.tasks("train", 5, seed=0)[0]
    turn = env.reset(task)
    before = turn.observation
    assert env.step("<|im_end|> fly").observation == before
    env.step("turn left")
    turn = env.step("turn right")
    assert turn.truncated and not turn.terminated and turn.reward == 0.0
    with pytest.raises(EnvError, match="over"):
        env.step("turn left")


def test_bad_options_name_what_is_expected():
    with pytest.raises(BadInput, match="GoToRedBall"):
        load("babyai:GoToRedBal")
    with pytest.raises(BadInput, match="step_limit"):
        load("babyai:GoToObj,steps=3")
    with pytest.raises(BadInput, match="step limit"):
        babyai.make(step_limit=-1)
