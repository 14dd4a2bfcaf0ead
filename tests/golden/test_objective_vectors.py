"""Values and gradients of the axes of an objective on one small batch: four answers to one prompt, ten tokens."""

import math

import pytest
import torch

from evolvent.core.errors import BadInput
from evolvent.formulas.entropy import redistributed as redistributed_K
from evolvent.formulas.entropy import relative_entropy
from evolvent.learn.tokens import keep, surrogates
from evolvent.learn.tokens.objective import Objective
from evolvent.learn.tokens.ratios import approx_kl, kl, log_ratios, ratios, segment_mean
from evolvent.learn.tokens.surrogates import adaptive_bounds, redistributed
from evolvent.learn.tokens.units import Units
from evolvent.learn.tokens.weights import token_weights


def flat(rows):
    return torch.tensor([x for row in rows for x in row], dtype=torch.float64)


OLD = flat([[-0.5, -1.2, -0.3], [-2, -0.7], [-1, -0.4, -0.9, -1.6], [-0.2]])
NEW = flat([[-0.2, -1.3, -0.3], [-2.5, -0.2], [-0.9, -0.8, -0.5, -1.6], [-0.6]])
REF = flat([[-0.6, -1, -0.4], [-1.8, -0.9], [-1.1, -0.5, -0.9, -1.5], [-0.3]])
H = flat([[1.2, 0.1, 0.8], [0.05, 2], [0.3, 0.6, 1.5, 0.2], [0.02]])
SEQ = torch.tensor([0, 0, 0, 1, 1, 2, 2, 2, 2, 3])
R = torch.tensor([1.0, 0.0, 0.5, 0.0], dtype=torch.float64)
LOO = ((R - R.mean()) * 4 / 3)[SEQ]


def units(adv=LOO, **more):
    ids = torch.zeros(10, dtype=torch.int64)
    at = torch.tensor([0, 1, 2, 0, 1, 0, 1, 2, 3, 0])
    return Units(SEQ, at, ids, SEQ, ids, ids, adv, OLD, **{"ref_logp": REF, "entropy": H} | more)


def loss_and_gradient(objective, adv=LOO, generator=None):
    logp = NEW.clone().requires_grad_()
    terms = objective.terms(objective.prepare(units(adv)), logp, H.clone(), generator)
    (gradient,) = torch.autograd.grad(terms.loss, logp)
    return float(terms.loss.detach()), gradient


def close(got, expected, tolerance=2e-6):
    assert torch.as_tensor(got, dtype=torch.float64).tolist() == pytest.approx(expected, abs=tolerance)


@pytest.mark.parametrize(
    ("aggregate", "expected"),
    [("token_mean", 5.5), ("seq_mean_token_mean", 6.0), ("seq_mean_token_sum", 13.75), ("const", 3.4375)],
)
def test_aggregates(aggregate, expected):
    close((token_weights(SEQ, aggregate, length=4) * torch.arange(1, 11)).sum(), expected)


def test_ratios_at_every_level():
    def at(level):
        return ratios(NEW, OLD, level, turn=SEQ, trajectory=SEQ)

    close(at("token"), [1.349859, 0.904837, 1, 0.606531, 1.648721, 1.105171, 0.670320, 1.491825, 1, 0.670320])
    first = [0, 3, 5, 9]
    close(at("seq_geo")[first], [1.068939, 1, 1.025315, 0.670320])
    close(at("trajectory")[first], [1.221403, 1, 1.105171, 0.670320])
    close(at("turn"), at("trajectory").tolist())
    close(at("none"), [1.0] * 10)
    far = ratios(NEW + 1e9, OLD, "trajectory", turn=SEQ, trajectory=SEQ)
    assert far.tolist() == pytest.approx([math.exp(20)] * 10)


