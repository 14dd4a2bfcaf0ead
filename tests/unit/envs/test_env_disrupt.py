"""A disturbed environment: the bare one at strength 0, dynamics that change, noise from the seed, honest returns."""

import hashlib
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from evolvent import envs
from evolvent.core.errors import BadInput
from evolvent.envs.team import disrupt
from evolvent.testing.team_env import check_team_env

HOPPER = "gymnasium:Hopper-v5,max_episode_steps=6"
SEVERAL = [HOPPER, "gymnasium:CartPole-v1", "spread:n=3,limit=5", "mpe:simple_spread", "mamujoco:HalfCheetah-2x3"]


def course(spec, copies=2, steps=14, seed=3, **options):
    """What is seen and paid while the same actions are taken."""
    env, rng = envs.load_team(spec, copies, **options), np.random.default_rng(0)
    frame, team = env.reset(seed), env.team
    obs, rewards, worth = [frame.obs_BAD.copy()], [], []
    for _ in range(steps):
        shape = (copies, team.n_agents, *team.action_shape)
        action = rng.uniform(-1, 1, shape) if team.kind == "continuous" else rng.integers(0, team.choices, shape)
        frame = env.step(action)
        obs.append(frame.obs_BAD.copy())
        rewards.append(frame.reward_BA.copy())
        worth.append(frame.worth_B.copy())
    env.close()
    return np.array(obs), np.array(rewards), np.array(worth)


def equal(one, other):
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("spec", SEVERAL)
def test_strength_0_is_the_bare_environment_to_the_bit(spec):
    action = "uniform:0" if envs.load_team(spec, 1).team.choices else "gaussian:0"
    dynamics = ",dynamics=mass:gaussian:0,gravity*1" if spec in SEVERAL[::4] else ""
    still = f"disrupt:[{spec}],obs=gaussian:0,reward=shift:0,action={action}{dynamics}"
    assert equal(course(spec), course(still))


def test_noise_comes_from_the_seed_and_is_each_number_s_own():
    spec = "disrupt:[spread:n=3],obs=gaussian:0.5"
    bare, noisy = course("spread:n=3", 16, 40), course(spec, 16, 40)
    assert equal(noisy, course(spec, 16, 40))
    x = (noisy[0] - bare[0]).reshape(-1, bare[0].shape[-1])
    x = x[:, np.ptp(bare[0].reshape(x.shape), axis=0) > 0]
    apart = np.abs(np.corrcoef(x.T) - np.eye(x.shape[1]))
    assert x.std() == pytest.approx(0.5, rel=0.05) and apart.max() < 0.1
    by_copy = (noisy[0] - bare[0]).transpose(1, 0, 2, 3).reshape(16, -1)
    assert np.abs(np.corrcoef(by_copy) - np.eye(16)).max() < 0.15
    assert not np.array_equal(
        noisy[0] - bare[0], course(spec, 16, 40, seed=4)[0] - course("spread:n=3", 16, 40, seed=4)[0]
    )
    first = np.abs(noisy[0][0] - bare[0][0])
    assert first.max() > 0.1, "the first observation is disturbed too"


@pytest.mark.parametrize("change", ["mass*1.5", "damping*2", "gear*0.5", "gravity*1.3", "geometry*1.2", "wind:shift:5"])
def test_dynamics_change_and_no_file_does(change):
    file = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets" / "hopper.xml"
    before = hashlib.sha256(file.read_bytes()).hexdigest()
    bare = course(HOPPER, steps=5)
    changed = course(f"disrupt:[{HOPPER}],dynamics={change}", steps=5)
    assert np.array_equal(bare[0][0], changed[0][0]), "the attempt begins alike"
    assert np.abs(bare[0] - changed[0]).max() > 1e-3
    assert equal(bare, course(HOPPER, steps=5)) and before == hashlib.sha256(file.read_bytes()).hexdigest()


def test_what_is_derived_follows_the_masses():
    env = envs.load_team(f"disrupt:[{HOPPER}],dynamics=mass*1.5,friction*0.5", 1)
    env.reset(0)
    model = env.env.env.env.solos[0]._solo.simulation.model
    own = gymnasium.make("Hopper-v5").unwrapped.model
    np.testing.assert_allclose(model.body_subtreemass, 1.5 * own.body_subtreemass)
    np.testing.assert_allclose(model.body_inertia, 1.5 * own.body_inertia)
    np.testing.assert_allclose(model.geom_friction, 0.5 * own.geom_friction)
    assert (model.dof_invweight0 < own.dof_invweight0).all()


