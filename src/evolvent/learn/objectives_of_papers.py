"""What published systems choose on each axis: the objectives that ``algos/`` start from, and the table in the docs.

An objective is only half of a system; the other half, where the advantage comes from, is named here in words
(reward, unit, baseline, spread) and lives in ``credit/``. Numbers are the published or released settings; where a paper
leaves one open, PPO's default stands and ``note`` says so.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from evolvent.core.errors import BadInput
from evolvent.learn.objective import Objective
from evolvent.learn.preference import Preference


@dataclass(frozen=True)
class Choice:
    """One row of the table: a system's place on every axis."""

    paper: str
    """Where it was published."""
    loss: Objective | Preference | None
    """What is minimised; None = its own loss (``note`` says which)."""
    reward: str = "outcome"
    """What is paid."""
    unit: str = "trajectory"
    """Whose reward is compared."""
    baseline: str = "group mean / std"
    """What it is compared with, and what it is divided by."""
    spread: str = "broadcast"
    """How it reaches the tokens."""
    note: str = ""
    """Data, sampling, and what is not published."""


_PPO = Objective()
_PG = Objective(surrogate="pg", ratio="none")
_TURNS = Objective(normalise="minibatch", entropy=0.01)  # critics, one minibatch normalised as a whole

CHOICES: dict[str, Choice] = {
    "reinforce": Choice("Williams 1992", _PG, baseline="none"),
    "rloo": Choice(
        "arXiv 2402.14740", Objective(surrogate="pg", ratio="none", aggregate="seq_mean_token_sum"),
        baseline="leave one out", note="KL to the reference .05 in the reward",
    ),
    "grpo": Choice("arXiv 2402.03300", Objective(aggregate="seq_mean_token_mean", kl=0.04)),
    "dr_grpo": Choice(
        "arXiv 2503.20783", Objective(aggregate="const", length=3000), baseline="group mean",
        note="length = the largest number of tokens that can be sampled",
    ),
    "dapo": Choice(
        "arXiv 2503.14476", Objective(clip_high=0.28), reward="outcome + overlong penalty", note="dynamic sampling"
    ),
    "gspo": Choice(
        "arXiv 2507.18071",
        Objective(ratio="seq_geo", clip_low=3e-4, clip_high=4e-4, aggregate="seq_mean_token_mean"),
    ),
    "gmpo": Choice(
        "arXiv 2507.20673",
        # e^-.4 to e^.4
        Objective(surrogate="gmpo", clip_low=0.32968, clip_high=0.491825, aggregate="seq_mean_token_mean"),
    ),
    "cispo": Choice("arXiv 2506.13585", Objective(surrogate="cispo"), note="clip range not published: PPO's"),
    "sapo": Choice("arXiv 2511.20347", Objective(surrogate="sapo", aggregate="seq_mean_token_mean")),
    "opmd": Choice(
        "arXiv 2505.17826", Objective(surrogate="pg", ratio="none", opmd=1.0), baseline="group mean, or log-mean-exp",
        note="tolerates stale data",
    ),
    "asymre": Choice("arXiv 2506.20520", _PG, baseline="group mean - .1", note="tolerates stale data"),
    "clip_cov": Choice("arXiv 2505.22617", Objective(keep="clip_cov"), note="some released scripts clip at 1 / 1"),
    "kl_cov": Choice(
        "arXiv 2505.22617", Objective(surrogate="is", kl_cov=2e-3), note="share of the scripts; the code's default is 2e-4"
    ),
    "high_entropy": Choice(
        "arXiv 2506.01939", Objective(clip_high=0.28, keep="top_entropy", keep_share=0.2), note="on top of DAPO"
    ),
    "aepo": Choice(
        "arXiv 2510.14545", Objective(surrogate="aepo_ste"), spread="times 1 + .2 z(entropy)",
        note="branches within a budget of samples",
    ),
    "hapo": Choice(
        "arXiv 2509.16591", Objective(surrogate="adaptive", dual=10.0), baseline="token mean / token std",
        spread="times 1 + h, by entropy and ratio", note="temperature follows entropy",
    ),
    "spear": Choice(
        "arXiv 2509.22601", Objective(clip_high=0.28, aggregate="const", length=3000), reward="outcome + tool bonus",
        baseline="group mean", note="filters; self-imitation is spear_replay",
    ),
    "spear_replay": Choice(
        "arXiv 2509.22601",
        Objective(
            clip_high=0.28, aggregate="const", length=3000, keep="clip_cov", keep_share=0.02, keep_range=(1.0, 40.0)
        ),
        baseline="median of recent group means", note="replayed successes, weight rises over 200 steps",
    ),
    "evol_rl": Choice(
        "arXiv 2509.15194", Objective(clip_high=0.28, entropy=0.003, kl=0.001), reward="majority + novelty"
    ),
    "nft": Choice(
        "arXiv 2505.18116", Objective(surrogate="nft"), reward="right or wrong", baseline="group mean",
        note="groups that are all alike contribute nothing",
    ),
    "hbpo": Choice(
        "arXiv 2507.15844", Objective(aggregate="seq_mean_token_mean"), reward="outcome within a length budget",
        baseline="budget, batch std",
    ),
    "poad": Choice(
        "arXiv 2405.15821", _TURNS, reward="step", unit="token", baseline="critic",
        spread="GAE, no discount inside actions", note="a step is discarded at KL .02",
    ),
    "ntpo": Choice(
        "arXiv 2405.15821", _TURNS, reward="step", unit="token", baseline="critic",
        spread="GAE, discount at each token", note="a step is discarded at KL .02",
    ),
    "twosome": Choice(
        "arXiv 2401.14151", _TURNS, reward="step", unit="action", baseline="critic", spread="one for each action",
        note="a step is discarded at KL .02",
    ),
    "marft_a": Choice(
        "arXiv 2504.16129", _TURNS, reward="step, last agent", unit="agent", baseline="critic",
        spread="GAE from agent to agent", note="a step is discarded at KL .001",
    ),
    "marft_t": Choice(
        "arXiv 2504.16129", _TURNS, reward="step, last agent", unit="token", baseline="critic",
        spread="GAE over tokens and agents",
    ),
    "etpo": Choice(
        "arXiv 2402.06700", None, reward="step", unit="token", baseline="none", spread="soft Bellman backup",
        note="losses in learn.soft_q",
    ),
    "archer": Choice(
        "arXiv 2402.19446", Objective(surrogate="pg", ratio="none", aggregate="seq_mean_token_sum"), reward="step",
        unit="turn", baseline="twin critics", note="replay for the critics",
    ),
    "loop": Choice(
        "arXiv 2502.01600", Objective(surrogate="log_sym", clip_high=0.1, aggregate="seq_mean_token_mean"),
        reward="share of unit tests", baseline="leave one out", note="answers with |A| < .01 are dropped",
    ),
    "spa": Choice(
        "arXiv 2505.20732", _PPO, reward="estimated progress + grounding", unit="turn", baseline="critic",
        note="weight of the KL penalty not known: none",
    ),
    "gra": Choice("arXiv 2508.10548", _PPO, reward="outcome opens the gate to step rewards"),
    "oprl": Choice(
        "arXiv 2509.19199", _PPO, reward="outcome, and implicit step rewards", unit="trajectory + turn",
        baseline="leave one out, twice", spread="added",
    ),
    "flow_grpo": Choice(
        "arXiv 2510.05592", Objective(clip_high=0.3, kl=0.001), spread="broadcast to the planner's turns"
    ),
    "verpo": Choice(
        "arXiv 2601.03525", _PPO, reward="weighted tests a turn, and outcome", unit="trajectory + turn",
        baseline="group mean, twice", spread="added",
    ),
    "clip_delta": Choice("arXiv 2410.15115", _PPO, reward="process reward, refined", unit="turn", baseline="mean"),
    "gigpo": Choice(
        "arXiv 2505.10978", _PPO, unit="trajectory + turns at one state", baseline="group mean, twice", spread="added"
    ),
    "dpo": Choice("arXiv 2305.18290", Preference("dpo"), reward="preference", unit="pair", baseline="the other answer"),
    "ipo": Choice("arXiv 2310.12036", Preference("ipo"), reward="preference", unit="pair", baseline="the other answer"),
    "sppo": Choice(
        "arXiv 2405.00675", Preference("sppo", beta=1e-3), reward="probability to win", baseline="1/2",
        note="repeated on its own answers",
    ),
    "tgdpo": Choice(
        "arXiv 2506.14574", Preference("dpo"), reward="preference", unit="pair", baseline="the other answer",
        spread="1 + .05 r of each token", note="r from a model trained by DPO",
    ),
    "kto": Choice("arXiv 2402.01306", Preference("kto"), reward="wanted or not", baseline="KL to the reference"),
}  # fmt: skip