def test_ppo_tokens_and_dual_clip():
    r = log_ratios(NEW, OLD).exp()
    close(
        surrogates.ppo(r, LOO, 0.2, 0.2),
        [-1, -0.754031, -0.833333, 0.4, 0.824361, -0.184195, -0.111720, -0.2, -0.166667, 0.4],
    )
    far, minus = torch.tensor([math.exp(1.5)], dtype=torch.float64), torch.tensor([-1.0], dtype=torch.float64)
    close(surrogates.ppo(far, minus, 0.2, 0.2, dual=3.0), [3.0])
    close(surrogates.ppo(far, minus, 0.2, 0.2), [4.481689])
    four, signs = torch.tensor([1.5, 1.5, 0.5, 0.5]), torch.tensor([1.0, -1.0, 1.0, -1.0])
    close(surrogates.ppo(four, signs, 0.2, 0.2), [-1.2, 1.5, -0.5, 0.8])


LOOP = Objective(surrogate="log_sym", clip_high=0.1, aggregate="seq_mean_token_mean")
CASES = {
    "ppo token_mean": (Objective(), -0.162559),
    "ppo seq_mean_token_mean": (Objective(aggregate="seq_mean_token_mean"), -0.003980),
    "ppo const": (Objective(aggregate="const", length=4), -0.101599),
    "dapo": (Objective(clip_high=0.28), -0.170559),
    "loop": (LOOP, 0.024515),
    "gspo": (
        Objective(ratio="seq_geo", clip_low=3e-4, clip_high=4e-4, aggregate="seq_mean_token_mean"),
        -0.000137500,
    ),
    "gspo wide": (Objective(ratio="seq_geo", aggregate="seq_mean_token_mean"), -0.040417),
    "cispo": (Objective(surrogate="cispo"), 0.070935),
    "sapo": (Objective(surrogate="sapo", aggregate="seq_mean_token_mean"), -0.069975),
    "pg": (Objective(surrogate="pg", ratio="none"), 0.048333),
    "aepo has the value of ppo": (Objective(surrogate="aepo_ste"), -0.162559),
    "hapo": (Objective(surrogate="adaptive", redistribute=True, dual=10.0), -0.043888),
    "kl-cov without its penalty": (Objective(surrogate="is"), -0.196068),
    "kl-cov": (Objective(surrogate="is", kl_cov=0.2), -0.116068),
}


@pytest.mark.parametrize("name", CASES)
def test_loss(name):
    objective, expected = CASES[name]
    close(loss_and_gradient(objective)[0], expected)


def test_losses_with_another_baseline():
    mean = (R - R.mean())[SEQ]
    close(loss_and_gradient(Objective(surrogate="pg", ratio="none", opmd=1.0), mean)[0], 0.018125)
    close(loss_and_gradient(Objective(surrogate="pg", ratio="none"), (R - R.mean() + 0.1)[SEQ])[0], 0.125250)


def test_loop_for_each_answer():
    r = log_ratios(NEW, OLD).exp()
    per_answer = segment_mean(surrogates.log_sym(r, LOO, 0.1), SEQ)
    close(per_answer, [-0.834677, 0.639453, -0.161263, 0.454545])


def test_divergences():
    close(kl(NEW, REF, "k1").mean(), 0.01)
    close(kl(NEW, REF, "k2").mean(), 0.0815)
    close(kl(NEW, REF, "k3").mean(), 0.082929)
    close(
        kl(NEW, REF, "k3"),
        [0.070320, 0.049859, 0.004837, 0.313753, 0.196585, 0.018731, 0.049859, 0.070320, 0.005171, 0.049859],
    )
    close(approx_kl(log_ratios(NEW, OLD)).mean(), 0.054758)
    # in a loss: the reference pulls with its weight, beside the surrogate
    with_kl = loss_and_gradient(Objective(kl=0.5))
    close(with_kl[0], -0.162559 + 0.5 * 0.082929)
    k3_slope = (1 - (REF - NEW).exp()) / 10
    close(with_kl[1] - loss_and_gradient(Objective())[1], (0.5 * k3_slope).tolist())


def test_entropy_is_a_reward():
    close(loss_and_gradient(Objective(entropy=0.1))[0], -0.162559 - 0.1 * float(H.mean()))


