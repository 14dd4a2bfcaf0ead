"""``policy_gradient``: any rule with any objective; what a rule needs and this system cannot give is said by name."""
# pyright: reportCallIssue=false

import re

import numpy as np
import pytest
import torch

import tiny_language
from evolvent import catalogue
from evolvent.algos import policy_gradient
from evolvent.algos.policy_gradient import RecordedPlan
from evolvent.algos.policy_gradient.foreseen import OutcomeCritic, ShareCritic
from evolvent.core.config import to_json
from evolvent.core.errors import BadInput
from evolvent.evaluate.live import Live
from evolvent.learn.tokens.objectives_of_papers import CHOICES, objective_named
from evolvent.learn.tokens.units import Units
from evolvent.memory import embedders
from run_folders import begin

pytestmark = pytest.mark.usefixtures("one_thread")
model = tiny_language.fixture(max_position_embeddings=1024)

MORE = {
    "step_gated": {"rule_options": ('levels=[["process"]]',)},
    **{name: {"objective": "dpo"} for name in ("step_preferred", "token_guided")},
    "step_win_rate": {"objective": "sppo"},
    "step_wanted": {"objective": "kto"},
    "agent_sequential": {"agents": ("solver", "checker"), "act": "sum"},
    "token_sequential": {"agents": ("solver", "checker")},
}
REFUSED = {
    "step_progress": "needs progress.*spa",
    "step_length_budget": "needs budget_tokens.*hbpo",
    "step_utterance_critic": "needs q1.*archer",
    "token_soft_bellman": "needs expected_q.*etpo",
    "token_implicit": "needs prm_logp.*oprl",
    "token_guided": "needs guide.*tgdpo",
    "step_thought": "does not pay this kind.*verdict",
    "step_test_weighted": "test:",
    "token_conservative_bellman": "needs greedy_q.*b_coder",
    "step_graded_outcome": "does not pay this kind.*correct",
    "token_outcome_critic": "does not pay this kind.*correct",
    "step_routed": "does not pay this kind.*format",
    "step_efficiency": "does not pay this kind.*ratio",
    "token_immediate": "does not pay this kind.*share",
    "agent_gae": "of rollouts.*mappo",
    "agent_counterfactual": "of rollouts.*coma",
    "agent_optimal_baseline": "of rollouts.*mappo",
}
RULES = [e.name for e in catalogue.entries("credit") if e.constants["LEVEL"] in ("token", "step", "agent")]


def play(path, model, **settings):
    base = {"env": "microwave", "model": model, "updates": 2, "prompts": 2, "group": 3, "lr": 0.01} | settings
    plan = RecordedPlan(dtype="float32", eval_every=0, eval_tasks=1)
    config = policy_gradient.Config(**base, plan=plan)
    with begin(path, "policy_gradient", config) as folder, Live(plain=True) as live:
        summary = policy_gradient.run(config, folder, live)
    return [row for row in folder.read_metrics() if "update" in row], summary


@pytest.mark.parametrize("name", RULES)
def test_every_rule_trains_or_says_what_it_needs(name, model, tmp_path, monkeypatch):
    load = embedders.load
    monkeypatch.setattr(embedders, "load", lambda *_, **__: load("hash"))
    if name in REFUSED:
        with pytest.raises(BadInput) as caught:
            play(tmp_path / "run", model, rule=name, **MORE.get(name, {}))
        assert re.search(REFUSED[name], str(caught.value), re.S)
        return
    rows, summary = play(tmp_path / "run", model, rule=name, **MORE.get(name, {}))
    assert summary["algo"] == "policy_gradient" and len(rows) == 2
    assert any(row.get("grad_norm", 0) > 0 for row in rows) or name in MORE
    needs = getattr(catalogue.credit_rule(name).source, "NEEDS", ())
    assert all(("value_loss" in row) == ("value" in needs) for row in rows), "a critic where the rule needs one"


def test_it_is_reinforce_where_rule_and_objective_are(model, tmp_path):
    from evolvent.algos import reinforce

    rows, _ = play(tmp_path / "a", model, rule="step_return_to_go", objective="reinforce")
    config = reinforce.Config(
        env="microwave",
        model=model,
        updates=2,
        prompts=2,
        group=3,
        lr=0.01,
        plan=RecordedPlan(dtype="float32", eval_every=0, eval_tasks=1),
    )
    with begin(tmp_path / "b", "reinforce", config) as folder, Live(plain=True) as live:
        reinforce.run(config, folder, live)
    other = [row for row in folder.read_metrics() if "update" in row]
    for mine, theirs in zip(rows, other, strict=True):
        assert (mine["loss"], mine["grad_norm"], mine["return"]) == (
            theirs["loss"],
            theirs["grad_norm"],
            theirs["return"],
        )


