"""Weighted tests: a turn earns for the tests it passes; hard and distinctive tests count more.

Paper: VeRPO (arXiv 2601.03525), dense verifiable rewards for code in several turns.

    w_j = exp(-alpha rho_j) / (sum_k exp(-(rho_j - rho_k)² / 2 width²) + eps)         rho_j: share that passes test j
    R^turn_t = sum_j w_j pass_{t,j}          R^traj = R gamma^T
    A_t = (R^traj - mean R^traj) + beta (R^turn_t - mean R^turn)                      no division by std

Turns carry their tests as kinds of reward named ``test:…``, 1 where passed (``core.reward_kinds``); all attempts of a
group the same ones. Biased against the return as far as tests are not what it pays for, and because gamma^T is paid for
ending early (cosine 0.84 to 0.98 in the exact test, where tests are arbitrary); with ``beta = 0, gamma = 1`` it is
``step_group_mean``. An attempt without others is compared with itself.

Deviations: alpha, width, beta and gamma were not readable, the defaults are ours. ``rho_j`` is the share of *attempts*
whose last turn passes, and the mean turn reward is over attempts of their mean turn: no attempt counts more for its
length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.ledger import Ledger
from evolvent.core.reward_kinds import reward_kinds, rewards_of
from evolvent.credit._group import labels, totals, valid_rows
from evolvent.credit._turns import by_turn, turns_to_ledger
from evolvent.formulas.baselines import group_mean
from evolvent.formulas.process_rewards import weigh_tests

LEVEL = "step"
UNBIASED = False


@dataclass(frozen=True)
class Config:
    """Settings of VeRPO's advantage."""

    alpha: float = 2.0
    """How strongly hard tests (low pass rate) count more."""
    width: float = 0.1
    """Pass rates closer than this count as alike and share their weight."""
    beta: float = 0.5
    """Coefficient of the turn's own reward."""
    gamma: float = 0.9
    """Discount factor of the outcome per turn."""
    prefix: str = "test:"
    """Prefix of the kinds of reward that are tests."""


CLAIMS = ((Config(beta=0.0, gamma=1.0), "up to scale"),)


def assign(episodes: Sequence[Episode], config: Config = Config()) -> Ledger:
    """Credit of every step of the valid episodes, in units of reward.

    Raises:
        BadInput: attempts of one group without tests, or with different ones.
    """
    rows = valid_rows(episodes)
    group = labels(episodes, rows)
    members: dict[str, list[int]] = {}
    for row, label in enumerate(group):
        members.setdefault(label, []).append(row)
    dense_NT = np.zeros_like(by_turn(episodes, rows, lambda e: e.rewards_T))
    for label, own in members.items():
        _dense(dense_NT, own, [episodes[rows[row]] for row in own], label, config)
    turns = np.array([episodes[i].n_steps for i in rows], dtype=np.float64)
    outcome = totals(episodes, rows) * config.gamma**turns
    per_attempt = group_mean(dense_NT.sum(axis=1) / np.maximum(turns, 1.0), group)
    adv_NT = (outcome - group_mean(outcome, group))[:, None] + config.beta * (dense_NT - per_attempt[:, None])
    return turns_to_ledger(episodes, rows, adv_NT)


def _dense(dense_NT: np.ndarray, rows: list[int], episodes: list[Episode], group: str, config: Config) -> None:
    """Fill in the turn rewards of one group."""
    names = [sorted(k for k in reward_kinds(e) if k.startswith(config.prefix)) for e in episodes]
    if not names[0] or any(other != names[0] for other in names):
        odd = next((i for i, other in enumerate(names) if not other or other != names[0]), 0)
        raise BadInput(
            "the attempts of a group do not carry the same tests",
            got=f"{names[odd]} in episode {episodes[odd].id}",
            expected=names[0] or f"kinds named {config.prefix}…",
            where=f"credit.step_test_weighted, group {group!r}",
            do='keep_reward(episode, "test:…", [T])',
        )
    passed = [np.array([rewards_of(e, name) for name in names[0]]) for e in episodes]
    acted = [p[:, -1] for p in passed if p.shape[1]]
    if acted:
        weight_M = weigh_tests(np.mean(acted, axis=0), alpha=config.alpha, width=config.width)
        for row, passed_MT in zip(rows, passed, strict=True):
            dense_NT[row, : passed_MT.shape[1]] = weight_M @ passed_MT