def objective_of(name: str) -> Objective:
    """The objective of a published system.

    Raises:
        BadInput: no such system, or one that learns from preferences or by its own loss.
    """
    loss = _choice(name).loss
    if not isinstance(loss, Objective):
        raise BadInput(
            "not a policy gradient", got=name, where="learn.objectives_of_papers", do="see its file in algos/"
        )
    return loss


def preference_of(name: str) -> Preference:
    """The loss of a system that learns from preferences.

    Raises:
        BadInput: no such system, or one that does not.
    """
    loss = _choice(name).loss
    if not isinstance(loss, Preference):
        raise BadInput(
            "not a preference loss", got=name, where="learn.objectives_of_papers", do="see its file in algos/"
        )
    return loss


def axes(loss: Objective | Preference | None) -> str:
    """A loss in words: the choices that differ from the defaults, the surrogate always."""
    if loss is None:
        return "its own"
    named = "surrogate" if isinstance(loss, Objective) else "kind"
    told = [str(getattr(loss, named))]
    for field in fields(loss):
        value = getattr(loss, field.name)
        if field.name != named and value != field.default:
            told.append(f"{field.name} {value:g}" if isinstance(value, float) else f"{field.name} {value}")
    return ", ".join(told)


def table() -> list[tuple[str, ...]]:
    """Head and rows of the table paper -> choice on each axis, as text."""
    head = ("system", "paper", "reward", "unit", "baseline", "spread", "loss", "note")
    rows = [(n, c.paper, c.reward, c.unit, c.baseline, c.spread, axes(c.loss), c.note) for n, c in CHOICES.items()]
    return [head, *rows]


def _choice(name: str) -> Choice:
    if name not in CHOICES:
        raise BadInput(
            "no such system", got=name, expected=", ".join(sorted(CHOICES)), where="learn.objectives_of_papers"
        )
    return CHOICES[name]
