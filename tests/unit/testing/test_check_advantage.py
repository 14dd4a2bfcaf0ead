"""The checker of advantage functions: what is unbiased passes, what is not is caught, wrong returns are findings."""

import numpy as np
import pytest

from evolvent.core.errors import BadInput
from evolvent.testing.advantage import check_advantage, tasks


def of_turns(mask, rewards):
    """Turn of each position (-1: none), and the reward of each turn, NaN where an attempt had ended."""
    begins = (mask == 1) & (np.pad(mask, ((0, 0), (1, 0)))[:, :-1] == 0)
    turn = np.where(mask == 1, np.cumsum(begins, 1) - 1, -1)
    earned = np.full((len(mask), turn.max() + 1), np.nan)
    for b, s in np.ndindex(*earned.shape):
        if (turn[b] == s).any():
            earned[b, s] = rewards[b, turn[b] == s].sum()
    return turn, earned


def paid(turn, adv):
    rows = np.arange(len(turn))[:, None]
    return np.where(turn >= 0, np.nan_to_num(adv)[rows, np.maximum(turn, 0)], 0.0)


def others(x):
    return (x.sum(0) - x) / (len(x) - 1)


def leave_one_out(token_level_rewards, response_mask, index):
    total = token_level_rewards.sum(1)
    adv = (total - others(total))[:, None] * response_mask
    return adv, adv  # with returns, as verl's have them


def no_baseline(token_level_rewards, response_mask, index, config=None):
    return token_level_rewards.sum(1, keepdims=True) * response_mask


def togo_leave_one_out(token_level_rewards, response_mask, index):
    turn, earned = of_turns(response_mask, token_level_rewards)
    togo = np.nan_to_num(earned)[:, ::-1].cumsum(1)[:, ::-1]  # ended attempts count 0
    return paid(turn, togo - others(togo))


def group_mean(token_level_rewards, response_mask, index):
    total = token_level_rewards.sum(1)
    return (total - total.mean())[:, None] * response_mask


def standardised(token_level_rewards, response_mask, index, epsilon=1e-6):
    total = token_level_rewards.sum(1)
    return ((total - total.mean()) / (total.std(ddof=1) + epsilon))[:, None] * response_mask


def togo_mean_of_those_there(token_level_rewards, response_mask, index):
    turn, earned = of_turns(response_mask, token_level_rewards)
    togo = np.where(np.isnan(earned), np.nan, np.nan_to_num(earned)[:, ::-1].cumsum(1)[:, ::-1])
    return paid(turn, togo - np.nanmean(togo, 0))


def pooled_togo(token_level_rewards, response_mask, index):
    turn, earned = of_turns(response_mask, token_level_rewards)
    togo = np.where(np.isnan(earned), np.nan, np.nan_to_num(earned)[:, ::-1].cumsum(1)[:, ::-1])
    return paid(turn, togo - np.nanmean(togo))


def own_turn_only(token_level_rewards, response_mask, index):
    return paid(*of_turns(response_mask, token_level_rewards))


def last_token_only(token_level_rewards, response_mask, index):
    adv, _ = leave_one_out(token_level_rewards, response_mask, index)
    last = np.pad(response_mask, ((0, 0), (0, 1)))[:, 1:] == 0
    return adv * last


def median(token_level_rewards, response_mask, index):
    total = token_level_rewards.sum(1)
    return (total - np.median(total))[:, None] * response_mask


@pytest.mark.parametrize("rule", [leave_one_out, no_baseline, togo_leave_one_out])
def test_unbiased(rule):
    report = check_advantage(rule)
    assert (report.claim, report.findings, report.counterexample) == ("unbiased", [], "")


def test_a_mean_with_oneself_in_it_is_right_up_to_scale():
    report = check_advantage(group_mean)
    assert report.claim == "unbiased up to scale"
    assert report.scales == pytest.approx((0.5, 2 / 3))  # (G - 1) / G


@pytest.mark.parametrize(
    "rule", [standardised, togo_mean_of_those_there, pooled_togo, own_turn_only, last_token_only, median]
)
def test_biased_with_a_counterexample_that_adds_up(rule):
    report = check_advantage(rule)
    assert report.claim == "biased"
    lines = report.counterexample.splitlines()
    parts = [float(line.split()[-1]) for line in lines[3:-1]]
    assert sum(parts) == pytest.approx(float(lines[-1].split()[2].rstrip(",")), abs=2e-4)


def test_a_trainer_that_divides_by_tokens_is_biased():
    assert check_advantage(leave_one_out, aggregation="token-mean").claim == "biased"
    assert check_advantage(leave_one_out, aggregation="sequence-mean").claim == "biased"


