"""Every file in credit/ keeps its declarations; the kit itself tells biased rules from unbiased ones."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evolvent.credit
from evolvent import catalogue
from evolvent.algos.policy_gradient import needs_of
from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.ledger import Ledger
from evolvent.credit import step_gae, step_group_mean, step_group_std, step_leave_one_out, step_leave_one_out_to_go
from evolvent.testing.credit import check_credit
from evolvent.testing.exact import exact_gradient, finding, measure, small_task

RULES = [entry.name for entry in catalogue.entries("credit")]


@pytest.mark.parametrize("name", RULES)
def test_every_rule_keeps_its_promises(name):
    """Found by listing the folder: a new file is checked without being named here."""
    rule = catalogue.credit_rule(name).source
    assert rule.__name__ == f"evolvent.memory.rules.{name}" or name.startswith(f"{rule.LEVEL}_")
    done = check_credit(rule)
    if rule.LEVEL in ("token", "step") or getattr(rule, "RECORD", "episode") == "rollout":
        assert "exact gradient" in done
    words = rule.__doc__
    assert any(w in words for w in ("Paper:", "Source:", "our own"))
    assert any(w in words for w in ("Deviations:", "our own", "our combination"))


def test_the_first_rules_exist():
    assert {
        "step_return_to_go",
        "step_gae",
        "step_leave_one_out",
        "step_leave_one_out_to_go",
        "step_group_mean",
        "step_group_std",
        "memrl",
        "memq",
        "memlift",
        "memory_omission",
        "component_shapley",
    } <= set(RULES)


# ------------------------------------------------------------------------------------------------ the kit itself
def test_the_true_gradient_is_the_slope_of_the_expected_return():
    task = small_task(1)
    assert len(task.paths) == 15
    assert task.probability_N.sum() == pytest.approx(1)
    returns = np.array([sum(p.rewards) for p in task.paths])

    def worth(logits):
        return float(type(task)(task.seed, task.paths, logits).probability_N @ returns)

    for d in range(len(task.logit_D)):
        e = np.zeros_like(task.logit_D)
        e[d] = 1e-5
        slope = (worth(task.logit_D + e) - worth(task.logit_D - e)) / 2e-5
        assert task.true_gradient_D[d] == pytest.approx(slope, abs=1e-8)


def test_unordered_groups_weigh_as_ordered_ones():
    """The same expectation, spelled out over all ordered pairs with the equation of the rule."""
    task = small_task(2)
    p, score = task.probability_N, [task.scores_KD(n).sum(axis=0) for n in range(15)]
    ret = [sum(path.rewards) for path in task.paths]
    mean = np.zeros(len(task.logit_D))
    for i, j in itertools.product(range(15), repeat=2):
        # group mean of two: each is half the difference away from it
        mean += p[i] * p[j] * 0.5 * (ret[i] - ret[j]) / 2 * (score[i] - score[j])
    report = exact_gradient(step_group_mean.assign, "step", seed=2, group_size=2)
    true = task.true_gradient_D
    assert report.relative_error == pytest.approx(np.linalg.norm(mean - true) / np.linalg.norm(true))
    assert report.scale == pytest.approx(0.5)


def test_record_matches_the_policy():
    task = small_task(0)
    for n, p in enumerate(task.probability_N):
        ep = task.episode(n, group="g", id="e")
        assert float(np.exp(ep.logp.astype(float).sum())) == pytest.approx(p, rel=1e-5)
        assert ep.total_reward == pytest.approx(sum(task.paths[n].rewards))


def whole_return(episodes: Sequence[Episode]) -> Ledger:
    ledger = Ledger.for_episodes(episodes)
    ledger.set("step", np.array([e.total_reward for e in episodes])[ledger.episode_index("step")])
    return ledger


def centred_among_the_living(episodes: Sequence[Episode]) -> Ledger:
    """Per-turn rewards minus the mean over members still alive at that turn, summed to go: natural, and wrong."""
    ledger = Ledger.for_episodes(episodes)
    credit: list[float] = []
    rewards = [e.rewards_T.tolist() for e in episodes]
    for e, mine in zip(episodes, rewards, strict=True):
        group = [other for o, other in zip(episodes, rewards, strict=True) if o.group == e.group]
        centred = [r - fmean(other[t] for other in group if len(other) > t) for t, r in enumerate(mine)]
        credit += np.cumsum(centred[::-1])[::-1].tolist()
    ledger.set("step", credit)
    return ledger


def by_groups(assign):
    """Call a rule group by group, as its quadratic spelling above would be slow over all at once."""

    def grouped(episodes):
        ledger = Ledger.for_episodes(episodes)
        runs = [list(g) for _, g in itertools.groupby(episodes, key=lambda e: e.group)]
        ledger.set("step", np.concatenate([assign(run).values("step") for run in runs]))
        return ledger

    return grouped


def test_known_findings_are_reproduced():
    assert finding([exact_gradient(whole_return, "step", seed=s) for s in range(3)]) is True
    alive = [exact_gradient(by_groups(centred_among_the_living), "step", seed=s) for s in range(3)]
    assert finding(alive) is False
    assert all(0.5 < r.cosine < 0.999 for r in alive)
    for r in measure(step_group_mean, seeds=range(2), group_sizes=(2, 3)):
        assert r.scale == pytest.approx((r.group_size - 1) / r.group_size)
        assert r.cosine == pytest.approx(1)
    assert all(r.cosine < 0.999 for r in measure(step_group_std, seeds=range(3), group_sizes=(3,)))
    whole, to_go = (measure(m, group_sizes=(3,)) for m in (step_leave_one_out, step_leave_one_out_to_go))
    assert np.mean([r.variance for r in to_go]) < np.mean([r.variance for r in whole])  # on average, not always


def test_the_table_in_the_readme_says_what_the_files_declare():
    table = (Path(evolvent.credit.__path__[0]) / "README.md").read_text(encoding="utf-8")
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line.startswith("| `")
    ]
    declared = {}
    for name in RULES:
        rule = catalogue.credit_rule(name).source
        words = {True: "yes", False: "**no**", None: "–"}.get(rule.UNBIASED, rule.UNBIASED)
        declared[f"`{name}`"] = (rule.LEVEL, words)
    assert {row[0]: (row[1], row[2]) for row in rows} == declared


def test_the_table_in_the_readme_says_which_system_runs_a_rule():
    table = (Path(evolvent.credit.__path__[0]) / "README.md").read_text(encoding="utf-8")
    for line in table.splitlines():
        if not line.startswith(("| `step_", "| `token_", "| `agent_")):
            continue
        name, by = line.split("`")[1], line.rstrip("|").rpartition("|")[2]
        systems = catalogue.systems_of(name)
        try:
            needs_of(catalogue.credit_rule(name))
            systems.append("policy_gradient")
        except BadInput as error:
            assert systems and systems[0] in str(error), "what is refused is sent to a system that runs it"
        assert by.strip() == ", ".join(f"`{system}`" for system in systems), name


@pytest.mark.parametrize("claim", [True, False, "up to scale"])
@pytest.mark.parametrize("rule", [step_leave_one_out, step_group_mean, step_group_std])
def test_a_false_declaration_is_found_either_way(rule, claim):
    liar = SimpleNamespace(LEVEL="step", UNBIASED=claim, assign=rule.assign, __doc__="A rule.", __name__="liar")
    if claim == rule.UNBIASED:
        check_credit(liar)
    else:
        with pytest.raises(BadInput, match="not what is declared"):
            check_credit(liar)


def test_broken_promises_are_named():
    def rule(assign, level="step", claim=True):
        return SimpleNamespace(LEVEL=level, UNBIASED=claim, assign=assign, __doc__="A rule.", __name__="broken")

    def first_is_special(episodes):
        ledger = Ledger.for_episodes(episodes)
        ledger.set("step", np.where(ledger.episode_index("step") == 0, 1.0, 0.0))
        return ledger

    def noisy(episodes):
        ledger = Ledger.for_episodes(episodes)
        ledger.set("step", np.random.random(ledger.size("step")))
        return ledger

    def meddling(episodes):
        for e in episodes:
            if e.n_steps:
                e.add_reward(1.0)
        return whole_return(episodes)

    def over_all(episodes):
        ledger = whole_return([e for e in episodes if e.valid])
        out = Ledger.for_episodes(episodes)
        valid = np.array([e.valid for e in episodes], dtype=bool)[out.episode_index("step")]
        credit = np.full(out.size("step"), np.nan)
        credit[valid] = ledger.values("step") - (np.mean(ledger.values("step")) if ledger.size("step") else 0)
        out.set("step", credit)
        return out

    for broken, words in (
        (rule(whole_return), "invalid episode"),
        (rule(first_is_special), "invalid episode"),
        (rule(noisy), "two calls"),
        (rule(meddling), "two calls|changed an episode"),
        (rule(over_all), "another group"),
        (rule(whole_return, level="turn"), "LEVEL"),
        (rule(whole_return, claim=None), "UNBIASED"),
        (rule(lambda episodes: Ledger.for_episodes(episodes)), "nothing was scored"),
    ):
        with pytest.raises(BadInput, match=words):
            check_credit(broken)


# ------------------------------------------------------------------------------------------------ invariances
def attempts(rewards, group="g"):
    out = []
    for i, row in enumerate(rewards):
        ep = Episode("t", group=group, id=f"{group}{i}")
        for r in row:
            ep.act("x", reward=r)
        ep.end(terminated=True)
        out.append(ep)
    return out


groups = st.lists(st.lists(st.floats(-5, 5), min_size=1, max_size=4), min_size=2, max_size=5)


@settings(max_examples=60, deadline=None)
@given(groups, st.floats(-10, 10))
@pytest.mark.parametrize("rule", [step_leave_one_out, step_group_mean, step_leave_one_out_to_go])
def test_a_constant_added_to_every_return_changes_nothing(rule, rewards, shift):
    """Added at the end of an attempt; for the to-go rule all attempts are given one length first."""
    if rule is step_leave_one_out_to_go:
        longest = max(map(len, rewards))
        rewards = [row + [0.0] * (longest - len(row)) for row in rewards]
    shifted = [[*row[:-1], row[-1] + shift] for row in rewards]
    assert rule.assign(attempts(shifted)).values("step") == pytest.approx(
        rule.assign(attempts(rewards)).values("step"), abs=1e-9
    )


@settings(max_examples=60, deadline=None)
@given(groups)
def test_turns_without_reward_after_the_end_change_nothing_before(rewards):
    """Padding attempts to one length with rewards of 0 is what "ended members count 0" means."""
    longest = max(map(len, rewards))
    padded = [row + [0.0] * (longest - len(row)) for row in rewards]
    plain, long = (step_leave_one_out_to_go.assign(attempts(r)) for r in (rewards, padded))
    for i, row in enumerate(rewards):
        for t in range(len(row)):
            assert long.get("step", episode=i, unit=t) == pytest.approx(plain.get("step", episode=i, unit=t))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(-5, 5), min_size=2, max_size=6), st.floats(0.1, 10), st.floats(-10, 10))
def test_group_std_ignores_the_scale_of_rewards(returns, scale, shift):
    if np.std(returns) < 1e-2:
        return
    config = step_group_std.Config(eps=0.0)
    plain = step_group_std.assign(attempts([[r] for r in returns]), config)
    scaled = step_group_std.assign(attempts([[scale * r + shift] for r in returns]), config)
    assert scaled.values("step") == pytest.approx(plain.values("step"), abs=1e-6)
    assert plain.total("step") == pytest.approx(0, abs=1e-6)


def test_alone_in_its_group():
    one = attempts([[1.0, 2.0]])
    assert step_leave_one_out.assign(one).values("step").tolist() == [3, 3]
    assert step_leave_one_out_to_go.assign(one).values("step").tolist() == [3, 2]
    assert step_group_mean.assign(one).values("step").tolist() == [0, 0]
    assert step_group_std.assign(one).values("step").tolist() == [0, 0]


def test_gae_bootstraps_truncated_attempts_only():
    ep = Episode("t", id="e")
    ep.act("x", reward=1.0)
    ep.end(truncated=True)
    config = step_gae.Config(critic=lambda e: [0.5, 2.0], gamma=0.9, gae_lambda=0.8)
    assert step_gae.assign([ep], config).values("step").tolist() == [pytest.approx(1 + 0.9 * 2 - 0.5)]
    over = Episode("t", id="e")
    over.act("x", reward=1.0)
    over.end(terminated=True)
    assert step_gae.assign([over], config).values("step").tolist() == [0.5]
    with pytest.raises(BadInput, match="needs the value of its last observation"):
        step_gae.assign([ep], step_gae.Config(critic=lambda e: [0.5]))
    with pytest.raises(BadInput, match="needs a critic"):
        step_gae.assign([ep])
