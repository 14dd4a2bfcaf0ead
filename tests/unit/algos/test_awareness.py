"""Notes in place of what was said: who sees what, the four rewards, and that gold is never shown but in its own arm."""

import numpy as np
import pytest

from evolvent.algos.parl_mt.awareness import TOKENS, WEIGHTS, Aware
from evolvent.core.protocols import Completion
from evolvent.envs.text import orders
from evolvent.play.attempt import play
from evolvent.play.renderers import Text
from evolvent.play.settings import AttemptSettings


@pytest.fixture
def env():
    return orders.make()


def task_of(env):
    return next(one for one in env.tasks("train", 50, 0) if env.gold(one)[0][0]["name"] == "find")


def test_rewards_are_those_of_the_vector(env):
    task, aware = task_of(env), Aware(env, "awareness")
    gold = [env.written(calls) for calls in env.gold(task)]
    # the right call; one function too many in the right form; no form, notes of one line; the right call again
    answers = [gold[0], f"{gold[1][:-1]}, find(customer='Nobody')]", "refund it", gold[3]]
    notes = ["nothing\nNext: find", "a\nNext: b", "one line", "a\nNext: b"]
    aware.reset(task)
    paid, returns = [], []
    for note, answer in zip(notes, answers, strict=True):
        for said in (note, answer):
            turn = aware.step(said)
            paid.append(turn.info["rewards"])
            returns.append(turn.reward)
    assert [p["call"] for p in paid] == [0, 0.25, 0, 0, 0, 0, 0, 0.25]
    assert {k: v for k, v in paid[-1].items() if k != "call"} == {
        "structure": 0.75,
        "success": 0.0,
        "efficiency": 1.0,
    }
    assert aware.right == [True, False, False, True]
    assert sum(returns) == pytest.approx(0.1 * 0.75 + 0.3 * 0.5 + 1.0 * 0 + 0.1 * 1.0)
    assert aware.reward_range == (0.0, pytest.approx(sum(WEIGHTS.values())))


def test_notes_that_an_agent_writes_are_all_that_its_call_is_made_from(env):
    task, aware = task_of(env), Aware(env, "awareness")
    turn, shown = aware.reset(task), []
    while not turn.done:
        asked = turn.observation
        turn = aware.step("" if len(shown) == 1 else "my words\nNext: x")
        shown.append((asked, turn.observation))
        turn = aware.step(env.written(aware.left()))
    assert turn.success
    requests = [call for _, call in shown]
    assert requests[0].startswith("my words\nNext: x\nRequest: Which orders")
    assert requests[1].startswith("\nRequest: ") and shown[2][0].startswith("\nCall: ")  # empty notes stay empty
    results = [str(row["order"]) for row in env._known.values()]
    assert not any(number in call.partition("Request")[0] for call in requests for number in results)
    assert "Result:" in shown[1][0] and "Functions" not in shown[0][0]


@pytest.mark.parametrize(("sees", "steps"), [("awareness", 8), ("empty", 4), ("gold", 4), ("history", 4)])
def test_prompts_hold_what_an_arm_sees(env, sees, steps):
    aware = Aware(env, sees)
    player = play(env, task_of(env), AttemptSettings(Text(), world=lambda _: aware), seed=0)
    request, prompts = next(player), []

    try:
        while True:
            prompts.append(request)
            notes = request.stop == ("\n\n",)
            said = "my words\nNext: x" if notes else env.written(aware.left())
            assert (request.max_tokens == TOKENS) == notes
            request = player.send(Completion(said, np.zeros(0, np.int32), np.zeros(0, np.float32)))
    except StopIteration as done:
        episode = done.value
    assert episode.n_steps == steps == len(prompts) and episode.success
    assert episode.total_reward == pytest.approx(1.5 - 0.0)
    last, order = prompts[-1].prompt, str(env.gold(task_of(env))[1][0]["arguments"].get("order", "Result"))
    assert ("Result:" in last) == (sees == "history")
    assert ("my words" in last) == (sees == "awareness") and ("Next: " in last) == (sees in ("awareness", "gold"))
    assert (order in last) == (sees in ("gold", "history")) or sees == "awareness"
    assert "find(customer)" in last
