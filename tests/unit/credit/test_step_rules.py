"""What each rule for steps does with a small group worked out by hand, and what it says when something lacks."""

import numpy as np
import pytest

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.reward_kinds import keep_reward, rewards_of
from evolvent.credit import (
    step_anchor_state,
    step_clip,
    step_delta,
    step_flow_group,
    step_gated,
    step_group_std,
    step_length_budget,
    step_length_weighted,
    step_log_avg_exp,
    step_majority_novelty,
    step_progress,
    step_recent_median,
    step_shift,
    step_test_weighted,
    step_thought,
    step_token_average,
)
from evolvent.testing.exact import exact_gradient, small_task


def attempt(name, rewards, *, states=(), agents=(), kinds=None, tokens=1, group="g"):
    ep = Episode("t", group=group, id=name)
    for t, r in enumerate(rewards):
        ep.observe(states[t] if states else f"turn {t}")
        ep.act("x", token_ids=range(tokens), reward=r, agent=agents[t] if agents else "agent")
    ep.end(terminated=True, success=ep.total_reward > 0)
    for kind, values in (kinds or {}).items():
        keep_reward(ep, kind, values)
    return ep


def steps(ledger, episode):
    return ledger.values("step")[ledger.episode_index("step") == episode]


# ------------------------------------------------------------------------------------------------ whole attempts
def test_alone_in_its_group():
    one = [attempt("a", [1.0, 2.0])]
    assert step_shift.assign(one).values("step") == pytest.approx([0.1, 0.1])
    own = step_length_weighted.Config(without_own=True)
    assert step_length_weighted.assign(one, own).values("step").tolist() == [3, 3]
    for rule in (step_log_avg_exp, step_length_weighted, step_token_average, step_recent_median, step_flow_group):
        assert rule.assign(one).values("step").tolist() == [0, 0]


def test_log_avg_exp_lies_between_mean_and_maximum_whatever_the_scale():
    group = [attempt(str(r), [r]) for r in (0.0, 1.0, 5000.0)]
    soft, hard = (step_log_avg_exp.assign(group, step_log_avg_exp.Config(tau)).values("step") for tau in (1e9, 1e-3))
    assert soft == pytest.approx(np.array([0, 1, 5000]) - 5001 / 3, abs=0.1)
    assert hard == pytest.approx([-5000, -4999, 0], abs=0.1)
    with pytest.raises(BadInput, match="tau is not above 0"):
        step_log_avg_exp.assign(group, step_log_avg_exp.Config(0.0))


def test_an_extreme_token_average_falls_back_in_its_own_group_only():
    lone = [attempt("win", [1.0])] + [attempt(f"lose{i}", [0.0], tokens=9) for i in range(3)]
    even = [attempt("a", [1.0], group="h"), attempt("b", [0.0], group="h")]
    got, plain = step_token_average.assign([*lone, *even]), step_group_std.assign(lone)
    assert got.values("step")[:4] == pytest.approx(plain.values("step"))
    assert got.values("step")[4:] == pytest.approx([1, -1], abs=1e-5)
    kept = step_token_average.assign(lone, step_token_average.Config(limit=6.0)).values("step")
    assert kept[0] == pytest.approx((27 / 28) ** 0.5 * 28**0.5, abs=1e-3)  # 5.2: p = 1/28 of the tokens


def test_lengths_need_tokens():
    ep = Episode("t", id="silent")
    ep.act("x", reward=1.0)
    ep.end(terminated=True)
    for rule in (step_length_weighted, step_token_average):
        with pytest.raises(BadInput, match=r"no tokens were recorded(.|\n)*silent"):
            rule.assign([ep])


def test_a_replayed_success_counts_only_above_the_recent_median():
    group = [attempt("a", [1.0]), attempt("b", [0.4]), attempt("c", [0.1])]
    adv = step_recent_median.assign(group, step_recent_median.Config(recent=(0.9, 0.3, 0.1)))
    assert adv.values("step") == pytest.approx([0.7, 0.1, 0.0])
    assert step_recent_median.assign(group).values("step") == pytest.approx([0.5, 0.0, 0.0])


