"""Credit of rollouts: GAE against a slow reference, and a ledger that keeps totals."""

import numpy as np
import pytest

from evolvent.core.errors import BadInput
from evolvent.core.rollout import Rollout
from evolvent.core.rollout_ledger import RolloutLedger
from evolvent.credit import agent_gae


def sample(seed, steps=30, batch=5, agents=3, ends=0.25) -> Rollout:
    """Random everything: terminations, truncations and the restarts after them in the middle of the rollout."""
    rng = np.random.default_rng(seed)
    kind = rng.random((steps, batch))
    return Rollout(
        obs_TBAD=rng.normal(size=(steps, batch, agents, 2)),
        action_TBA=rng.integers(4, size=(steps, batch, agents)),
        reward_TBA=rng.normal(size=(steps, batch, agents)),
        terminated_TB=kind < ends,
        truncated_TB=(kind >= ends) & (kind < 2 * ends),
        value_TBA=rng.normal(size=(steps, batch, agents)),
        bootstrap_BA=rng.normal(size=(batch, agents)),
        final_value_TBA=rng.normal(size=(steps, batch, agents)),
        mask_TBA=rng.random((steps, batch, agents)) < 0.9,
    )


def slow_gae(r: Rollout, gamma, gae_lambda):
    """The definition, attempt by attempt and agent by agent: sum of discounted errors up to the end of the attempt."""
    steps, batch, agents = r.shape
    out = np.full(r.shape, np.nan)
    for b in range(batch):
        start = 0
        while start < steps:
            end = next((t for t in range(start, steps) if r.done_TB[t, b]), steps - 1)
            for i in range(agents):
                values = [float(r.value_TBA[t, b, i]) for t in range(start, end + 1)]
                if r.terminated_TB[end, b]:
                    values.append(0.0)
                elif r.truncated_TB[end, b]:
                    values.append(float(r.final_value_TBA[end, b, i]))
                else:
                    values.append(float(r.bootstrap_BA[b, i]))
                errors = [
                    r.reward_TBA[start + k, b, i] + gamma * values[k + 1] - values[k] for k in range(end + 1 - start)
                ]
                for k in range(len(errors)):
                    if r.mask_TBA[start + k, b, i]:
                        out[start + k, b, i] = sum((gamma * gae_lambda) ** j * e for j, e in enumerate(errors[k:]))
            start = end + 1
    return out


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("gamma", "gae_lambda"), [(0.99, 0.95), (1.0, 1.0), (0.9, 0.0)])
def test_gae_is_the_slow_reference(seed, gamma, gae_lambda):
    rollout = sample(seed)
    both = [(rollout.terminated_TB[:-1] & ~rollout.done_TB[1:]).any(), (rollout.truncated_TB[:-1]).any()]
    assert all(both)  # attempts do end, either way, in the middle
    ledger = agent_gae.assign(rollout, agent_gae.Config(gamma=gamma, gae_lambda=gae_lambda))
    np.testing.assert_allclose(ledger.values("step"), slow_gae(rollout, gamma, gae_lambda), rtol=0, atol=1e-12)


def test_a_time_limit_is_not_an_end():
    r = sample(0, steps=1, batch=1, agents=1, ends=0.0)
    columns = {name: getattr(r, name) for name in ("obs_TBAD", "action_TBA")}
    cut = Rollout(
        **columns,
        reward_TBA=np.ones((1, 1, 1)),
        value_TBA=np.full((1, 1, 1), 5.0),
        terminated_TB=np.array([[False]]),
        truncated_TB=np.array([[True]]),
        final_value_TBA=np.full((1, 1, 1), 7.0),
    )
    config = agent_gae.Config(gamma=0.9)
    assert agent_gae.assign(cut, config).values("step").item() == pytest.approx(1 + 0.9 * 7 - 5)
    over = Rollout(
        **columns,
        reward_TBA=np.ones((1, 1, 1)),
        value_TBA=np.full((1, 1, 1), 5.0),
        terminated_TB=np.array([[True]]),
        truncated_TB=np.array([[False]]),
    )
    assert agent_gae.assign(over, config).values("step").item() == pytest.approx(1 - 5)


def test_agents_add_up_to_the_total():
    ledger = agent_gae.assign(sample(4))
    per_agent = ledger.project("step", "agent")
    assert ledger.total("agent") == pytest.approx(ledger.total("step"))
    rows = ledger.by_agent()
    assert list(rows) == ["agent0", "agent1", "agent2"]
    assert [row.signed for row in rows.values()] == pytest.approx(per_agent.tolist())
    assert sum(row.share for row in rows.values()) == pytest.approx(1)
    assert all(row.absolute >= abs(row.signed) for row in rows.values())


def test_not_scored_is_not_zero():
    rollout = sample(5)
    ledger = RolloutLedger.for_rollout(rollout)
    assert np.isnan(ledger.values("step")).all()
    assert np.isnan(ledger.project("step", "agent")).all()
    assert {row.share for row in ledger.by_agent().values()} == {0.0}
    ledger.set("step", [1.0, np.nan, 2.0])
    assert (np.isnan(ledger.values("step")) == (~rollout.mask_TBA | np.array([False, True, False]))).all()
    by_agent = ledger.project("step", "agent")
    assert np.isnan(by_agent).tolist() == [False, True, False]
    assert ledger.total("agent") == ledger.total("step")


def test_wrong_use_is_named():
    ledger = RolloutLedger.for_rollout(sample(6))
    with pytest.raises(BadInput, match="do not fit"):
        ledger.set("step", np.zeros((30, 5)))
    with pytest.raises(BadInput, match="infinite"):
        ledger.set("agent", np.inf)
    with pytest.raises(BadInput, match="unknown level"):
        ledger.values("token")
    with pytest.raises(BadInput, match="no such projection"):
        ledger.project("agent", "step")
    with pytest.raises(ValueError, match="read-only"):
        agent_gae.assign(sample(6)).values("step")[0] = 1.0
