"""Shared by rules for tokens and for agents in turn: values before each token or decision, and GAE over them.

Values come from ``episode.notes["value"]``, one number for every sampled token: the critic's value of the prefix
*before* the token. After an attempt that ended by the task's rules nothing follows and the value is 0; after one that
was cut off it is ``episode.final_value``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.ledger import Ledger
from evolvent.credit._group import valid_rows
from evolvent.formulas.returns import gae

Critic = Callable[[Episode], ArrayLike]


@dataclass(frozen=True)
class Gae:
    """Settings of GAE over the units (tokens or decisions) of an attempt."""

    critic: Critic | None = None
    """Values before each unit ``[N]``, or ``[N + 1]`` with the one after the last; ``None`` = as recorded."""
    gamma: float = 0.99
    """Discount factor γ per step; where a rule tells tokens or agents of a turn apart, per action or turn."""
    gae_lambda: float = 0.95
    """λ of GAE from unit to unit: 1 = rewards only (Monte Carlo), 0 = one-step TD error of the critic."""


def noted(episode: Episode, name: str, where: str) -> np.ndarray:
    """What was noted under ``name`` for every sampled token: float64 ``[K]``, all of it known."""
    notes = episode.notes
    if name not in notes or np.isnan(notes[name]).any():
        raise BadInput(
            f"no {name!r} for every token",
            got=sorted(notes) if name not in notes else "NaN among them",
            expected=f"episode.note({name!r}, [{episode.n_tokens}])",
            where=f"{where}, episode {episode.id}",
            do="take a run of an algorithm that notes it (values: one with a critic), or a rule that needs none",
        )
    return notes[name].astype(np.float64)


def first_tokens(episode: Episode, where: str) -> np.ndarray:
    """Index of the first token of each decision: ``[T]``."""
    size_T = episode.tokens_per_step_T
    if not size_T.all():
        raise BadInput(
            "a decision has no tokens",
            got=f"decision {int(np.argmin(size_T))}",
            where=f"{where}, episode {episode.id}",
            do="record act(token_ids=…) as sampled, or use a rule for steps",
        )
    return np.cumsum(size_T) - size_T


def last_tokens(episode: Episode, where: str) -> np.ndarray:
    """Which tokens end their decision: bool ``[K]``."""
    out = np.zeros(episode.n_tokens, np.bool_)
    out[np.append(first_tokens(episode, where)[1:], episode.n_tokens)[: episode.n_steps] - 1] = True
    return out


def token_rewards(episode: Episode, where: str) -> np.ndarray:
    """Rewards on the last token of each decision: float64 ``[K]``."""
    out = np.zeros(episode.n_tokens)
    out[last_tokens(episode, where)] = episode.rewards_T
    return out


def is_cut(episode: Episode) -> bool:
    """The attempt was stopped by a limit, not by the task's rules: something would have followed."""
    return episode.truncated and not episode.terminated


def final_value(episode: Episode, where: str) -> float:
    """What stands in for all that follows the record: 0, or ``final_value`` of an attempt that was cut."""
    if not is_cut(episode):
        return 0.0
    value = episode.final_value
    if value is None or not np.isfinite(value):
        raise BadInput(
            "a truncated episode needs the value of its last observation",
            got=value,
            expected="a number in Episode.final_value",
            where=f"{where}, episode {episode.id}",
        )
    return float(value)


def token_values(episode: Episode, critic: Critic | None, where: str) -> np.ndarray:
    """Value before each token and, last, after the record: float64 ``[K + 1]``."""
    if critic is None:
        return np.append(noted(episode, "value", where), final_value(episode, where))
    return _given(episode, critic, episode.n_tokens, where)


def decision_values(episode: Episode, critic: Critic | None, where: str) -> np.ndarray:
    """Value before each decision (the note at its first token) and, last, after the record: float64 ``[T + 1]``."""
    if critic is not None:
        return _given(episode, critic, episode.n_steps, where)
    if "value" not in episode.notes:
        raise BadInput(
            f"{where.removeprefix('credit.')} needs a critic",
            expected='Config(critic=function from an episode to values [T]), or episode.note("value", …)',
            where=where,
            do="give one, or use step_return_to_go",
        )
    value_K = noted(episode, "value", where)
    return np.append(value_K[first_tokens(episode, where)], final_value(episode, where))


def _given(episode: Episode, critic: Critic, n: int, where: str) -> np.ndarray:
    value = np.asarray(critic(episode), dtype=np.float64)
    if value.shape not in ((n,), (n + 1,)) or not np.isfinite(value).all():
        raise BadInput(
            "the critic's values do not fit the episode",
            got=value.shape,
            expected=f"({n},) or ({n + 1},), finite",
            where=f"{where}, episode {episode.id}",
        )
    after = float(value[n]) if len(value) > n and is_cut(episode) else final_value(episode, where)
    return np.append(value[:n], after)


