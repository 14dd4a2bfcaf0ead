"""The overcooked kitchen: shortest dishes by search, rewards step by step, what goes wrong and comes back."""

import copy
import heapq
import itertools

import pytest

from evolvent.envs.text import _kitchen, overcooked

SALAD = (
    "pick up the tomato",
    "put the tomato on the cutting board",
    "chop the tomato",
    "pick up the tomato",
    "take the empty bowl",
    "serve the dish",
)
MIXED = (
    "pick up the tomato",
    "put the tomato on the first cutting board",
    "chop the tomato",
    "pick up the lettuce",
    "put the lettuce on the second cutting board",
    "chop the lettuce",
    "take the empty bowl",
    "put the lettuce in the bowl",
    "put the tomato in the bowl",
    "serve the dish",
)

DISHES = [("tomato-salad", SALAD, 28), ("tomato-lettuce-salad", MIXED, 45)]


def start(env):
    return env.reset(env.tasks("train", 1, 0)[0])


def play(env, actions):
    turns = [start(env)]
    for action in actions:
        assert action in turns[-1].admissible, (action, turns[-1])
        turns.append(env.step(action))
    return turns


def discounted(earned):
    return sum(0.99**i * (r - 0.001) for i, r in enumerate(earned))


def shortest(dish):
    """Primitive steps and macro actions of the quickest way to serve, by Dijkstra over copies of the kitchen."""
    first, count = _kitchen.Kitchen(*dish), itertools.count()
    queue, seen = [(0, 0, next(count), first)], set()
    while queue:
        steps, macros, _, kitchen = heapq.heappop(queue)
        if kitchen.served:
            return steps, macros
        key = (kitchen.cell, *kitchen.place.values(), *kitchen.chopped.values())
        if key in seen:
            continue
        seen.add(key)
        names = [*(("get", f) for f in kitchen.foods), ("get_bowl",), *(("go", b) for b in kitchen.boards)]
        for name, *arguments in (*names, ("serve",), ("chop",)):
            after = copy.deepcopy(kitchen)
            cost = len(list(getattr(after, name)(*arguments)))
            heapq.heappush(queue, (steps + cost, macros + 1, next(count), after))
    raise AssertionError("nothing can be served")


def test_the_map_has_everything_where_the_papers_have_it():
    assert _kitchen.HOMES == {"tomato": (0, 5), "lettuce": (1, 6), "onion": (2, 6), "bowl": (6, 5)}
    assert _kitchen._STATIONS == {"board 1": (1, 0), "board 2": (2, 0), "serve": (3, 0)}
    kitchen = _kitchen.Kitchen(("tomato",), frozenset({"tomato"}), 1)
    assert kitchen.cell == (1, 4)
    for target in (*_kitchen.HOMES.values(), *_kitchen._STATIONS.values()):
        row, col = target
        stand = (min(max(row, 1), 5), min(max(col, 1), 5))
        way = _kitchen.path((1, 4), target)
        assert way[-1] == stand and len(way) == abs(stand[0] - 1) + abs(stand[1] - 4)


def test_tomato_salad_step_by_step():
    turns = play(overcooked.make(), SALAD)
    expected = [[0, 0], [0] * 5, [0, 0, 0.2], [0], [0] * 10, [0] * 6 + [1.0]]
    assert [turn.reward for turn in turns[1:]] == pytest.approx([discounted(e) for e in expected])
    assert turns[-1].success and turns[-1].terminated and turns[-1].info["steps"] == 28
    assert sum(turn.reward for turn in turns) == pytest.approx(1.110284, abs=1e-6)


@pytest.mark.parametrize(("variant", "script", "steps"), DISHES)
def test_the_scripted_dish_is_the_shortest(variant, script, steps):
    assert shortest(overcooked._DISHES[variant]) == (steps, len(script))
    assert play(overcooked.make(variant), script)[-1].info["steps"] == steps


def test_mixed_salad_is_served_from_two_boards():
    turns = play(overcooked.make("tomato-lettuce-salad"), MIXED)
    assert turns[-1].success and sum(turn.reward for turn in turns) == pytest.approx(1.328145, abs=1e-6)
    assert all(len(turn.admissible) == 8 for turn in turns)


def test_a_bowl_is_filled_where_it_stands_or_where_the_food_is():
    env = overcooked.make()
    turns = play(env, [*SALAD[:3], "take the empty bowl", "put the tomato in the bowl", "serve the dish"])
    assert turns[-1].success and turns[-1].info["steps"] == 31
    turns = play(env, ["take the empty bowl", "put the bowl on the cutting board", "pick up the tomato"])
    assert "On the cutting board" not in turns[-1].observation  # too far away to be seen
    assert "In your hand: an unchopped tomato." in turns[-1].observation
    turn = env.step("put the tomato on the cutting board")  # occupied
    assert "On the cutting board: an empty bowl." in turn.observation and "unchopped tomato" in turn.observation


def test_a_wrong_delivery_costs_and_everything_goes_home_whole():
    env = overcooked.make("tomato-lettuce-salad", radius=0)
    turns = play(env, [*MIXED[:3], "pick up the tomato", "take the empty bowl", "serve the dish"])
    assert turns[-1].reward == pytest.approx(discounted([0] * 6 + [-0.1])) and not turns[-1].done
    assert "In view: a tomato, a lettuce, an onion, a bowl." in turns[-1].observation
    turn = env.step("pick up the tomato")
    assert "an unchopped tomato" in turn.observation
    env.step("put the tomato on the first cutting board")
    assert env.step("chop the tomato").reward == pytest.approx(discounted([0, 0, 0.2]))


def test_onions_are_chopped_for_nothing_and_actions_without_effect_cost_their_steps():
    env = overcooked.make("tomato-lettuce-salad")
    turns = play(env, ["pick up the onion", "put the onion on the second cutting board", "chop the onion"])
    assert turns[-1].reward == pytest.approx(discounted([0, 0, 0]))
    assert env.step("chop nothing").reward == pytest.approx(-0.001)
    assert env.step("walk to the second cutting board").reward == pytest.approx(-0.001)
    assert env.step("walk to the first cutting board").reward == pytest.approx(-0.001)
    assert env.step("serve nothing").reward == pytest.approx(discounted([0, 0]))
    assert env.step("a text that is no command").reward == pytest.approx(-0.001)


def test_only_what_is_near_is_seen():
    near, far = start(overcooked.make("tomato-lettuce-salad")), start(overcooked.make("tomato-lettuce-salad", radius=0))
    assert "In view: a tomato, a lettuce, an onion." in near.observation
    assert "an onion, a bowl." in far.observation


def test_two_hundred_steps_and_no_more_even_inside_a_macro_action():
    env = overcooked.make()
    turn = start(env)
    while not turn.done:
        turn = env.step(["take the empty bowl", "serve the dish"]["serve the dish" in turn.admissible])
    assert turn.truncated and not turn.terminated and turn.info["steps"] == 200


@pytest.mark.parametrize("variant", list(overcooked._DISHES))
def test_long_commands_mean_the_same(variant):
    short, long = overcooked.make(variant), overcooked.make(variant, long=True)
    turns = start(short), start(long)
    for action in (SALAD, MIXED)[variant != "tomato-salad"]:
        assert all(len(command.split()) >= 8 for command in turns[1].admissible)
        index = turns[0].admissible.index(action)
        turns = tuple(env.step(turn.admissible[index]) for env, turn in zip((short, long), turns, strict=True))
        assert turns[0].observation == turns[1].observation and turns[0].reward == turns[1].reward
    assert turns[1].success