def test_covariance_masks():
    cov = keep.covariance(LOO, NEW)
    close(cov, [0.46, -0.273333, 0.393333, 1.073333, -0.46, 0, 0, 0, 0, -0.193333])
    low, high = surrogates.clipped(log_ratios(NEW, OLD).exp(), LOO, 0.2, 0.2)
    assert torch.nonzero(low | high).squeeze(-1).tolist() == [0, 3, 7, 9]
    drop = Objective(keep="clip_cov", keep_share=0.2, keep_range=(0.3, 5.0))
    value, gradient = loss_and_gradient(drop, generator=torch.Generator())
    close(value, -0.079225)  # only token (0, 2) may be dropped; the denominator stays 10
    assert gradient[2] == 0.0 and gradient[1] != 0.0
    assert torch.nonzero(keep.top_covariance(cov, 0.2)).squeeze(-1).tolist() == [0, 3]


def test_clip_cov_draws_from_the_generator():
    cov, cut = torch.linspace(1.0, 2.0, 1000), torch.zeros(1000, dtype=torch.bool)

    def draw(seed):
        generator = torch.Generator().manual_seed(seed)
        return keep.clip_cov(cov, cut, share=0.01, low=1.2, high=1.8, generator=generator)

    assert int((~draw(0)).sum()) == 10
    assert bool((cov[~draw(0)] > 1.2).all()) and bool((cov[~draw(0)] < 1.8).all())
    assert torch.equal(draw(0), draw(0)) and not torch.equal(draw(0), draw(1))


def test_entropy_aware_parts():
    h = Objective(surrogate="adaptive").prepare(units()).h
    close(h, [0, -0.606912, -0.099031, -0.776206, 1, -0.338588, -0.169294, 0.436829, -0.437618, -1])
    low, high = adaptive_bounds(h, 0.2, 0.2)
    close(low, [0.2, 0.321382, 0.219806, 0.355241, 0.2, 0.267718, 0.233859, 0.2, 0.287524, 0.4])
    close(high, [0.2, 0.2, 0.2, 0.2, 0.4, 0.2, 0.2, 0.287366, 0.2, 0.2])
    close(
        redistributed(LOO, log_ratios(NEW, OLD).exp(), h, 0.2, 0.2),
        [0.833333, 0.327573, 0.750808, -0.5, -1, 0.166667, 0.166667, 0.239472, 0.093730, -0.5],
    )
    # the same as the formulas that credit rules use
    r = log_ratios(NEW, OLD).exp()
    h_K = relative_entropy(H.numpy())
    close(redistributed(LOO, r, h, 0.3, 0.1), redistributed_K(LOO, h_K, r, low=0.3, high=0.1).tolist())
    z = (H - H.mean()) / H.std()
    close(loss_and_gradient(Objective(surrogate="aepo_ste"), LOO * (1 + 0.2 * z))[0], -0.151512)
    assert torch.nonzero(keep.top_entropy(H, 0.2)).squeeze(-1).tolist() == [4, 7]
    gradient = loss_and_gradient(Objective(keep="top_entropy", keep_share=0.2))[1]
    assert torch.nonzero(gradient).squeeze(-1).tolist() == [4]  # token (2, 2) is kept, and cut by the clip


def test_gradients():
    close(
        loss_and_gradient(Objective())[1],
        [0, -0.075403, -0.083333, 0, 0.082436, -0.018420, -0.011172, 0, -0.016667, 0],
    )
    close(
        loss_and_gradient(Objective(surrogate="cispo"))[1],
        [-0.1, -0.075403, -0.083333, 0.04, 0.06, -0.018420, -0.013333, -0.02, -0.016667, 0.04],
    )
    close(
        loss_and_gradient(Objective(surrogate="aepo_ste"))[1],
        [-0.1, -0.075403, -0.083333, 0, 0.082436, -0.018420, -0.011172, -0.02, -0.016667, 0],
    )
    close(
        loss_and_gradient(Objective(ratio="seq_geo", aggregate="seq_mean_token_mean"))[1],
        [-0.074232] * 3 + [0.0625] * 2 + [-0.010680] * 4 + [0],
    )


