"""The table of published choices, written a second time: an edit of one side alone is noticed."""

from dataclasses import fields
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.learn.preference.objective import Preference
from evolvent.learn.tokens.batch import token_batch
from evolvent.learn.tokens.objective import Objective
from evolvent.learn.tokens.objectives_of_papers import CHOICES, DAPO, SPPO, axes, table
from evolvent.learn.tokens.policy_gradient import improve

# system: surrogate, ratio, clip low, clip high, aggregate, and everything else that is not PPO's default
PUBLISHED = {
    "reinforce": ("pg", "none", 0.2, 0.2, "token_mean", {}),
    "rloo": ("pg", "none", 0.2, 0.2, "seq_mean_token_sum", {}),
    "grpo": ("ppo", "token", 0.2, 0.2, "seq_mean_token_mean", {"kl": 0.04, "kl_form": "k3"}),
    "dr_grpo": ("ppo", "token", 0.2, 0.2, "const", {"length": 3000}),
    "gpg": ("pg", "none", 0.2, 0.2, "seq_mean_token_mean", {}),
    "dapo": ("ppo", "token", 0.2, 0.28, "token_mean", {}),
    "gspo": ("ppo", "seq_geo", 3e-4, 4e-4, "seq_mean_token_mean", {}),
    "gmpo": ("gmpo", "token", 1 - 2.718282**-0.4, 2.718282**0.4 - 1, "seq_mean_token_mean", {}),
    "cispo": ("cispo", "token", 0.2, 0.2, "token_mean", {}),
    "sapo": ("sapo", "token", 0.2, 0.2, "seq_mean_token_mean", {"gate": (1.0, 1.05)}),
    "opmd": ("pg", "none", 0.2, 0.2, "token_mean", {"opmd": 1.0}),
    "asymre": ("pg", "none", 0.2, 0.2, "token_mean", {}),
    "clip_cov": (
        "ppo",
        "token",
        0.2,
        0.2,
        "token_mean",
        {"keep": "clip_cov", "keep_share": 2e-4, "keep_range": (1.0, 5.0)},
    ),
    "kl_cov": ("is", "token", 0.2, 0.2, "token_mean", {"kl_cov": 2e-3, "kl_cov_weight": 1.0}),
    "high_entropy": ("ppo", "token", 0.2, 0.28, "token_mean", {"keep": "top_entropy", "keep_share": 0.2}),
    "aepo": ("aepo_ste", "token", 0.2, 0.2, "token_mean", {}),
    "hapo": ("adaptive", "token", 0.2, 0.2, "token_mean", {"dual": 10.0, "redistribute": True}),
    "spear": ("ppo", "token", 0.2, 0.28, "const", {"length": 3000}),
    "spear_replay": (
        "ppo",
        "token",
        0.2,
        0.28,
        "const",
        {"length": 3000, "keep": "clip_cov", "keep_share": 0.02, "keep_range": (1.0, 40.0)},
    ),
    "evol_rl": ("ppo", "token", 0.2, 0.28, "token_mean", {"entropy": 0.003, "kl": 0.001}),
    "nft": ("nft", "token", 0.2, 0.2, "token_mean", {"floor": 1.0}),
    "hbpo": ("ppo", "token", 0.2, 0.2, "seq_mean_token_mean", {}),
    "poad": ("ppo", "token", 0.2, 0.2, "token_mean", {"normalise": "minibatch", "entropy": 1e-4}),
    "ntpo": ("ppo", "token", 0.2, 0.2, "token_mean", {"normalise": "minibatch", "entropy": 1e-4}),
    "twosome": ("ppo", "token", 0.2, 0.2, "token_mean", {"normalise": "minibatch", "entropy": 1e-4}),
    "marft_a": ("ppo", "token", 0.2, 0.2, "token_mean", {"normalise": "minibatch", "entropy": 0.01}),
    "marft_t": ("ppo", "token", 0.2, 0.2, "token_mean", {"normalise": "minibatch", "entropy": 0.01}),
    "archer": ("pg", "none", 0.2, 0.2, "seq_mean_token_sum", {}),
    "loop": ("log_sym", "token", 0.2, 0.1, "seq_mean_token_mean", {}),
    "spa": ("ppo", "token", 0.2, 0.2, "token_mean", {}),
    "g_ra": ("ppo", "token", 0.2, 0.2, "token_mean", {}),
    "oprl": ("ppo", "token", 0.2, 0.2, "token_mean", {}),
    "flow_grpo": ("ppo", "token", 0.2, 0.3, "token_mean", {"kl": 0.001}),
    "verpo": ("ppo", "token", 0.2, 0.2, "token_mean", {}),
    "refine": ("ppo", "token", 0.2, 0.2, "token_mean", {}),
    "gigpo": ("ppo", "token", 0.2, 0.2, "token_mean", {}),
}
PREFERENCES = {
    "dpo": ("dpo", 0.1),
    "ipo": ("ipo", 0.1),
    "sppo": ("sppo", 1e-3),
    "tgdpo": ("dpo", 0.1),
    "kto": ("kto", 0.1),
}


