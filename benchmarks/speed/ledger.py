"""How fast credit moves: the ledger against a plain dict of floats per token, in one run.

The plain ledger does the same work on a tenth of the episodes (it would need gigabytes for all); ratios compare the
same work on the same episodes, in the same process, best of ``REPEATS``.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.core.seeding import rng

EPISODES, STEPS, TOKENS_PER_STEP, PLAIN_SHARE, REPEATS = 1000, 10, 200, 10, 3


def run(seed: int = 0) -> dict[str, Any]:
    """Measure assignment and projection of 1,000 episodes × 2,000 tokens, and recall-to-settle of one memory.

    Returns:
        Ratios (plain ÷ arrays, higher is better; a dict wins by microseconds on one tiny episode) with absolute
        seconds, MB and microseconds; ``checks`` says whether both ledgers agree and whether the budget is kept
        (≤ 1 s, ≤ 200 MB, ≤ 100 µs).
    """
    episodes = [_episode(seed, i, STEPS, TOKENS_PER_STEP) for i in range(EPISODES)]
    few = episodes[: EPISODES // PLAIN_SHARE]
    generator = rng(seed, "bench", "ledger")
    tokens, steps = (
        generator.standard_normal(EPISODES * STEPS * TOKENS_PER_STEP),
        generator.standard_normal(EPISODES * STEPS),
    )
    few_tokens, few_steps = tokens[: len(tokens) // PLAIN_SHARE], steps[: len(steps) // PLAIN_SHARE]

    all_s, _ = _best(lambda: _arrays(episodes, tokens, steps))
    few_s, fast = _best(lambda: _arrays(few, few_tokens, few_steps))
    plain_s, slow = _best(lambda: _plain(few, few_tokens.tolist(), few_steps.tolist()))
    all_mb, few_mb = (
        _peak_mb(lambda: _arrays(episodes, tokens, steps)),
        _peak_mb(lambda: _arrays(few, few_tokens, few_steps)),
    )
    plain_mb = _peak_mb(lambda: _plain(few, few_tokens.tolist(), few_steps.tolist()))

    one = [_episode(seed, 0, 1, 20)]
    settle_us = _microseconds(lambda: _settle(one))
    settle_plain_us = _microseconds(lambda: _settle_plain(one))
    agree = all(np.allclose(fast[level], slow[level], rtol=1e-9, atol=1e-9) for level in slow)
    return {
        "name": "ledger",
        "seed": seed,
        "episodes": EPISODES,
        "tokens": len(tokens),
        "ratios": {
            "speed_vs_dict": plain_s / few_s,
            "memory_vs_dict": plain_mb / few_mb,
            "settle_vs_dict": settle_plain_us / settle_us,
        },
        "seconds": {"arrays_all": all_s, "arrays_share": few_s, "dict_share": plain_s},
        "peak_mb": {"arrays_all": all_mb, "arrays_share": few_mb, "dict_share": plain_mb},
        "settle_us": {"ledger": settle_us, "dict": settle_plain_us},
        "checks": {"agree": agree, "time": all_s <= 1.0, "memory": all_mb <= 200.0, "settle": settle_us <= 100.0},
    }


def _episode(seed: int, index: int, steps: int, tokens: int) -> Episode:
    generator = rng(seed, "bench", "episode", index)
    episode = Episode(f"task{index}", id=str(index))
    episode.recall("r1", ["m1", "m2", "m3"])
    for step in range(steps):
        episode.component(("plan", "write", "check")[step % 3])
        ids, logp = generator.integers(0, 50_000, tokens), -generator.exponential(size=tokens)
        episode.act("…", agent=("ann", "bob")[step % 2], token_ids=ids, logp=logp, reward=0.1)
    episode.end(terminated=True)
    return episode


def _arrays(episodes: Sequence[Episode], tokens: np.ndarray, steps: np.ndarray) -> dict[str, np.ndarray]:
    """Assign tokens and steps; project up, to memory and component, and back down. What each level held."""
    ledger = Ledger.for_episodes(episodes)
    ledger.set("token", tokens)
    ledger.set("step", steps)
    ledger.project("token", "step")
    out = {
        "agent": ledger.project("step", "agent"),
        "memory": ledger.project("step", "memory"),
        "component": ledger.project("step", "component"),
    }
    out["token"] = ledger.project("step", "token")
    return out


def _plain(episodes: Sequence[Episode], tokens: list[float], steps: list[float]) -> dict[str, list[float]]:
    """The same with one dict entry per address, as one would write it first."""
    token: dict[tuple[int, int, int], float] = {}
    step: dict[tuple[int, int], float] = {}
    values, step_values = iter(tokens), iter(steps)
    for e, episode in enumerate(episodes):
        for t, count in enumerate(episode.tokens_per_step_T.tolist()):
            step[e, t] = next(step_values)
            for k in range(count):
                token[e, t, k] = next(values)
    step = {}
    for (e, t, _), value in token.items():
        step[e, t] = step.get((e, t), 0.0) + value
    agent: dict[tuple[int, str], float] = {}
    total: dict[int, float] = {}
    who = [episode.agents_T for episode in episodes]
    for (e, t), value in step.items():
        agent[e, who[e][t]] = agent.get((e, who[e][t]), 0.0) + value
        total[e] = total.get(e, 0.0) + value
    memory: dict[tuple[int, str], float] = {}
    component: dict[tuple[int, str], float] = {}
    for e, episode in enumerate(episodes):
        for units, out in ((episode.shown_memories, memory), (episode.components, component)):
            for unit in units:
                out[e, unit] = total[e] / len(units)
    sizes: dict[tuple[int, int], int] = {}
    for e, t, _ in token:
        sizes[e, t] = sizes.get((e, t), 0) + 1
    token = {(e, t, k): step[e, t] / sizes[e, t] for e, t, k in token}
    levels: dict[str, dict[Any, float]] = {"agent": agent, "memory": memory, "component": component, "token": token}
    return {name: list(level.values()) for name, level in levels.items()}


def _settle(episodes: Sequence[Episode]) -> np.ndarray:
    ledger = Ledger.for_episodes(episodes)
    ledger.set("step", 1.0)
    return ledger.project("step", "memory")


def _settle_plain(episodes: Sequence[Episode]) -> dict[tuple[int, str], float]:
    names = [episode.shown_memories for episode in episodes]
    return {(e, name): 1.0 / len(row) for e, row in enumerate(names) for name in row}


def _best(work: Callable[[], Any]) -> tuple[float, Any]:
    """Least seconds of ``REPEATS``, and the last result."""
    best, result = float("inf"), None
    for _ in range(REPEATS):
        result = None
        gc.collect()
        start = time.perf_counter()
        result = work()
        best = min(best, time.perf_counter() - start)
    return best, result


def _peak_mb(work: Callable[[], Any]) -> float:
    gc.collect()
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


def _microseconds(work: Callable[[], Any], calls: int = 500) -> float:
    best = float("inf")
    for _ in range(REPEATS):
        start = time.perf_counter()
        for _ in range(calls):
            work()
        best = min(best, time.perf_counter() - start)
    return best / calls * 1e6
