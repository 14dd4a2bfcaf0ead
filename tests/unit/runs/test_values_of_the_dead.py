"""Critics of single agents learn what is still earned after their agent died: its last steps are credited from that."""

import numpy as np
import pytest
import torch
from torch import nn

from evolvent.algos import coma, ippo, mat, pmat
from evolvent.algos.pmat.plackett_luce import Orderly
from evolvent.core.rollout import Rollout
from evolvent.core.team import ActionSpec, TeamSpec
from evolvent.credit import agent_gae
from evolvent.learn.team.batch import Batch, View
from evolvent.learn.team.critic import scaled_targets
from evolvent.learn.team.ppo import improve_joint
from evolvent.learn.team.value_norm import ValueNorm
from evolvent.models.team.actors import Critic, JointQ
from evolvent.models.team.joint import JointPolicy

torch.set_num_threads(1)
T, B, A, D = 4, 6, 2, 6
TEAM = TeamSpec(("a", "b"), D, (ActionSpec(2),) * A)
RULE = agent_gae.Config(0.9, 0.8)


def rolled_out():
    """Agent b dies with its first step, which decides whether each of the steps pays 1; then the attempt is over."""
    torch.manual_seed(0)
    obs = torch.zeros(T, B, A, D)
    obs[..., :T] = torch.eye(T)[:, None, None]
    obs[:, 1::2, :, T], obs[:, :, 1, T + 1] = 1.0, 1.0
    active = torch.ones(T, B, A, dtype=torch.bool)
    active[1:, :, 1] = False
    action = torch.arange(B).remainder(2)[None, :, None].expand(T, B, A)
    reward, over = obs[..., T].numpy().astype(np.float64), np.zeros((T, B), bool)
    over[-1] = True
    rollout = Rollout(
        obs_TBAD=obs.numpy(),
        action_TBA=action.numpy(),
        reward_TBA=reward,
        terminated_TB=over,
        truncated_TB=np.zeros_like(over),
        value_TBA=np.full((T, B, A), 0.5),
        mask_TBA=active.numpy(),
    )
    seen, logp = View(obs, obs.flatten(2), None, active), torch.full((T, B, A, 1), 0.5).log()
    kept = {"order": torch.arange(A).expand(T, B, A), "order_logp": torch.full((T, B), 0.5).log()}
    return Batch(seen, action, logp, torch.full((T, B, A), 0.5), kept, rollout)


def by_hand():
    """Lambda-returns ``[T, B, A]``: nobody's death ends the sum."""
    paid, out, ahead = np.arange(B) % 2, np.zeros((T, B)), np.zeros(B)
    for t in reversed(range(T)):
        following = 0.0 if t == T - 1 else (1 - RULE.gae_lambda) * 0.5 + RULE.gae_lambda * ahead
        out[t] = ahead = paid + RULE.gamma * following
    return torch.from_numpy(np.repeat(out[:, :, None], A, axis=2)).float()


def test_targets_do_not_end_with_a_life():
    norm = ValueNorm()
    batch = rolled_out()
    target, old, mask = scaled_targets(norm, batch, agent_gae.assign(batch.rollout, RULE), [])
    assert mask is None
    torch.testing.assert_close(norm.denormalise(target).view(T, B, A), by_hand())
    torch.testing.assert_close(norm.denormalise(old), torch.full((T * B, A), 0.5))
    assert norm.mean == pytest.approx(by_hand().mean().item())


def test_one_critic_of_the_team_learns_where_anybody_lives():
    batch, norm = rolled_out(), ValueNorm()
    batch.view.active[-1, 0] = False  # nobody: what stands there is not learned
    target, old, mask = scaled_targets(norm, batch, agent_gae.assign(batch.rollout, RULE), [], shared=True)
    torch.testing.assert_close(norm.denormalise(target).view(T, B), by_hand()[..., 0])
    assert old.shape == (T * B,)
    assert mask is not None
    assert mask.view(T, B).sum() == T * B - 1
    assert not mask.view(T, B)[-1, 0]
    assert norm.mean == pytest.approx(by_hand()[..., 0].flatten()[mask].mean().item())


def learned(algo, batch, generator):
    """What the critic says of every step after many passes over one rollout."""
    norm, view, ledger = ValueNorm(), batch.view.flat(), agent_gae.assign(batch.rollout, RULE)
    common = {"gamma": RULE.gamma, "gae_lambda": RULE.gae_lambda, "grad_clip": 100.0}
    if algo == "ippo":
        critics = nn.ModuleList([Critic(D, hidden=(32,))])
        config = ippo.Config(**common, ids=False, critic_epochs=200, clip=100.0)
        adam = torch.optim.Adam(critics.parameters(), lr=0.01)
        ippo.learn_values(config, critics, adam, norm, batch, ledger, generator)
        return norm.denormalise(ippo.values_of(critics, view.obs))
    if algo == "coma":
        q = JointQ(TEAM, A * D, D, hidden=(32,))
        rms, config = torch.optim.RMSprop(q.parameters(), lr=0.003), coma.Config(**common, critic_steps=1)
        target, _, _ = scaled_targets(norm, batch, ledger, [q.head])
        for _ in range(300):
            coma.learn_values(config, q, rms, target, batch, generator)
        return norm.denormalise(q.taken(view.state, view.obs, batch.action.flatten(0, 1)))
    policy, module = JointPolicy(TEAM, D, width=16), {"mat": mat, "pmat": pmat}[algo]
    net = policy if algo == "mat" else Orderly(policy)
    config = module.Config(**common, width=16, epochs=120, clip=100.0, entropy=0.0)
    adam = torch.optim.Adam(net.parameters(), lr=0.005)
    learn = improve_joint if algo == "mat" else pmat.learn
    learn(config, net, adam, norm, batch, ledger, generator)
    return norm.denormalise(policy.value(view.obs, view.active))


@pytest.mark.parametrize("algo", ["mat", "pmat", "ippo", "coma"])
def test_the_critic_knows_what_the_dead_still_earn(algo):
    batch = rolled_out()
    said = learned(algo, batch, torch.Generator().manual_seed(0)).detach().view(T, B, A)
    off = (said - by_hand()).abs()
    dead = ~batch.view.active
    assert off[dead].mean() < 0.1 and off[~dead].mean() < 0.1
