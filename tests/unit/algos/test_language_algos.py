"""Every learner that compares attempts: two updates from end to end on a tiny random model, with its own settings."""

import json
from functools import cache
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import tiny_language
from evolvent import catalogue
from evolvent.algos.dapo import collect_differing
from evolvent.algos.oprl import pair_batch, success_pairs
from evolvent.algos.spa.progress import ProgressEstimator
from evolvent.algos.spear import faulty, uses
from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.ledger import Ledger
from evolvent.core.reward_kinds import rewards_of
from evolvent.credit import step_group_mean, step_left_out, step_recent_median, step_wanted
from evolvent.evaluate.live import Live
from evolvent.formulas.curricula import repeats
from evolvent.learn.tokens.batch import token_batch
from evolvent.learn.tokens.imitation import WithReplay
from evolvent.learn.tokens.objective import Objective
from evolvent.learn.tokens.objectives_of_papers import CHOICES
from evolvent.learn.tokens.policy_gradient import improve
from evolvent.learn.tokens.replay import Replay
from evolvent.learn.tokens.surrogates import nft
from evolvent.models.language.sample import TemperatureSchedule
from evolvent.runs.language.credit import left_out
from language_runs import rows, settings, start
from run_folders import timeless

NAMES = (
    "reinforce",
    "rloo",
    "dr_grpo",
    "gspo",
    "opmd",
    "asymre",
    "clip_cov",
    "kl_cov",
    "nft",
    "loop",
    "aepo",
    "g_ra",
    "refine",
    "hapo",
    "dapo",
    "evol_rl",
    "hbpo",
    "spear",
    "spa",
    "oprl",
    "flow_grpo",
)

pytestmark = pytest.mark.usefixtures("one_thread")
model = tiny_language.fixture(max_position_embeddings=1024)


@pytest.fixture(scope="module")
def run_of(model, tmp_path_factory):
    """Two updates of a learner with its own settings, made once for all tests that look at them."""
    return cache(lambda name: start(name, settings(name, model), tmp_path_factory.mktemp(name) / "run"))


@pytest.mark.parametrize("name", NAMES)
def test_two_updates_with_the_objective_of_the_paper(name, run_of):
    folder, seen, summary = run_of(name)
    assert {str(getattr(loss, "own", loss)) for loss, _, _ in seen} == {str(CHOICES[name].loss)}
    assert summary["algo"] == name and summary["updates"] == 2
    first, second = rows(folder)
    assert first["gap"] < 1e-4 and second.get("gap", 0.0) < 1e-4
    assert any(row.get("grad_norm", 0) > 0 for row in (first, second))


def attempt(ret, *, group="g", tokens=(1, 2), success=None, turns=1):
    episode = Episode("task", group=group)
    for t in range(turns):
        episode.observe("seen", token_ids=[0, t], parent=-1)
        episode.act("done", token_ids=tokens, logp=[-1.0] * len(tokens), reward=ret if t == turns - 1 else 0.0)
    episode.end(terminated=True, success=ret > 0 if success is None else success)
    return episode


def test_settings_are_few_and_modules_say_what_they_are():
    known = {entry.name: entry for entry in catalogue.entries("algos")}
    for name in NAMES:
        config = import_module(f"evolvent.algos.{name}").Config()
        assert len(vars(config)) <= 20, name
        assert known[name].constants.keys() >= {"PAPER", "LEVELS", "STATUS"} and known[name].constants["PAPER"]


# ------------------------------------------------------------------------------------------------ killed and resumed
@pytest.mark.parametrize("name", ["spear", "spa", "oprl", "hapo", "dapo"])
def test_a_run_that_broke_ends_with_the_same_numbers(name, model, tmp_path, run_of):
    config = settings(name, model)
    whole, _, _ = run_of(name)
    with pytest.raises(KeyboardInterrupt):
        start(name, config, tmp_path / "part", break_at=1)
    part, seen, _ = start(name, config, tmp_path / "part", resume=True)
    assert len(seen) == 1, "it went on after the first update, with what that one left behind"

    assert timeless(rows(whole)) == timeless(rows(part))


