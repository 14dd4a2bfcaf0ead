"""Do learned memory values find what helps? Fixed budgets, five seeds, the real Memory; the margins are stated."""

from functools import cache

import numpy as np
import pytest

from evolvent.core.errors import BadInput
from evolvent.core.protocols import Embedder

worlds, memory_trial = pytest.importorskip("synthetic_worlds"), pytest.importorskip("memory_trial")
Bandit, BanditOptions, Chain, ChainOptions = worlds.Bandit, worlds.BanditOptions, worlds.Chain, worlds.ChainOptions

policy_for, run_bandit, run_chain = memory_trial.policy_for, memory_trial.run_bandit, memory_trial.run_chain
SEEDS = range(5)
NEARER = {"more_similar": 1.0}


@cache
def bandit(policy, **options):
    """Metrics over seeds, {name: float64[5]}: 5 clusters x 6 tasks x 10 passes = 300 tasks a seed."""
    worlds = [Bandit(BanditOptions(**{"clusters": 5, "bank_size": 60, **options}), seed) for seed in SEEDS]
    rows = [run_bandit(w, None if policy == "oracle" else policy_for(policy)) for w in worlds]
    return {name: np.array([np.nan if r[name] is None else r[name] for r in rows]) for name in rows[0]}


@cache
def chain(policy, wrong_edges=0.0, every=False, **fields):
    worlds = [Chain(ChainOptions(wrong_edges=wrong_edges, attempts=40), seed) for seed in SEEDS]
    rows = [run_chain(w, policy_for(policy, k=1, **fields), every=every) for w in worlds]
    return {name: np.array([r[name] for r in rows]) for name in rows[0]}


# ------------------------------------------------------------------------------------------------ the worlds themselves
def test_the_geometry_is_what_the_options_say():
    world = Bandit(BanditOptions(more_similar=2 / 3, companions=1, bank_size=200), seed=1)
    assert isinstance(world.embedder, Embedder)
    near = 0
    for task in world.tasks:
        own = [m for m in world.bank if m.cluster == task.cluster]
        sims = world.embedder.embed([m.key for m in own]) @ world.embedder.embed([task.text])[0]
        sim = dict(zip([(m.role, m.slot) for m in own], sims.tolist(), strict=True))
        assert sim["companion", 0] == pytest.approx(sim["good", 0], abs=1e-6)
        near += sum(sim["misleading", i] > sim["good", 0] for i in range(3))
        assert np.mean([sim["useless", i] for i in range(4)]) < sim["good", 0]
    assert near == pytest.approx(2 * len(world.tasks), rel=0.1)


def test_success_counts_the_good_the_misleading_and_the_drift():
    world = Bandit(BanditOptions(drift=1.0, companions=1, companion_penalty=0.1), seed=0)
    task = world.tasks[0]
    body = {(m.role, m.slot): m.body for m in world.bank if m.cluster == task.cluster}
    good, bad, companion = body["good", 0], body["misleading", 0], body["companion", 0]
    other = next(m.body for m in world.bank if m.cluster == task.cluster + 1 and m.role == "misleading")
    assert world.chance(task, [], 0) == 0.4
    assert world.chance(task, [good, body["useless", 0], other], 0) == 0.9
    assert world.chance(task, [good, bad, companion], 0) == pytest.approx(0.6)
    assert world.chance(task, [bad], 4) == pytest.approx(0.2)
    assert world.chance(task, [bad], 5) == 0.9
    assert world.chance(task, [good], 5) == pytest.approx(0.2)


def test_rewards_are_the_same_luck_for_every_policy_and_follow_the_dials():
    plain = Bandit(BanditOptions(), seed=3)
    rewards = [plain.reward(0.7, t, p) for p in range(10) for t in plain.tasks]
    assert rewards == [plain.reward(0.7, t, p) for p in range(10) for t in plain.tasks]
    assert set(rewards) == {0.0, 1.0}
    assert np.mean(rewards) == pytest.approx(0.7, abs=0.06)
    wrong = Bandit(BanditOptions(judge_error=0.3), seed=3)
    assert np.mean([wrong.reward(1.0, t, p) for p in range(10) for t in plain.tasks]) == pytest.approx(0.7, abs=0.06)
    noisy = Bandit(BanditOptions(reward_noise=0.3), seed=3)
    values = [noisy.reward(1.0, t, 0) for t in plain.tasks]
    assert len(set(values)) > 20 and min(values) >= 0.0 and max(values) <= 1.0


def test_one_seed_gives_one_result():
    runs = [run_bandit(Bandit(BanditOptions(passes=2), seed=7), policy_for("memlift")) for _ in range(2)]
    assert runs[0] == runs[1]
    assert runs[0] != run_bandit(Bandit(BanditOptions(passes=2), seed=8), policy_for("memlift"))


