"""Credit inside actions: numbers worked out by hand or from the papers' equations."""

import numpy as np
import pytest

from evolvent.algos import openr
from evolvent.core.episode import Episode
from evolvent.core.reward_kinds import keep_reward
from evolvent.credit import (
    agent_sequential,
    step_gae,
    step_leave_one_out,
    step_utterance_critic,
    token_bad,
    token_conservative_bellman,
    token_entropy_redistribute,
    token_entropy_weight,
    token_immediate,
    token_implicit,
    token_ntpo,
    token_sequential,
    token_soft_bellman,
)
from evolvent.formulas import entropy, soft


def episode(actions, rewards, *, agents=None, id="e", group="g", cut=False, final_value=None, logp=None, **notes):
    """An attempt with ``actions[t]`` tokens in decision t and flat notes."""
    ep = Episode("t", id=id, group=group)
    at = 0
    for t, (n, r) in enumerate(zip(actions, rewards, strict=True)):
        lps = [-1.0] * n if logp is None else logp[at : at + n]
        ep.act("x", token_ids=range(n), logp=lps, reward=r, agent=agents[t] if agents else "agent")
        at += n
    for name, values in notes.items():
        ep.note(name, values)
    ep.end(terminated=not cut, truncated=cut)
    ep.final_value = final_value
    return ep


# two turns of 3 and 2 tokens
TWO_TURNS = {"actions": [3, 2], "rewards": [0.0, 1.0], "value": [0.2, 0.3, 0.5, 0.6, 0.8]}


@pytest.mark.parametrize(
    ("rule", "adv", "target"),
    [
        (token_bad, [0.627039, 0.554778, 0.373450, 0.39, 0.2], [0.827039, 0.854777, 0.873450, 0.99, 1.0]),
        (token_ntpo, [0.409374, 0.396928, 0.288805, 0.291, 0.2], [0.609374, 0.696928, 0.788805, 0.891, 1.0]),
    ],
)
def test_two_turns(rule, adv, target):
    ep = episode(**TWO_TURNS)
    got = rule.assign([ep], rule.Config(gamma=0.9, gae_lambda=0.95)).values("token")
    assert got == pytest.approx(adv, abs=1e-5)
    assert got + ep.notes["value"] == pytest.approx(target, abs=1e-5)


def test_action_level_reads_the_value_of_the_first_token():
    ep = episode(**TWO_TURNS)
    assert step_gae.assign([ep], step_gae.Config(gamma=0.9, gae_lambda=0.95)).values("step") == pytest.approx(
        [0.682, 0.4]
    )
    ones = {"gamma": 0.9, "gae_lambda": 1.0}
    assert step_gae.assign([ep], step_gae.Config(**ones)).values("step") == pytest.approx([0.7, 0.4])
    assert token_bad.assign([ep], token_bad.Config(**ones)).values("token")[[0, 3]] == pytest.approx([0.7, 0.4])
    assert token_ntpo.assign([ep], token_ntpo.Config(**ones)).values("token")[[0, 3]] == pytest.approx([0.4561, 0.3])


def test_a_cut_attempt_bootstraps():
    ep = episode(**TWO_TURNS, cut=True, final_value=2.0)
    done = episode(**TWO_TURNS)
    for rule in (token_bad, token_ntpo, token_sequential):
        config = rule.Config(gamma=0.9, gae_lambda=0.0)
        more = rule.assign([ep], config).values("token") - rule.assign([done], config).values("token")
        assert more == pytest.approx([0, 0, 0, 0, 0.9 * 2.0])


# The microwave: S0 {open, close} -> S1 {put} -> S2 {open, close}; the right word goes on, the wrong one stays. Every
# word is a first token that chooses and forced ones after it; 5 tokens for open and close, 8 for put. gamma .95, the
# policy is uniform, nothing limits the number of steps.
WORDS = {("S0", 0): (5, "S1"), ("S0", 1): (5, "S0"), ("S1", 0): (8, "S2"), ("S2", 0): (5, None), ("S2", 1): (5, "S2")}


