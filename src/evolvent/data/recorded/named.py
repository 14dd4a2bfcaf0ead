"""Recorded data that have a name instead of a folder: drawn from a behaviour of known quality, the same every time.

``bandit:p=0.1``: the better of two arms (``envs.team.bandit``) is taken with probability p. ``frozen_lake:best=0.5``:
FrozenLake on slippery ice, where each attempt is played by a policy of its own quality: the best move with probability
q, any move otherwise, q drawn from 0 to ``best``. Both are testbeds of Dichotomy of Control (Yang et al. 2022, arXiv
2210.13435), where what came of an attempt is mostly luck.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextlib import closing

import numpy as np

from evolvent import envs
from evolvent.core.errors import BadInput, closest
from evolvent.core.seeding import rng, seed_tree
from evolvent.core.team import TeamEnv
from evolvent.data.recorded.episodes import Attempt, Recorded

_COPIES = 50
Play = Callable[[np.ndarray, np.ndarray, np.random.Generator], np.ndarray]
"""(what B copies see ``[B, D]``, the quality of each one's attempt ``[B]``, random stream) → choices ``[B]``."""


def bandit(p: float = 0.5, attempts: int = 1_000, seed: int = 0) -> Recorded:
    """Pulls of ``bandit``; the better arm with probability ``p``."""
    if not 0.0 <= p <= 1.0:
        raise BadInput("no probability", got=p, expected="0 to 1", where="--data bandit:p=")

    def play(obs_BD: np.ndarray, quality_B: np.ndarray, random: np.random.Generator) -> np.ndarray:
        return (random.random(len(obs_BD)) >= p).astype(np.int64)

    return _recorded("bandit", play, 1.0, attempts, seed, f"the better arm with probability {p:g}")


def frozen_lake(best: float = 1.0, attempts: int = 1_000, seed: int = 0) -> Recorded:
    """Attempts in ``gymnasium:FrozenLake-v1``, by policies that make the best move with probability 0 to ``best``."""
    if not 0.0 <= best <= 1.0:
        raise BadInput("no probability", got=best, expected="0 to 1", where="--data frozen_lake:best=")
    move_S = best_moves()

    def play(obs_BD: np.ndarray, quality_B: np.ndarray, random: np.random.Generator) -> np.ndarray:
        any_B = random.integers(0, 4, len(obs_BD))
        return np.where(random.random(len(obs_BD)) < quality_B, move_S[obs_BD.argmax(1)], any_B)

    made = f"the best move with probability q, any move otherwise; q from 0 to {best:g}, one an attempt"
    return _recorded("gymnasium:FrozenLake-v1", play, best, attempts, seed, made)


NAMED: dict[str, Callable[..., Recorded]] = {"bandit": bandit, "frozen_lake": frozen_lake}


def named(spec: str) -> Recorded | None:
    """The data of that name and options, ``NAME:key=value,…``; ``None`` where no data have that name.

    Raises:
        BadInput: an option that there is not, or no number.
    """
    name, _, options = spec.partition(":")
    if name not in NAMED:
        return None
    known = inspect.signature(NAMED[name]).parameters
    given: dict[str, float | int] = {}
    for word in filter(None, options.split(",")):
        key, _, value = word.partition("=")
        if key not in known:
            raise BadInput("unknown option", got=key, expected=closest(key, known), where=f"--data {spec}")
        try:
            given[key] = type(known[key].default)(value)
        except ValueError as error:
            raise BadInput("no number", got=value, where=f"--data {spec}, {key}") from error
    return NAMED[name](**given)


@functools.lru_cache(maxsize=1)
def best_moves() -> np.ndarray:
    """The best move in each of the 16 fields of the slippery lake (value iteration, discount .999), int64 ``[16]``."""
    import gymnasium

    table = gymnasium.make("FrozenLake-v1").unwrapped.P  # type: ignore[attr-defined]
    value_S, q_SN = np.zeros(len(table)), np.zeros((len(table), 4))
    for _ in range(2_000):
        for s, moves in table.items():
            for n, falls in moves.items():
                q_SN[s, n] = sum(chance * (pay + 0.999 * value_S[t] * (not over)) for chance, t, pay, over in falls)
        value_S = q_SN.max(1)
    return q_SN.argmax(1)


def _recorded(name: str, play: Play, best: float, attempts: int, seed: int, made_by: str) -> Recorded:
    with closing(envs.load_team(name, min(_COPIES, attempts))) as env:
        reset = seed_tree(seed, "recorded", name)
        kept = _played(env, play, best, attempts, reset, rng(seed, "recorded", name, "play"))
        return Recorded(name, env.team, tuple(kept[:attempts]), made_by, seeds=(reset,))


def _played(
    env: TeamEnv, play: Play, best: float, attempts: int, seed: int, random: np.random.Generator
) -> list[Attempt]:
    """Whole attempts, the same number of each copy so that short ones are not more frequent."""
    each, copies = -(-attempts // env.n_envs), range(env.n_envs)
    quality_B = random.uniform(0.0, best, env.n_envs)
    obs_B = [[row.copy()] for row in env.reset(seed).obs_BAD]
    done_B: list[list[tuple[int, float]]] = [[] for _ in copies]
    kept_B: list[list[Attempt]] = [[] for _ in copies]
    while min(map(len, kept_B)) < each:
        action_B = play(np.stack([rows[-1][0] for rows in obs_B]), quality_B, random)
        frame = env.step(action_B[:, None])
        for b in copies:
            done_B[b].append((int(action_B[b]), float(frame.reward_BA[b, 0])))
            if not frame.done_B[b]:
                obs_B[b].append(frame.obs_BAD[b].copy())
                continue
            assert frame.final_obs_BAD is not None
            seen, (action, reward) = np.stack([*obs_B[b], frame.final_obs_BAD[b]]), zip(*done_B[b], strict=True)
            pay = np.array(reward, np.float32)[:, None]
            kept_B[b].append(Attempt(seen, np.array(action)[:, None], pay, bool(frame.terminated_B[b])))
            obs_B[b], done_B[b], quality_B[b] = [frame.obs_BAD[b].copy()], [], random.uniform(0.0, best)
    return [attempt for row in zip(*(kept[:each] for kept in kept_B), strict=True) for attempt in row]
