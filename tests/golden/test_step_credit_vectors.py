"""Numbers worked out by hand for the credit of attempts and steps, for shaped rewards and for the choice of data."""

import numpy as np
import pytest

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.reward_kinds import keep_reward
from evolvent.credit import (
    step_efficiency,
    step_flow_group,
    step_gated,
    step_graded_outcome,
    step_group_mean,
    step_group_std,
    step_leave_one_out,
    step_length_budget,
    step_length_weighted,
    step_live_groups,
    step_log_avg_exp,
    step_return_to_go,
    step_shift,
    step_token_average,
)
from evolvent.formulas.baselines import group_mean
from evolvent.formulas.curricula import (
    fading,
    rising,
    tool_bonus,
)
from evolvent.formulas.novelty import majority_novelty_rewards, novelty
from evolvent.formulas.process_rewards import (
    clip_rewards,
    delta_rewards,
    efficiency_reward,
    gated_total,
    length_budget_reward,
    overlong_penalty,
    progress_loss,
    progress_rewards,
    weigh_tests,
)


def attempts(returns, lengths, turns=None):
    """One attempt a return, ``lengths`` tokens long, its reward in the last of ``turns`` turns."""
    out = []
    for i, (ret, length) in enumerate(zip(returns, lengths, strict=True)):
        ep, n = Episode("t", group="g", id=str(i)), turns[i] if turns else 1
        for t in range(n):
            ep.act("x", token_ids=range(length), reward=ret if t == n - 1 else 0.0)
        ep.end(terminated=True, success=ret > 0)
        out.append(ep)
    return out


@pytest.mark.parametrize(
    ("rule", "config", "expected"),
    [
        (step_return_to_go, {}, [1, 0, 0.5, 0]),
        (step_group_mean, None, [0.625, -0.375, 0.125, -0.375]),
        (step_group_std, {}, [1.305580, -0.783348, 0.261116, -0.783348]),
        (step_group_std, {"ddof": 0}, [1.507553, -0.904532, 0.301511, -0.904532]),
        (step_flow_group, {}, [1.305580, -0.783348, 0.261116, -0.783348]),
        (step_leave_one_out, {}, [0.833333, -0.5, 0.166667, -0.5]),
        (step_leave_one_out, {"drop_below": 0.3}, [0.833333, -0.5, 0, -0.5]),
        (step_shift, {}, [0.725, -0.275, 0.225, -0.275]),
        (step_log_avg_exp, {}, [0.535165, -0.464835, 0.035165, -0.464835]),
        (step_log_avg_exp, {"tau": 0.25}, [0.306903, -0.693097, -0.193097, -0.693097]),
        (step_length_weighted, {}, [0.5, -0.5, 0, -0.5]),
        # others: (0 + .5*4 + 0)/7, (3 + 2)/8, 3/6, (3 + 2)/9
        (step_length_weighted, {"without_own": True}, [1 - 2 / 7, -5 / 8, 0, -5 / 9]),
        (step_token_average, {}, [1.290991, -1.290991, 0, -1.290991]),
    ],
)
def test_advantages_of_one_group(rule, config, expected):
    group = attempts([1, 0, 0.5, 0], [3, 2, 4, 1])
    ledger = rule.assign(group) if config is None else rule.assign(group, rule.Config(**config))
    assert ledger.values("step") == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("rule", [step_group_mean, step_group_std, step_leave_one_out])
def test_kinds_of_reward_that_are_asked_for_are_added_up(rule):
    episodes = attempts([1, 0, 0.5, 0], [1] * 4)
    for episode, cost in zip(episodes, [-0.5, 0, 0, 0.5], strict=True):
        keep_reward(episode, "cost", cost)
    both = rule.assign(episodes, rule.Config(kinds=("return", "cost"))).values("step")
    assert both == pytest.approx(rule.assign(attempts([0.5, 0, 0.5, 0.5], [1] * 4)).values("step"))
    alone = rule.assign(episodes, rule.Config(kinds=("cost",))).values("step")
    assert alone == pytest.approx(rule.assign(attempts([-0.5, 0, 0, 0.5], [1] * 4)).values("step"))
    with pytest.raises(BadInput, match="does not carry"):
        rule.assign(episodes, rule.Config(kinds=("manners",)))


