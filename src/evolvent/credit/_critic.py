"""What rules with a critic share: its values before and after each step of an episode.

Without a function they are those noted while sampling: ``episode.notes["value"]`` at the first token of each step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.ledger import Ledger
from evolvent.credit._group import valid_rows
from evolvent.credit._tokens import decision_values, units_of
from evolvent.formulas.returns import gae


def values_around(
    episode: Episode, critic: Callable[[Episode], ArrayLike] | None, where: str
) -> tuple[np.ndarray, np.ndarray]:
    """Value before and after each step, ``[T]`` each; 0 after the last step of an attempt that really ended.

    Raises:
        BadInput: no critic, values that do not fit, or a truncated episode without the value of its last observation.
    """
    if critic is None and "value" in episode.notes:
        noted_T = decision_values(episode, None, where)
        return noted_T[:-1], noted_T[1:]
    if critic is None:
        raise BadInput(
            f"{where.removeprefix('credit.')} needs a critic",
            expected='Config(critic=function from an episode to values [T]), or episode.note("value", …)', where=where,
            do="give one, or use step_return_to_go",
        )  # fmt: skip
    v = np.asarray(critic(episode), dtype=np.float64)
    if v.shape not in ((episode.n_steps,), (episode.n_steps + 1,)) or (episode.truncated and len(v) == episode.n_steps):
        raise BadInput(
            "the critic's values do not fit the episode",
            got=v.shape,
            expected=f"({episode.n_steps + 1},)" + ("" if episode.truncated else f" or ({episode.n_steps},)"),
            where=f"{where}, episode {episode.id}",
            do="a truncated episode also needs the value of its last observation",
        )
    return v[: episode.n_steps], np.append(v, 0.0)[1 : episode.n_steps + 1]


def critic_gae(
    episodes: Sequence[Episode],
    rewards: Callable[[Episode], np.ndarray],
    critic: Callable[[Episode], ArrayLike] | None,
    where: str,
    *,
    gamma: float,
    gae_lambda: float,
) -> Ledger:
    """Generalised advantages of every step for the rewards given, and the targets; errors as ``values_around``."""
    rows = valid_rows(episodes)
    around = {i: values_around(episodes[i], critic, where) for i in rows}

    def advantage(i: int) -> np.ndarray:
        (value, after), cut = around[i], episodes[i].truncated
        ends = np.arange(len(value)) == len(value) - 1
        ended = {"terminated_T": ends & (not cut), "truncated_T": ends & cut}
        return gae(rewards(episodes[i]), value, after, gamma=gamma, gae_lambda=gae_lambda, **ended)

    ledger = Ledger.for_episodes(episodes)
    spans, adv, value_N = units_of(ledger, "step"), *(np.full(ledger.size("step"), np.nan) for _ in range(2))
    for i in rows:
        adv[spans[i]], value_N[spans[i]] = advantage(i), around[i][0]
    ledger.set("step", adv)
    ledger.targets["step"] = adv + value_N
    return ledger
