"""Adversaries by gradient: on a line they go to the corner of the ball; what was learned goes its own way."""

import numpy as np
import pytest
import torch

from evolvent.core.errors import BadInput
from evolvent.core.team import ActionSpec, Frame, TeamSpec
from evolvent.learn.team.attack import GradientAttack, LearnedAttack, actors_attack
from evolvent.learn.team.views import Views
from evolvent.models.team.actors import Actors, Critic

TEAM = TeamSpec(("one",), 3, (ActionSpec(dims=2),))
VIEWS = Views(TEAM, ids=False, device=torch.device("cpu"))
OBS = np.float32([[[1, 2, 3]], [[0, -1, 5]]])
FRAME = Frame(OBS, np.zeros((2, 1), np.float32), np.zeros(2, bool), np.zeros(2, bool))
W = torch.tensor([2.0, -1.0, 0.5])
M = torch.tensor([[1.0, 0.0], [0.0, 3.0], [0.0, -2.0]])


def linear(**named):
    return GradientAttack(VIEWS, lambda view: view.obs @ M, **named)


def test_by_the_critic_what_is_seen_goes_where_the_value_falls():
    with torch.no_grad():  # as a player plays
        seen = linear(value=lambda view: view.obs @ W).on_obs(FRAME, 0.25, "critic")
    np.testing.assert_allclose(seen - OBS, np.broadcast_to([-0.25, 0.25, -0.25], OBS.shape), atol=1e-6)


def test_a_critic_of_actions_goes_before_and_judges_what_the_policy_would_do():
    attack = linear(value=lambda view: view.obs @ W, worth=lambda view, action: action.sum(-1))
    seen = attack.on_obs(FRAME, 0.25, "critic")
    np.testing.assert_allclose(seen - OBS, np.broadcast_to([-0.25, -0.25, 0.25], OBS.shape), atol=1e-6)
    done = attack.on_action(FRAME, np.zeros((2, 1, 2), np.float32), 0.5, "critic")
    np.testing.assert_allclose(done, -0.5, atol=1e-6)


def test_by_the_policy_the_action_changes_most():
    seen = linear().on_obs(FRAME, 0.25, "policy")
    change = torch.from_numpy(seen - OBS) @ M
    assert (seen - OBS).max() <= 0.25 + 1e-6
    assert change[..., 1].abs().min() == pytest.approx(0.25 * 5, abs=1e-5), "both that move it, in one direction"


def test_without_a_critic_of_actions_actions_cannot_be_attacked():
    with pytest.raises(BadInput, match=r"does not judge actions(?s:.*)ddpg"):
        linear().on_action(FRAME, np.zeros((2, 1, 2), np.float32), 0.5, "critic")


@pytest.mark.parametrize("actions", [ActionSpec(dims=2), ActionSpec(choices=3)])
def test_networks_give_a_gradient_and_harm_grows(actions):
    torch.manual_seed(0)
    team = TeamSpec(("one",), 3, (actions,))
    views = Views(team, ids=False, device=torch.device("cpu"))
    actors, critic = Actors(team, 3, hidden=(16,)), Critic(3, hidden=(16,))
    attack = actors_attack(views, actors, critic)
    by_critic, by_policy = (torch.from_numpy(attack.on_obs(FRAME, 0.5, by)) for by in ("critic", "policy"))
    truth = torch.from_numpy(OBS)
    assert (by_critic - truth).abs().max() <= 0.5 + 1e-6
    assert (critic(by_critic) < critic(truth)).all()
    assert np.array_equal(by_policy, attack.on_obs(FRAME, 0.5, "policy")), (
        "nothing is drawn that a resumed run would miss"
    )

    enemy = Actors(TeamSpec(("it",), 3, (ActionSpec(dims=3),)), 3, hidden=(16,))
    learned = LearnedAttack(attack, enemy)
    x, _ = enemy.act(truth, greedy=True)
    np.testing.assert_allclose(learned.on_obs(FRAME, 0.5, "critic"), truth + 0.5 * x.clamp(-1, 1))
    assert np.array_equal(learned.on_obs(FRAME, 0.5, "policy"), by_policy)
