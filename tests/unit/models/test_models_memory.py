"""Actors with memory: a course that is learned from is the course that was acted, and forgets where attempts begin."""

import pytest
import torch

from evolvent import envs
from evolvent.algos import mappo, vdn
from evolvent.core.config import with_fields
from evolvent.core.errors import BadInput
from evolvent.learn.team.batch import View
from evolvent.learn.team.player import TeamPlayer
from evolvent.learn.team.replay import Transitions
from evolvent.learn.team.steps import Steps
from evolvent.learn.team.views import Views
from evolvent.runs.team.actors import acting, make_actors
from evolvent.runs.team.checks import check_minibatches
from evolvent.runs.team.factored import make_q, values_after

pytestmark = pytest.mark.usefixtures("one_thread")


def acted(shared, ids, spec="cue:n=3,choices=4,wait=1", horizon=8):
    """A rollout over several attempts, its actors, its batch."""
    torch.manual_seed(0)
    env = envs.load_team(spec, 5)
    views = Views(env.team, ids=ids, device=torch.device("cpu"))
    actors = make_actors(with_fields(mappo.Config(), shared=shared, memory=6, hidden=(8,)), views)
    for weight in actors.parameters():
        torch.nn.init.normal_(weight, std=0.5)
    steps, generator = Steps(views, horizon, 5), torch.Generator().manual_seed(0)
    steps.recall(None)
    view = steps.see(env.reset(1), 0)
    for _ in range(horizon):
        with torch.no_grad():
            seen = actors.seen(view.obs, view.memory)
        action, logp = actors.act(seen, available_BAN=view.available, generator=generator)
        view = steps.add(action, logp, torch.zeros(5, 3), env.step(action.numpy()), memory=seen)
    return actors, steps, steps.batch(lambda view: torch.zeros(len(view.obs), 3))


@pytest.mark.parametrize(("shared", "ids"), [(True, False), (True, True), (False, True)])
def test_the_course_that_is_learned_from_is_the_one_that_was_acted(shared, ids):
    actors, steps, batch = acted(shared, ids)
    view, action, logp = batch.learned()
    seen = actors.seen(view.obs, view.memory, view.begins)
    torch.testing.assert_close(actors.logprobs(seen, action).logp, logp)
    torch.testing.assert_close(seen[:, :-1].masked_fill(view.begins[:, 1:, None, None], 0.0), view.memory[:, 1:])
    assert view.begins[0].tolist() == [True, False, False] * 2 + [True, False]
    assert (view.memory[view.begins] == 0).all() and (view.memory[~view.begins] != 0).any(-1).all()
    for i in range(3):
        own = batch.of(i)
        mine = actors.seen_one(i, own.obs, own.memory, own.begins)
        torch.testing.assert_close(actors.logprobs_one(i, mine, own.action).logp, logp[:, :, i])
    last = steps.memory[-1].clone()
    steps.begin()
    assert torch.equal(steps.view(0).memory, last) and not steps.view(0).begins.any()


def test_gradients_reach_the_first_step_of_an_attempt_and_not_the_attempt_before():
    actors, _, batch = acted(True, False)
    view, action, _ = batch.learned()
    net = actors.members[0].net
    given = net.net(view.obs).relu().detach().requires_grad_()  # observations are normalised without gradients
    net.net.forward = lambda x: given
    seen = actors.seen(view.obs, view.memory, view.begins)
    actors.logprobs(seen, action).logp[:, 5].sum().backward()
    touched = given.grad.abs().sum((0, 2, 3)) > 0
    assert touched.tolist() == [False] * 3 + [True] * 3 + [False] * 2


def test_a_player_remembers_within_an_attempt_and_forgets_at_its_end():
    actors, steps, batch = acted(True, False)
    player, env = TeamPlayer(steps.views, acting(actors)), envs.load_team("cue:n=3,choices=4,wait=1", 5)
    frame = env.reset(1)
    for t in range(8):  # the same frames as when acting
        player.act(frame, greedy=True, generator=torch.Generator())
        want = actors.seen(batch.view.obs[t], batch.view.memory[t])
        torch.testing.assert_close(player._memory, want)
        frame = env.step(batch.action[t].numpy())
    player.begin()
    frame = env.reset(1)
    player.act(frame, greedy=True, generator=torch.Generator())
    torch.testing.assert_close(player._memory, actors.seen(batch.view.obs[0], batch.view.memory[0]))


def test_what_memory_does_not_go_with():
    config = with_fields(mappo.Config(), memory=4, envs=3, minibatches=4)
    with pytest.raises(BadInput, match=r"more minibatches than copies(?s:.*)= 3"):
        check_minibatches(config)
    views = Views(envs.load_team("cue", 1).team, ids=True, device=torch.device("cpu"))
    make_actors(config, views)
    with pytest.raises(BadInput, match="optimal baseline for actors with memory"):
        mappo.joint_q(with_fields(config, optimal_baseline="surrogate"), views)
    with pytest.raises(BadInput, match=r"single steps(?s:.*)--n-step"):
        make_q(with_fields(vdn.Config(), memory=4, n_step=3), views)


def test_values_after_are_of_one_who_remembers_what_came_before():
    """Where no attempt ends in between they are what the next step of the course has."""
    torch.manual_seed(0)
    views = Views(envs.load_team("cue:n=2", 1).team, ids=True, device=torch.device("cpu"))
    q = make_q(with_fields(vdn.Config(), memory=5, hidden=(8,)), views)
    obs, memory, begins = torch.randn(4, 7, 2, 3), torch.randn(4, 7, 2, 5), torch.zeros(4, 7, dtype=torch.bool)
    begins[:, 3] = True
    before, after = View(obs[:, :-1], obs, None, None, memory[:, :-1], begins[:, :-1]), View(obs[:, 1:], obs)
    got = values_after(q, Transitions(before, obs, obs, obs, after))
    want = q(q.seen(obs, memory, begins))[:, 1:]
    same = [t for t in range(6) if t != 2]  # the third step goes on to what was seen last, not to the restart
    torch.testing.assert_close(got[:, same], want[:, same])
    assert not torch.allclose(got[:, 2], want[:, 2])