def test_form_of_trl():
    def flat(rewards, num_generations):
        group = rewards.reshape(-1, num_generations).T
        return (group - others(group)).T.reshape(-1)

    def by_step(rewards, num_generations, completion_mask, step_rewards):
        turn, _ = of_turns(completion_mask, completion_mask)
        togo = np.nan_to_num(step_rewards)[:, ::-1].cumsum(1)[:, ::-1]
        return paid(turn, togo - others(togo))

    assert check_advantage(flat, "trl").claim == "unbiased"
    assert check_advantage(by_step, "trl").claim == "unbiased"


def test_form_of_verifiers():
    def flat(inputs):
        rewards = [rollout["reward"] for rollout in inputs.rollouts]
        return [r - sum(rewards) / len(rewards) for r in rewards]

    def by_step(group):
        own = [[step["reward"] for step in rollout["trajectory"]] for rollout in group.rollouts]
        return [[sum(steps[s:]) for s in range(len(steps))] for steps in own]

    assert check_advantage(flat, "verifiers").claim == "unbiased up to scale"
    assert check_advantage(by_step, "verifiers").claim == "unbiased"


def test_tensors():
    torch = pytest.importorskip("torch")

    def narrow(token_level_rewards, response_mask, index):
        total = token_level_rewards.float().sum(1)
        return (total - (total.sum() - total) / (len(total) - 1)).unsqueeze(1) * response_mask.float()

    assert check_advantage(narrow, arrays=torch.as_tensor).claim == "unbiased"  # but for the rounding of 32 bits


def test_findings():
    def by_place(token_level_rewards, response_mask, index):
        total = token_level_rewards.sum(1)
        return (total - total[0])[:, None] * response_mask

    def everywhere(token_level_rewards, response_mask, index):
        return np.ones_like(response_mask) * token_level_rewards.sum(1, keepdims=True)

    assert "place in the group" in str(check_advantage(by_place))
    assert "environment is paid" in str(check_advantage(everywhere))


@pytest.mark.parametrize(
    ("returned", "what"),
    [
        (lambda r: np.full_like(r, np.nan), "nan"),
        (lambda r: r.sum(1), r"shape \[2\]"),
        (lambda r: r[:, :-1], "shape"),
        (lambda r: None, "got: None"),
        (lambda r: "advantages", "real numbers"),
    ],
)
def test_wrong_returns_are_said_with_the_group(returned, what):
    with pytest.raises(BadInput, match=what) as caught:
        check_advantage(lambda token_level_rewards, response_mask, index: returned(token_level_rewards))
    assert "whose turns earned" in str(caught.value)


def test_no_variance_in_a_group():
    def divides(token_level_rewards, response_mask, index):
        total = token_level_rewards.sum(1)
        with np.errstate(invalid="ignore", divide="ignore"):
            return ((total - total.mean()) / total.std())[:, None] * response_mask

    with pytest.raises(BadInput, match="nan"):
        check_advantage(divides)


def test_an_unknown_argument_is_named():
    with pytest.raises(BadInput, match="values"):
        check_advantage(lambda token_level_rewards, values: token_level_rewards)
    with pytest.raises(BadInput, match="verl, trl or verifiers"):
        check_advantage(leave_one_out, "ppo")


def test_probabilities_of_every_task_sum_to_one():
    for seed in range(4):
        for task in tasks(seed):
            assert task.probability_N.sum() == pytest.approx(1.0)
            assert np.linalg.norm(task.true_gradient_D) > 1e-3, task.name


def test_from_the_command_line(tmp_path, capsys):
    from evolvent.testing.command import COMMANDS

    file = tmp_path / "mine.py"
    file.write_text(
        "def advantage(token_level_rewards, response_mask, index):\n"
        "    return token_level_rewards.sum(1, keepdims=True) * response_mask\n"
        "def median(rewards, num_generations):\n"
        "    return rewards - sorted(rewards)[num_generations // 2]\n"
        "def broken(rewards, num_generations):\n"
        "    return rewards / 'two'\n"
    )
    COMMANDS["check"](["advantage", str(file), "--plain"])
    assert "mine.py: unbiased" in capsys.readouterr().out
    with pytest.raises(SystemExit) as stopped:
        COMMANDS["check"](["advantage", f"{file}:median", "--form", "trl", "--plain"])
    assert stopped.value.code == 1 and "Smallest counterexample" in capsys.readouterr().out
    with pytest.raises(BadInput, match="line 6"):
        COMMANDS["check"](["advantage", f"{file}:broken", "--form", "trl"])
    with pytest.raises(BadInput, match=r"file\.py:NAME"):
        COMMANDS["check"](["advantage", "grpo"])