def test_groups_that_say_nothing_scale_the_others_up():
    """GPG: two groups of four, one of which is all right, so B / (B - M) = 2."""
    one, other = attempts([1, 0, 0.5, 0], [3, 2, 4, 1]), attempts([1, 1, 1, 1], [1] * 4)
    for i, episode in enumerate(other):
        episode.group, episode.id = "solved", f"solved{i}"
    credit = step_live_groups.assign([*one, *other]).values("step")
    assert credit == pytest.approx([1.25, -0.75, 0.25, -0.75, 0, 0, 0, 0])
    assert step_live_groups.assign(one).values("step") == pytest.approx([0.625, -0.375, 0.125, -0.375])
    assert step_live_groups.assign(other).values("step").tolist() == [0] * 4


def test_a_group_is_attempts_and_not_turns():
    """Returns 1 and 0 in three turns and one turn: by attempts ±0.5, by turns it would be 0.25 and -0.75."""
    uneven = attempts([1, 0], [1, 1], turns=[3, 1])
    assert step_group_mean.assign(uneven).values("step").tolist() == [0.5, 0.5, 0.5, -0.5]
    by_turns = np.array([1.0, 1.0, 1.0, 0.0])
    assert (by_turns - group_mean(by_turns)).tolist() == [0.25, 0.25, 0.25, -0.75]
    root = 0.5 / (0.5 * 2**0.5)
    for rule in (step_group_std, step_flow_group):
        assert rule.assign(uneven).values("step") == pytest.approx([root, root, root, -root], abs=1e-5)
    gated = [keep_reward(e, "format", 0.0) or e for e in uneven]
    assert step_gated.assign(gated).values("step") == pytest.approx([root, root, root, -root], abs=1e-5)


# ------------------------------------------------------------------------------------------------ rewards
def test_gates():
    assert gated_total([0.0, 0.5 + 0.5 - 1], [0.0]) == 0.0
    assert gated_total([10.0, 0.5 + 0.5 - 1], [0.0]) == 10.0
    assert gated_total([0.0, 5.0], [0.0]) == 0.0
    assert gated_total([1.0, 5.0, 7.0], [0.0, 5.0]) == 6.0
    assert gated_total([1.0, 5.1, 7.0], [0.0, 5.0]) == pytest.approx(13.1)


def test_refined_process_rewards():
    p = [0.9, 0.7, 0.8, 0.6]
    assert clip_rewards(p, 0.75) == pytest.approx([0, -0.05, 0, -0.15])
    assert delta_rewards(p) == pytest.approx([0.2, -0.1, 0.2, 0.6])
    assert delta_rewards(p).sum() == pytest.approx(p[0])


def test_progress():
    assert progress_rewards([0.1, 0.3, -0.05], [1, 0, 1], 0.5) == pytest.approx([0.6, 0.3, 0.45])
    assert progress_loss([0.1, 0.3, -0.05], 1.0) == pytest.approx(0.4225)


def test_length_budgets():
    paid = length_budget_reward([600, 600, 3000], [512, 1024, 2560], alpha=1e-4, beta=1.0, limit=4096)
    assert paid == pytest.approx([0.964844, 0.923880, 0.364044], abs=1e-6)


def test_length_budget_advantages(monkeypatch):
    """Rewards .98 and 0 under a budget of 512, .92 twice under 1024."""
    monkeypatch.setattr(
        step_length_budget,
        "length_budget_reward",
        lambda n, b, **_: np.cos(np.pi * b / 8192) if not n.any() else np.array([0.98, 0.5, 0.92, 0.92]),
    )
    group = attempts([1, 0, 1, 1], [5, 5, 5, 5])
    for ep, budget in zip(group, (512, 512, 1024, 1024), strict=True):
        ep.budget_tokens = budget
    adv = step_length_budget.assign(group).values("step")
    assert adv == pytest.approx([0.093264, -1.988076, 0.452741, 0.452741], abs=1e-5)