def gae_ledger(
    episodes: Sequence[Episode],
    level: str,
    config: Gae,
    where: str,
    *,
    rewards: Callable[[Episode], np.ndarray] | None = None,
    discounts: Callable[[Episode], tuple[ArrayLike, ArrayLike]] | None = None,
) -> Ledger:
    """GAE over the units ("token" or "step") of every valid episode; plus its value it is the critic's target.

    A rule may have its own rewards ``[N]`` of an episode with N units (else those of its decisions, on their last
    tokens), and its own discount and λ from each unit to the next (else those of ``config``). ``where`` is the rule in
    errors.
    """
    tokens = level == "token"
    ledger = Ledger.for_episodes(episodes)
    spans, adv, value_N = units_of(ledger, level), *(np.full(ledger.size(level), np.nan) for _ in range(2))
    for i in valid_rows(episodes):
        e = episodes[i]
        value = token_values(e, config.critic, where) if tokens else decision_values(e, config.critic, where)
        gamma, gae_lambda = (config.gamma, config.gae_lambda) if discounts is None else discounts(e)
        reward = rewards(e) if rewards is not None else token_rewards(e, where) if tokens else e.rewards_T
        # the value after the record is 0 or a bootstrap already, and nothing follows it
        adv[spans[i]] = gae(reward, value[:-1], value[1:], gamma=gamma, gae_lambda=gae_lambda)
        value_N[spans[i]] = value[:-1]
    ledger.set(level, adv)
    ledger.targets[level] = adv + value_N
    return ledger


def units_of(ledger: Ledger, level: str) -> list[slice]:
    """Where the units of each episode stand at ``level``."""
    # one search for all: a search for one episode converts the whole index to a wider type
    starts: list[int] = np.searchsorted(ledger.episode_index(level), np.arange(len(ledger.episodes) + 1)).tolist()
    return [slice(a, b) for a, b in pairwise(starts)]


def spread_steps(episodes: Sequence[Episode], base: Callable[[Sequence[Episode]], Ledger]) -> tuple[Ledger, np.ndarray]:
    """An empty ledger, and for every token the credit that ``base`` gives its step: ``[K]``, NaN = not scored."""
    ledger = Ledger.for_episodes(episodes)
    return ledger, base(episodes).values("step")[ledger.parent_index("token", "step")]


def pooled(ledger: Ledger, name: str, where: str) -> tuple[np.ndarray, np.ndarray]:
    """Positions of all tokens of valid episodes and what was noted for them under ``name``: int and float64 ``[M]``."""
    return _pooled(ledger, lambda e: noted(e, name, where))


def sampled_logp(ledger: Ledger, where: str) -> tuple[np.ndarray, np.ndarray]:
    """Positions of all tokens of valid episodes and their log-probabilities as sampled, all of them known ``[M]``."""

    def known(episode: Episode) -> np.ndarray:
        logp = episode.logp.astype(np.float64)
        if np.isnan(logp).any():
            raise BadInput(
                "log-probabilities were not recorded",
                got="NaN",
                expected="act(logp=…) as sampled",
                where=f"{where}, episode {episode.id}",
            )
        return logp

    return _pooled(ledger, known)


def _pooled(ledger: Ledger, column: Callable[[Episode], np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    valid = np.array([e.valid for e in ledger.episodes], dtype=np.bool_)
    rows = np.flatnonzero(valid[ledger.episode_index("token")])
    return rows, np.concatenate([np.zeros(0), *(column(e) for e in ledger.episodes if e.valid and e.n_tokens)])


def turn_ends(episode: Episode, where: str) -> np.ndarray:
    """Which decisions are the last of their turn: bool ``[T]``; the last of the record always is.

    A turn is over before an agent decides again that has decided in it already. Where an agent may decide twice in a
    turn, or may be absent from one, that rule cannot tell, and ``episode.turn_T`` says it, ascending.
    """
    turn_T = episode.turn_T
    if (turn_T >= 0).any():
        if (turn_T < 0).any() or (np.diff(turn_T) < 0).any():
            raise BadInput(
                "the turns of the decisions do not ascend",
                got=turn_T.tolist(),
                expected="0, 0, 1, … for every one",
                where=f"{where}, episode {episode.id}",
                do="set Episode.turn before each act()",
            )
    else:
        seen: set[str] = set()
        turn, turns = 0, list[int]()
        for agent in episode.agents_T:
            if agent in seen:
                seen.clear()
                turn += 1
            seen.add(agent)
            turns.append(turn)
        turn_T = np.array(turns, dtype=np.int64)
    return np.append(np.diff(turn_T) > 0, np.ones(min(1, episode.n_steps), np.bool_))
