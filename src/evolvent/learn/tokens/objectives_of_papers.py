"""What published systems choose on each axis: the objectives that ``algos/`` start from, and the table in the docs.

An objective is only half of a system; the other half, where the advantage comes from, is named here in words
(reward, unit, baseline, spread) and lives in ``credit/``. Numbers are the published or released settings; where a paper
leaves one open, PPO's default stands and ``note`` says so. ``objective only``: no system in ``algos/`` has it yet.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from evolvent.core import outside
from evolvent.core.config import from_json, to_json
from evolvent.core.credit_rule import values_of
from evolvent.core.errors import BadInput, closest
from evolvent.learn.preference.objective import Preference
from evolvent.learn.tokens.objective import Objective
from evolvent.learn.tokens.units import Loss


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


REINFORCE = Objective(surrogate="pg", ratio="none")
RLOO = Objective(surrogate="pg", ratio="none", aggregate="seq_mean_token_sum")
GRPO = Objective(aggregate="seq_mean_token_mean", kl=0.04)
DR_GRPO = Objective(aggregate="const", length=3000)
DAPO = Objective(clip_high=0.28)
GPG = Objective(surrogate="pg", ratio="none", aggregate="seq_mean_token_mean")
GSPO = Objective(ratio="seq_geo", clip_low=0.0003, clip_high=0.0004, aggregate="seq_mean_token_mean")
GMPO = Objective(
    surrogate="gmpo", clip_low=1.0 - math.exp(-0.4), clip_high=math.exp(0.4) - 1.0, aggregate="seq_mean_token_mean"
)
CISPO = Objective(surrogate="cispo")
SAPO = Objective(surrogate="sapo", aggregate="seq_mean_token_mean")
OPMD = Objective(surrogate="pg", ratio="none", opmd=1.0)
ASYMRE = Objective(surrogate="pg", ratio="none")
CLIP_COV = Objective(keep="clip_cov")
KL_COV = Objective(surrogate="is", kl_cov=0.002)
HIGH_ENTROPY = Objective(clip_high=0.28, keep="top_entropy", keep_share=0.2)
AEPO = Objective(surrogate="aepo_ste")
HAPO = Objective(surrogate="adaptive", redistribute=True, dual=10.0)
SPEAR = Objective(clip_high=0.28, aggregate="const", length=3000)
SPEAR_REPLAY = Objective(
    clip_high=0.28, keep="clip_cov", keep_share=0.02, keep_range=(1.0, 40.0), aggregate="const", length=3000
)
EVOL_RL = Objective(clip_high=0.28, kl=0.001, entropy=0.003)
NFT = Objective(surrogate="nft")
HBPO = Objective(aggregate="seq_mean_token_mean")
# with a critic: an optimiser step is normalised as a whole
POAD = NTPO = TWOSOME = Objective(normalise="minibatch", entropy=1e-4)
MARFT_A = MARFT_T = Objective(normalise="minibatch", entropy=0.01)
ARCHER = Objective(surrogate="pg", ratio="none", aggregate="seq_mean_token_sum")
LOOP = Objective(surrogate="log_sym", clip_high=0.1, aggregate="seq_mean_token_mean")
SPA = GATED = OPRL = VERPO = CLIP_DELTA = GIGPO = Objective()
FLOW_GRPO = Objective(clip_high=0.3, kl=0.001)
DPO = Preference("dpo")
IPO = Preference("ipo")
SPPO = Preference("sppo", beta=0.001)
TGDPO = Preference("dpo")
KTO = Preference("kto")

CHOICES: dict[str, Choice] = {
    "reinforce": Choice("Williams 1992", REINFORCE, baseline="none"),
    "rloo": Choice("arXiv 2402.14740", RLOO, baseline="leave one out", note="KL to the reference .05 in the reward"),
    "grpo": Choice("arXiv 2402.03300", GRPO),
    "dr_grpo": Choice(
        "arXiv 2503.20783",
        DR_GRPO,
        baseline="group mean",
        note="length = the largest number of tokens that can be sampled",
    ),
    "gpg": Choice(
        "arXiv 2504.02546",
        GPG,
        baseline="group mean, times B / attempts in groups that differ",
        note="objective only; sampled on until .6 of the attempts do",
    ),
    "dapo": Choice("arXiv 2503.14476", DAPO, reward="outcome + overlong penalty", note="dynamic sampling"),
    "gspo": Choice("arXiv 2507.18071", GSPO, note="our system clips at .03 / .04"),
    "gmpo": Choice("arXiv 2507.20673", GMPO, note="objective only"),
    "cispo": Choice("arXiv 2506.13585", CISPO, note="objective only; clip range of PPO"),
    "sapo": Choice("arXiv 2511.20347", SAPO, note="objective only"),
    "opmd": Choice("arXiv 2505.17826", OPMD, baseline="group mean, or log-mean-exp", note="tolerates stale data"),
    "asymre": Choice("arXiv 2506.20520", ASYMRE, baseline="group mean - .1", note="tolerates stale data"),
    "clip_cov": Choice("arXiv 2505.22617", CLIP_COV, note="some released scripts clip at 1 / 1"),
    "kl_cov": Choice("arXiv 2505.22617", KL_COV, note="share of the scripts; default of the code 2e-4"),
    "high_entropy": Choice("arXiv 2506.01939", HIGH_ENTROPY, note="objective only; on top of DAPO"),
    "aepo": Choice(
        "arXiv 2510.14545", AEPO, spread="times 1 + .2 z(entropy)", note="branches within a budget of samples"
    ),
    "hapo": Choice(
        "arXiv 2509.16591",
        HAPO,
        baseline="token mean / token std",
        spread="times 1 + h, by entropy and ratio",
        note="temperature follows entropy",
    ),
    "spear": Choice(
        "arXiv 2509.22601",
        SPEAR,
        reward="outcome + tool bonus",
        baseline="group mean",
        note="filters; self-imitation is spear_replay",
    ),
    "spear_replay": Choice(
        "arXiv 2509.22601",
        SPEAR_REPLAY,
        baseline="median of recent group means",
        note="replayed successes, weight rises over 200 steps",
    ),
    "evol_rl": Choice("arXiv 2509.15194", EVOL_RL, reward="majority + novelty"),
    "nft": Choice(
        "arXiv 2505.18116",
        NFT,
        reward="right or wrong",
        baseline="group mean",
        note="groups that are all alike contribute nothing",
    ),
    "hbpo": Choice(
        "arXiv 2507.15844", HBPO, reward="outcome within a length budget", baseline="budget; group mean / std"
    ),
    "poad": Choice(
        "arXiv 2405.15821",
        POAD,
        "step",
        "token",
        "critic",
        "GAE, no discount inside actions",
        "a step is discarded at KL .02; entropy .01 in VirtualHome",
    ),
    "ntpo": Choice(
        "arXiv 2405.15821",
        NTPO,
        "step",
        "token",
        "critic",
        "GAE, discount at each token",
        "a step is discarded at KL .02",
    ),
    "twosome": Choice(
        "arXiv 2401.14151", TWOSOME, "step", "action", "critic", "one for each action", "a step is discarded at KL .02"
    ),
    "marft_a": Choice(
        "arXiv 2504.16129",
        MARFT_A,
        "step, last agent",
        "agent",
        "critic",
        "GAE from agent to agent",
        "a step is discarded at KL .001",
    ),
    "marft_t": Choice("arXiv 2504.16129", MARFT_T, "step, last agent", "token", "critic", "GAE over tokens and agents"),
    "etpo": Choice("arXiv 2402.06700", None, "step", "token", "none", "soft Bellman backup", "losses in learn.soft_q"),
    "archer": Choice("arXiv 2402.19446", ARCHER, "step", "turn", "twin critics", note="replay for the critics"),
    "loop": Choice(
        "arXiv 2502.01600",
        LOOP,
        reward="share of unit tests",
        baseline="leave one out",
        note="answers with |A| < .01 are dropped",
    ),
    "spa": Choice(
        "arXiv 2505.20732",
        SPA,
        "estimated progress + grounding",
        "turn",
        "critic",
        note="weight of the KL penalty not known: none",
    ),
    "g_ra": Choice("arXiv 2508.10548", GATED, reward="outcome opens the gate to step rewards"),
    "oprl": Choice(
        "arXiv 2509.19199",
        OPRL,
        "outcome, and implicit step rewards",
        "trajectory + turn",
        "leave one out, twice",
        "added",
    ),
    "flow_grpo": Choice("arXiv 2510.05592", FLOW_GRPO, spread="broadcast to the planner's turns"),
    "verpo": Choice(
        "arXiv 2601.03525",
        VERPO,
        "weighted tests a turn, and outcome",
        "trajectory + turn",
        "group mean, twice",
        "added",
        "objective only; rule step_test_weighted",
    ),
    "refine": Choice("arXiv 2410.15115", CLIP_DELTA, "refined process", "turn", "mean"),
    "gigpo": Choice(
        "arXiv 2505.10978",
        GIGPO,
        "outcome",
        "trajectory + turns at one state",
        "group mean, twice",
        "added",
        "objective only; rule step_anchor_state",
    ),
    "dpo": Choice("arXiv 2305.18290", DPO, "preference", "pair", "the other answer"),
    "ipo": Choice("arXiv 2310.12036", IPO, "preference", "pair", "the other answer", note="dpo with --loss ipo"),
    "sppo": Choice(
        "arXiv 2405.00675", SPPO, reward="probability to win", baseline="1/2", note="repeated on its own answers"
    ),
    "tgdpo": Choice(
        "arXiv 2506.14574",
        TGDPO,
        "preference",
        "pair",
        "the other answer",
        "1 + .05 r of each token",
        "r from a model trained by DPO",
    ),
    "kto": Choice("arXiv 2402.01306", KTO, reward="wanted or not", baseline="KL to the reference"),
}
"""By name; the columns in the order of ``Choice``."""


def objective_named(name: str, options: Sequence[str] = ()) -> Loss:
    """The objective of a published system, or of a file.

    Args:
        name: one of ``CHOICES``, or ``file.py:NAME``: an object, or a function that makes it.
        options: ``key=value`` each; fields of a published one, arguments of a function.

    Raises:
        BadInput: no such objective or setting (names the closest), or what is there is none.
    """
    at, values = outside.pointer(name), values_of(options, name)
    if at is None:
        known = sorted(key for key, choice in CHOICES.items() if choice.loss is not None)
        if name not in known:
            raise BadInput("unknown objective", got=name, expected=closest(name, known), where="--objective")
        loss: Any = CHOICES[name].loss
        return from_json(type(loss), {**to_json(loss), **values})
    found: Any = outside.load(at, "an objective", ("objective",))[2]
    if callable(found):
        with outside.own_faults(str(at.file or at.home), f"the objective {name} failed"):
            found = found(**values)
    elif values:
        raise BadInput("an object takes no settings", got=" ".join(options), where=name, do="name a function")
    missing = [part for part in ("needs_reference", "together", "prepare", "idle", "terms") if not hasattr(found, part)]
    if missing:
        raise BadInput(
            "not an objective",
            got=f"{type(found).__name__} without {', '.join(missing)}",
            expected="what learn.units.Loss asks for; learn.objective.Objective(…) is one",
            where=name,
        )
    return found


def axes(loss: Objective | Preference | None) -> str:
    """A loss in words: the choices that differ from the defaults, the surrogate always."""
    if loss is None:
        return "its own"
    named = "surrogate" if isinstance(loss, Objective) else "kind"
    parts = [str(getattr(loss, named))]
    for field in fields(loss):
        value = getattr(loss, field.name)
        if field.name != named and value != field.default:
            parts.append(f"{field.name} {value:g}" if isinstance(value, float) else f"{field.name} {value}")
    return ", ".join(parts)


def table() -> list[tuple[str, ...]]:
    """Head and rows of the table paper -> choice on each axis, as text."""
    head = ("system", "paper", "reward", "unit", "baseline", "spread", "loss", "note")
    rows = [(n, c.paper, c.reward, c.unit, c.baseline, c.spread, axes(c.loss), c.note) for n, c in CHOICES.items()]
    return [head, *rows]