# ------------------------------------------------------------------------------------------------ dapo, nft, loop
def test_only_as_many_tasks_are_drawn_as_groups_are_missing():
    paid = {0: [("a", 1, 1), ("b", 1, 0), ("x", 0, 0)], 1: [("c", 0, 1), ("d", 0, 0)], 2: [("e", 0, 1)]}
    asked = []

    def run(prompts):
        asked.clear()

        def collect(*, again, which):
            asked.append(list(which))
            tasks = sorted({n for n, _ in which})
            return [attempt(paid[again][n][1 + g], group=paid[again][n][0]) for n in tasks for g in range(2)]

        return SimpleNamespace(config=SimpleNamespace(prompts=prompts, group=2), collect=collect)

    episodes, out_E, result = collect_differing(run(3), 3)
    assert result == {"draws": 3.0, "differing": 3.0} and [len(which) // 2 for which in asked] == [3, 2, 1]
    assert {e.group for e, out in zip(episodes, out_E, strict=True) if not out} == {"b", "c", "e"}
    assert len(episodes) == 12, "what differs is kept and not drawn again"
    assert collect_differing(run(2), 3)[2] == {"draws": 2.0, "differing": 2.0}
    assert collect_differing(run(3), 2)[2] == {"draws": 2.0, "differing": 2.0}, "the number of draws is bounded"


def test_dapo_counts_what_it_sampled_in_vain_and_learns_nothing_from_groups_that_never_differ(model, tmp_path):
    task = tmp_path / "flat.py"
    task.write_text("PROMPTS = [{'prompt': str(i)} for i in range(9)]\ndef reward(completion, prompt): return 0.5")
    config = settings("dapo", model, env=f"graded:{task}", group=2, draws=3, updates=1)
    folder, _, _ = start("dapo", config, tmp_path / "run")
    (row,) = rows(folder)
    assert row["draws"] == 3 and row["differing"] == 0 and row["attempts"] == 12 and row["empty"] == 1


def test_attempts_without_effect_are_left_out_unless_nothing_would_be_left():
    episodes = [attempt(1), attempt(0), attempt(1, group="h"), attempt(1, group="h")]
    base = step_group_mean.assign
    ledger = step_left_out.assign(episodes, step_left_out.Config(base))
    np.testing.assert_array_equal(ledger.values("step"), [0.5, -0.5, np.nan, np.nan])
    assert left_out(ledger) == {"left_out": 0.5}
    whole = step_left_out.assign(episodes, step_left_out.Config(base, out=lambda _: [True] * 4))
    assert left_out(whole) == {"left_out": 0.0} and whole.values("step").tolist() == [0.5, -0.5, 0.0, 0.0]
    with pytest.raises(BadInput, match="one mark an episode"):
        step_left_out.assign(episodes, step_left_out.Config(base, out=lambda _: [True]))


def test_nft_reads_right_and_wrong_off_any_scale_of_rewards(model, tmp_path):
    _, seen, _ = start("nft", settings("nft", model, group=6), tmp_path / "run")
    for _, episodes, ledger in seen:
        for group in {e.group for e in episodes}:
            q = np.mean([e.success for e in episodes if e.group == group])
            for i, e in enumerate(episodes):
                if e.group == group and 0 < q < 1:
                    mine = ledger.values("step")[ledger.episode_index("step") == i]
                    assert mine == pytest.approx(np.full(e.n_steps, float(e.success) - q))


SHAPED = """
PROMPTS = [{"prompt": "Say " + "abcdefghij"[i] * (i + 1)} for i in range(10)]
MAX_TOKENS, REWARD_RANGE, SUCCESS = 4, (-1.0, 1.0), SUCCESS_FROM
def reward(completion, prompt):  # most are paid a little, some are fined
    return 0.1 if sum(map(ord, completion)) % 3 else -0.5 if sum(map(ord, completion)) % 2 else 1.0
"""


@pytest.mark.parametrize("bar", [0.05, 0.6])
def test_a_little_reward_is_no_success_unless_the_task_says_so(bar, model, tmp_path):
    (tmp_path / "task.py").write_text(SHAPED.replace("SUCCESS_FROM", str(bar)))
    _, seen, _ = start("nft", settings("nft", model, env=f"graded:{tmp_path / 'task.py'}", group=8), tmp_path / "run")
    compared = 0
    for _, episodes, ledger in seen:
        for i, e in enumerate(episodes):
            right = [o.total_reward >= bar for o in episodes if o.group == e.group]
            if 0 < sum(right) < len(right):
                mine = ledger.values("step")[ledger.episode_index("step") == i]
                assert mine == pytest.approx([(e.total_reward >= bar) - np.mean(right)])
                compared += 1
    assert compared


def test_the_loss_of_nft_reads_the_groups_share_off_the_credit():
    """Four attempts of one token, one right: q = 1/4 in all, whatever they were paid; the paper's loss by hand."""
    ratio = torch.tensor([1.3, 0.8, 1.1, 0.6], dtype=torch.float64)
    adv = torch.tensor([1.0, 0.0, 0.0, 0.0], dtype=torch.float64) - 0.25
    wrong = torch.log((1 - 0.25 * ratio) / 0.75).clamp(min=0.0)  # floor 1
    want = -0.75 * torch.where(adv > 0, ratio.log(), wrong)
    torch.testing.assert_close(nft(ratio, adv, 1.0), want)


def test_a_step_in_which_nothing_was_decided_changes_nothing():
    """All credit on forced tokens: their log-probability is 0 whatever the weights."""
    weight = torch.nn.Parameter(torch.ones(1))

    def judge(rows):
        n = sum(len(row.tokens) for row in rows)
        return SimpleNamespace(logp_K=torch.zeros(n), entropy_K=torch.zeros(n))

    episodes = [attempt(1), attempt(0)]
    ledger = Ledger.for_episodes(episodes)
    ledger.set("step", [0.5, -0.5])
    for objective in (CHOICES["grpo"].loss, CHOICES["clip_cov"].loss):
        batch = token_batch(episodes, ledger, level="step").with_reference(judge)
        metrics = improve(objective, batch, judge, torch.optim.SGD([weight], lr=1.0), micro_tokens=3)
        assert weight.item() == 1.0 and metrics["grad_norm"] == 0.0


# ------------------------------------------------------------------------------------------------ hapo
def test_the_temperature_is_higher_where_the_course_forks():
    logits = torch.tensor([[0.0, 0.0, 0.0, 0.0], [9.0, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]])
    entropy = torch.distributions.Categorical(logits=logits).entropy()
    heat = TemperatureSchedule(0.5, pivot=float(entropy[2].log()), above=0.1, below=1.0)
    warmed = heat.warmed(logits)
    factor = logits[1:, 0] / warmed[1:, 0]
    assert factor.tolist() == pytest.approx([0.5, 1.0]), "as far as it goes below the pivot, nothing at it"
    assert TemperatureSchedule(0.5, -9.0, 1.0, 1.0).warmed(logits)[2, 0] == pytest.approx(1.0 / 1.5)


def test_hapo_samples_at_a_temperature_of_its_own_and_records_without_it(model, tmp_path):
    _, cold, _ = start("hapo", settings("hapo", model, adapt_temperature=0.0), tmp_path / "cold")
    folder, warm, _ = start("hapo", settings("hapo", model, adapt_temperature=0.9), tmp_path / "warm")
    assert rows(folder)[1]["gap"] < 1e-4
    assert [e.total_reward for e in cold[0][1]] == [e.total_reward for e in warm[0][1]], "the first update is at T"
    assert cold[1][1] != warm[1][1]


# ------------------------------------------------------------------------------------------------ spear
def test_a_replay_keeps_what_beat_its_group_while_it_is_fresh_and_survives_a_checkpoint():
    def drawn(replay, *when):
        recent = step_recent_median.Config(recent=tuple(replay.means))
        ledger = replay.draw(*when, lambda episodes: step_recent_median.assign(episodes, recent))
        assert ledger.values("step").tolist() == [e.total_reward - np.median(replay.means) for e in ledger.episodes]
        return list(ledger.episodes)

    def beat(*attempts):
        return step_group_mean.assign(attempts)

    replay = Replay(3, stale=2, recent=3, seed=1)
    replay.add(beat(attempt(1), attempt(0), attempt(2, group="h"), attempt(4, group="h")), 0)
    assert len(replay) == 2 and list(replay.means) == [0.5, 3.0]
    assert drawn(replay, 9, 0) == [], "nothing of the same update"
    assert [e.total_reward for e in drawn(replay, 9, 1)] == [4], "1 is below the median of the means"
    replay.add(beat(attempt(5, group="i"), attempt(3, group="i"), attempt(7, group="j"), attempt(8, group="j")), 1)
    assert list(replay.means) == [3.0, 4.0, 7.5] and len(replay) == 3, "the newest"
    again = Replay(3, stale=2, recent=3, seed=1)
    again.load_state_dict(replay.state_dict())
    assert drawn(again, 2, 2) == drawn(replay, 2, 2) and again.means == replay.means
    assert {e.total_reward for e in drawn(again, 9, 2)} == {5, 8} and len(drawn(again, 1, 2)) == 1
    assert drawn(again, 9, 9) == []
    again.add(beat(attempt(9), attempt(0)), 2, faulty=[True, False])
    assert again.means[-1] == 4.5 and all(e.total_reward < 9 for e in drawn(again, 9, 3))
    empty = Replay(3, stale=2)
    empty.load_state_dict(Replay(3, stale=2).state_dict())
    assert len(empty) == 0


def test_attempts_with_a_fault_are_no_example():
    def one(*, ids=(1, 2), text="done", finish="stop", answer="done", truncated=False, calls=None):
        episode = Episode("task", group="g")
        episode.observe("seen", token_ids=[0], parent=-1)
        episode.act(text, token_ids=ids, logp=[-1.0] * len(ids), finish=finish)
        episode.offers_tools = calls is not None
        for outcome in calls or ():
            episode.tool("look", {}, "", outcome=outcome)
        episode.end(terminated=not truncated, truncated=truncated, answer=answer)
        return episode

    twenty = list(range(20))
    assert not faulty(one()) and not faulty(one(ids=twenty * 9))
    for other in (
        {"ids": twenty * 10},
        {"text": "d\ufffdne"},
        {"finish": "length"},
        {"truncated": True},
        {"answer": ""},
        {"answer": "", "calls": []},
    ):
        assert faulty(one(**other)), other
    assert not faulty(one(answer="", calls=["ok"])), "a tool was called: a failure to learn from"
    assert [uses(one()), uses(one(calls=[])), uses(one(calls=["ok", "raised"]))] == [1, 0, 2]
    assert repeats([1, 2, 1, 2, 1], n=2) == 2 and repeats([1], n=2) == 0


def test_fresh_and_replayed_attempts_are_one_loss():
    own, other = Objective(aggregate="const", length=10), Objective(clip_high=0.28, aggregate="const", length=10)
    episodes = [attempt(1), attempt(0), attempt(1, tokens=(3, 4, 5))]
    ledger = Ledger.for_episodes(episodes)
    ledger.set("step", [0.5, -0.5, 2.0])
    units = token_batch(episodes, ledger, level="step").units
    logp = units.old_logp + torch.tensor([0.3, -0.1, 0.0, 0.2, 0.5, -0.3, 0.1])
    both = WithReplay(own, other, fresh=2, weight=0.25)

    def value(loss, mine):
        part = loss.prepare(units[mine])
        return loss.terms(part, logp[mine], torch.zeros(len(part))).loss

    mine = units.trajectory < 2
    got = both.terms(both.prepare(units), logp, torch.zeros(len(units)))
    assert got.loss == pytest.approx(float(value(own, mine) + 0.25 * value(other, ~mine)))
    assert got.metrics["ratio"] == pytest.approx((logp - units.old_logp).exp())
    assert WithReplay(own, other, 2, 0.0).idle(units).tolist() == [False] * 4 + [True] * 3


def test_each_part_keeps_what_it_prepared():
    """``nonzero`` looks at what was sampled: at the credit, before it is normalised or cut into pieces."""
    own = Objective(keep="nonzero", keep_range=(0.6, 9.0), aggregate="const", length=10)
    other = Objective(normalise="minibatch", keep="neg_seq_kl", keep_range=(0.1, 9.0), aggregate="const", length=10)
    episodes = [attempt(1), attempt(0), attempt(1), attempt(0)]
    ledger = Ledger.for_episodes(episodes)
    ledger.set("step", [0.5, -1.0, 2.0, -2.0])
    units = token_batch(episodes, ledger, level="step").units
    logp = units.old_logp - 0.3
    both = WithReplay(own, other, fresh=2, weight=0.5)
    ready, mine = both.prepare(units), units.trajectory < 2
    found = both.terms(ready, logp, torch.zeros(len(units)))
    parts = [(own, mine, 1.0), (other, ~mine, 0.5)]
    alone = [loss.terms(loss.prepare(units[at]), logp[at], torch.zeros(int(at.sum()))) for loss, at, _ in parts]
    assert found.loss == pytest.approx(sum(float(t.loss) * f for t, (_, _, f) in zip(alone, parts, strict=True)))
    assert found.metrics["kept"].tolist() == [x for t in alone for x in t.metrics["kept"].tolist()]
    assert not all(found.metrics["kept"][mine]) and not all(found.metrics["kept"][~mine])
    assert both.idle(ready)[:2].tolist() == [True, True], "dropped with the mask that was prepared"


def test_spear_replays_from_its_second_update_on(model, tmp_path):
    folder, seen, _ = start("spear", settings("spear", model, period=2.0, prompts=4), tmp_path / "run")
    first, second = rows(folder)
    assert first["left_out"] == 0.25 and first["faulty"] == 0.0
    assert first["replayed"] == 0 and second["replayed"] > 0 and second["replay_weight"] == pytest.approx(0.5)
    _, episodes, ledger = seen[1]
    replayed = ledger.values("step")[ledger.episode_index("step") >= len(episodes) - int(second["replayed"])]
    assert (replayed >= 0).all() and "replay_gap" in second
    assert max(e.rewards_by_kind["tools"] for e in seen[0][1]) == pytest.approx(0.5), "five turns, before it fades"


# ------------------------------------------------------------------------------------------------ spa
def test_the_estimator_finds_the_turn_that_matters():
    def features(rows):  # the last token of the context tells the turn, the token before the end what was done
        return torch.tensor([[float(row.context[-1] == 7), float(row.context[1] == 0), 1.0] for row in rows])

    episodes = [attempt(ret, tokens=(3, 7 if ret else 5), turns=2) for ret in (1, 0, 1, 0)]
    estimator = ProgressEstimator(features, 3, context=9, lr=0.02, seed=0)
    seen = estimator.see(episodes)
    generator = torch.Generator().manual_seed(0)
    before = estimator.learn(seen, passes=1, minibatches=2, generator=generator)
    after = estimator.learn(seen, passes=200, minibatches=2, generator=generator)
    estimator.write_rewards(seen)
    assert after < 0.01 < before
    assert sum(rewards_of(episodes[0], "progress")) == pytest.approx(1.0, abs=0.2)
    assert "executed" not in episodes[0].rewards_by_kind, "any text was allowed: the environment has to say"


def test_a_world_that_does_not_pay_what_a_system_needs_is_named(model, tmp_path):
    for name in ("g_ra", "refine", "spa"):
        env = "microwave" if name == "g_ra" else "arithmetic:largest"
        own = {"kinds": ("manners",)} if name == "g_ra" else {}
        with pytest.raises(BadInput, match="does not pay this kind of reward"):
            start(name, settings(name, model, env=env, **own), tmp_path / name)


# ------------------------------------------------------------------------------------------------ oprl
def test_pairs_of_success_and_failure_against_the_policy_that_sampled():
    episodes = [attempt(1), attempt(0), attempt(1), attempt(1, group="h"), attempt(0, group="i")]
    pairs = success_pairs(episodes)
    assert pairs == [(0, 1), (2, 1)]
    units = pair_batch(step_wanted.assign([episodes[i] for pair in pairs for i in pair]), constrained=False).units
    assert units.group.tolist() == [0] * 4 + [1] * 4 and units.adv.tolist() == [1, 1, -1, -1] * 2
    assert units.ref_logp is None  # who judged it as the model is judged says so: learn.policy_gradient


def test_the_model_of_rewards_starts_without_an_opinion_and_learns_one(model, tmp_path):
    folder, _, _ = start("oprl", settings("oprl", model, group=6, prm_lr=0.02, beta=1.0), tmp_path / "run")
    first, second = rows(folder)
    assert first["pairs"] > 0 and first["prm_loss"] == pytest.approx(np.log(2.0), abs=1e-5)
    assert second["prm_loss"] != pytest.approx(np.log(2.0), abs=1e-3)


# ------------------------------------------------------------------------------------------------ rloo, hbpo, evol_rl
def test_rloo_pays_nothing_for_the_divergence_at_the_start_and_something_later(model, tmp_path):
    folder, _, _ = start("rloo", settings("rloo", model, lr=0.05), tmp_path / "run")
    first, second = rows(folder)
    assert abs(first["kl_attempt"]) < 1e-4 < abs(second["kl_attempt"])


def test_hbpo_grants_every_budget_equally_often_and_says_so(model, tmp_path):
    _, seen, _ = start("hbpo", settings("hbpo", model, group=4, budgets=(5, 9)), tmp_path / "run")
    for _, episodes, _ in seen:
        assert [e.budget_tokens for e in episodes] == [5, 9] * 4
        words = tiny_language.tokenizer()
        for e in episodes:
            assert f"(Answer within {e.budget_tokens} tokens.)" in words.decode(e.context_ids(0).tolist())


def test_evol_rl_votes_with_all_and_learns_from_a_share(model, tmp_path):
    _, seen, _ = start("evol_rl", settings("evol_rl", model, group=4, learn_share=0.5), tmp_path / "run")
    for _, episodes, ledger in seen:
        scored = {i for i, x in zip(ledger.episode_index("step"), ledger.values("step"), strict=True) if np.isfinite(x)}
        assert scored == {0, 1, 4, 5}
        assert {e.answer for e in episodes} <= {"open the microwave", "close the microwave"} | {""} | {
            "put the pancake in the microwave"
        }


# ------------------------------------------------------------------------------------------------ flow_grpo
def test_only_the_planner_learns_and_the_frozen_base_acts(run_of):
    folder, seen, _ = run_of("flow_grpo")
    _, episodes, ledger = seen[1]
    agents = [agent for e in episodes for agent in e.agents_T]
    assert set(agents) == {"planner", "executor"}
    scored = np.isfinite(ledger.values("step"))
    assert scored.tolist() == [agent == "planner" for agent in agents]
    assert (folder.path / "model" / "adapter_config.json").exists()
    with Live(plain=True) as live:
        evaluated = import_module("evolvent.algos.flow_grpo").evaluate(folder, live, 2)
    assert evaluated["n"] == 1 and evaluated["sampled"]["n"] == 2 and json.dumps(evaluated)
