"""The joint policy: acting and judging agree, nobody sees the future, orders and dead agents are what they claim."""

import copy

import pytest
import torch
from speed._marl_reference import PlainJoint

from evolvent.core.errors import BadInput, ModelError
from evolvent.models.team.joint import JointPolicy
from joint_cases import KINDS, Case, case, loud, team_of

torch.set_num_threads(1)
ACTORS = ("decoder", "local", "encoder")


def policy_for(c: Case, *, scale: float = 0.2, seed: int = 1, **options) -> JointPolicy:
    torch.manual_seed(seed)
    policy = JointPolicy(c.team, c.obs_BAD.shape[-1], width=16, **options).to(c.obs_BAD.dtype)
    loud(policy, seed, scale)
    return policy


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("actor", ACTORS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_ratio_is_one_right_after_acting(kind, actor, dtype):
    """Acceptance tests 1 and 2: cached decoding gives the probabilities of the full, teacher-forced pass."""
    c = case(kind, dtype=dtype)
    near = 1e-5 if dtype == torch.float32 else 1e-12
    for blocks, heads in ((1, 1), (2, 2), (3, 1)):
        for mask_dead in (False, True):
            policy = policy_for(c, blocks=blocks, heads=heads, actor=actor, mask_dead=mask_dead)
            for order in (None, c.order_BA):
                acted = policy.act(c.obs_BAD, **c.masks, order_BA=order)
                judged = policy.logprobs(c.obs_BAD, acted.action, **c.masks, order_BA=order)
                torch.testing.assert_close(judged.logp_BAP, acted.logp_BAP, rtol=0, atol=near)
                torch.testing.assert_close(judged.value_BA, acted.value_BA, rtol=0, atol=near)
                torch.testing.assert_close(policy.value(c.obs_BAD, c.active_BA), judged.value_BA, rtol=0, atol=near)


@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("blocks", [1, 2, 3])
@pytest.mark.parametrize("kind", ["discrete", "continuous"])
def test_caches_give_what_decoding_again_and_again_gives(kind, blocks, heads):
    """Acceptance test 2 against a network in the plain pattern, which shares no attention code with ours."""
    for dtype, near in ((torch.float32, 1e-6), (torch.float64, 1e-12)):
        c = case(kind, dtype=dtype)
        policy = policy_for(c, scale=0.0, blocks=blocks, heads=heads)
        loud_attention(policy)
        plain = PlainJoint(copy.deepcopy(policy)).to(dtype)
        ours = policy.act(c.obs_BAD, available_BAN=c.available_BAN, greedy=True)
        action, logp, value = plain.act(c.obs_BAD, c.available_BAN, greedy=True)
        torch.testing.assert_close(ours.action, action, rtol=0, atol=near)
        torch.testing.assert_close(ours.logp_BAP, logp, rtol=0, atol=near)
        torch.testing.assert_close(ours.value_BA, value, rtol=0, atol=near)
        drawn = policy.act(c.obs_BAD, available_BAN=c.available_BAN)
        logp, entropy, _ = plain.logprobs(c.obs_BAD, drawn.action, c.available_BAN)
        judged = policy.logprobs(c.obs_BAD, drawn.action, available_BAN=c.available_BAN)
        torch.testing.assert_close(judged.logp_BAP, logp, rtol=0, atol=10 * near)
        torch.testing.assert_close(judged.entropy_BA, entropy, rtol=0, atol=10 * near)


def loud_attention(policy: JointPolicy) -> None:
    # orthogonal with gain 1 instead of 0.01, so that attention matters; outputs of order 0.1
    with torch.no_grad():
        for name, parameter in policy.named_parameters():
            if "attention" in name:
                parameter.mul_(100.0) if parameter.ndim == 2 else parameter.add_(0.1)
        policy.head[-1].weight.mul_(10.0)


def test_gradients_are_those_of_the_plain_network():
    c = case("discrete", dtype=torch.float64)
    policy = policy_for(c, blocks=2, heads=2)
    plain = PlainJoint(copy.deepcopy(policy)).double()
    action = policy.act(c.obs_BAD, available_BAN=c.available_BAN).action
    judged = policy.logprobs(c.obs_BAD, action, available_BAN=c.available_BAN)
    weight_BA = torch.linspace(-1, 1, action.numel(), dtype=torch.float64).view_as(action)
    logp, entropy, value = plain.logprobs(c.obs_BAD, action, c.available_BAN)
    ((judged.logp_BAP.squeeze(-1) + judged.entropy_BA + judged.value_BA) * weight_BA).sum().backward()
    ((logp.squeeze(-1) + entropy + value) * weight_BA).sum().backward()
    theirs = {name: x.grad for name, x in plain.named_parameters() if not name.endswith(".k.bias")}
    compared = {name: x.grad for name, x in policy.named_parameters() if not name.endswith(".k.weight")}
    assert compared.keys() < theirs.keys()
    for name, grad in compared.items():
        torch.testing.assert_close(grad, theirs[name], rtol=0, atol=1e-10)
    for name, x in policy.named_parameters():
        torch.testing.assert_close(x.grad, theirs[name], rtol=0, atol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_an_agent_answers_only_to_those_before_it(kind):
    c = case(kind, dtype=torch.float64)
    policy = policy_for(c, blocks=2)
    action = policy.act(c.obs_BAD, **c.masks).action
    other = policy_for(c, seed=9).act(c.obs_BAD, **c.masks).action
    before = policy.logprobs(c.obs_BAD, action, **c.masks).logp_BAP
    for m in range(c.team.n_agents):
        changed = action.clone()
        changed[:, m] = other[:, m]
        after = policy.logprobs(c.obs_BAD, changed, **c.masks).logp_BAP
        torch.testing.assert_close(after[:, :m], before[:, :m], rtol=0, atol=0)
        if m + 1 < c.team.n_agents:
            assert (after[:, m + 1 :] != before[:, m + 1 :]).any(), "the action has no effect on those after"


@pytest.mark.parametrize("kind", ["discrete", "unequal kinds"])
def test_the_last_in_an_order_sees_all_others(kind):
    c = case(kind, dtype=torch.float64)
    policy = policy_for(c)
    action = policy.act(c.obs_BAD, **c.masks, order_BA=c.order_BA).action
    other = policy_for(c, seed=9).act(c.obs_BAD, **c.masks).action
    before = policy.logprobs(c.obs_BAD, action, **c.masks, order_BA=c.order_BA).logp_BAP
    place_BA = c.order_BA.argsort(1)
    rows = torch.arange(len(action))
    for m in range(c.team.n_agents):
        agent_B = c.order_BA[:, m]
        changed = action.clone()
        changed[rows, agent_B] = other[rows, agent_B]
        same_BA = policy.logprobs(c.obs_BAD, changed, **c.masks, order_BA=c.order_BA).logp_BAP.eq(before).all(-1)
        assert same_BA[place_BA < m].all()
        assert m + 1 == c.team.n_agents or not same_BA[place_BA > m].all()


def test_a_given_order_is_the_same_as_agents_renamed():
    """Agents are known by what they see: permuting all columns permutes the result."""
    c = case("discrete", dtype=torch.float64)
    policy, perm = policy_for(c), torch.tensor([2, 0, 3, 1])
    order = perm.expand(len(c.obs_BAD), -1)
    acted = policy.act(c.obs_BAD, available_BAN=c.available_BAN, greedy=True, order_BA=order)
    renamed = policy.act(c.obs_BAD[:, perm], available_BAN=c.available_BAN[:, perm], greedy=True)
    assert torch.equal(acted.action[:, perm], renamed.action)
    torch.testing.assert_close(acted.logp_BAP[:, perm], renamed.logp_BAP, rtol=0, atol=1e-12)
    torch.testing.assert_close(acted.value_BA[:, perm], renamed.value_BA, rtol=0, atol=1e-12)
    same = policy.act(c.obs_BAD, available_BAN=c.available_BAN, greedy=True)
    assert not torch.equal(same.logp_BAP, acted.logp_BAP)


def test_the_order_may_be_chosen_from_the_representations():
    c = case("discrete", dtype=torch.float64)
    policy, seen = policy_for(c), []

    def choose(rep_BAW):
        seen.append(rep_BAW.clone())
        return c.order_BA

    acted = policy.act(c.obs_BAD, **c.masks, order_BA=choose, greedy=True)
    given = policy.act(c.obs_BAD, **c.masks, order_BA=c.order_BA, greedy=True)
    assert torch.equal(acted.action, given.action)
    rep = policy.logprobs(c.obs_BAD, acted.action, **c.masks, order_BA=c.order_BA).rep_BAW
    torch.testing.assert_close(seen[0], rep, rtol=0, atol=1e-12)


@pytest.mark.parametrize("actor", ACTORS)
def test_gradients_of_the_policy_reach_the_encoder_unless_the_actor_is_local(actor):
    c = case("mixed")
    policy = policy_for(c, actor=actor, scale=0.0)
    action = policy.act(c.obs_BAD, **c.masks).action
    judged = policy.logprobs(c.obs_BAD, action, **c.masks)
    judged.logp_BAP.sum().backward(retain_graph=True)
    reached = policy.encoder[0].mlp.up.weight.grad is not None and policy.look.linear.weight.grad.abs().sum() > 0
    assert bool(reached) == (actor != "local")
    judged.value_BA.sum().backward()
    missing = [name for name, x in policy.named_parameters() if x.grad is None]
    assert not missing, "parameters without any gradient"


@pytest.mark.parametrize("order", [False, True])
@pytest.mark.parametrize("kind", ["discrete", "unequal kinds"])
def test_masked_dead_agents_leave_no_trace(kind, order):
    c = case(kind, dtype=torch.float64)
    policy = policy_for(c, blocks=2, mask_dead=True)
    order_BA = c.order_BA if order else None
    action = policy.act(c.obs_BAD, **c.masks, order_BA=order_BA).action
    other = policy_for(c, seed=9).act(c.obs_BAD, **c.masks).action
    dead = ~c.active_BA
    obs, changed = c.obs_BAD.clone(), action.clone()
    obs[dead], changed[dead] = 3.0 * obs[dead].flip(-1) + 1.0, other[dead]
    a = policy.logprobs(c.obs_BAD, action, **c.masks, order_BA=order_BA)
    b = policy.logprobs(obs, changed, **c.masks, order_BA=order_BA)
    torch.testing.assert_close(a.logp_BAP[~dead], b.logp_BAP[~dead], rtol=0, atol=1e-12)
    torch.testing.assert_close(a.value_BA[~dead], b.value_BA[~dead], rtol=0, atol=1e-12)
    assert a.logp_BAP.isfinite().all(), "a team of dead agents only must stay finite"
    policy.mask_dead = False
    a = policy.logprobs(c.obs_BAD, action, **c.masks, order_BA=order_BA)
    b = policy.logprobs(obs, changed, **c.masks, order_BA=order_BA)
    assert (a.logp_BAP[~dead] - b.logp_BAP[~dead]).abs().max() > 1e-6


def test_the_local_actor_sees_its_own_observation_only():
    c = case("discrete", dtype=torch.float64)
    policy = policy_for(c, actor="local")
    action = policy.act(c.obs_BAD, **c.masks).action
    obs = c.obs_BAD.clone()
    obs[:, 1] += torch.randn(obs[:, 1].shape, generator=torch.Generator().manual_seed(3), dtype=obs.dtype)
    a, b = policy.logprobs(c.obs_BAD, action, **c.masks), policy.logprobs(obs, action, **c.masks)
    same = a.logp_BAP.eq(b.logp_BAP).all(-1).all(0)
    assert same.tolist() == [True, False, True, True]
    assert not a.value_BA.eq(b.value_BA).any(), "its critic, the encoder, sees everything"


@pytest.mark.parametrize("kind", KINDS)
def test_actions_are_allowed_and_greedy_is_the_likeliest(kind):
    c = case(kind)
    policy = policy_for(c)
    greedy = policy.act(c.obs_BAD, **c.masks, greedy=True)
    assert torch.equal(greedy.action, policy.act(c.obs_BAD, **c.masks, greedy=True).action)
    drawn = policy.act(c.obs_BAD, **c.masks)
    for action in (greedy.action, drawn.action):
        choice, vector = policy.action.split(action)
        if choice is not None:
            chooses = torch.tensor([spec.choices > 0 for spec in c.team.actions]).expand_as(choice)
            allowed = c.available_BAN.gather(-1, choice.unsqueeze(-1)).squeeze(-1)
            assert allowed[chooses].all()
            assert not choice[~chooses].any()
        if vector is not None:
            has = torch.from_numpy(c.team.dim_mask()).expand_as(vector)
            assert not vector[~has].any()
            assert vector[has].all()
    choice, vector = policy.action.split(greedy.action)
    if choice is not None and vector is None:  # any other choice of the last agent is less likely
        last = greedy.action.clone()
        for other in range(c.team.choices):
            last[:, -1] = other
            ok = c.available_BAN[:, -1, other]
            logp = policy.logprobs(c.obs_BAD, last, **c.masks).logp_BAP[:, -1, 0]
            assert (logp[ok] <= greedy.logp_BAP[:, -1, 0][ok] + 1e-6).all()
    if vector is not None and choice is None:  # the mean is where each Gaussian is highest
        top = -torch.log(0.5 * torch.sigmoid(policy.scale) * (2 * torch.pi) ** 0.5)
        torch.testing.assert_close(greedy.logp_BAP[:, 1], top.detach().expand_as(greedy.logp_BAP[:, 1]))


def test_draws_follow_the_softmax():
    """Chi-square of 40,000 draws of two agents against the probabilities that judging gives; fixed seed."""
    c = case("discrete", batch=1)
    policy = policy_for(c, scale=0.3)
    n, many = c.team.choices, 40_000
    obs, available = c.obs_BAD.expand(many, -1, -1), c.available_BAN.expand(many, -1, -1)
    action = policy.act(obs, available_BAN=available, generator=torch.Generator().manual_seed(5)).action
    pairs = torch.cartesian_prod(torch.arange(n), torch.arange(n))
    probe = torch.zeros(len(pairs), c.team.n_agents, dtype=torch.long)
    probe[:, :2] = pairs
    logp = policy.logprobs(
        c.obs_BAD.expand(len(pairs), -1, -1), probe, available_BAN=c.available_BAN.expand(len(pairs), -1, -1)
    ).logp_BAP.detach()
    expected = many * logp[:, :2, 0].sum(1).exp()
    assert expected.sum().item() == pytest.approx(many, rel=1e-4)
    counts = torch.bincount(action[:, 0] * n + action[:, 1], minlength=n * n).float()
    possible = expected > 1
    assert counts[~possible].sum() < 20
    statistic = ((counts - expected)[possible] ** 2 / expected[possible]).sum().item()
    free = int(possible.sum()) - 1
    assert free >= 4
    assert statistic < free + 4.5 * (2 * free) ** 0.5


def test_the_generator_decides_the_draw():
    c = case("unequal kinds")
    policy = policy_for(c)
    one, same, other = (
        policy.act(c.obs_BAD, **c.masks, generator=torch.Generator().manual_seed(seed)).action for seed in (1, 1, 2)
    )
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_weights_move_to_a_team_of_another_size():
    small, large = case("discrete"), team_of("discrete", agents=9)
    trained = policy_for(small, blocks=2)
    grown = JointPolicy(large, 7, width=16, blocks=2)
    grown.adopt(trained.state_dict())
    obs = torch.randn(5, 9, 7, generator=torch.Generator().manual_seed(0))
    acted = grown.act(obs)
    judged = grown.logprobs(obs, acted.action)
    torch.testing.assert_close(judged.logp_BAP, acted.logp_BAP, rtol=0, atol=1e-5)
    judged.logp_BAP.sum().backward()
    a = trained.logprobs(small.obs_BAD, trained.act(small.obs_BAD, greedy=True).action).logp_BAP
    assert trained.state_dict().keys() == grown.state_dict().keys()
    assert a.shape == (16, 4, 1)


def test_weights_that_do_not_fit_are_named():
    trained = policy_for(case("discrete"))
    with pytest.raises(ModelError, match=r"look\.norm1\.weight.*\n.*\n.*\n.*one-hot agent ids"):
        JointPolicy(team_of("discrete", 9), 9, width=16).adopt(trained.state_dict())
    with pytest.raises(ModelError, match="another architecture"):
        JointPolicy(team_of("discrete"), 7, width=16, blocks=2).adopt(trained.state_dict())


def test_acting_follows_new_weights_however_they_are_written():
    c = case("discrete", dtype=torch.float64)
    policy = policy_for(c)
    optimizer = torch.optim.Adam(policy.parameters(), lr=0.1)

    def agrees() -> bool:
        acted = policy.act(c.obs_BAD, **c.masks, greedy=True)
        return bool(torch.allclose(policy.logprobs(c.obs_BAD, acted.action, **c.masks).logp_BAP, acted.logp_BAP))

    assert agrees()
    policy.logprobs(c.obs_BAD, policy.act(c.obs_BAD).action, **c.masks).logp_BAP.sum().backward()
    optimizer.step()
    assert agrees()
    policy.act(c.obs_BAD)
    with torch.no_grad():
        policy.decoder[0].attention1.q.weight.mul_(1.5)
    assert agrees()
    policy.decoder[0].mlp.up.weight.data.mul_(1.5)  # no version tells; agrees() has judged since it acted
    assert agrees()
    policy.load_state_dict(policy_for(c, seed=7).state_dict())
    assert agrees()
    policy = copy.deepcopy(policy)
    loud(policy)
    assert agrees()


@pytest.mark.parametrize("heads", [1, 2])
def test_attention_over_few_words_is_attention_over_rows(heads):
    c = case("unequal choices", dtype=torch.float64)
    policy = policy_for(c, heads=heads, mask_dead=True)
    action = policy.act(c.obs_BAD, **c.masks, order_BA=c.order_BA).action
    got = []
    for words in (True, False):
        policy.width = 16 if words else 1  # a table of more rows than the width goes the general way
        policy.zero_grad()
        judged = policy.logprobs(c.obs_BAD, action, **c.masks, order_BA=c.order_BA)
        (judged.logp_BAP.square().sum() + judged.entropy_BA.sum()).backward()
        got.append([judged.logp_BAP.detach(), *(x.grad for x in policy.parameters() if x.grad is not None)])
    assert len(got[0]) == len(got[1]) > 20
    for a, b in zip(*got, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-10)


def test_observations_may_be_standardised_once():
    c = case("mixed")
    for actor in ACTORS:
        policy = policy_for(c, actor=actor)
        action = policy.act(c.obs_BAD, **c.masks).action
        once = policy.logprobs(policy.standardise(c.obs_BAD), action, **c.masks, standard=True)
        for a, b in zip(once, policy.logprobs(c.obs_BAD, action, **c.masks), strict=True):
            assert torch.equal(a, b)


def test_wrong_settings_are_named():
    with pytest.raises(BadInput, match="heads do not divide the width"):
        JointPolicy(team_of("discrete"), 7, width=16, heads=3)
    with pytest.raises(BadInput, match="no such actor"):
        JointPolicy(team_of("discrete"), 7, actor="decodr")