def test_every_system_stands_on_both_sides():
    assert set(CHOICES) == {*PUBLISHED, *PREFERENCES, "etpo"}


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_choices_are_the_published_ones(name):
    surrogate, ratio, low, high, aggregate, more = PUBLISHED[name]
    expected = Objective(surrogate, ratio, low, high, aggregate=aggregate, **more)
    for axis, value in vars(expected).items():
        got = getattr(CHOICES[name].loss, axis)
        assert got == (pytest.approx(value, rel=1e-4) if isinstance(value, float) else value), axis


@pytest.mark.parametrize("name", PREFERENCES)
def test_preferences(name):
    assert CHOICES[name].loss == Preference(*PREFERENCES[name])


@pytest.mark.parametrize("name", [name for name in CHOICES if find_spec(f"evolvent.algos.{name}")])
def test_the_defaults_of_a_system_are_those_of_the_table(name):
    config, loss = import_module(f"evolvent.algos.{name}").Config(), CHOICES[name].loss
    if isinstance(loss, Objective) and hasattr(config, "clip"):
        assert loss.clip_high == config.clip
    own = {"gspo": {"clip_low": 0.03, "clip_high": 0.04}}  # for short answers and LoRA, see its docstring
    for axis in fields(loss) if loss is not None else ():
        if hasattr(config, axis.name):
            assert getattr(config, axis.name) == own.get(name, {}).get(axis.name, getattr(loss, axis.name)), axis.name


def test_what_has_no_system_says_so():
    alone = {name for name, choice in CHOICES.items() if choice.note.startswith("objective only")}
    parts = {"spear_replay", "marft_a", "marft_t", "ipo"}  # of spear, marft and dpo
    assert alone == {name for name in CHOICES if not find_spec(f"evolvent.algos.{name}")} - parts


def test_the_table_is_complete_text():
    head, *rows = table()
    assert len(rows) == len(CHOICES) and all(len(row) == len(head) for row in rows)
    assert axes(DAPO) == "ppo, clip_high 0.28"
    assert axes(SPPO) == "sppo, beta 0.001"
    assert axes(None) == "its own"


def test_the_table_in_the_docs_is_that_of_the_code(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "benchmarks"))
    page = import_module("objectives_page")
    written = page.PAGE.read_text("utf-8")
    assert written == page.filled(written, page.parts()), "run benchmarks/objectives_page.py"


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_objective_makes_the_better_answer_likelier(name):
    """On policy the first step goes up for what was right and down for what was wrong, whatever the axes."""
    logits = nn.Parameter(torch.tensor([0.3, 0.1, -0.2]))

    def judge(rows):
        taken = torch.tensor([int(t) for row in rows for t in row.tokens])
        logp = torch.log_softmax(logits, -1)
        return SimpleNamespace(logp_K=logp[taken], entropy_K=-(logp.exp() * logp).sum().expand(len(taken)))

    episodes = []
    for i, tokens in enumerate(([0, 0], [1, 1, 1], [2], [0])):
        ep = Episode("task", id=str(i))
        ep.observe("seen", token_ids=[0], parent=-1)
        ep.act("act", token_ids=tokens, logp=torch.log_softmax(logits, -1).detach()[tokens].numpy())
        ep.end(terminated=True)
        # entropies of tokens differ in what was recorded, as they would
        ep.note("entropy", [1.0 + 0.3 * int(t == 0) - 0.2 * int(t == 2) for t in tokens])
        episodes.append(ep)
    ledger = Ledger.for_episodes(episodes)
    ledger.set("step", [0.5, -0.5, -0.5, 0.5])
    batch = token_batch(episodes, ledger, level="step").with_reference(judge)
    before = torch.softmax(logits, -1).detach()
    metrics = improve(
        CHOICES[name].loss, batch, judge, torch.optim.SGD([logits], lr=0.1), generator=torch.Generator().manual_seed(0)
    )
    assert torch.softmax(logits, -1)[0] > before[0]
    assert metrics["gap"] < 1e-6 and metrics["ess"] == pytest.approx(1.0, abs=1e-5)
