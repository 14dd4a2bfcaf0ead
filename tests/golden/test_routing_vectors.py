"""Router-R1's reward by its vectors (teams.md 8.1), its form, and its rule over recorded attempts."""

import numpy as np
import pytest

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.reward_kinds import keep_reward
from evolvent.credit import step_routed
from evolvent.formulas.routing import cheapness, routed_reward, well_formed


def test_the_vectors():
    assert cheapness([100, 0, 400, 50, 256]) == pytest.approx([0.5, 1.0, 0.0, 0.655353, 0.179919], abs=1e-6)
    assert cheapness([3.0] * 4).tolist() == [0.5] * 4 and cheapness([]).shape == (0,)
    assert [routed_reward(True, 1.0, c, 0.6) for c in (0.9, 0.1)] == pytest.approx([0.94, 0.46])
    assert routed_reward(False, 1.0, 0.9, 0.6) == -1.0 and routed_reward(True, 0.0, 0.9, 0.6) == 0.0
    assert routed_reward(True, 1.0, 0.0) == 1.0


def test_the_unit_of_cost_does_not_matter_and_old_costs_are_forgotten():
    cost_N = np.random.default_rng(0).exponential(size=300)
    assert cheapness(cost_N) == pytest.approx(cheapness(1e6 * cost_N))
    assert cheapness(cost_N, 20)[-1] == pytest.approx(cheapness(cost_N[-20:], 20)[-1])
    assert cheapness(cost_N, 20)[-1] != pytest.approx(cheapness(cost_N)[-1], abs=1e-6)


WHOLE = (
    "<think>I ask.</think><search>small: 2 + 2?</search><information>4</information>"
    "<think>So.</think><answer>4</answer>"
)


@pytest.mark.parametrize(
    ("text", "right"),
    [
        (WHOLE, True),
        ("<think>I know.</think><answer>4</answer>", True),
        ("4", False),
        (WHOLE.replace("small:", "huge:"), False),
        (WHOLE.replace("small:", "small"), False),
        (WHOLE.replace("2 + 2?", " "), False),
        (WHOLE.replace("<information>4</information>", ""), False),
        (WHOLE.replace("<think>So.</think>", "<think> </think>"), False),
        (WHOLE.replace("<think>I ask.</think>", ""), False),
        ("Well. " + WHOLE, False),
        (WHOLE + " Yes.", False),
        (WHOLE + "<answer>5</answer>", False),
        (WHOLE.replace("<answer>4</answer>", ""), False),
        (WHOLE.replace("So.", "<answer>4</answer>"), False),
        (WHOLE.replace("</answer>", ""), False),
        (WHOLE.replace("<think>So.", "So."), False),
        ("", False),
    ],
)
def test_the_form(text, right):
    assert well_formed(text, ("small", "large")) is right


def attempt(name, *, form=1.0, reward=1.0, cost=None, spent=None):
    ep = Episode("t", group="g", id=name)
    ep.observe("2 + 2?")
    ep.act(f"ask {name}", reward=reward)
    if spent is not None:
        ep.spend(cost_usd=spent)
    ep.end(terminated=True, success=reward > 0)
    keep_reward(ep, "format", form)
    if cost is not None:
        keep_reward(ep, "cost", cost)
    return ep


def test_cheap_right_answers_are_preferred_and_cheap_wrong_ones_are_not():
    costs = {"cheap": 1.0, "dear": 100.0, "wrong": 1.0, "broken": 1.0}
    given = {"wrong": {"reward": 0.0}, "broken": {"form": 0.0}}
    group = [attempt(name, cost=cost, **given.get(name, {})) for name, cost in costs.items()]
    plain = step_routed.assign(group).values("step")
    rewards = np.array([1.0, 1.0, 0.0, -1.0])
    assert plain == pytest.approx(rewards - (rewards.sum() - rewards) / 3)
    config = step_routed.Config(beta=0.5)
    rewards = np.array([0.5 + 0.5 * 0.5, 0.5, 0.0, -1.0])  # the first cost is alone in its window
    assert step_routed.assign(group, config).values("step") == pytest.approx(rewards - (rewards.sum() - rewards) / 3)
    spent = [attempt(name, spent=cost / 7, **given.get(name, {})) for name, cost in costs.items()]
    assert step_routed.assign(spent, config).values("step") == pytest.approx(rewards - (rewards.sum() - rewards) / 3)


def test_an_unknown_cost_is_refused_where_it_counts():
    group = [attempt("a"), attempt("b", cost=1.0)]
    assert step_routed.assign(group).values("step").tolist() == [0.0, 0.0]
    with pytest.raises(BadInput, match="not known what the attempt cost"):
        step_routed.assign(group, step_routed.Config(beta=0.1))