def test_nft_reads_outcome_and_success_rate_off_the_advantage():
    adv = (torch.tensor([1.0, 0, 1, 0], dtype=torch.float64) - 0.5)[SEQ]
    value, gradient = loss_and_gradient(Objective(surrogate="nft"), adv)
    close(value, -0.045837)
    close(gradient, [-0.05] * 3 + [0.021763, 0.082436] + [-0.05] * 4 + [0.025206])
    value, gradient = loss_and_gradient(Objective(surrogate="nft", floor=0.1), adv)
    close(value, 0.006472)
    close(gradient, [-0.05] * 3 + [0.021763, 0.234674] + [-0.05] * 4 + [0.025206])


def test_nft_on_policy_is_the_gradient_of_the_group_mean():
    adv = (torch.tensor([1.0, 0, 0, 0], dtype=torch.float64) - 0.25)[SEQ]
    one = torch.ones(10, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(surrogates.nft(one, adv, 1.0).sum(), one)
    close(gradient, (-adv).tolist())


def test_nft_of_a_group_that_is_all_alike_is_nothing():
    assert surrogates.nft(torch.full((2,), 1.7), torch.zeros(2), 1.0).tolist() == [0.0, 0.0]


def test_gmpo_is_the_geometric_mean_of_cut_ratios():
    value, gradient = loss_and_gradient(Objective(surrogate="gmpo", aggregate="seq_mean_token_mean"))
    cut = [[1.2, 0.904837, 1], [0.8, 1.648721], [1.105171, 0.670320, 1.2, 1], [0.8]]
    means = [math.prod(row) ** (1 / len(row)) for row in cut]
    advantages = [5 / 6, -0.5, 1 / 6, -0.5]
    close(value, -sum(a * m for a, m in zip(advantages, means, strict=True)) / 4)
    # a cut token passes nothing on, the others share the gradient of the mean
    close(gradient[:3], [0.0] + [-advantages[0] * means[0] / 3 / 4] * 2)


def test_sequences_that_moved_away_are_not_pushed_further():
    # mean log pi_old - log pi of the answers: -.0667, 0, -.025, .4
    gradient = loss_and_gradient(Objective(keep="neg_seq_kl", keep_range=(0.1, 0.0), clip_low=0.9))[1]
    assert gradient[9] == 0.0 and bool((gradient[3:5] != 0).all())


def test_normalised_advantages_have_mean_0_and_deviation_1():
    adv = Objective(normalise="minibatch").prepare(units()).adv
    close(adv.mean(), 0.0)
    close((adv**2).mean(), 1.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"surrogate": "pppo"}, "ppo or log_sym"),
        ({"ratio": "word"}, "seq_geo"),
        ({"keep": "some"}, "clip_cov"),
        ({"aggregate": "mean"}, "token_mean or"),
        ({"kl_form": "k4"}, "k1 or k2 or k3"),
        ({"normalise": "batch"}, "minibatch"),
        ({"surrogate": "pg"}, "none"),
        ({"ratio": "none"}, "seq_geo"),
        ({"surrogate": "gmpo", "ratio": "turn"}, "token"),
        ({"aggregate": "const"}, "> 0"),
        ({"clip_low": 1.0}, "clip_low < 1"),
    ],
)
def test_unknown_and_impossible_choices_say_what_there_is(change, message):
    with pytest.raises(BadInput, match=message):
        Objective(**change)


@pytest.mark.parametrize(
    ("objective", "missing"),
    [
        (Objective(kl=0.1), {"ref_logp": None}),
        (Objective(surrogate="adaptive"), {"entropy": None}),
        (Objective(keep="top_entropy"), {"entropy": None}),
    ],
)
def test_missing_columns_are_named(objective, missing):
    with pytest.raises(BadInput, match="one for every unit"):
        objective.prepare(units(**missing))


def test_unknown_log_probabilities_are_refused_where_a_ratio_needs_them():
    old = OLD.clone()
    old[3] = math.nan
    bad = Units(SEQ, SEQ, SEQ, SEQ, SEQ, SEQ, LOO, old)
    with pytest.raises(BadInput, match="as sampled"):
        Objective().prepare(bad)
    objective = Objective(surrogate="pg", ratio="none")
    assert torch.isfinite(objective.terms(objective.prepare(bad), NEW, H).loss)