def backed_up(rule):
    """Values of all prefixes as the fixed point of the rule's own one-step targets, and the advantages there."""
    value = {(*key, j): 0.0 for key, (n, _) in WORDS.items() for j in range(n)}
    config = rule.Config(gamma=0.95, gae_lambda=0.0)

    def start(state):
        # before the first token both words are ahead: one value for the state
        return np.mean([value[s, w, 0] for s, w in WORDS if s == state])

    for _ in range(400):
        new, adv = {}, {}
        for (s, w), (n, after) in WORDS.items():
            column = [start(s), *(value[s, w, j] for j in range(1, n))]
            final = {} if after is None else {"final_value": float(start(after)), "cut": True}
            ep = episode([n], [float(after is None)], value=column, **final)
            adv[s, w] = rule.assign([ep], config).values("token")
            for j in range(n):
                new[s, w, j] = float(adv[s, w][j] + column[j])
        value = new
    return [start(s) for s in ("S0", "S1", "S2")], adv


def test_values_do_not_know_how_long_the_words_are():
    values, adv = backed_up(token_bad)
    assert values == pytest.approx([0.818594, 0.904762, 0.952381], abs=1e-5)
    assert [adv[key][0] for key in WORDS] == pytest.approx([0.040930, -0.040930, 0, 0.047619, -0.047619], abs=1e-5)
    # all that was chosen was chosen by the first token
    assert np.concatenate([a[1:] for a in adv.values()]) == pytest.approx(0.0, abs=1e-5)


def test_naive_values_do():
    values, adv = backed_up(token_ntpo)
    assert values == pytest.approx([0.278077, 0.440672, 0.664242], abs=1e-5)
    assert [adv[key][0] for key in WORDS] == pytest.approx([0.062906, -0.062906, 0, 0.150264, -0.150264], abs=1e-5)


def test_two_agents_in_one_turn():
    ep = episode([1, 1], [0.0, 1.0], agents=["solver", "checker"], value=[0.4, 0.6])
    released = agent_sequential.assign([ep], agent_sequential.Config(kappa=0.99))
    assert released.values("step") == pytest.approx([0.5702, 0.4])
    assert released.get("agent", episode=0, unit="solver") == pytest.approx(0.5702)
    plain = agent_sequential.assign([ep])
    assert plain.values("step") == pytest.approx([0.6 - 0.4 + 0.95 * 0.4, 0.4])


def test_the_lower_of_two_critics():
    """Values at the first token of each utterance, the others are not looked at."""
    ep = episode([2, 1], [0.0, 1.0], q1=[0.5, 9, 0.9], q2=[0.7, 9, 0.4], v1=[0.1, 9, 0.8], v2=[0.3, 9, 0.2])
    assert step_utterance_critic.assign([ep]).values("step") == pytest.approx([0.5 - 0.1, 0.4 - 0.2])


# ------------------------------------------------------------------------------------------------- entropy
MASK = [3, 2, 4, 1]
H = [1.2, 0.1, 0.8, 0.05, 2.0, 0.3, 0.6, 1.5, 0.2, 0.02]
OLD = [-0.5, -1.2, -0.3, -2.0, -0.7, -1.0, -0.4, -0.9, -1.6, -0.2]
NEW = [-0.2, -1.3, -0.3, -2.5, -0.2, -0.9, -0.8, -0.5, -1.6, -0.6]
RETURNS = [1.0, 0.0, 0.5, 0.0]
AEPO = [0.960185, 0.693384, 0.863167, -0.408754, -0.692534, 0.148379, 0.162931, 0.206590, 0.143528, -0.404388]
HAPO = [0.833333, 0.327573, 0.750808, -0.5, -1, 0.166667, 0.166667, 0.239472, 0.093730, -0.5]
PLACE = [0, -0.606912, -0.099031, -0.776206, 1, -0.338588, -0.169294, 0.436829, -0.437618, -1]


def rollouts(**notes):
    """Four attempts at one task, one decision each."""
    ends = np.cumsum(MASK)
    parts = [slice(e - n, e) for e, n in zip(ends.tolist(), MASK, strict=True)]
    columns = {"entropy": H, **notes}
    return [
        episode([n], [r], id=f"e{i}", logp=OLD[part], **{k: v[part] for k, v in columns.items()})
        for i, (n, r, part) in enumerate(zip(MASK, RETURNS, parts, strict=True))
    ]