def test_rule_and_objective_of_your_own(model, tmp_path):
    (tmp_path / "mine.py").write_text(
        'LEVEL = "step"\nfrom evolvent.core.ledger import Ledger\n'
        "from evolvent.learn.tokens.objective import Objective\n"
        "def assign(episodes):\n    ledger = Ledger.for_episodes(episodes)\n"
        '    ledger.set("step", [0.5 + i for i in range(ledger.size("step"))])\n    return ledger\n'
        "def soft(low=0.2):\n    return Objective(clip_low=low)\n"
        "def phi(objective, now):\n    return -now.ratio * now.adv\n"
        "def keep(objective, now):\n    return now.adv > 0\n"
        "def halves(trajectory, length):\n    return trajectory * 0.0 + 0.5\n"
    )
    mine = str(tmp_path / "mine.py")
    rows, _ = play(tmp_path / "run", model, rule=mine, objective=f"{mine}:soft", objective_options=("low=0.1",))
    assert all(np.isfinite(row["loss"]) and row["grad_norm"] > 0 for row in rows)
    rows, _ = play(tmp_path / "phi", model, rule=mine, objective_options=(f"surrogate={mine}:phi", "ratio=token"))
    assert all(row["grad_norm"] > 0 for row in rows), "one axis of a published objective from a file"
    chosen = objective_named("dapo", (f"keep={mine}", f"aggregate={mine}:halves"))
    units = Units(*(torch.tensor([0, 0, 1]) for _ in range(6)), torch.tensor([1.0, -1.0, 2.0]), torch.zeros(3))
    seen = chosen.terms(chosen.prepare(units), torch.zeros(3), torch.zeros(3))
    assert seen.loss.item() == -0.5 * (1.0 + 2.0), "half of what was kept"
    assert seen.metrics["kept"].tolist() == [True, False, True]
    wrong = {f"{tmp_path}/none.py": "no such file", f"{mine}:most": "not in the file", "most": "unknown keep"}
    for bad, words in wrong.items():
        with pytest.raises(BadInput, match=words):
            objective_named("dapo", (f"keep={bad}",))
    (tmp_path / "typo.py").write_text('SPANS = "steps"\ndef keep(objective, now):\n    return now.adv > 0\n')
    with pytest.raises(BadInput, match="unit or trajectory or step"):
        objective_named("dapo", (f"keep={tmp_path}/typo.py",))
    with pytest.raises(BadInput, match="not an objective"):
        objective_named(f"{mine}:LEVEL")


ARGUMENTS = {"ratio": 4, "surrogate": 2, "keep": 2, "kl_form": 1, "aggregate": 2, "normalise": 1}


@pytest.mark.parametrize("axis", ARGUMENTS)
@pytest.mark.parametrize("change", [-1, 1])
def test_a_choice_of_your_own_that_takes_something_else_is_refused_at_once(tmp_path, axis, change):
    taken = ", ".join("abcde"[: ARGUMENTS[axis] + change])
    (tmp_path / "mine.py").write_text(f"def {axis}({taken}): return 0\nthing = 3\n")
    for name in ("", ":thing"):
        with pytest.raises(BadInput, match=rf"no choice of {axis}[^§]*a function of {ARGUMENTS[axis]} argument"):
            objective_named("grpo", (f"{axis}={tmp_path}/mine.py{name}",))


def test_a_choice_of_your_own_that_fails_is_reported_with_its_line(tmp_path):
    (tmp_path / "mine.py").write_text("def keep(objective, now):\n    return now.nothing\n")
    chosen = objective_named("dapo", (f"keep={tmp_path}/mine.py",))
    units = Units(*(torch.tensor([0, 0, 1]) for _ in range(6)), torch.tensor([1.0, -1.0, 2.0]), torch.zeros(3))
    with pytest.raises(BadInput, match=r"keep .* failed[^§]*AttributeError[^§]*line 2"):
        chosen.terms(chosen.prepare(units), torch.zeros(3), torch.zeros(3))


def test_what_is_misspelt_is_answered_with_the_closest_name():
    with pytest.raises(BadInput, match="dapo"):
        objective_named("dapoo")
    with pytest.raises(BadInput, match="clip_high"):
        objective_named("dapo", ("clip_hgh=0.3",))
    with pytest.raises(BadInput, match="gamma"):
        catalogue.credit_rule("step_gae").settings(("gama=1",))
    changed = objective_named("dapo", ("clip_high=0.3",))
    assert to_json(changed) == to_json(CHOICES["dapo"].loss) | {"clip_high": 0.3}


@pytest.mark.parametrize(
    ("rule", "loss", "judge"),
    [("token_outcome_critic", "outcome_loss", "outcome_p"), ("immediate", "share_loss", "share_behind")],
)
def test_a_critic_of_how_attempts_end_learns_beside_the_policy(rule, loss, judge, model, tmp_path, monkeypatch):
    (tmp_path / "graded_letters.py").write_text(
        "from dataclasses import replace\nimport letters_env\n\n"
        "class Graded(letters_env.Letters):\n    def step(self, action):\n        turn = super().step(action)\n"
        '        rewards = {"compiles": float(len(action) % 2), "runs": float("a" in action), "correct": turn.reward}\n'
        '        rewards["share"] = (len(action) % 4) / 4\n'
        '        return replace(turn, info=dict(turn.info) | {"rewards": rewards})\n\n'
        "def make():\n    return Graded()\n"
    )
    env = f"{tmp_path / 'graded_letters.py'}:make"
    passes, kind = [], {"outcome_p": OutcomeCritic, "share_behind": ShareCritic}[judge]
    learn = kind.learn
    monkeypatch.setattr(
        kind, "learn", lambda self, seen, **how: passes.append(how["epochs"]) or learn(self, seen, **how)
    )
    rows, _ = play(tmp_path / "run", model, rule=rule, env=env, group=6)
    assert all(row["grad_norm"] > 0 and 0 < row[loss] < 3 for row in rows)
    assert all("value_loss" not in row for row in rows)
    assert passes == [20, 20], "one step of its optimizer an update teaches it nothing"