def test_only_the_planner_learns_and_only_attempts_are_counted():
    group = [
        attempt("long", [0, 0, 1.0], agents=("planner", "tool", "planner")),
        attempt("short", [0, 0.0], agents=("planner", "tool")),
    ]
    adv = step_flow_group.assign(group, step_flow_group.Config(agents=("planner",))).values("step")
    z = 0.5**0.5
    assert adv == pytest.approx([z, np.nan, z, -z, np.nan], abs=1e-5, nan_ok=True)


@pytest.mark.parametrize(
    "rule",
    [
        step_shift,
        step_log_avg_exp,
        step_length_weighted,
        step_token_average,
        step_recent_median,
        step_flow_group,
        step_group_std,
        step_gated,
        step_length_budget,
        step_majority_novelty,
    ],
)
def test_an_attempt_counts_once_however_many_turns_it_took(rule):
    """The same returns and the same number of tokens, in one turn each or in one to six."""
    rng = np.random.default_rng(3)
    config = getattr(rule, "Config", lambda: None)()
    if rule is step_majority_novelty:
        config = rule.Config(embed=lambda texts: np.random.default_rng(5).normal(size=(len(texts), 3)))

    def advantages(turns_of):
        group = []
        for i, ret in enumerate((2.0, 0.5, -1.0, 0.5, 3.0)):
            n = turns_of(i)
            ep = attempt(str(i), [0.0] * (n - 1) + [ret], tokens=60 // n, kinds={"format": [1.0 / n] * n})
            ep.budget_tokens, ep.answer = 40 + 10 * (i % 2), "ab"[i % 2]
            group.append(ep)
        return rule.assign(group, config)

    once, often = advantages(lambda _: 1), advantages(lambda i: int(rng.integers(1, 7)) if i else 6)
    for i in range(5):
        assert steps(often, i) == pytest.approx(steps(once, i)[0])


# ------------------------------------------------------------------------------------------------ states
def test_attempts_meet_in_a_state():
    """Two stood in "door": their returns to go are 1 and 0. The state "hall" was met by one, and by another group."""
    group = [
        attempt("a", [0, 1.0], states=("start", "door")),
        attempt("b", [0, 0.0], states=("hall", "door")),
        attempt("c", [3.0], states=("hall",), group="other"),
    ]
    config = step_anchor_state.Config(scale=False, gamma=1.0, weight=2.0)
    adv = step_anchor_state.assign(group, config)
    assert adv.values("step") == pytest.approx([0.5, 0.5 + 2 * 0.5, -0.5, -0.5 - 2 * 0.5, 0])


def test_going_in_circles_counts_once():
    """a met "door" twice with 1 and 2 to go, b once with 0: the mean of attempts is 0.75, that of visits 1."""
    group = [attempt("a", [-1, 2.0], states=("door", "door")), attempt("b", [0.0], states=("door",))]
    config = step_anchor_state.Config(scale=False, gamma=1.0)
    got = step_anchor_state.assign(group, config).values("step") - np.array([0.5, 0.5, -0.5])
    assert got == pytest.approx([1 - 0.75, 2 - 0.75, -0.75])


def test_a_state_is_all_that_was_shown_and_to_whom():
    def shown(name, first, second, agent="agent"):
        ep = Episode("t", group="g", id=name)
        ep.observe(first)
        ep.observe(second)
        ep.act("x", agent=agent, reward=float(name))
        ep.end(terminated=True)
        return ep

    config = step_anchor_state.Config(scale=False, gamma=1.0)
    whole = step_anchor_state.Config(scale=False, gamma=1.0, weight=0.0)
    for other in (shown("1", "elsewhere", "door"), shown("1", "room", "door", agent="second")):
        apart = [shown("0", "room", "door"), other]
        assert np.array_equal(
            step_anchor_state.assign(apart, config).values("step"),
            step_anchor_state.assign(apart, whole).values("step"),
        )
    same = [shown("0", "room", "door"), shown("1", "room", "door")]
    assert step_anchor_state.assign(same, config).values("step").tolist() == [-1, 1]


# ------------------------------------------------------------------------------------------------ shaped rewards
def test_what_delta_pays_from_a_step_on_is_its_score():
    """However long an attempt goes on looking good, it earns no more; without refinement it would."""
    short = attempt("a", [0, 0.0], kinds={"process": [0.9, 0.8]})
    long = attempt("b", [0] * 6, kinds={"process": [0.9, 0.8, 0.9, 0.9, 0.9, 0.9]})
    adv = step_delta.assign([short, long])
    assert steps(adv, 0) == pytest.approx([0, 0])
    assert steps(adv, 1) == pytest.approx([0, 0, 0.45, 0.45, 0.45, 0.45])
    clipped = step_clip.assign([short, long], step_clip.Config(eta=0.85))
    assert steps(clipped, 0) == pytest.approx([0, 0])  # one step below 0.85 in each
    half = step_delta.assign([short, long], step_delta.Config(weight=0.5))
    assert half.values("step") == pytest.approx(adv.values("step") / 2)


def test_true_contributions_make_progress_attribution_exact():
    config = step_progress.Config(weight=0.0, gamma=1.0, gae_lambda=1.0, critic=small_task(2).critic)

    def assign(episodes):
        for e in episodes:
            keep_reward(e, "progress", e.rewards_T)
        return step_progress.assign(episodes, config)

    assert exact_gradient(assign, "step", seed=2, group_size=2).finding is True


def test_progress_pays_what_was_carried_out():
    ep = attempt("a", [0, 0, 1.0], kinds={"progress": [0.1, 0.3, -0.05], "executed": [1, 0, 1]})
    config = step_progress.Config(critic=lambda e: np.zeros(e.n_steps), gamma=1.0, gae_lambda=1.0)
    assert step_progress.assign([ep], config).values("step") == pytest.approx([1.35, 0.75, 0.45])
    with pytest.raises(BadInput, match="step_progress needs a critic"):
        step_progress.assign([ep])
    with pytest.raises(BadInput, match="does not carry this kind"):
        step_progress.assign([attempt("b", [1.0], kinds={"progress": [1.0]})], config)
    unpaid = step_progress.Config(critic=lambda e: [0.25], weight=0.0)
    assert step_progress.assign([attempt("b", [9.0], kinds={"progress": [1.0]})], unpaid).values("step") == [0.75]


def test_low_rewards_wait_for_the_gate():
    group = [
        attempt("won", [1.0, 0], kinds={"format": [1, 1], "tool": 1.0}),
        attempt("farmed", [0, 0.0], kinds={"format": [9, 9], "tool": 9.0}),
        attempt("won badly", [0, 1.0], kinds={"format": [0, 0], "tool": 5.0}),
    ]
    config = step_gated.Config(levels=(("format",), ("tool",)), gates=(0.0, 0.0))
    adv = step_gated.assign(group, config)
    total = np.array([1 + 2 + 1, 0, 1.0])
    want = (total - total.mean()) / total.std(ddof=1)
    assert adv.values("step")[::2] == pytest.approx(want, abs=1e-5)
    with pytest.raises(BadInput, match="one gate for each level"):
        step_gated.assign(group, step_gated.Config(levels=(("format",), ("tool",))))


def test_rare_tests_pay_more_and_turns_are_paid_apart():
    """Two tests; "a" passes at the end of both attempts (weight e^-2), "b" in one (e^-1): far apart in rate."""
    group = [
        attempt("x", [0, 1.0], kinds={"test:a": [1, 1], "test:b": [0, 1]}),
        attempt("y", [0.0], kinds={"test:a": [1], "test:b": [0]}),
    ]
    adv = step_test_weighted.assign(group, step_test_weighted.Config(gamma=0.9, beta=0.5))
    a, b = np.exp(-2.0), np.exp(-1.0)
    mean = ((a + a + b) / 2 + a) / 2
    whole = 0.81 / 2
    want = [whole + 0.5 * (a - mean), whole + 0.5 * (a + b - mean), -whole + 0.5 * (a - mean)]
    assert adv.values("step") == pytest.approx(want, abs=1e-4)
    with pytest.raises(BadInput, match="do not carry the same tests"):
        step_test_weighted.assign([group[0], attempt("z", [0.0], kinds={"test:a": [1]})])
    with pytest.raises(BadInput, match="do not carry the same tests"):
        step_test_weighted.assign([attempt("z", [0.0])])


def test_splitting_a_thought_earns_nothing():
    """One good step, or the same split in three: one thought, one praise. Half of the group succeeds."""
    won = attempt("a", [1.0, 0], kinds={"verdict": [1, -1]})
    lost = attempt("b", [0, 0, 0, 0.0], kinds={"verdict": [1, 1, 1, -1]})
    adv = step_thought.assign([won, lost])
    z = 0.5**0.5
    # q is 0.5 and -0.5, mean 0 in both
    assert steps(adv, 0) == pytest.approx([z + 0.25, z - 0.25], abs=1e-5)
    assert steps(adv, 1) == pytest.approx([-z + 0.25] * 3 + [-z - 0.25], abs=1e-5)


def test_budgets_pay_for_brevity():
    group = [attempt(str(n), [1.0], tokens=n) for n in (20, 60)] + [attempt("wrong", [0.0], tokens=5)]
    for ep in group:
        ep.budget_tokens = 40
    adv = step_length_budget.assign(group, step_length_budget.Config(limit=100, alpha=0.01)).values("step")
    paid = np.array([np.cos(0.2 * np.pi), np.cos(0.3 * np.pi) - 0.2, 0])
    want = paid.mean() - paid[0] + (paid - paid.mean()) / paid.std(ddof=1)
    assert adv == pytest.approx(want)
    right = [1.0, 0.1, -0.2]  # partial, shaped, penalised: what is right is what the environment says is
    shaped = [attempt(str(r), [r], tokens=n) for r, n in zip(right, (20, 60, 5), strict=True)]
    for ep, success in zip(shaped, (True, True, False), strict=True):
        ep.budget_tokens, ep.success = 40, success
    found = step_length_budget.assign(shaped, step_length_budget.Config(limit=100, alpha=0.01)).values("step")
    assert found == pytest.approx(want)
    shaped[0].success = None
    with pytest.raises(BadInput, match="nobody said whether the attempt is right"):
        step_length_budget.assign(shaped)
    group[1].budget_tokens = 0
    with pytest.raises(BadInput, match="no length budget"):
        step_length_budget.assign(group)


def test_the_majority_earns_and_the_unusual_among_it_most():
    def said(name, answer, text):
        ep = Episode("t", group="g", id=name)
        ep.act(text)
        ep.end(terminated=True, answer=answer)
        return ep

    where = {"up": [3.0, 0.0], "up again": [1.0, 0.1], "left": [0.0, 1.0], "down": [-1.0, 0.0], "": [1.0, 1.0]}
    config = step_majority_novelty.Config(embed=lambda texts: np.array([where[t] for t in texts]))
    group = [
        said("a", "7", "up"),
        said("b", "7", "up again"),
        said("c", "7", "left"),
        said("d", "8", "down"),
        said("e", "", ""),
    ]
    adv = step_majority_novelty.assign(group, config).values("step")
    assert np.argmax(adv) == 2
    assert adv[:3].min() > adv[3] > adv[4]
    assert adv.sum() == pytest.approx(0)
    longer = step_majority_novelty.Config(embed=lambda texts: [(1 + len(t)) * np.array(where[t]) for t in texts])
    assert step_majority_novelty.assign(group, longer).values("step") == pytest.approx(adv)
    for nonsense in (
        lambda texts: [[1.0]],
        lambda texts: [[float("nan")]] * len(texts),
        lambda texts: [1.0] * len(texts),
    ):
        with pytest.raises(BadInput, match="does not return one finite vector"):
            step_majority_novelty.assign(group, step_majority_novelty.Config(embed=nonsense))
    with pytest.raises(BadInput, match="needs an embedder"):
        step_majority_novelty.assign(group)
    group[0].answer = None
    with pytest.raises(BadInput, match="does not say what it answered"):
        step_majority_novelty.assign(group, config)


def test_scores_are_read_as_they_were_kept():
    ep = attempt("a", [0.0, 0.0], kinds={"process": [0.5, 0.25]})
    before = ep.to_dict()
    step_delta.assign([ep])
    assert ep.to_dict() == before
    assert rewards_of(ep, "process").tolist() == [0.5, 0.25]