def test_tests_by_weight():
    weight = weigh_tests([0.9, 0.9, 0.9, 0.2], alpha=2.0, width=0.1)
    assert weight == pytest.approx([0.055100, 0.055100, 0.055100, 0.670319], abs=1e-5)
    assert weight @ [1, 1, 1, 0] == pytest.approx(0.165299, abs=1e-5)


def test_majority_and_novelty():
    cos = np.array([[1, 0.9, 0.2, 0.1], [0.9, 1, 0.3, 0.2], [0.2, 0.3, 1, 0.6], [0.1, 0.2, 0.6, 1]])
    assert novelty(cos, [True, True, True, False]) == pytest.approx([0.275, 0.25, 0.575, 0.55])
    assert majority_novelty_rewards(["a", "a", "a", "b"], cos) == pytest.approx([0.538462, 0.5, 1, -0.5], abs=1e-6)
    assert majority_novelty_rewards(["a", "a", None, None], cos) == pytest.approx([0.75, 0.75, -1, -1])
    assert majority_novelty_rewards(["a", "a", "b", "b"], np.ones((4, 4))) == pytest.approx([0.75, 0.75, -0.75, -0.75])
    assert majority_novelty_rewards(["a"], [[1.0]]) == pytest.approx([1.0])


def test_overlong_answers():
    assert overlong_penalty([70, 80, 85, 100, 101], limit=100, buffer=20) == pytest.approx([0, 0, -0.25, -1, -1])


# ------------------------------------------------------------------------------------------------ choice of data
def test_schedules():
    assert rising(50, 200) == pytest.approx(0.146447, abs=1e-6)
    assert fading(50, 200) == pytest.approx(0.853553, abs=1e-6)
    assert tool_bonus(7, 50) == pytest.approx(0.597487, abs=1e-6)
    assert (rising(0, 200), rising(200, 200), rising(500, 200), fading(500, 200)) == (0, 1, 1, 0)


# compiles, runs, correct, ratio to the reference
PROGRAMS = [(0, 0, 0, 0.0), (1, 0, 0, 0.0), (1, 1, 0, 0.0), (1, 1, 1, 1.0), (1, 1, 1, 4.0), (1, 1, 1, 0.25)]


def programs(single):
    """One attempt an outcome; kinds of reward with one number, or one for each of two decisions."""
    out = []
    for i, row in enumerate(PROGRAMS):
        ep = Episode("t", group="g", id=str(i))
        for _ in range(1 if single else 2):
            ep.act("x", token_ids=[1, 2])
        ep.end(terminated=True, success=bool(row[2]))
        for kind, value in zip(("compiles", "runs", "correct", "ratio"), row, strict=True):
            keep_reward(ep, kind, float(value) if single else [1.0, float(value)])
        out.append(ep)
    return out


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize(
    ("rule", "rewards"),
    [
        (step_graded_outcome, [-1.0, -0.6, -0.3, 1.0, 1.0, 1.0]),  # CodeRL: search_data.md A3.6
        (step_efficiency, [-1.0, -0.5, -0.5, 0.5, 0.875, 0.0]),  # (t_ref - t) / t_ref: 0, 3/4, -3 cut at -1
    ],
)
def test_programs_are_paid_by_how_far_they_came_or_how_fast_they_are(rule, rewards, single):
    expected = [r - (sum(rewards) - r) / 5 for r in rewards]
    ledger = rule.assign(programs(single))
    assert ledger.values("step")[:: 1 if single else 2] == pytest.approx(expected, abs=1e-12)


def test_an_outcome_without_what_it_is_made_of_is_refused():
    (wrong,) = attempts([0.0], [1])
    with pytest.raises(BadInput, match="does not carry"):
        step_graded_outcome.assign([wrong])
    with pytest.raises(BadInput, match="no ratio"):
        efficiency_reward(compiles=True, correct=True, ratio=0.0)
