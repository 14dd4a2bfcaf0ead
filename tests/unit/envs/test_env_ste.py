"""The search for a source: its belief against brute force, copies that do not touch, attempts that repeat, refusals."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr

from evolvent import envs
from evolvent.core.errors import BadInput
from evolvent.core.seeding import rng
from evolvent.envs.team import ste
from evolvent.envs.team._belief import Belief, systematic
from evolvent.formulas import plume
from evolvent.testing.team_env import check_team_env, random_action

H, P = 5e-3, 0.7


def prior(n, seed=0, box=25.0):
    return ste.WORLDS["wide"].draw(rng(seed, "prior"), n, box)[1]


def filtered(theta, readings, seed=0):
    """A belief of one copy after readings at places, and its random stream."""
    belief, stream = Belief(1, theta.shape[1], 25.0, H, P), [rng(seed, "filter")]
    belief.start(0, theta)
    for place, reading in readings:
        belief.update(np.array([0]), np.array([place]), np.array([reading]), stream)
    return belief


def said(theta, readings):
    """Log-likelihood of all readings for sources ``[8, N]``, by scipy and in float64."""
    total = 0.0
    for place, reading in readings:
        x, y, z, q, u, phi, d, tau = theta
        dx, dy, dz = (p - s for p, s in zip(place, (x, y, z), strict=True))
        away, length = np.sqrt(dx**2 + dy**2 + dz**2), np.sqrt(d * tau / (1 + u**2 * tau / (4 * d)))
        there = q / (4 * np.pi * d * away)
        there = there * np.exp(-(dx * np.cos(phi) + dy * np.sin(phi)) * u / (2 * d) - away / length)
        if reading <= H:
            total = total + np.log(P * ndtr((H - there) / H) + 1 - P)
        else:
            total = total + stats.norm.logpdf(reading, there, 0.5 * there + 1e-4)
    return total


def test_weights_are_those_of_brute_force():
    """Before it resamples, the filter is importance sampling from the prior."""
    theta = prior(4000)
    readings = [((3.0, 4.0, 0.0), 0.0), ((5.0, 4.0, 0.0), 0.0), ((20.0, 21.0, 0.0), 0.0)]
    belief, weight = filtered(theta, readings), np.exp(said(theta, readings))
    weight /= weight.sum()
    assert 0.5 < 1 / (weight**2).sum() / 4000 < 0.95  # they differ, and it did not resample
    np.testing.assert_allclose(belief.weight_BN[0], weight, rtol=2e-4)
    mean = (theta[:2] * weight).sum(1)
    np.testing.assert_allclose(belief.mean()[0], mean, rtol=1e-4)
    off = theta[:2] - mean[:, None]
    cov = (off * weight) @ off.T
    np.testing.assert_allclose(belief.cov()[0], [cov[0, 0], cov[1, 1], cov[0, 1]], rtol=1e-3)


def test_belief_after_many_readings_is_near_a_grid():
    """All but x and y is known: the posterior on a grid, and the filter with resampling and moves."""
    known = [0.0, 5.0, 1.0, 0.7, 1.5, 8.0]
    truth, noise = np.array([12.0, 9.0, *known]), rng(5)
    readings = list[tuple[tuple[float, float, float], float]]()
    for _ in range(25):
        place = (*noise.uniform(4, 20, 2), 0.0)
        there = float(plume.concentration(np.array(place), truth[:, None])[0])
        reading = there * (1 + 0.5 * noise.standard_normal())
        readings.append((place, reading if reading >= H and noise.random() < P else 0.0))
    assert sum(reading > 0 for _, reading in readings) > 5
    axis = np.linspace(0, 25, 251)
    grid = np.stack([*(one.ravel() for one in np.meshgrid(axis, axis)), *(np.full(axis.size**2, k) for k in known)])
    weight = said(grid, readings)
    weight = np.exp(weight - weight.max())
    weight /= weight.sum()
    mean = grid[:2] @ weight
    spread = math.sqrt((((grid[:2] - mean[:, None]) ** 2) @ weight).sum())
    theta = np.stack([*rng(1).uniform(0, 25, (2, 6000)), *(np.full(6000, k) for k in known)])
    belief = filtered(theta, readings)
    assert np.linalg.norm(belief.mean()[0] - mean) < 0.5, (belief.mean(), mean)
    assert math.sqrt(belief.cov()[0, :2].sum()) == pytest.approx(spread, abs=0.5)


def test_systematic_draws_what_the_weights_say():
    """Each particle floor(N w) or one more times, N w in the mean; the released positions draw the first one thrice."""
    weight = rng(3).gamma(0.5, size=50)
    weight /= weight.sum()
    at = (np.arange(2000) + 0.5) / 2000
    counts = np.stack([np.bincount(systematic(weight, u), minlength=50) for u in at])
    np.testing.assert_allclose(counts.mean(0), 50 * weight, atol=1e-3)
    assert ((counts == np.floor(50 * weight)) | (counts == np.floor(50 * weight) + 1)).all()
    assert np.array_equal(systematic(np.full(50, 0.02), 0.5), np.arange(50))


def test_a_copy_alone_has_the_same_bits():
    thetas, noise = [prior(300, seed) for seed in range(3)], rng(8)
    together, streams = Belief(3, 300, 25.0, H, P), [rng(seed, "filter") for seed in range(3)]
    for b, theta in enumerate(thetas):
        together.start(b, theta)
    steps = [(noise.uniform(0, 25, (3, 3)) * [1, 1, 0], noise.choice([0.0, 0.02, 0.3], 3)) for _ in range(12)]
    for place, reading in steps:
        together.update(np.arange(3), place, reading, streams)
    assert (together.theta_B8N[0] != thetas[0].astype(np.float32)).any()  # they were resampled and moved
    for b, theta in enumerate(thetas):
        alone = filtered(theta, [(place[b], reading[b]) for place, reading in steps], seed=b)
        np.testing.assert_array_equal(alone.theta_B8N[0], together.theta_B8N[b])
        np.testing.assert_array_equal(alone.weight_BN[0], together.weight_BN[b])


def test_one_copy_plays_as_the_first_of_many():
    few, many = (
        envs.load_team("ste:wide,limit=30,particles=100", 1),
        envs.load_team("ste:wide,limit=30,particles=100", 4),
    )
    frames, draw = [few.reset(3), many.reset(3)], rng(1)
    for _ in range(70):  # into the third attempt
        action = draw.integers(0, 4, (4, 1))
        np.testing.assert_array_equal(frames[0].obs_BAD[0], frames[1].obs_BAD[0])
        frames = [few.step(action[:1]), many.step(action)]


def test_attempts_do_not_depend_on_who_plays():
    """The k-th attempt of a copy has its source, start and noise, whatever was done before."""
    seen = []
    for stays in (True, False):
        env, draw = ste.make_team(n_envs=3, limit=9, particles=60, zeta=1e-9), rng(0)
        env.reset(5)
        starts = [(env.source_B8.copy(), env.at_B3.copy(), env.reading_B.copy())]
        while len(starts) < 4:
            frame = env.step(np.zeros((3, 1), int) if stays else draw.integers(0, 4, (3, 1)))
            if frame.done_B.all():
                starts.append((env.source_B8.copy(), env.at_B3.copy(), env.reading_B.copy()))
        seen.append(starts)
    for one, other in zip(*seen, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("spec", ["wide", "released", "released,heading=true", "wide,sees=position,feedback=false"])
def test_promises(spec):
    assert check_team_env(lambda n: envs.load_team(f"ste:{spec},limit=20,particles=50", n))


def test_sure_is_paid_and_ends_the_attempt():
    """With a zeta that all beliefs meet, the first step is the last; without stopping it is paid once, and cut off."""
    stopped = envs.load_team("ste:wide,zeta=90,limit=5", 2)
    stopped.reset(0)
    frame = stopped.step(np.zeros((2, 1), int))
    assert frame.terminated_B.all() and not frame.truncated_B.any() and (frame.reward_BA == 100).all()
    assert ((frame.info["success"] + frame.info["wrong_stop"]) == 1).all()
    goes_on = envs.load_team("ste:wide,zeta=90,limit=5,stops=false", 2)
    goes_on.reset(0)
    frames = [goes_on.step(np.zeros((2, 1), int)) for _ in range(5)]
    assert [float(frame.reward_BA[0, 0]) for frame in frames] == [100, -1, -1, -1, -1]
    assert frames[-1].truncated_B.all() and not frames[-1].terminated_B.any()
    unpaid = envs.load_team("ste:wide,zeta=90,feedback=false", 2)
    unpaid.reset(0)
    assert (unpaid.step(np.zeros((2, 1), int)).reward_BA == -1).all()


def test_the_wall_stops_and_the_side_holds():
    env = ste.make_team(n_envs=40, side="east", particles=20, heading=True)
    env.reset(0)
    assert (env.source_B8[:, 0] >= 12.5).all() and (env.belief.theta_B8N[:, 0] < 12.5).any()  # the prior is not told
    for _ in range(40):
        frame = env.step(np.zeros((40, 1, 1), np.float32))  # to the east
    assert (env.at_B3[:, 0] <= 25).all() and frame.obs_BAD.shape == (40, 1, 12)
    assert (random_action(env.team, frame, np.random.default_rng(0)) <= 1.2).all()


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("ste:narrow", "unknown world"),
        ("ste:wide,sees=all", "unknown sees"),
        ("ste:wide,side=north", "unknown side"),
        ("ste:wide,box=1", "a box too small"),
        ("ste:wide,box=25,step=20", "a box too small"),
        ("ste:wide,step=0", "above 0"),
        ("ste:wide,zeta=-1", "above 0"),
        ("ste:wide,threshold=nan", "above 0"),
        ("ste:wide,particles=4", "at least 16"),
        ("ste:wide,limit=0", "at least 1"),
        ("ste:wide,strength=-2", "nothing less than 0"),
    ],
)
def test_refusals(spec, said):
    with pytest.raises(BadInput, match=said):
        envs.load_team(spec, 2)


def test_a_belief_that_collapses_says_so():
    belief = Belief(2, 50, 25.0, H, P)
    for b in range(2):
        belief.start(b, prior(50, b))
    with pytest.raises(BadInput, match="collapsed") as error:
        belief.update(np.arange(2), np.zeros((2, 3)), np.array([0.0, np.inf]), [rng(0), rng(1)])
    assert "copy 1" in str(error.value)
    theta = prior(50)
    theta[3, 7] = -1.0
    with pytest.raises(BadInput, match="no such source"):
        belief.start(0, theta)
