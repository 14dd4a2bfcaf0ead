"""What networks see of numbers in any unit: nothing is lost, and no unit is preferred."""

import pytest
import torch
from torch import nn

from evolvent.core.team import ActionSpec, TeamSpec
from evolvent.models.team.actors import Actors, Critic, JointQ
from evolvent.models.team.joint import JointPolicy
from evolvent.models.team.sizes import EXTRA, sized

UNITS = (1e-3, 1.0, 1e3)


@pytest.mark.parametrize("unit", UNITS)
def test_what_was_seen_can_be_recovered(unit):
    x = unit * (torch.randn(64, 5, dtype=torch.float64) + 0.3)
    pattern, mean, size = sized(x).split([5, 1, 1], dim=-1)
    r = size.exp()
    sd = (r**2 - 1e-12 - (mean * r) ** 2 + 1e-5 * r**2).sqrt()
    torch.testing.assert_close(pattern * sd + mean * r, x, rtol=1e-4, atol=1e-4 * unit)


def test_another_unit_moves_one_input_by_its_logarithm():
    x = torch.randn(8, 6, dtype=torch.float64)
    moved = sized(100.0 * x) - sized(x)
    torch.testing.assert_close(moved[:, :-1], torch.zeros(8, 7, dtype=torch.float64), rtol=0, atol=1e-6)
    torch.testing.assert_close(moved[:, -1], torch.full((8,), 4.60517, dtype=torch.float64), rtol=0, atol=1e-3)


def test_what_is_plain_stays_and_single_zero_and_equal_numbers_are_numbers():
    ids = torch.eye(3)
    seen = sized(torch.cat([1e4 * torch.randn(3, 2), ids], -1), plain=3)
    assert seen.shape == (3, 5 + EXTRA)
    assert torch.equal(seen[:, -3:], ids)
    one = sized(torch.tensor([[-2.0], [0.0], [2.0], [4.0]]))
    assert len(one.unique(dim=0)) == 4
    for x in (torch.zeros(2, 4), torch.full((2, 4), 1e6), torch.full((2, 4), -1e-9)):
        assert torch.isfinite(sized(x)).all()


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("width", [1, 24])
def test_a_critic_learns_a_value_of_size_alone(unit, width):
    """With a layer norm over raw numbers, as before, it explains nothing of this, in any unit."""
    torch.manual_seed(3)
    critic = Critic(width, hidden=(64, 64))
    adam = torch.optim.Adam(critic.parameters(), lr=2e-3)
    pattern = torch.randn(4096, width)
    size = torch.rand(4096, 1) * 2.0 - 1.0
    state, worth = unit * nn.functional.normalize(pattern, dim=-1) * 10.0**size, size.squeeze(-1)
    for _ in range(150):
        rows = torch.randint(len(state), (512,))
        loss = (critic(state[rows]) - worth[rows]).square().mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
    with torch.no_grad():
        left = (critic(state) - worth).var() / worth.var()
    assert left < 0.1


def test_values_of_teams_see_scale_too_and_large_states_do_not_drown_actions():
    team = TeamSpec(("a", "b"), 3, (ActionSpec(choices=2),) * 2, state_dim=4)
    obs, action = torch.randn(5, 2, 3), torch.randint(2, (5, 2))
    blind, seeing = (JointPolicy(team, 3, width=16, sizes=sizes) for sizes in (False, True))
    torch.testing.assert_close(blind.value(obs), blind.value(1000.0 * obs), rtol=0, atol=1e-2)
    assert (seeing.value(obs) - seeing.value(1000.0 * obs)).abs().min() > 1e-5
    q = JointQ(team, 4, 3, hidden=(32, 32))
    for unit in UNITS:
        state = unit * torch.randn(5, 4)
        others = q.of_choices(state, unit * obs, action) - q.of_choices(state, unit * obs, 1 - action)
        assert others.abs().mean() > 0.02


@pytest.mark.parametrize("ids", [False, True])
def test_actors_tell_small_from_large(ids):
    """By the size where they are given it, and by their own number beside the observation where they see that."""
    team = TeamSpec(("a", "b"), 3, (ActionSpec(choices=2),) * 2, state_dim=4)
    torch.manual_seed(0)
    actors = Actors(team, 3, hidden=(16,), ids=ids)
    obs = torch.randn(64, 2, 3)

    def logits(unit):
        logp = actors.outlook(unit * obs).logp
        assert logp is not None
        return logp

    adam = torch.optim.Adam(actors.parameters(), lr=1e-2)
    for _ in range(60):  # the first choice in small worlds, the second in large ones
        wrong = logits(0.1)[..., 1] - logits(0.1)[..., 0] + logits(10.0)[..., 0] - logits(10.0)[..., 1]
        adam.zero_grad()
        nn.functional.softplus(wrong).mean().backward()
        adam.step()
    with torch.no_grad():
        assert (logits(0.1).argmax(-1) == 0).float().mean() > 0.9
        assert (logits(10.0).argmax(-1) == 1).float().mean() > 0.9
