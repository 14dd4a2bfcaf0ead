"""Planners of a search by hand and in the mean, AGDC's learners, and what both refuse."""

import numpy as np
import pytest

import evolvent
from evolvent.algos import agdc, infotaxis
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.core.seeding import rng
from evolvent.envs.team import ste
from evolvent.evaluate import blocks

pytestmark = pytest.mark.usefixtures("one_thread")
TINY = {"envs": 4, "horizon": 20, "steps": 160, "hidden": (8,), "eval_every": 0, "eval_episodes": 4, "quiet": True}
WORLD = "ste:wide,limit=25,particles=40"


@pytest.fixture
def searched():
    """Copies of which the second is somewhere in its attempt."""
    env, draw = ste.make_team(n_envs=2, particles=400), rng(0)
    env.reset(2)
    for _ in range(12):
        env.step(draw.integers(0, 4, (2, 1)))
    return env


def places(env):
    return env.reach(env.directions(np.arange(4))[:, None])[:, 1]


def test_dcee_is_a_step_towards_the_mean_but_for_its_draws(searched):
    """E_z [ |E' xy - a|² + Var' ] = E |xy - a|² for any sensor: what is left of it is the noise of few readings."""
    there = places(searched)
    said = infotaxis.foreseen(searched, 1, there, 2000, rng(1))
    found = infotaxis.dual(searched, 1, there, said)
    xy, weight = searched.belief.theta_B8N[1, :2], searched.belief.weight_BN[1]
    exact = [-(weight * ((xy - a[:, None]) ** 2).sum(0)).sum() for a in there]
    assert found == pytest.approx(exact, rel=0.03)


def test_infotaxis_learns_what_the_entropies_say(searched):
    """The mean KL is the mutual information, H(w) - E H(w')."""
    there = places(searched)
    said = infotaxis.foreseen(searched, 1, there, 2000, rng(1))
    gain = infotaxis.learned(searched, 1, there, said)
    weight = searched.belief.weight_BN[1]
    after = weight * np.exp(said)
    after /= after.sum(2, keepdims=True)
    entropy = -(after * np.log(np.maximum(after, 1e-30))).sum(2).mean(1)
    before = -(weight * np.log(np.maximum(weight, 1e-30))).sum()
    assert (gain > 0).all() and gain == pytest.approx(before - entropy, abs=0.05)


def test_entrotaxis_by_hand(searched):
    """Where no particle is heard of, only silence is read: -log(0.7 Phi(1) + 0.3)."""
    searched.belief.known_B4N[1, 0] = 0.0
    said = infotaxis.foreseen(searched, 1, places(searched), 50, rng(1))
    assert infotaxis.uncertain(searched, 1, places(searched), said) == pytest.approx([0.11772] * 4, abs=1e-4)
    assert infotaxis.learned(searched, 1, places(searched), said) == pytest.approx([0.0] * 4, abs=1e-5)


def test_lanes_begin_at_the_nearest_corner_and_cover_the_box():
    path = infotaxis.lanes(25.0, 150.0, np.array([20.0, 3.0]))
    assert path[0].tolist() == [25, 0] and path[1].tolist() == [25, 25] and path[2].tolist() == [20, 25]
    assert set(path[:, 0]) == {0, 5, 10, 15, 20, 25} and len(path) == 12


@pytest.mark.parametrize("planner", infotaxis.get_args(infotaxis.Planner))
def test_planners_search_alike_twice(planner, tmp_path):
    """Deterministic by the seed, on the same searches; with angles, too. The page leads with what was found."""
    settings = {"env": WORLD, "planner": planner, "draws": 3, "episodes": 4, "quiet": True}
    first, second = (evolvent.run("infotaxis", **settings, out=tmp_path / name).summary for name in "ab")
    assert first["searches"] == second["searches"] and len(first["searches"]["greedy"]["steps"]) == 4
    turned = evolvent.run("infotaxis", **settings | {"env": f"{WORLD},heading=true"}, out=tmp_path / "c").summary
    assert 0 <= turned["score"]["value"] <= 1
    page = blocks.read(tmp_path / "a")
    assert page is not None and page.score is not None and page.score.name == "found the source"
    assert len(page.of(blocks.Outcomes)[0].rows) == 4 and page.of(blocks.Frame)[0].file == "search.html"
    assert '"FILM"' not in (tmp_path / "a" / "search.html").read_text()


@pytest.mark.parametrize(
    ("learner", "option"), [("ppo", ""), ("ppo", ",heading=true"), ("dqn", ""), ("ddpg", ",heading=true")]
)
def test_each_learner_searches_and_is_judged_again(learner, option, tmp_path, monkeypatch):
    monkeypatch.setitem(agdc.SETTINGS, learner, {"minibatches": 2} if learner == "ppo" else {"warmup": 20, "batch": 4})
    found = evolvent.run("agdc", **TINY, learner=learner, env=WORLD + option, out=tmp_path / "run")
    assert found.summary["score"]["n"] == 4 and found.summary["baseline"]["name"] == "random moves"
    player = agdc.policy(RunFolder.open(tmp_path / "run"), env=f"ste:wide,limit=25{option}")  # more particles
    assert player.views.team.limit == 25


@pytest.mark.parametrize(
    ("algo", "settings", "said"),
    [
        ("infotaxis", {"planner": "greedy"}, "planner"),
        ("infotaxis", {"draws": 0}, "draws"),
        ("infotaxis", {"env": "spread:n=1"}, "no search for a source"),
        ("infotaxis", {"env": "ste:wide,strength=-1"}, "nothing less than 0"),
        ("agdc", {"learner": "sac"}, "learner"),
        ("agdc", {"learner": "ddpg"}, "moves of another kind"),
        ("agdc", {"learner": "dqn", "env": "ste:wide,heading=true"}, "moves of another kind"),
        ("agdc", {"env": "spread:n=1"}, "no search for a source"),
        ("agdc", {"env": "ste:wide,box=1"}, "a box too small"),
    ],
)
def test_refusals(algo, settings, said, tmp_path):
    with pytest.raises(BadInput, match=said):
        evolvent.run(algo, **settings, out=tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()
