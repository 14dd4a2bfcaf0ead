"""A value before each token: what it reads, what it is noted as, what it learns."""

import numpy as np
import pytest
import torch

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.ledger import Ledger
from evolvent.credit import agent_sequential, step_gae, token_bad, token_ntpo, token_sequential
from evolvent.learn.critics.token import TokenCritic, token_targets
from evolvent.learn.losses import explained_variance


class Positions:
    """Features that say where a token stands: the length of its context, and its place."""

    def __init__(self):
        self.rows = []

    def __call__(self, rows):
        self.rows += rows
        return torch.tensor([[len(r.context) / 10, j / 10, 1.0] for r in rows for j in range(len(r.tokens))])


def episodes():
    whole, cut = Episode("a", id="a"), Episode("b", id="b")
    for ep, n in ((whole, 2), (cut, 3)):
        for t in range(2):
            ep.observe("seen", token_ids=[1] * (t + n), parent=-1)
            ep.act("act", token_ids=[2] * n, logp=[-1.0] * n)
    whole.end(terminated=True)
    cut.observe("where it stopped", token_ids=[1] * 9, parent=-1)
    cut.end(truncated=True)
    return [whole, cut]


def test_values_are_noted_before_each_token_and_where_an_attempt_was_cut_off():
    both, features = episodes(), Positions()
    seen = TokenCritic(features, 3, seed=1).note(both)
    assert [len(e.notes["value"]) for e in both] == [4, 6] and len(seen.value_K) == 10
    assert seen.value_K.tolist() == pytest.approx(np.concatenate([e.notes["value"] for e in both]).tolist(), abs=1e-6)
    assert both[1].final_value is not None and both[0].final_value is None
    assert [len(r.context) for r in features.rows] == [2, 3, 3, 4, 9]


def test_a_situation_that_fills_the_context_is_valued_by_its_end():
    features = Positions()
    TokenCritic(features, 3, context=9).note(episodes())
    assert len(features.rows[-1].context) == 8


def test_it_learns_its_targets_and_skips_what_has_none():
    both = episodes()
    critic = TokenCritic(Positions(), 3, lr=1e-3, clip=0.0)
    target = np.where(np.isin(np.arange(10), [0, 2, 4, 7]), 1.0, -1.0)  # first tokens are worth more
    target[0] = np.nan
    generator = torch.Generator().manual_seed(0)
    for _ in range(120):
        metrics = critic.learn(critic.note(both), target, epochs=2, minibatches=2, grad_clip=10.0, generator=generator)
    assert metrics["value_loss"] < 0.05 and metrics["explained"] > 0.9
    state = critic.state_dict()
    other = TokenCritic(Positions(), 3, seed=5)
    other.load_state_dict(state)
    assert torch.equal(other.note(both).value_K, critic.note(both).value_K)


def test_the_credit_of_a_decision_stands_at_its_first_token():
    both = episodes()
    ledger = Ledger.for_episodes(both)
    with pytest.raises(BadInput, match="no targets for the critic"):
        token_targets(ledger)
    ledger.targets["step"] = np.array([1.0, 2.0, 3.0, np.nan])
    assert token_targets(ledger).tolist() == pytest.approx(
        [1, np.nan, 2, np.nan, 3, np.nan, np.nan, np.nan, np.nan, np.nan], nan_ok=True
    )


def test_nothing_is_explained_where_nothing_varies():
    assert explained_variance(torch.tensor([0.1, 0.2]), torch.tensor([1.0, 1.0])) == 0.0


@pytest.mark.parametrize("rule", [token_bad, token_ntpo, token_sequential, step_gae, agent_sequential])
def test_rules_with_a_critic_give_its_targets_to_the_last_bit(rule):
    """The target of a critic is what it said, plus the advantage: in float64, from the note in float32."""
    both = episodes()
    rng = np.random.default_rng(3)
    for ep in both:
        ep.add_reward(float(rng.normal()))
        ep.note("value", rng.normal(size=ep.n_tokens).astype(np.float32))
    both[1].final_value = 0.3
    ledger = rule.assign(both)
    noted = np.concatenate([ep.notes["value"] for ep in both]).astype(np.float64)
    level = "token" if rule.LEVEL == "token" else "step"
    first = np.ones(len(noted), bool)
    if level == "step":
        first = np.diff(ledger.parent_index("token", "step"), prepend=-1) != 0
    np.testing.assert_array_equal(ledger.targets[level], ledger.values(level) + noted[first])
    assert np.array_equal(token_targets(ledger)[first], ledger.targets[level])
