"""The value worlds are what they say, and the default finds what helps in one of them within a fixed budget."""

import numpy as np
import pytest

trial, table = pytest.importorskip("value_trial"), pytest.importorskip("value_worlds")
Advice, Options, Oracle, World, run = trial.Advice, trial.Options, trial.Oracle, trial.World, trial.run


def test_effects_follow_role_and_definition():
    world = World(Options(gain=0.3, loss=0.1, companions=1, companion_loss=0.05, drift=True), 0)
    roles = {"right": 0.3, "wrong": -0.1, "useless": 0.0, "companion": -0.05}
    assert {role: world.effect(Advice(0, role, 0), 0) for role in roles} == roles
    assert world.effect(Advice(0, "right", 0), 1) == -0.1 and world.effect(Advice(0, "right", 1), 1) == 0.3
    assert trial.advice_of(trial.body_of(Advice(5, "companion", 1), "q3")) == Advice(5, "companion", 1)
    right = next(key for key, body in world.start[2] if "right" in body)
    assert [key for key, body in world.start[2] if "companion" in body] == [right]
    assert len(world.later[0]) == 1 and not World(Options(mistaken=0.2, drift=True), 0).later[0]


def test_the_agent_follows_all_or_one_of_what_it_sees():
    o = Options(base=0.5, gain=0.3, loss=0.2)
    bodies = [trial.body_of(Advice(1, role, 0), 0) for role in ("wrong", "right", "useless")]
    luck = np.zeros(8)
    assert trial._chance(World(o, 0), 1, bodies, 0, luck)[1] == pytest.approx(0.6)
    assert trial._chance(World(o, 0), 0, bodies, 0, luck)[1] == pytest.approx(0.5)  # for another kind of task
    one = World(Options(base=0.5, gain=0.3, loss=0.2, follows="one"), 0)
    assert trial._chance(one, 1, bodies, 0, luck) == (bodies[0], pytest.approx(0.3))
    assert trial._chance(one, 1, bodies, 0, np.full(8, 0.6))[0] == bodies[2]
    first = World(Options(base=0.5, gain=0.3, loss=0.2, follows="first"), 0)
    for some in (bodies, bodies[1:]):
        effect = first.effect(trial.advice_of(some[0]), 0)
        assert trial._chance(first, 1, some, 0, np.full(8, 0.6)) == (some[0], pytest.approx(0.5 + effect))


def test_right_advice_may_be_the_nearest():
    world = World(Options(nearest=True), 0)
    for kind, rows in enumerate(world.start):
        key, body = max(
            rows, key=lambda row: np.mean(world.embedder.embed(world.keys[kind]) @ world.embedder.embed([row[0]])[0])
        )
        assert trial.advice_of(body).role == "right", key


def test_the_oracle_regrets_nothing_and_drift_is_an_event():
    for changed in ({}, {"drift": True}, {"mistaken": 0.3, "follows": "one", "drift": True}):
        world = World(Options(tasks=120, **changed), 1)
        found = run(world, Oracle(world))
        assert found["regret"] == pytest.approx(0.0, abs=1e-12)


def test_the_default_beats_similarity_where_similarity_misleads():
    options = Options(kinds=2, tasks=160, nearer=True, gain=0.5)
    late = {arm: np.mean([table.one(options, arm, seed)["late"] for seed in range(3)]) for arm in ("memlift", "rag")}
    assert late["memlift"] < late["rag"] - 0.15


def test_the_pages_are_those_of_the_result_file():
    pages = pytest.importorskip("worlds_page")
    assert pages.PAGE.read_text("utf-8") == pages.page(), "run benchmarks/worlds_page.py"
