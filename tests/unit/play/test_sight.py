"""What stands in a prompt: all that the environment shows, whether a memory is asked or not."""

import pytest

from evolvent import envs
from evolvent.core.protocols import Task, Turn
from evolvent.memory.memory import Memory
from evolvent.models.served.acting import Served
from evolvent.models.served.scripted import Scripted
from evolvent.play.experience import Use
from evolvent.play.renderers import Text
from evolvent.play.settings import AttemptSettings
from evolvent.runs.memory.attempt import Agent, attempt


def prompts_of(env, task, answers, memory):
    """The prompts of an attempt in which ``answers`` are given."""
    seen, left = [], list(answers)

    def answer(prompt):
        seen.append(prompt)
        return left.pop(0) if left else "done"

    def score(prompt, command):
        seen.append(prompt)
        return float(command in answers)

    done = attempt(
        env,
        task,
        Agent(Served(Scripted(answer, scores=score)), use=Use(), settings=AttemptSettings(Text())),
        memory,
        seed=0,
    )
    done.learn()
    return seen, done


@pytest.mark.parametrize("recalls", [True, False])
@pytest.mark.parametrize("spec", ["program", "program:easy", "program:repair", "program:told", "analyst", "chain"])
def test_a_question_is_whole_beside_a_memory(spec, recalls):
    env = envs.load(spec)
    task = env.tasks("heldout", 1, seed=0)[0]
    shown = env.reset(task).observation
    with Memory(reward_range=env.reward_range) as memory:
        prompts, _ = prompts_of(env, task, ["x"], memory if recalls else None)
    assert shown in prompts[0]


@pytest.mark.parametrize("recalls", [True, False])
@pytest.mark.parametrize(("spec", "command"), [("shell", "ls"), ("sql", "tables")])
def test_what_a_command_shows_is_there_before_the_next_one(spec, command, recalls):
    env = envs.load(spec)
    task = env.tasks("heldout", 1, seed=0)[0]
    first, second = env.reset(task).observation, env.step(command).observation
    with Memory(reward_range=env.reward_range) as memory:
        prompts, _ = prompts_of(env, task, [command, "done"], memory if recalls else None)
    assert first in prompts[0] and second not in prompts[0]
    assert prompts[1].count(first) == 1 and prompts[1].index(first) < prompts[1].index(second)


class Own:
    """Two rooms; its keys are short."""

    name, instructions, labels, stop, max_tokens, reward_range = "own", "Go.\n\n", ("S", "C"), ("\n",), 9, (0.0, 1.0)

    def tasks(self, split, n, seed):
        return [Task("a", "leave", "leave", split)][:n]

    def reset(self, task, seed=0):
        return Turn("Leave by the red door.", ("red", "blue"), key="room 1")

    def step(self, action):
        return Turn("Out.", terminated=True, reward=1.0, success=True, key="room 2")

    def close(self):
        pass


@pytest.mark.parametrize("compact", [False, True])
def test_a_key_stands_for_the_situation_only_where_the_environment_says_so(compact):
    env = Own()
    env.key_is_state = compact
    with Memory(reward_range=env.reward_range) as memory:
        prompts, _ = prompts_of(env, env.tasks("train", 1, 0)[0], ["red"], memory)
        (kept,) = memory.items()
    assert ("Leave by the red door." in prompts[0]) != compact and ("S: room 1" in prompts[0]) == compact
    assert kept.key == "room 1", "what a memory is found by"