def test_a_goal_moves_and_is_seen_where_it_is():
    bare, moved = (
        course(spec, steps=1)
        for spec in ("gymnasium:Reacher-v5", "disrupt:[gymnasium:Reacher-v5],dynamics=goal:shift:0.05")
    )
    apart = (moved[0] - bare[0])[0, :, 0]
    np.testing.assert_allclose(apart[:, 4:6], 0.05, atol=1e-6)
    np.testing.assert_allclose(apart[:, 8:10], -0.05, atol=1e-6)  # the way from the goal to the hand
    assert not np.allclose(moved[1], bare[1])


def test_numbers_do_not_depend_on_where_the_copies_live():
    spec = f"disrupt:[{HOPPER}],obs=uniform:0.1,dynamics=mass:schedule:0.5:1.0,damping:fixed:0.5,gear:gaussian:0.2"
    assert equal(course(spec), course(spec, workers=2))


def test_a_schedule_goes_by_attempts_and_begins_anew_with_all_copies():
    spec = f"disrupt:[{HOPPER}],obs=schedule:1:0.5"
    x = (course(spec)[0] - course(HOPPER)[0])[:, 0, 0, 0]
    np.testing.assert_allclose(x, np.sin(0.5 * np.repeat([0, 1, 2], [6, 6, 3])), atol=1e-5)
    plain, tuned = course(HOPPER), course(f"disrupt:[{HOPPER}],dynamics=mass:schedule:0.5:1.0")
    assert np.array_equal(plain[0][:7], tuned[0][:7]) and not np.array_equal(plain[0][7:], tuned[0][7:])


def test_by_attempt_at_intervals_and_fixed():
    bare = course(HOPPER)[0]
    held = (course(f"disrupt:[{HOPPER}],obs=gaussian:1,by=episode")[0] - bare)[:, 0, 0]
    assert np.ptp(held[:6], axis=0).max() < 1e-4 and np.abs(held[5] - held[6]).min() > 1e-4
    seldom = np.abs(course(f"disrupt:[{HOPPER}],obs=gaussian:1,every=3")[0] - bare)[:, 0, 0].max(axis=1)
    assert [x > 1e-3 for x in seldom[:7]] == [True, False, False, True, False, False, True]
    env = envs.load_team(f"disrupt:[{HOPPER}],dynamics=mass:fixed:0.5", 1)
    masses = [
        (env.reset(seed), env.env.env.env.solos[0]._solo.simulation.model.body_mass.copy())[1] for seed in (1, 2, 1)
    ]
    assert np.array_equal(masses[0], masses[2]) and not np.array_equal(masses[0], masses[1])
    fixed = (course(f"disrupt:[{HOPPER}],obs=fixed:1")[0] - bare)[:, :, 0]
    assert np.ptp(fixed, axis=0).max() < 1e-4 and not np.allclose(fixed[0, 0], fixed[0, 1])


def test_disturbed_in_training_alone_or_in_tests_alone():
    bare = course("spread:n=3")
    for during, testing in (("train", True), ("test", False)):
        assert equal(bare, course(f"disrupt:[spread:n=3],obs=shift:1,during={during}", testing=testing))
        assert not equal(bare, course(f"disrupt:[spread:n=3],obs=shift:1,during={during}", testing=not testing))


def test_returns_count_the_undisturbed_reward():
    bare, noisy = course("spread:n=3"), course("disrupt:[spread:n=3],reward=shift:5")
    np.testing.assert_allclose(noisy[1], bare[1] + 5, rtol=1e-5)
    assert np.array_equal(noisy[2], bare[2])


def test_choices_are_replaced_with_that_probability():
    env = envs.load_team("disrupt:[matrix],action=uniform:0.5", 400)
    env.reset(0)
    taken = []
    inner = env.env.env
    inner.step = lambda action, step=inner.step: (taken.append(action), step(action))[1]
    env.step(np.zeros((400, env.team.n_agents), int))
    n = env.team.choices
    assert (taken[0] != 0).mean() == pytest.approx(0.5 * (n - 1) / n, abs=0.06)