@pytest.mark.parametrize("options", [{"bank_size": 10}, {"p1": 1.5}, {"passes": 0}, {"drift": 0.5, "misleading": 0}])
def test_impossible_worlds_are_refused(options):
    with pytest.raises(BadInput, match="got"):
        Bandit(BanditOptions(**options), seed=0)


def test_the_table_of_vectors_refuses_other_texts():
    with pytest.raises(BadInput, match="without a vector"):
        Bandit(BanditOptions(), seed=0).embedder.embed(["task 0", "something else"])


# ------------------------------------------------------------------------------------------------ published policies
def test_oracle_and_no_memory_are_the_ends_of_the_scale():
    assert bandit("oracle")["regret"] == pytest.approx(0.0)
    assert bandit("none")["regret"] == pytest.approx(0.5)
    assert bandit("random")["success"].mean() < bandit("rag")["success"].mean()


def test_memrl_beats_similarity_where_distractors_are_more_similar():
    assert bandit("rag", **NEARER)["success"].mean() < 0.1  # three misleading memories come before the good one
    assert (bandit("memrl", **NEARER)["success"] > bandit("rag", **NEARER)["success"] + 0.2).all()
    assert bandit("memrl", **NEARER)["last"].mean() > bandit("memrl", **NEARER)["first"].mean()


def test_memp_learns_nothing_and_memrl_does():
    assert bandit("memp")["last"] == pytest.approx(bandit("memp")["first"])
    assert bandit("memrl")["last"].mean() > bandit("memp")["last"].mean() + 0.03


def test_memq_raises_the_value_of_the_first_stage_and_memrl_does_not():
    memq, memrl = chain("memq", gamma=0.8, trace=0.9), chain("memrl")
    assert (memrl["first_good"] == 0.0).all() and (memrl["first_gap"] == 0.0).all()
    assert (memq["first_good"] > 0.05).all()
    assert memq["first_gap"].mean() > 0.05
    assert memq["first_choice"].mean() > memrl["first_choice"].mean()


@pytest.mark.slow
def test_wrong_provenance_hurts():
    right, wrong = chain("memq", gamma=0.8, trace=0.9), chain("memq", 1.0, gamma=0.8, trace=0.9)
    assert wrong["first_gap"].mean() < right["first_gap"].mean() - 0.05
    assert wrong["late"].mean() < right["late"].mean()


# ------------------------------------------------------------------------------------------------ ours
HARMFUL = {"companions": 1, "companion_penalty": 0.2, "bank_size": 60}


def test_memlift_is_not_behind_where_a_companion_harms():
    """Unmeasured, nothing can tell it from the memory that it accompanies: values alone must do no worse."""
    ours, theirs = bandit("memlift", **HARMFUL), bandit("memrl", **HARMFUL)
    assert ours["regret"].mean() < theirs["regret"].mean() + 0.05
    assert ours["frozen"].mean() > theirs["frozen"].mean() - 0.05


@pytest.mark.parametrize(
    "options", [{}, {"reward_noise": 0.3, "judge_error": 0.1}, {"drift": 0.5}], ids=["plain", "noise", "drift"]
)
def test_memlift_does_not_lose_elsewhere(options):
    """Margin .05 of success probability, the noise of five seeds."""
    assert bandit("memlift", **options)["regret"].mean() < bandit("memrl", **options)["regret"].mean() + 0.05


def test_memlift_credits_the_stages_whose_receipts_are_settled():
    """Nothing flows back along provenance: an attempt of many recalls settles each of them."""
    last, every = chain("memlift"), chain("memlift", every=True)
    assert (last["first_good"] == 0.0).all() and (last["first_bad"] == 0.0).all()
    assert every["late"].mean() > last["late"].mean() + 0.05


@pytest.mark.parametrize(("p0", "p1"), [(0.02, 0.3), pytest.param(0.1, 0.4, marks=pytest.mark.slow)])
def test_where_success_is_rare_what_helps_is_not_taken_for_harm(p0, p1):
    """A tenth of success was taken for harm: late regret .18 and .14 where similarity alone has .01."""
    world = {"p0": p0, "p1": p1, "penalty": 0.01, "passes": 16}
    ours, plain = bandit("memlift", **world), bandit("rag", **world)
    # rare success costs today's rule some .04 (docs/memlift.md); taken for harm it was .14 and more
    assert ours["regret_late"].mean() < plain["regret_late"].mean() + 0.05
    assert ours["frozen"].mean() > plain["frozen"].mean() - 0.03
