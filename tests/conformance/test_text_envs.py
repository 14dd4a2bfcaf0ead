"""Every text environment that needs no package of its own keeps the promises of ``core.protocols.Env``."""

import pytest

from evolvent import envs
from evolvent.core.errors import BadInput, EnvError
from evolvent.testing.env import check_env

SPECS = (
    "microwave",
    "microwave:long=true",
    "household",
    "household:entertainment,long=true",
    "household:chores,rooms=2",
    "household:food,item=washing_plate,swap=true",
    "overcooked",
    "overcooked:tomato-lettuce-salad,long=true,radius=0",
    "arithmetic",
    "arithmetic:smallest,shots=0",
    "arithmetic:addition",
    "arithmetic:addition2",
    "arithmetic:subtraction",
    "arithmetic:count",
    "arithmetic:next",
    "arithmetic:parity",
    "game24",
    "chain:steps=3,shots=2",
)


@pytest.mark.parametrize("spec", SPECS)
def test_keeps_the_protocol(spec):
    env = envs.load(spec)
    assert check_env(env) == ["attributes", "tasks", "splits", "attempts", "reviewer", "passes"]
    check_env(env, act=lambda _, turn: turn.admissible[-1] if turn.admissible else "0")
    env.close()


@pytest.mark.parametrize("spec", SPECS)
def test_a_text_that_is_no_command_costs_a_step_and_no_more(spec):
    env = envs.load(spec)
    turn = env.reset(env.tasks("train", 1, 0)[0])
    for _ in range(1000):
        turn = env.step("<|im_end|> no such command")
        if turn.done:
            break
    assert turn.done and not turn.success
    with pytest.raises(EnvError, match="reset"):
        env.step("open the microwave")


@pytest.mark.parametrize("spec", SPECS)
def test_a_negative_number_of_tasks_and_a_step_before_reset_are_refused(spec):
    env = envs.load(spec)
    with pytest.raises(BadInput, match="negative"):
        env.tasks("train", -1, 0)
    with pytest.raises(EnvError, match="reset"):
        env.step("wait")


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ("microwave:longer=true", "long"),
        ("microwave:step_limit=2", "3 or more"),
        ("overcooked:lettuce-salad", "tomato-lettuce-salad"),
        ("overcooked:tomato-salad,discount=0", "discount"),
        ("overcooked:tomato-salad,step_limit=9", "28 or more"),
        ("arithmetic:larges", "largest"),
        ("household:foot", "food"),
        ("household:food,item=pizzas", "pizza"),
        ("household:entertainment,item=pizza", "no other items"),
        ("household:chores,swap=true", "no other items"),
        ("household:food,rooms=5", "1 to 4"),
        ("household:entertainment,rooms=1", "2 to 4"),
        ("household:entertainment,step_limit=10", "11 or more"),
        ("arithmetic:largest,shots=9", "0 to 8"),
        ("chain:steps=0", "1 to 20"),
    ],
)
def test_a_wrong_option_is_answered_with_what_there_is(spec, named):
    with pytest.raises(BadInput, match=named):
        envs.load(spec)