def test_weighted_by_entropy():
    config = token_entropy_weight.Config(base=step_leave_one_out.assign)
    assert token_entropy_weight.assign(rollouts(), config).values("token") == pytest.approx(AEPO, abs=1e-5)


def test_redistributed_by_entropy():
    config = token_entropy_redistribute.Config(base=step_leave_one_out.assign)
    got = token_entropy_redistribute.assign(rollouts(new_logp=NEW), config).values("token")
    assert got == pytest.approx(HAPO, abs=1e-5)
    # before the first update every ratio is 1: certain tokens lose, the others keep what they had
    first = token_entropy_redistribute.assign(rollouts(), config).values("token")
    base = np.repeat([0.833333, -0.5, 0.166667, -0.5], MASK)
    assert first == pytest.approx(base * (1 + np.minimum(PLACE, 0.0)), abs=1e-5)


def test_place_of_a_token():
    h = entropy.relative_entropy(H)
    assert h == pytest.approx(PLACE, abs=1e-5)
    assert entropy.relative_entropy(H, released=True) == pytest.approx(np.abs(PLACE), abs=1e-5)
    assert entropy.relative_entropy([0.7, 0.7]).tolist() == [0, 0]
    assert entropy.z_scores([0.7, 0.7, 0.7]).tolist() == [0, 0, 0]
    assert entropy.z_scores([0.7]).tolist() == [0]


# ---------------------------------------------------------------------------------------------- soft Bellman
PI, RHO = np.array([[0.5, 0.3, 0.2], [0.1, 0.8, 0.1]]), np.array([[0.4, 0.4, 0.2], [0.3, 0.5, 0.2]])
Q, BETA = np.array([[1.0, 0.5, 0.0], [0.2, 0.9, -0.3]]), 0.1


def test_soft_values():
    assert soft.kl(PI, RHO) == pytest.approx([0.025267, 0.196827], abs=1e-5)
    assert (PI * Q).sum(axis=1) == pytest.approx([0.65, 0.71])
    assert soft.soft_value(PI, Q, RHO, BETA) == pytest.approx([0.647473, 0.690317], abs=1e-5)
    best = soft.soft_best_policy(Q, RHO, BETA)
    want = [[0.993285, 0.006693, 0.000023], [0.000547, 0.999451, 0.000002]]
    assert best == pytest.approx(np.array(want), abs=1e-5)
    assert soft.soft_best_value(Q, RHO, BETA) == pytest.approx([0.909045, 0.830740], abs=1e-5)
    assert soft.soft_value(best, Q, RHO, BETA) == pytest.approx([0.909045, 0.830740], abs=1e-5)
    assert soft.kl(PI, best) == pytest.approx([2.615714, 1.404229], abs=1e-5)


def test_soft_targets():
    target = soft.soft_targets([0.0, 0.3], [0.690317, 0.647473], [False, True], 0.99)
    assert target == pytest.approx([0.690317, 0.940999], abs=1e-5)
    # the same from a record: an action of two tokens, then one of one token
    notes = {"expected_q": [0.0, 0.71, 0.65], "kl": [0.0, 0.196827, 0.025267]}
    ep = episode([2, 1], [0.3, 1.0], **notes)
    got = token_soft_bellman.assign([ep], token_soft_bellman.Config(beta=0.1)).values("token")
    assert got == pytest.approx([0.690317, 0.940999, 1.0], abs=1e-5)
    cut = episode([2, 1], [0.3, 1.0], cut=True, final_value=0.5, **notes)
    assert token_soft_bellman.assign([cut]).values("token")[2] == pytest.approx(1.0 + 0.99 * 0.5)


