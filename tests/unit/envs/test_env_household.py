"""The household tasks: shortest solutions by search, every command of the papers, what commands need."""

from collections import deque

import pytest

from evolvent.core.protocols import distinct
from evolvent.envs.text import household
from evolvent.envs.text._house import Chores

ENTERTAINED = (
    "walk to the chips",
    "grab the chips",
    "walk to the milk",
    "grab the milk",
    "walk to the living room",
    "walk to the coffee table",
    "put the chips on the coffee table",
    "walk to the TV",
    "turn on the TV",
    "walk to the sofa",
    "sit on the sofa",
)


def start(env, split="train"):
    return env.reset(env.tasks(split, 1, 0)[0])


def play(env, actions, split="train"):
    turn = start(env, split)
    for action in actions:
        assert action in turn.admissible, (action, turn)
        turn = env.step(action)
    return turn


def heat(verb, item, machine):
    return (
        f"walk to the {item}",
        f"grab the {item}",
        f"walk to the {machine}",
        f"open the {machine}",
        f"put the {item} in the {machine}",
        f"close the {machine}",
    )


def explore(env, depth):
    """Every situation within ``depth`` steps (what is shown tells states apart well enough), shortest way first."""
    seen, ways, commands = {start(env).observation}, deque([()]), set()
    while ways:
        way = ways.popleft()
        turn = play(env, way)
        if turn.done:
            return way, commands
        commands |= set(turn.admissible)
        for action in turn.admissible if len(way) < depth else ():
            shown = play(env, (*way, action))
            if shown.observation not in seen or shown.done:
                seen.add(shown.observation)
                ways.append((*way, action))
    return None, commands


@pytest.mark.parametrize("item", list(household.ITEMS))
def test_each_item_is_done_in_six_steps(item):
    turn = play(household.make(item=item), heat(*household.ITEMS[item]))
    assert turn.success and turn.terminated and turn.reward == 1.0


def test_no_shorter_way_to_a_hot_pancake_and_ten_commands_in_all():
    way, commands = explore(household.make(), 6)
    assert way == heat("heat", "pancake", "microwave")
    assert len(commands) == 10


def test_no_shorter_way_to_entertainment_and_all_but_one_of_seventeen_commands_on_it():
    way, commands = explore(household.make("entertainment"), 11)
    assert way is not None and len(way) == len(ENTERTAINED) == 11
    assert play(household.make("entertainment"), ENTERTAINED).success
    assert len(commands) == 17


def test_a_closed_door_keeps_the_pancake_out():
    env = household.make()
    steps = list(heat("heat", "pancake", "microwave"))
    steps.remove("open the microwave")
    turn = play(env, steps[:4])
    assert "You hold the pancake" in turn.observation and not turn.done


def test_two_full_hands_cannot_switch_and_who_sits_does_not_walk():
    steps = [s for s in ENTERTAINED if "coffee table" not in s]
    turn = play(household.make("entertainment"), steps)
    assert "which is off" in turn.observation and "on the sofa" in turn.observation and not turn.done
    env = household.make("entertainment")
    play(env, steps)
    assert "on the sofa" in env.step("walk to the TV").observation
    env.step("stand up from the sofa")
    assert "beside the TV" in env.step("walk to the TV").observation


def test_the_limit_truncates_without_reward():
    env = household.make(step_limit=6)
    turn = start(env)
    while not turn.done:
        turn = env.step(turn.admissible[0])
    assert turn.truncated and not turn.terminated and turn.reward == 0.0


def test_fewer_rooms_leave_the_goal_within_reach():
    env = household.make(rooms=1)
    assert explore(env, 6)[0] == heat("heat", "pancake", "microwave")
    assert not any("room" in command for command in start(env).admissible)
    assert play(household.make("entertainment", rooms=2), ENTERTAINED).success


def test_swapped_items_are_held_out():
    env = household.make(item="pizza", swap=True)
    assert {task.kind for task in env.tasks("train", 7, 0)} == {"pizza"}
    assert {task.kind for task in env.tasks("heldout", 7, 0)} == set(household.ITEMS) - {"pizza"}
    assert play(env, heat("heat", "pancake", "microwave"), "heldout").success


@pytest.mark.parametrize("variant", ["food", "entertainment"])
def test_long_commands_have_at_least_eight_words_and_mean_the_same(variant):
    assert all(len(phrase.replace("{}", "x").split()) >= 8 for phrase in household._LONG.values())
    short, long = household.make(variant), household.make(variant, long=True)
    turns = start(short), start(long)
    for way in (heat("heat", "pancake", "microwave"), ENTERTAINED)[variant == "entertainment"]:
        index = turns[0].admissible.index(way)
        turns = tuple(env.step(turn.admissible[index]) for env, turn in zip((short, long), turns, strict=True))
        assert turns[0].observation == turns[1].observation
    assert turns[1].success


def test_chores_are_many_and_held_out_ones_are_others():
    env = household.make("chores")
    train, heldout = ({task.id for task in distinct(env.tasks(split, 700, 0))} for split in ("train", "heldout"))
    assert len(train | heldout) == 680 and len(heldout) > 120 and not train & heldout


def test_the_expert_of_chores_needs_no_command_more_than_breadth_first_search():
    env = household.make("chores", rooms=1)
    for task in env.tasks("heldout", 3, 0):
        said = env.expert(task)
        assert 17 <= len(said) == len(household.Household.expert(env, task))
        turn = env.reset(task)
        for action in said:
            assert not turn.done and action in turn.admissible
            turn = env.step(action)
        assert turn.success


def test_what_of_the_chores_is_done_gets_less_on_the_way_to_more():
    world = Chores({"pancake": ("heat", "microwave")})
    before = [world.done()]
    while not world.solved():
        world.make(world.next_move())
        before.append(world.done())
    assert before == [0.5, 0.5, 0.5, 0.5, 0.0, 0.5, 1.0]


def test_chores_need_an_open_door_and_an_empty_hand():
    world = Chores({"pancake": ("heat", "microwave"), "cheese": ("heat", "microwave")}, near="pancake")
    world.make(("grab", "pancake"))
    world.make(("walk", "cheese"))
    assert ("grab", "cheese") not in world.moves()
    world.make(("walk", "microwave"))
    world.make(("put in", "pancake", "microwave"))
    assert world.where["pancake"] == "hand"
    world.make(("open", "microwave"))
    world.make(("put in", "pancake", "microwave"))
    assert world.where["pancake"] == "microwave" and not world.solved()
