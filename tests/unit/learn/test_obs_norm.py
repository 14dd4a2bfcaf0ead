"""Running observation statistics: the same however they came, flags and numbers of agents left alone, in the state."""

import numpy as np
import pytest
import torch

from evolvent.learn.team.obs_norm import CLIP, ObsNorm


def drawn(n=60, agents=3, width=4, seed=0):
    rng = np.random.default_rng(seed)
    scale, shift = 10.0 ** rng.integers(-4, 5, (agents, width)), 10.0 ** rng.integers(-2, 4, (agents, width))
    return torch.tensor(rng.normal(size=(n, agents, width)) * scale + shift)


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("cuts", [[60], [1, 59], [7, 13, 40], [20, 20, 20]])
def test_batches_merge_to_the_moments_of_all(groups, cuts):
    seen, norm = drawn(), ObsNorm(4, groups)
    mask = torch.from_numpy(np.random.default_rng(1).random((60, 3)) < 0.7)
    for part, of in zip(seen.split(cuts), mask.split(cuts), strict=True):
        norm.update(part, of)
    for g in range(groups):
        rows = seen[mask] if groups == 1 else seen[:, g][mask[:, g]]
        np.testing.assert_allclose(norm.mean[g], rows.mean(0), rtol=1e-9)
        np.testing.assert_allclose(norm.square[g] / norm.count[g], rows.var(0, unbiased=False), rtol=1e-6)
        assert norm.count[g] == len(rows)


@pytest.mark.parametrize("unit", [1e-6, 1e-3, 1.0, 1e3, 1e6])
def test_what_is_shown_does_not_depend_on_the_unit(unit):
    seen = torch.randn(500, 2, 3, generator=torch.Generator().manual_seed(0)).double()
    plain, other = ObsNorm(3, 2), ObsNorm(3, 2)
    plain.update(seen)
    other.update(seen * unit + 5 * unit)
    shown = other((seen * unit + 5 * unit).float())
    torch.testing.assert_close(shown, plain(seen.float()), rtol=1e-3, atol=1e-3)
    assert shown.std() == pytest.approx(1.0, abs=0.05)


def test_flags_one_hot_numbers_and_constants_are_left_alone():
    rng = np.random.default_rng(0)
    flags = (rng.random((200, 2, 2)) < [0.01, 0.5]).astype(np.float32)
    seen = np.concatenate([flags, np.full((200, 2, 1), 7.0), rng.normal(0, 900, (200, 2, 1))], axis=2, dtype=np.float32)
    norm, seen = ObsNorm(4, 2), torch.from_numpy(seen)
    norm.update(seen)
    shown = norm(seen)
    torch.testing.assert_close(shown[..., :2], seen[..., :2])
    assert not shown[..., 2].any() and abs(shown[..., 3]).max() < 5


def test_far_values_are_clipped_and_agents_of_different_sizes_have_their_own():
    seen = torch.stack([torch.linspace(-1, 1, 50), torch.linspace(-1000, 1000, 50)], 1).unsqueeze(-1)
    norm = ObsNorm(1, 2)
    norm.update(seen)
    shown = norm(seen)
    torch.testing.assert_close(shown[:, 0], shown[:, 1])
    assert norm(torch.full((1, 2, 1), 1e9)).tolist() == [[[CLIP], [CLIP]]]


@pytest.mark.parametrize(
    ("sizes", "factor"), [((1, 1), 1), ((1, 1000), 1000), ((1e-3, 1), 1000), ((5, 100), 20), ((2,), 1)]
)
def test_the_factor_between_features(sizes, factor):
    norm = ObsNorm(len(sizes))
    norm.update(torch.randn(4000, 1, len(sizes), generator=torch.Generator().manual_seed(0)) * torch.tensor(sizes))
    assert norm.factor() == pytest.approx(factor, rel=0.1)


def test_an_offset_counts_for_the_factor_constants_do_not_flags_are_one():
    noise = torch.randn(4000, 1, 1, generator=torch.Generator().manual_seed(0))
    apart, flat, flag = ObsNorm(2), ObsNorm(2), ObsNorm(2)
    apart.update(torch.cat([noise, noise + 500], -1))
    assert apart.factor() == pytest.approx(500, rel=0.1)
    flat.update(torch.cat([noise * 0 + 3, noise], -1))
    assert flat.factor() < 5
    flag.update(torch.cat([(noise > 0).float(), 200 * noise], -1))
    assert flag.factor() == pytest.approx(200, rel=0.1)
    assert ObsNorm(2).factor() == 1.0


def test_its_state_goes_on_where_it_stood():
    seen, norm, other = drawn(), ObsNorm(4, 3), ObsNorm(4, 3)
    norm.update(seen[:40])
    other(seen.float())  # whatever it had prepared before
    other.load_state_dict(norm.state_dict())
    assert torch.equal(other(seen.float()), norm(seen.float()))
    for one in (norm, other):
        one.update(seen[40:])
    assert torch.equal(other(seen.float()), norm(seen.float()))
