"""Memory and component rules: they add up, agree with one another where they must, and separate what shares credit."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.credit import component_shapley, memory_omission
from evolvent.memory.ledger import Known, changes_by
from evolvent.memory.rules import memq, memrl


def episode(reward, shown, *, omitted=(), dropped=(), p=None, id="e", valid=True, components=(), group=""):
    ep = Episode("t", id=id, group=group)
    for name in components:
        ep.component(name)
    ep.recall(f"r-{id}", shown, omitted=omitted, dropped=dropped, propensity=p)
    ep.act("x", reward=reward)
    ep.end(terminated=True, valid=valid)
    return ep


traces = st.lists(
    st.tuples(st.floats(-1, 1), st.lists(st.sampled_from("abcd"), unique=True, max_size=3), st.booleans()), max_size=12
)


@settings(max_examples=100, deadline=None)
@given(traces)
def test_memrl_credits_add_up_to_the_change_of_value(trace):
    episodes = [episode(r, shown, valid=valid) for r, shown, valid in trace]
    config = memrl.Config(alpha=0.3, q_init=0.0)
    ledger = memrl.assign(episodes, config, Known(values={"a": 0.5}))
    q = {"a": 0.5, "b": 0.0, "c": 0.0, "d": 0.0}
    for r, shown, valid in trace:
        for m in shown if valid else ():
            q[m] = q[m] + 0.3 * (r - q[m])
    for m, start in (("a", 0.5), ("b", 0.0), ("c", 0.0), ("d", 0.0)):
        credit = [v for address, v in ledger.entries("memory") if address.unit == m and v is not None]
        assert start + sum(credit) == pytest.approx(q[m], abs=1e-12)


@settings(max_examples=150, deadline=None)
@given(traces, st.data())
def test_memq_without_discount_is_memrl(trace, data):
    parents = {m: [p for p in "abcd" if p < m and data.draw(st.booleans())] for m in "abcd"}
    episodes = [episode(r, shown, valid=valid, id=f"e{i}") for i, (r, shown, valid) in enumerate(trace)]
    first = memrl.assign(episodes, memrl.Config(q_init=0.0)).values("memory")
    known = Known(parents=parents, created={"e0": "d"})
    second = memq.assign(episodes, memq.Config(gamma=0.0, trace=0.9, q_init=0.0), known).values("memory")
    assert np.array_equal(first, second, equal_nan=True)


def moved(episodes, config, known):
    return [{c.memory: c.q_after - c.q_before for c in did} for did in changes_by(memq.credit, episodes, config, known)]


def test_memq_pays_ancestors_that_were_not_shown():
    config = memq.Config(alpha=0.3, gamma=0.8, trace=0.5)
    known = Known(values={"A": 0.2, "B": 0.4, "C": 0.1}, parents={"C": ["B"], "B": ["A"]})
    ep = episode(1.0, ["C"])
    assert memq.assign([ep], config, known).get("memory", episode=0, unit="C") == pytest.approx(0.27)
    assert moved([ep], config, known) == [pytest.approx({"C": 0.27, "B": 0.108, "A": 0.0432})]
    assert moved([ep, ep], config, known)[1]["C"] == pytest.approx(0.3 * (1 - 0.37))


def test_memq_bootstraps_from_the_memory_it_created():
    config = memq.Config(alpha=0.3, gamma=0.5, trace=0.9)
    known = Known(values={"A": 0.5, "N": 0.5}, parents={"N": ["A"]}, created={"e": "N"})
    assert moved([episode(1.0, ["A"])], config, known) == [pytest.approx({"A": 0.225})]


def test_values_are_settled_with_the_reward_from_the_recall_on():
    ep = Episode("t", id="e")
    ep.recall("r1", ["a"])
    ep.act("x", reward=0.25)
    ep.recall("r2", ["b"])
    ep.act("y", reward=0.5)
    ep.recall("r3", ["c"])  # nothing came of it
    ep.end(terminated=True)
    values = memrl.assign([ep], memrl.Config(alpha=1.0, q_init=0.0)).values("memory")
    assert values.tolist()[:2] == [0.75, 0.5] and np.isnan(values[2])


def bundle(n, keep, rng):
    """One useful memory lifts success from .4 to .9, its companion does nothing; both always selected."""
    out = []
    for i in range(n):
        inc = rng.random(2) < keep
        r = float(rng.random() < (0.9 if inc[0] else 0.4))
        names = np.array(["useful", "idle"])
        p = {"useful": keep, "idle": keep}
        out.append(episode(r, names[inc].tolist(), omitted=names[~inc].tolist(), p=p, id=f"e{i}"))
    return out


def test_omission_separates_what_shared_credit_cannot():
    rng = np.random.default_rng(0)
    lifts = []
    for _ in range(20):
        episodes = bundle(300, 0.8, rng)
        ledger = memory_omission.assign(episodes, memory_omission.Config(strength=0.0))
        by_name = {a.unit: v for a, v in ledger.entries("memory")}
        lifts.append((by_name["useful"], by_name["idle"]))
    assert np.mean(lifts, axis=0) == pytest.approx([0.5, 0.0], abs=0.05)
    assert np.std(lifts, axis=0) == pytest.approx([0.07, 0.06], abs=0.035)


def test_what_had_no_place_in_the_prompt_is_no_help():
    """A note that does nothing is handed out by chance, and fits only where the task is short, which is easy."""
    rng, episodes = np.random.default_rng(0), []
    for i in range(4000):
        easy, handed = rng.random() < 0.5, rng.random() < 0.5
        fate = {"shown": ["m"] if handed and easy else [], "omitted": [] if handed else ["m"]}
        dropped = ["m"] if handed and not easy else []
        reward = float(rng.random() < (0.9 if easy else 0.1))
        episodes.append(episode(reward, **fate, dropped=dropped, p={"m": 0.5}, id=f"e{i}"))
    ledger = memory_omission.assign(episodes, memory_omission.Config(strength=0.0))
    assert ledger.values("memory")[0] == pytest.approx(0.0, abs=0.05)


def test_omission_needs_a_contrast():
    prior = memory_omission.Config(prior=0.2)
    certain = episode(1.0, ["m"])
    assert memory_omission.assign([certain], prior).values("memory").tolist() == [0.2]
    shown = episode(1.0, ["m"], p={"m": 0.5})
    assert memory_omission.assign([shown], prior).values("memory").tolist() == [0.2]
    left = episode(0.0, [], omitted=["m"], p={"m": 0.5}, id="f")
    # one against one: precision 1/2, difference 1
    want = (4 * 0.2 + 0.5 * 1.0) / 4.5
    assert memory_omission.assign([shown, left], prior).values("memory").tolist() == [pytest.approx(want)]
    # what was shown with certainty is no evidence
    assert memory_omission.assign([shown, left, certain], prior).values("memory")[0] == pytest.approx(want)
    with pytest.raises(BadInput, match="without a propensity"):
        memory_omission.assign([episode(0.0, [], omitted=["m"])], prior)


SLOTS = {
    "": 0.216,
    "p": 0.236,
    "r": 0.300,
    "a": 0.420,
    "f": 0.212,
    "pr": 0.328,
    "pa": 0.448,
    "pf": 0.236,
    "ra": 0.640,
    "rf": 0.308,
    "af": 0.424,
    "pra": 0.704,
    "prf": 0.340,
    "paf": 0.456,
    "raf": 0.652,
    "praf": 0.720,
}


def test_shapley_of_components_from_episodes():
    # every coalition twice, around its mean: runs are averaged, not the best kept
    episodes = [
        episode(v + d, [], components=list(names), id=f"{names}{d}") for names, v in SLOTS.items() for d in (-0.1, 0.1)
    ]
    ledger = component_shapley.assign(episodes)
    full = next(i for i, e in enumerate(episodes) if len(e.components) == 4)
    want = {"p": 0.039333, "r": 0.17, "a": 0.288, "f": 0.006667}
    for name, value in want.items():
        assert ledger.get("component", episode=full, unit=name) == pytest.approx(value, abs=1e-6)
    assert ledger.per_episode("component")[full] == pytest.approx(0.720 - 0.216)
    banzhaf = component_shapley.assign(episodes, component_shapley.Config(index="banzhaf"))
    assert banzhaf.per_episode("component")[full] == pytest.approx(0.498)


def test_a_missing_coalition_is_an_error_not_a_zero():
    episodes = [episode(v, [], components=list(names), id=names) for names, v in SLOTS.items() if names != "ra"]
    with pytest.raises(BadInput, match="never measured"):
        component_shapley.assign(episodes)


def replaced(strong, reward, *, tokens=None):
    """A run of three slots that always run; those in ``strong`` run in the implementation under test."""
    ep = Episode("t")
    for name in ("planner", "critic", "actor"):
        ep.component(name, implementation="large" if name in strong else "small")
        ep.act("x")
        ep.spend(completion=tokens, prompt=None)
    ep.add_reward(reward)
    ep.end(terminated=True)
    return ep


PLACES = {"p": "planner", "c": "critic", "a": "actor"}
REFERENCE = dict.fromkeys(PLACES.values(), "small")
GLOVE = {"": 0, "p": 0, "c": 0, "a": 0, "pc": 1, "pa": 1, "ca": 0, "pca": 1}


def glove(*strong):
    return [replaced({PLACES[x] for x in s}, GLOVE[s]) for s in strong]


def test_replaced_components_always_run_and_are_credited_where_they_were_replaced():
    for index, worth in (("shapley", [2 / 3, 1 / 6, 1 / 6]), ("banzhaf", [3 / 4, 1 / 4, 1 / 4])):
        config = component_shapley.Config(index=index, reference=REFERENCE)
        values = component_shapley.assign(glove(*GLOVE), config).values("component").reshape(-1, 3)
        for row, strong in zip(values, GLOVE, strict=True):
            assert row == pytest.approx([w * (name in strong) for name, w in zip("pca", worth, strict=True)])


def test_orders_that_ran_are_enough_where_it_is_said():
    runs = glove("", "p", "pc", "a", "ca", "pca")  # the order p, c, a and its reverse
    with pytest.raises(BadInput, match="never measured"):
        component_shapley.assign(runs, component_shapley.Config(reference=REFERENCE))
    config = component_shapley.Config(reference=REFERENCE, missing="orders")
    assert component_shapley.assign(runs, config).values("component")[-3:] == pytest.approx([0.5, 0.5, 0.0])
    with pytest.raises(BadInput, match="needs all coalitions"):
        component_shapley.assign(runs, replace(config, index="banzhaf"))


def test_what_decisions_took_is_shared_out_like_a_reward():
    runs = [replaced(strong, 0.0, tokens=10 * (1 + len(strong))) for strong in ({}, {"planner"})]
    config = component_shapley.Config(of="completion", reference=REFERENCE)
    assert component_shapley.assign(runs, config).values("component") == pytest.approx([0, 0, 0, 30, 0, 0])
    with pytest.raises(BadInput, match="not every decision says its prompt"):
        component_shapley.assign(runs, replace(config, of="prompt"))


def test_a_slot_runs_in_one_implementation_that_has_a_reference():
    with pytest.raises(BadInput, match="without a reference"):
        component_shapley.assign(glove("p"), component_shapley.Config(reference={"planner": "small"}))
    twice = Episode("t")
    for implementation in ("small", "large"):
        twice.component("planner", implementation=implementation)
    twice.act("x")
    twice.end(terminated=True)
    with pytest.raises(BadInput, match="two implementations"):
        component_shapley.assign([twice], component_shapley.Config(reference=REFERENCE))
