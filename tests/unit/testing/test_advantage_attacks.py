"""Rules that are not on the checker's page, biased and unbiased ones: each once fooled it or might have."""

import numpy as np
import pytest

from evolvent.core.errors import BadInput
from evolvent.testing.advantage import check_advantage


def others(x):
    return (x.sum(0) - x) / (len(x) - 1)


def verl(of_returns):
    """A rule on returns ``[B]`` as one of the form verl."""

    def advantage(token_level_rewards, response_mask, index):
        return of_returns(token_level_rewards.sum(1))[:, None] * response_mask

    return advantage, "verl"


def stepwise(of_steps):
    """A rule on rewards ``[B, S]``, 0 where an attempt had ended, as one of the form verifiers."""

    def advantage(inputs):
        steps = [[step["reward"] for step in rollout["trajectory"]] for rollout in inputs.rollouts]
        rewards = np.zeros((len(steps), max(map(len, steps))))
        for row, own in zip(rewards, steps, strict=True):
            row[: len(own)] = own
        return [row[: len(own)] for row, own in zip(of_steps(rewards), steps, strict=True)]

    return advantage, "verifiers"


def over(rewards, turns, discount=1.0):
    """Return of each turn and the ``turns - 1`` after it."""
    later = range(min(turns, rewards.shape[1]))
    return sum(discount**s * np.pad(rewards, ((0, 0), (0, s)))[:, s:] for s in later)


def centred(x):
    return x - others(x)


def judged(rule, form):
    return check_advantage(rule, form, seeds=(0, 1))


BIASED = {
    "a return over two turns": stepwise(lambda r: centred(over(r, 2))),
    "a return from the next turn on": stepwise(lambda r: centred(over(r, 9) - r)),
    "a discounted return": stepwise(lambda r: over(r, 9, 0.99) - others(over(r, 9))),
    "nothing from the third turn on": stepwise(lambda r: centred(over(r, 9)) * (np.arange(r.shape[1]) < 2)),
    "a return clipped at 10": verl(lambda x: centred(np.clip(x, -10, 10))),
    "the best of the group": verl(lambda x: x - x.max()),
    "ranks": verl(lambda x: np.sign(np.subtract.outer(x, x)).mean(1)),
    "each return once": verl(lambda x: x - np.unique(x).mean()),
    "a softmax": verl(lambda x: x - (np.exp(x - x.max()) * x).sum() / np.exp(x - x.max()).sum()),
}
UNBIASED = {
    "the best of the others": verl(lambda x: x - np.array([np.delete(x, i).max() for i in range(len(x))])),
    "a discounted baseline": stepwise(lambda r: over(r, 9) - others(over(r, 9, 0.9))),
    "pairs": verl(lambda x: np.subtract.outer(x, x).sum(1) / (len(x) - 1)),
}
BY_PLACE = {
    "the one before": (verl(lambda x: x - np.roll(x, 1)), "unbiased"),
    "the first": (verl(lambda x: x - x[0]), "unbiased up to scale"),
    "the one in the middle": (verl(lambda x: x - x[len(x) // 2]), "unbiased up to scale"),
    "more for the first": (verl(lambda x: centred(x) * x[0]), "biased"),
}


@pytest.mark.parametrize("name", BIASED)
def test_biased(name):
    report = judged(*BIASED[name])
    assert report.claim == "biased" and report.counterexample and not report.findings


@pytest.mark.parametrize("name", UNBIASED)
def test_unbiased(name):
    report = judged(*UNBIASED[name])
    assert (report.claim, report.findings) == ("unbiased", [])


@pytest.mark.parametrize("name", BY_PLACE)
def test_where_the_place_matters_every_order_is_formed(name):
    rule, claim = BY_PLACE[name]
    report = judged(*rule)
    assert report.claim == claim and report.findings == ["what an attempt gets depends on its place in the group"]


def test_siblings_of_a_tree():
    """The others that had the same turns before: no bias, unless the turn at hand is among them."""

    def baseline(inputs, shared):
        said = [[tuple(step["completion_ids"]) for step in rollout["trajectory"]] for rollout in inputs.rollouts]
        rewards = [[step["reward"] for step in rollout["trajectory"]] for rollout in inputs.rollouts]

        def credit(i, s):
            same = [
                sum(rewards[j][s:])
                for j in range(len(said))
                if j != i and len(said[j]) > s and said[j][: s + shared] == said[i][: s + shared]
            ]
            return sum(rewards[i][s:]) - (np.mean(same) if same else 0.0)

        return [[credit(i, s) for s in range(len(own))] for i, own in enumerate(said)]

    assert judged(lambda inputs: baseline(inputs, 0), "verifiers").claim == "unbiased"
    assert judged(lambda inputs: baseline(inputs, 1), "verifiers").claim == "biased"


def test_what_draws_or_remembers_is_not_judged():
    rng, mean = np.random.default_rng(0), [0.0]

    def remembers(returns):
        advantage, mean[0] = returns - mean[0], 0.9 * mean[0] + 0.1 * returns.mean()
        return advantage

    for rule in (lambda x: centred(x) + rng.normal(size=len(x)), remembers):
        with pytest.raises(BadInput, match="second call"):
            judged(*verl(rule))


@pytest.mark.parametrize(
    ("form", "rule", "got"),
    [
        ("verl", lambda token_level_rewards: [[0.0], [0.0, 1.0]], r"\[\[0.0\]"),
        ("verl", lambda token_level_rewards: token_level_rewards + 1j, "complex"),
        ("verl", lambda token_level_rewards: None, "shape"),
        ("trl", lambda rewards: rewards[:, None, None], "shape"),
        ("trl", lambda rewards: [None] * len(rewards), "nan"),
        ("verifiers", lambda inputs: ["good"] * len(inputs.rollouts), "good"),
        ("verifiers", lambda inputs: [[1.0] * 9] * len(inputs.rollouts), "9 steps"),
        ("verifiers", lambda inputs: (1.0 for _ in inputs.rollouts), "1 advantages"),
    ],
)
def test_what_is_no_advantage_is_said_with_the_group(form, rule, got):
    with pytest.raises(BadInput, match=got) as caught:
        judged(rule, form)
    assert "whose turns earned" in str(caught.value)


def test_nan_in_one_group_of_many():
    def rule(returns):
        return np.where(np.ptp(returns) == 0.0 and len(returns) == 3, np.nan, centred(returns))

    with pytest.raises(BadInput, match="nan"):
        judged(*verl(rule))