@pytest.mark.parametrize(
    "spec",
    [
        "disrupt:[spread:n=3,limit=5],obs=gaussian:0.1,reward=uniform:1,action=gaussian:0.1",
        f"disrupt:[{HOPPER}],obs=uniform:0.1,dynamics=mass:fixed:0.3,gear:schedule:0.3",
        "disrupt:[lbf],obs=gaussian:0.1,action=uniform:0.3,every=2",
        "disrupt:[mpe:simple_tag],obs=gaussian:0.1,action=uniform:0.3,by=episode",
    ],
)
def test_a_disturbed_environment_keeps_what_team_environments_promise(spec):
    check_team_env(lambda n: envs.load_team(spec, n))


class Beyond:
    """Leaves its ball."""

    def on_obs(self, frame, radius, by):
        return frame.obs_BAD + 10 * radius

    def on_action(self, frame, action, radius, by):
        return action - 10 * radius


def test_an_adversary_stays_in_its_ball_and_needs_a_policy():
    env = envs.load_team(f"disrupt:[{HOPPER}],obs=adversary:0.2,action=adversary:0.1", 2)
    with pytest.raises(BadInput, match="knows nobody"):
        env.reset(0)
    disrupt.arm(env, Beyond())
    np.testing.assert_allclose(env.reset(0).obs_BAD, envs.load_team(HOPPER, 2).reset(0).obs_BAD + 0.2, rtol=1e-5)
    still = f"disrupt:[{HOPPER}],action=shift:0.1"
    done, other = envs.load_team(still, 2), env
    done.reset(0)
    seen = other.step(np.full((2, 1, 3), 0.2)).obs_BAD - 0.2
    np.testing.assert_allclose(seen, done.step(np.zeros((2, 1, 3))).obs_BAD, atol=1e-5)
    assert disrupt.ball(env)[1] == 0.2
    with pytest.raises(BadInput, match=r"do: --env .disrupt:\[spread\]"):
        disrupt.ball(envs.load_team("spread", 1))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("[gymnasium:CartPole-v1],dynamics=mass*2", "no dynamics that(?s:.*)got: dynamics=mass(?s:.*)Hopper(?s:.*)do"),
        ("[mpe:simple_spread],dynamics=mass*2", "no dynamics that could change"),
        ("[spread:n=3],dynamics=mass*2", "do: leave dynamics out"),
        (f"[{HOPPER}],dynamics=mas*2", "did you mean 'mass'"),
        (f"[disrupt:[{HOPPER}],dynamics=mass*2],dynamics=mass*2", "disturbed twice"),
        (f"[{HOPPER}],obs=gausian:1", "did you mean 'gaussian'"),
        (f"[{HOPPER}],obs=0.1", "do: a number alone"),
        (f"[{HOPPER}],obs=gaussian:-0.1", "strength(?s:.*)at least 0"),
        (f"[{HOPPER}],obs=gaussian:lots", "strength(?s:.*)got: lots"),
        (f"[{HOPPER}],obs=gaussian", "without its strength(?s:.*)--strengths"),
        (f"[{HOPPER}],obs=gaussian:1:2", "more than a disturbance takes"),
        (f"[{HOPPER}],obs=gaussian:1,uniform:1", "several ways"),
        (f"[{HOPPER}],reward=adversary:1", "unknown way to disturb"),
        (f"[{HOPPER}],every=0", "when to disturb"),
        (f"[{HOPPER}],during=night", "when to disturb"),
        ("[gymnasium:CartPole-v1],action=gaussian:1", "choices cannot be disturbed so(?s:.*)uniform:P"),
        ("[gymnasium:CartPole-v1],action=uniform:2", "choices cannot be disturbed so"),
        ("[gymnasium:Hoppr-v5],obs=gaussian:1", "did you mean 'Hopper-v5'"),
        ("[nowhere],obs=gaussian:1", "unknown environment(?s:.*)got: nowhere"),
        ("[kuhn],obs=gaussian:1", "a game in turns"),
    ],
)  # fmt: skip
def test_errors_say_what_to_do(spec, message):
    with pytest.raises(BadInput, match=message):
        envs.load_team(f"disrupt:{spec}", 1)
