"""The kit for rules over rollouts: its gradient is the true one, and it finds every broken promise."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from evolvent.core.errors import BadInput
from evolvent.core.rollout_ledger import RolloutLedger
from evolvent.credit import agent_counterfactual, agent_gae, agent_optimal_baseline
from evolvent.formulas.returns import discounted
from evolvent.testing.credit import check_credit
from evolvent.testing.exact_team import TeamGame, exact_team_gradient, measure_team, target_error, team_game
from evolvent.testing.rollout_credit import sample_rollout


def worth(game):
    """Expected return, course by course."""
    total = 0.0
    for course, p in zip(game.courses, game.task.probability_N, strict=True):
        rewards = [game.reward_SNN[(s, *pair)] for s, pair in zip(game.states(course), course, strict=True)]
        total += p * sum(rewards)
    return total


def test_the_true_gradient_is_the_slope_of_the_expected_return():
    game = team_game(0)
    assert len(game.courses) == 13
    assert game.task.probability_N.sum() == pytest.approx(1)
    assert worth(game) == pytest.approx(float(game.value_S()[0]))
    true = game.task.true_gradient_D.reshape(game.logit_AS.shape)
    for at in np.ndindex(*true.shape):
        h = np.zeros_like(true)
        h[at] = 1e-5
        slopes = [worth(TeamGame(0, game.reward_SNN, game.logit_AS + sign * h)) for sign in (1, -1)]
        assert true[at] == pytest.approx((slopes[0] - slopes[1]) / 2e-5, abs=1e-8)


def to_go(rollout):
    return discounted(rollout.reward_TBA, terminated_T=rollout.terminated_TB, truncated_T=rollout.truncated_TB)


def rule(credit, level="agent", claim=True, targets=None, **more):
    """A rule from a function of a rollout to an array; ``targets`` makes another one, for a critic."""

    def assign(rollout):
        ledger = RolloutLedger.for_rollout(rollout)
        ledger.set("step", credit(rollout))
        if targets is not None:
            ledger.targets["step"] = targets(rollout)
        return ledger

    return SimpleNamespace(
        LEVEL=level, RECORD="rollout", UNBIASED=claim, assign=assign, __doc__="A rule.", __name__="broken", **more
    )


def centred(rollout):
    return to_go(rollout) - to_go(rollout)[0].mean()


def meddling(rollout):
    rollout.reward_TBA[0] = 0.0
    return to_go(rollout)


def test_the_return_to_go_is_exact_and_keeps_all_promises():
    assert "exact gradient" in check_credit(rule(to_go))
    report = exact_team_gradient(rule(to_go), seed=5)
    assert report.finding is True
    assert report.variance > 0


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (rule(to_go, claim=False), "not what is declared"),
        (rule(to_go, claim="up to scale"), "not what is declared"),
        (rule(lambda r: 2.0 * to_go(r)), "not what is declared"),
        (rule(lambda r: r.reward_TBA), "not what is declared"),
        (rule(centred), "another environment"),
        (rule(lambda r: np.random.random(r.shape)), "two calls"),
        (rule(lambda r: np.where(r.active_TBA & (r.reward_TBA > 0), to_go(r), np.nan)), "exactly the steps"),
        (rule(lambda r: np.cumsum(r.reward_TBA[::-1], axis=0)[::-1]), "next attempt"),
        (rule(meddling), "changed its input|two calls"),
        (rule(to_go, level="team"), "LEVEL"),
        (rule(to_go, claim=None), "UNBIASED"),
        (rule(to_go, CLAIMS_EXACT_CRITIC=((None, False),)), "not what is declared"),
        (rule(to_go, targets=lambda r: 0.5 * to_go(r)), "targets are not true on average"),
        (rule(to_go, targets=lambda r: to_go(r)[0]), "targets of level step do not fit"),
        (rule(to_go, targets=lambda r: np.where(r.active_TBA, to_go(r), np.nan)), "targets of level step do not fit"),
    ],
)
def test_broken_promises_are_named(broken, words):
    with pytest.raises(BadInput, match=words):
        check_credit(broken)


@pytest.mark.parametrize("module", [agent_gae, agent_counterfactual, agent_optimal_baseline])
def test_a_modest_declaration_is_found_too(module):
    liar = SimpleNamespace(**{name: getattr(module, name) for name in ("LEVEL", "RECORD", "Config", "assign")})
    liar.UNBIASED, liar.__doc__ = True, "A rule."
    with pytest.raises(BadInput, match="not what is declared"):
        check_credit(liar)


@pytest.mark.parametrize("seed", range(3))
def test_targets_are_true_on_average_where_nothing_is_trusted_but_rewards(seed):
    whole = agent_gae.Config(1.0, 1.0)
    assert target_error(agent_gae, whole, seed=seed) < 1e-12  # whatever the critic says
    assert target_error(agent_gae, agent_gae.Config(1.0, 0.5), seed=seed) > 1e-3  # an arbitrary critic is believed
    assert target_error(agent_gae, agent_gae.Config(1.0, 0.5), seed=seed, critic="exact") < 1e-12
    assert target_error(agent_optimal_baseline, agent_optimal_baseline.Config(gamma=1.0), seed=seed) < 1e-12
    assert target_error(agent_counterfactual, seed=seed) is None  # Q of the action taken: no return is read


def test_rules_that_read_returns_give_the_targets_of_gae_to_the_last_bit():
    rollout, more = sample_rollout()
    rollout = replace(rollout, value_TBA=rollout.value_TBA.astype(np.float32))
    plain = agent_gae.assign(rollout, agent_gae.Config(0.9, 0.7))
    target = plain.targets["step"]
    assert target.dtype == np.float32  # as the critic's values: nothing is gained by more
    scored = rollout.active_TBA
    assert np.array_equal(target[scored], (plain.values("step").astype(np.float32) + rollout.value_TBA)[scored])
    for module in (agent_optimal_baseline, agent_counterfactual):
        other = module.assign(rollout, module.Config(target="return", gamma=0.9, gae_lambda=0.7), **more)
        assert np.array_equal(other.targets["step"], target)


def test_the_optimal_baseline_has_the_least_variance():
    """With the exact Q in both places, summed over seeds and for each of them."""
    ob, coma = agent_optimal_baseline.Config(target="q", floor=0.0), agent_counterfactual.Config()
    best = measure_team(agent_optimal_baseline, ob, critic="exact", seeds=range(6))
    other = measure_team(agent_counterfactual, coma, critic="exact", seeds=range(6))
    plain = measure_team(rule(to_go), seeds=range(6))
    assert sum(r.variance for r in best) < sum(r.variance for r in other) < sum(r.variance for r in plain)
    assert all(b.variance < o.variance for b, o in zip(best, other, strict=True))


def test_a_rule_that_asks_for_too_much_is_reported():
    greedy = rule(to_go)
    greedy.assign = lambda rollout, *, oracle: None
    with pytest.raises(BadInput, match="asks for what is not there"):
        check_credit(greedy)