# ---------------------------------------------------------------------------------------- implicit step rewards
def test_implicit_step_rewards():
    """Two attempts, of two steps and of one: step rewards .05 (.2 + .4), .05 .1 and .05 (-.3), returns 1 and 0."""
    prm = [[-0.8, -0.6, -0.9], [-1.3]]
    a = episode([2, 1], [0.0, 1.0], id="a", logp=[-9.0] * 3, prm_logp=prm[0], policy_logp=[-1.0] * 3)
    # what the sampler said is not read
    b = episode([1], [0.0], id="b", logp=[-9.0], prm_logp=prm[1], policy_logp=[-1.0])
    own = np.array([0.03, 0.005, -0.015])
    # largest sum from a step on: .035
    scaled = own / 0.035
    baseline = [np.delete(scaled, i).mean() for i in range(3)]
    want = np.array([1.0, 1.0, -1.0]) + scaled - baseline
    got = token_implicit.assign([a, b]).values("token")
    assert got == pytest.approx(want[[0, 0, 1, 2]], abs=1e-5)
    plain = token_implicit.assign([a, b], token_implicit.Config(normalise=False, unit="token")).values("token")
    each = 0.05 * np.array([0.2, 0.4, 0.1, -0.3])
    want = np.array([1.0, 1.0, 1.0, -1.0]) + each - [np.delete(each, i).mean() for i in range(4)]
    assert plain == pytest.approx(want, abs=1e-5)


@pytest.mark.parametrize(
    ("how", "actions", "values", "cut", "want"),
    [
        ("appo", [1, 1], [0.5, 0.6], False, [0.8505, 0.2]),
        ("appo", [1, 1], [0.5, 0.6], True, [1.450662, 0.865]),
        ("tppo", [2, 1], [0.4, 0.5, 0.6], False, [0.907975, 0.8505, 0.2]),
    ],
)
def test_appo_and_tppo_of_openr(how, actions, values, cut, want):
    """Over lines with their first token's value; over tokens, undiscounted within a line."""
    rule = openr.RULES[how]
    ep = episode(actions, [0.6, 0.8], value=values, cut=cut, final_value=0.7 if cut else None)
    level = "step" if how == "appo" else "token"
    assert rule.assign([ep]).values(level) == pytest.approx(want, abs=1e-6)


def test_immediate_rewards_are_changes_of_what_is_foreseen():
    """IRCoCo by hand: a program of three tokens, the second spoils it; then another turn, which begins elsewhere."""
    before, behind = [0.5, 0.75, 0.25, 0.4, 0.4], [0.75, 0.25, 0.3, 0.4, 1.0]
    ep = episode([3, 2], [0.0, 1.0], share_before=before, share_behind=behind)
    spoilt = episode([1], [0.0], share_before=[0.5], share_behind=[0.0])
    out = episode([2], [0.0], id="invalid")
    out.valid = False
    ledger = token_immediate.assign([ep, out, spoilt])
    assert ledger.values("token") == pytest.approx([0.25, -0.5, 0.05, 0.0, 0.6, np.nan, np.nan, -0.5], nan_ok=True)
    # a turn has earned what was foreseen at its end less what was at its beginning, not what came of it
    assert ledger.project("token", "step")[:2] == pytest.approx([-0.2, 0.6])


def test_conservative_targets_follow_the_first_model_and_end_with_the_grade():
    """B-Coder by hand, gamma .9: what the next token of the first model is worth, then -1, -.6, -.3 or 1."""
    grades = {(0, 0, 0): -1.0, (1, 0, 0): -0.6, (1, 1, 0): -0.3, (1, 1, 1): 1.0}
    episodes = []
    for kinds in grades:
        one = episode([2, 1], [0.0, 0.0], greedy_q=[0.5, -0.2, 0.4])
        for name, value in zip(("compiles", "runs", "correct"), kinds, strict=True):
            keep_reward(one, name, [0.0, float(value)])
        episodes.append(one)
    episodes[1].valid = False
    found = token_conservative_bellman.assign(episodes, token_conservative_bellman.Config(gamma=0.9)).values("token")
    for row, valid, grade in zip(found.reshape(4, 3), (1, 0, 1, 1), grades.values(), strict=True):
        assert row == pytest.approx([-0.18, 0.36, grade] if valid else [np.nan] * 3, nan_ok=True)
