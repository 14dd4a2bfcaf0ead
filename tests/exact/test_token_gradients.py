"""Rules for tokens and for agents in turn: the kit that enumerates them, what reduces to what, ETPO's fixed point."""

import copy
import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.ledger import Ledger
from evolvent.credit import (
    agent_sequential,
    step_gae,
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
from evolvent.credit._tokens import turn_ends
from evolvent.formulas import soft
from evolvent.testing.credit import check_credit
from evolvent.testing.exact import SmallTask, exact_gradient, finding, small_task
from evolvent.testing.exact_tokens import critic_of, measure_tokens, prefix_values, team_task

TASKS = pytest.mark.parametrize("task", [team_task(0), team_task(1), small_task(0)], ids=["team0", "team1", "turns"])


# ------------------------------------------------------------------------------------------------ the kit itself
@TASKS
def test_the_true_gradient_is_the_slope_of_the_expected_return(task):
    returns = np.array([sum(p.rewards) for p in task.paths])
    assert task.probability_N.sum() == pytest.approx(1)
    assert prefix_values(task)[()] == pytest.approx(float(task.probability_N @ returns))
    for d in range(len(task.logit_D)):
        e = np.zeros_like(task.logit_D)
        e[d] = 1e-5
        worth = [float(SmallTask(task.seed, task.paths, task.logit_D + s * e).probability_N @ returns) for s in (1, -1)]
        assert task.true_gradient_D[d] == pytest.approx((worth[0] - worth[1]) / 2e-5, abs=1e-8)


def test_the_team_has_actions_turns_and_attempts_of_different_lengths():
    task = team_task(0)
    assert len(task.paths) == 21
    assert len(task.logit_D) == 20
    assert {len(step) for path in task.paths for step in path.steps} == {1, 2, 3}
    episodes = [task.episode(n, group="g", id=f"e{n}") for n in range(21)]
    assert {e.n_steps for e in episodes} == {2, 4}
    for e, p in zip(episodes, task.probability_N.tolist(), strict=True):
        assert e.agents_T == ["solver", "checker"] * (e.n_steps // 2)
        assert float(np.exp(e.logp.astype(float).sum())) == pytest.approx(p, rel=1e-5)
        assert (e.notes["entropy"] == 0.0).sum() == (e.logp == 0.0).sum()  # tokens that had to come


@TASKS
def test_with_exact_values_nothing_is_expected_of_a_token(task):
    """The one-step advantage has mean zero over what may follow each prefix; with arbitrary values it has not."""
    for kind, zero in (("exact", True), ("wrong", False)):
        config = token_bad.Config(critic=critic_of(task, kind, "token"), gamma=1.0, gae_lambda=0.0)
        mean = {}
        for n, p in enumerate(task.probability_N.tolist()):
            ep = task.episode(n, group="g", id="e")
            for k, adv in enumerate(token_bad.assign([ep], config).values("token").tolist()):
                prefix = tuple(ep.token_ids[:k].tolist())
                mean[prefix] = mean.get(prefix, 0.0) + p * adv
        assert (max(map(abs, mean.values())) < 1e-12) is zero


def return_to_go(episodes):
    ledger = Ledger.for_episodes(episodes)
    to_go = [np.cumsum(e.rewards_T[::-1])[::-1][e.token_step] for e in episodes]
    ledger.set("token", np.concatenate([np.zeros(0), *to_go]))
    return ledger


def rule(assign, claim=True, **more):
    return SimpleNamespace(LEVEL="token", UNBIASED=claim, assign=assign, __doc__="A rule.", __name__="rule", **more)


def test_return_to_go_is_exact_for_tokens_too():
    assert finding(measure_tokens(rule(return_to_go))) is True


def paid_at_the_last_token_only(episodes):
    """Credit stays with the token that closed the action: natural, and wrong."""
    ledger = return_to_go(episodes)
    last = np.concatenate([np.diff(np.append(e.token_step, e.n_steps)) > 0 for e in episodes])
    ledger.set("token", np.where(last, ledger.values("token"), 0.0))
    return ledger


def test_the_kit_sees_credit_that_misses_the_first_token():
    reports = measure_tokens(rule(paid_at_the_last_token_only))
    assert finding(reports) is False
    assert all(r.cosine < 0.99 for r in reports)


@pytest.mark.parametrize("module", [token_bad, agent_sequential])
@pytest.mark.parametrize("claim", [True, "up to scale"])
def test_a_false_declaration_is_found(module, claim):
    liar = SimpleNamespace(
        LEVEL=module.LEVEL, UNBIASED=claim, Config=module.Config, assign=module.assign, __doc__="A.", __name__="liar"
    )
    with pytest.raises(BadInput, match="not what is declared"):
        check_credit(liar)
    liar.UNBIASED, liar.CLAIMS_EXACT_CRITIC = False, ((module.Config(), True),)
    with pytest.raises(BadInput, match="exact critic"):
        check_credit(liar)


def test_a_rule_that_pools_must_say_so():
    shy = SimpleNamespace(**{k: getattr(token_entropy_weight, k) for k in ("LEVEL", "UNBIASED", "Config", "assign")})
    shy.__doc__, shy.__name__ = "A rule.", "shy"
    with pytest.raises(BadInput, match="another group"):
        check_credit(shy)


# ----------------------------------------------------------------------------------- what the docstrings say
def cosines(module, config, critic="exact"):
    return [r.cosine for r in measure_tokens(module, config, critic=critic)]


def test_discounting_inside_actions_bends_more_than_between_them():
    ones = {"gamma": 0.95, "gae_lambda": 1.0}
    bad, ntpo = (cosines(m, m.Config(**ones)) for m in (token_bad, token_ntpo))
    assert np.mean(bad) == pytest.approx(0.9994, abs=1e-4)
    assert np.mean(ntpo) == pytest.approx(0.9965, abs=1e-4)
    assert min(ntpo) == pytest.approx(0.9892, abs=1e-4)
    inside = cosines(token_sequential, token_sequential.Config(gamma=1.0, gae_lambda=1.0, kappa=0.95))
    assert min(inside) == pytest.approx(0.9926, abs=1e-4)
    agents = cosines(agent_sequential, agent_sequential.Config(kappa=0.95, **ones))
    assert min(agents) == pytest.approx(0.9985, abs=1e-4)


def test_conservative_targets_are_no_advantages():
    cosines = [report.cosine for report in measure_tokens(token_conservative_bellman)]
    assert -0.89 < min(cosines) < 0 and 0.9 < max(cosines) < 0.97


@TASKS
def test_exact_foresight_makes_immediate_rewards_exact(task):
    """What is foreseen is the return of the whole attempt; also a turn's reward is a change of it."""
    table = prefix_values(task)

    def foreseen(episodes):
        episodes = copy.deepcopy(episodes)  # the kit's records serve every rule
        for e in episodes:
            ids, earned = tuple(e.token_ids.tolist()), np.append(0.0, np.cumsum(e.rewards_T))
            value = [earned[t] + table[ids[:k]] for k, t in enumerate(e.token_step.tolist())]
            e.note("share_before", value)
            e.note("share_behind", [*value[1:], e.total_reward])
        return token_immediate.assign(episodes)

    report = exact_gradient(foreseen, "token", group_size=2, task=task)
    assert report.relative_error < 1e-7  # notes are float32
    arbitrary = measure_tokens(token_immediate)
    assert min(r.cosine for r in arbitrary) > -0.69 and max(r.cosine for r in arbitrary) < 0.84


def test_exact_critics_make_archer_exact():
    for seed in range(3):
        task = team_task(seed)
        value = critic_of(task, "exact", "step")
        q = {}
        for n in range(len(task.paths)):
            ep = task.episode(n, group="g", id="e")
            after = np.append(value(ep)[1:], 0.0)
            for t in range(ep.n_steps):
                q[tuple(ep.token_ids[ep.token_step <= t].tolist())] = float(ep.rewards_T[t] + after[t])

        def critics(ep, q=q, value=value):
            taken = [q[tuple(ep.token_ids[ep.token_step <= t].tolist())] for t in range(ep.n_steps)]
            # the higher one of each pair must not be looked at
            return np.stack([taken, np.add(taken, 7.0), value(ep) + 3.0, value(ep)])

        config = step_utterance_critic.Config(critics=critics)

        def call(episodes, config=config):
            return step_utterance_critic.assign(episodes, config)

        assert exact_gradient(call, "step", group_size=2, task=task).finding is True


# ------------------------------------------------------------------------------------- what reduces to what
@st.composite
def attempts(draw, agents=("solver", "checker")):
    """A recorded attempt with arbitrary values, actions of one to five tokens."""
    steps = draw(st.integers(1, 5))
    number = st.floats(-3, 3, width=32)
    cut = draw(st.booleans())
    ep = Episode("t", id="e")
    for t in range(steps):
        n = draw(st.integers(1, 5))
        ep.act("x", token_ids=range(n), reward=draw(number), agent=agents[t % len(agents)])
    ep.note("value", draw(st.lists(number, min_size=ep.n_tokens, max_size=ep.n_tokens)))
    ep.end(terminated=not cut, truncated=cut)
    ep.final_value = draw(number) if cut else None
    return ep


rates = st.floats(0, 1)


def of(module, ep, level="token", **settings):
    return module.assign([ep], module.Config(**settings)).values(level)


def first_of(ep):
    return np.cumsum(ep.tokens_per_step_T) - ep.tokens_per_step_T


@settings(max_examples=60, deadline=None)
@given(attempts(), rates)
def test_with_trace_one_the_first_token_has_the_advantage_of_its_action(ep, gamma):
    whole = of(step_gae, ep, "step", gamma=gamma, gae_lambda=1.0)
    assert of(token_bad, ep, gamma=gamma, gae_lambda=1.0)[first_of(ep)] == pytest.approx(whole, abs=1e-9)
    # the values of the tokens inside cancel, whatever the trace between actions
    half = of(step_gae, ep, "step", gamma=gamma, gae_lambda=0.5)
    inside = of(token_bad, ep, gamma=gamma, gae_lambda=0.5, gae_lambda_inside=1.0)
    assert inside[first_of(ep)] == pytest.approx(half, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(attempts(), rates, rates)
def test_tokens_in_turn_carry_what_agents_in_turn_carry(ep, gamma, gae_lambda):
    agents = of(agent_sequential, ep, "step", gamma=gamma, gae_lambda=1.0, kappa=1.0)
    tokens = of(token_sequential, ep, gamma=gamma, gae_lambda=1.0, kappa=1.0)
    assert tokens[first_of(ep)] == pytest.approx(agents, abs=1e-9)
    everywhere = of(token_sequential, ep, gamma=gamma, gae_lambda=gae_lambda, kappa=gamma)
    assert everywhere == pytest.approx(of(token_ntpo, ep, gamma=gamma, gae_lambda=gae_lambda), abs=1e-9)
    released = of(agent_sequential, ep, "step", gamma=gamma, gae_lambda=gae_lambda, kappa=gamma)
    assert released == pytest.approx(of(step_gae, ep, "step", gamma=gamma, gae_lambda=gae_lambda), abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(attempts(agents=("agent",)), rates, rates)
def test_one_agent_is_no_team(ep, gamma, gae_lambda):
    alone = of(token_sequential, ep, gamma=gamma, gae_lambda=gae_lambda)
    assert alone == pytest.approx(of(token_bad, ep, gamma=gamma, gae_lambda=gae_lambda), abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(attempts(), rates)
def test_without_a_price_of_divergence_the_soft_target_is_the_one_step_target(ep, gamma):
    value = ep.notes["value"]
    target = of(token_soft_bellman, ep, gamma=gamma, critic=lambda e: e.notes["value"])
    assert target == pytest.approx(of(token_bad, ep, gamma=gamma, gae_lambda=0.0) + value, abs=1e-6)


@settings(max_examples=40, deadline=None)
@given(attempts(), rates, rates)
def test_reading_the_notes_is_the_same_as_a_critic(ep, gamma, gae_lambda):
    for module, level in ((token_bad, "token"), (agent_sequential, "step"), (step_gae, "step")):

        def values(e, level=level):
            value = e.notes["value"] if level == "token" else e.notes["value"][first_of(e)]
            return np.append(value, 99.0 if e.final_value is None else e.final_value)

        got = of(module, ep, level, gamma=gamma, gae_lambda=gae_lambda, critic=values)
        assert got == pytest.approx(of(module, ep, level, gamma=gamma, gae_lambda=gae_lambda), abs=1e-9)


# ------------------------------------------------------------------------------------------- where turns end
def spoken(agents, turns=None):
    ep = Episode("t", id="e")
    for agent, ep.turn in zip(agents, turns or [None] * len(agents), strict=True):
        ep.act("x", agent=agent, token_ids=[1])
    ep.note("value", np.zeros(len(agents)))
    ep.end(terminated=True)
    return ep


@pytest.mark.parametrize(
    ("agents", "turns", "ends"),
    [
        ("abab", None, [0, 1, 0, 1]),
        ("abcab", None, [0, 0, 1, 0, 1]),
        ("aaa", None, [1, 1, 1]),
        ("abba", None, [0, 1, 0, 1]),
        ("", None, []),
        ("aabb", [0, 0, 0, 1], [0, 0, 1, 1]),
        ("ab", [4, 9], [1, 1]),
    ],
)
def test_where_turns_end(agents, turns, ends):
    assert turn_ends(spoken(agents, turns), "here").astype(int).tolist() == ends


@pytest.mark.parametrize("turns", [[0, None], [None, 3], [1, 0]])
def test_turns_that_do_not_fit(turns):
    with pytest.raises(BadInput, match="turns"):
        agent_sequential.assign([spoken("ab", turns)])


# --------------------------------------------------------------------------------------------------- bad input
def record(*, tokens=(2, 1), cut=False, final_value=None, logp=(-1.0, -1.0, -1.0), **notes):
    ep = Episode("t", id="e")
    at = 0
    for n in tokens:
        ep.act("x", token_ids=range(n), logp=logp[at : at + n] if logp else ())
        at += n
    for name, values in notes.items():
        ep.note(name, values)
    ep.end(terminated=not cut, truncated=cut)
    ep.final_value = final_value
    return ep


KNOWN = [0.1, 0.2, 0.3]


@pytest.mark.parametrize(
    ("module", "ep", "words"),
    [
        (token_bad, record(), "no 'value'"),
        (token_ntpo, record(value=[0.1, np.nan, 0.3]), "NaN"),
        (token_sequential, record(value=KNOWN, cut=True), "final_value"),
        (agent_sequential, record(value=KNOWN, cut=True, final_value=np.nan), "final_value"),
        (token_bad, record(value=KNOWN, tokens=(2, 0, 1)), "no tokens"),
        (token_soft_bellman, record(expected_q=KNOWN), "no 'kl'"),
        (token_entropy_weight, record(), "no 'entropy'"),
        (token_entropy_redistribute, record(entropy=KNOWN, new_logp=KNOWN, logp=()), "log-probabilities"),
        (token_implicit, record(), "no 'prm_logp'"),
        (token_implicit, record(prm_logp=KNOWN), "no 'policy_logp'"),
        (step_utterance_critic, record(q1=KNOWN, q2=KNOWN, v1=KNOWN), "no 'v2'"),
    ],
)
def test_what_is_missing_is_said(module, ep, words):
    with pytest.raises(BadInput, match=words):
        module.assign([ep])


@pytest.mark.parametrize("values", [[0.1], [0.1] * 5, [0.1, np.inf, 0.1], 0.5])
def test_a_critic_that_does_not_fit(values):
    with pytest.raises(BadInput, match="critic"):
        token_bad.assign([record()], token_bad.Config(critic=lambda e: values))
    with pytest.raises(BadInput, match="critics"):
        step_utterance_critic.assign([record()], step_utterance_critic.Config(critics=lambda e: values))


def test_a_bootstrap_is_not_read_where_the_task_ended():
    over = record(value=KNOWN, final_value=50.0)
    assert token_bad.assign([over]).values("token")[-1] == pytest.approx(-0.3)
    # over by the rules in the very step in which the time was up: over
    both = Episode("t", id="e")
    both.act("x", token_ids=[1])
    both.note("value", [0.3])
    both.end(terminated=True, truncated=True)
    both.final_value = 50.0
    for module, level in ((token_bad, "token"), (agent_sequential, "step"), (step_gae, "step")):
        assert of(module, both, level) == pytest.approx([-0.3])


# ---------------------------------------------------------------------- ETPO's fixed point, over three words
BETA, GAMMA, WORDS = 0.3, 0.9, 3


def actions():
    """Word 2 is an action by itself, the others take a second word: seven actions."""
    return [(2,), *itertools.product((0, 1), range(WORDS))]


def world(seed):
    """Rewards after each action of two turns, and the first policy at every prefix (finished actions, tokens begun)."""
    rng = np.random.default_rng(seed)
    reward = {(a,): rng.normal() for a in actions()}
    reward |= {(a, b): rng.normal() for a in actions() for b in actions()}
    starts = [(), *((a,) for a in actions())]
    prefixes = [(done, begun) for done in starts for begun in ((), (0,), (1,))]
    return reward, {p: rng.dirichlet(np.ones(WORDS)) for p in prefixes}


def prefixes_of(course):
    return [(course[:t], a[:j]) for t, a in enumerate(course) for j in range(len(a))]


def backup(reward, rho, q):
    """One sweep through the rule: every course of play recorded with what the best policy for ``q`` would note."""
    pi = {p: soft.soft_best_policy(q[p], rho[p], BETA) for p in q}
    new = {p: np.empty(WORDS) for p in q}
    for course in itertools.product(actions(), repeat=2):
        ep = Episode("t", id="e")
        for t, a in enumerate(course):
            ep.act("x", token_ids=a, reward=reward[course[: t + 1]])
        seen = prefixes_of(course)
        ep.note("expected_q", [float(pi[p] @ q[p]) for p in seen])
        ep.note("kl", [float(soft.kl(pi[p], rho[p])) for p in seen])
        ep.end(terminated=True)
        config = token_soft_bellman.Config(beta=BETA, gamma=GAMMA)
        for p, w, y in zip(seen, ep.token_ids, token_soft_bellman.assign([ep], config).values("token"), strict=True):
            new[p][w] = y
    return new


def worth(reward, rho, pi):
    """Expected discounted reward minus the price of divergence, by enumeration of all 49 courses of play."""
    total = 0.0
    for course in itertools.product(actions(), repeat=2):
        p, gain = 1.0, 0.0
        for t, a in enumerate(course):
            gain += GAMMA**t * reward[course[: t + 1]]
            for j, w in enumerate(a):
                at = (course[:t], a[:j])
                p *= pi[at][w]
                gain -= GAMMA**t * BETA * np.log(pi[at][w] / rho[at][w])
        total += p * gain
    return total


@pytest.mark.parametrize("seed", range(3))
def test_the_backup_ends_in_the_best_policy(seed):
    reward, rho = world(seed)
    rng = np.random.default_rng([seed, 1])
    q = {p: rng.normal(size=WORDS) * 3 for p in rho}
    for _ in range(4):  # as many sweeps as a course of play has tokens
        q = backup(reward, rho, q)
    again = backup(reward, rho, q)
    assert all(again[p] == pytest.approx(q[p], abs=1e-6) for p in q)
    best = {p: soft.soft_best_policy(q[p], rho[p], BETA) for p in q}
    root = ((), ())
    value = worth(reward, rho, best)
    assert value == pytest.approx(float(soft.soft_best_value(q[root], rho[root], BETA)), abs=1e-6)
    # nothing does better, near or far; an ordinary policy is worth less
    for size in (0.01, 0.1, 1.0):
        for _ in range(10):
            other = {p: x * np.exp(size * rng.normal(size=WORDS)) for p, x in best.items()}
            assert worth(reward, rho, {p: x / x.sum() for p, x in other.items()}) < value
    assert worth(reward, rho, rho) < value
    # and it is a maximum: the slope along any direction vanishes
    for p in rho:
        for w in range(WORDS):
            moved = []
            for sign in (1, -1):
                x = best[p] * np.exp(sign * 1e-3 * np.eye(WORDS)[w])
                moved.append(worth(reward, rho, {**best, p: x / x.sum()}))
            assert (moved[0] - moved[1]) / 2e-3 == pytest.approx(0, abs=1e-5)


def test_there_is_no_best_policy_without_choices():
    with pytest.raises(BadInput, match="best policy"):
        soft.soft_best_policy([1.0, 2.0], [0.0, 0.0], BETA)
    with pytest.raises(BadInput, match="best policy"):
        soft.soft_best_value([1.0, 2.0], [0.5, 0.5], 0.0)
    with pytest.raises(BadInput, match="prior 0"):
        soft.kl([0.5, 0.5], [1.0, 0.0])


def test_small_prices_and_forbidden_words():
    """No overflow at a price of 1e-4; a word of prior 0 is never chosen, however good."""
    q, rho = np.array([5.0, 900.0, 4.9]), np.array([0.5, 0.0, 0.5])
    assert soft.soft_best_policy(q, rho, 1e-4).tolist() == [1.0, 0.0, 0.0]
    assert float(soft.soft_best_value(q, rho, 1e-4)) == pytest.approx(5.0 + 1e-4 * np.log(0.5))
