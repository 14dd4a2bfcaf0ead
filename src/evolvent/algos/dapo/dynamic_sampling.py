"""Dynamic sampling: draw tasks until there are enough groups whose attempts differ (DAPO, arXiv 2503.14476)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evolvent.core.episode import Episode
from evolvent.formulas.curricula import teaching
from evolvent.runs.language.run import LanguageRun


def collect_differing(run: LanguageRun, draws: int) -> tuple[list[Episode], np.ndarray, dict[str, float]]:
    """Attempts at fresh tasks until ``prompts`` groups have returns that differ, in at most ``draws`` draws.

    Args:
        run: draws as many tasks at a time as groups are missing.
        draws: the bound.

    Returns:
        All attempts that were made; which of them are not to be learned from, bool ``[E]`` (groups that are all alike);
        and ``draws`` and ``differing``, the number of groups that differ.
    """
    episodes: list[Episode] = []
    chosen: list[str] = []
    made = 0
    while made < draws and len(chosen) < run.config.prompts:
        missing = run.config.prompts - len(chosen)
        episodes += run.collect(again=made, which=[(n, g) for n in range(missing) for g in range(run.config.group)])
        chosen = differing(episodes)
        made += 1
    out_E = np.array([e.group not in chosen for e in episodes], dtype=np.bool_)
    return episodes, out_E, {"draws": float(made), "differing": float(len(chosen))}


def differing(episodes: Sequence[Episode]) -> list[str]:
    """Groups in which valid attempts earned differently, in order."""
    valid = [e for e in episodes if e.valid]
    teaching_N = teaching([e.total_reward for e in valid], [e.group for e in valid])
    return list(dict.fromkeys(e.group for e, teaches in zip(valid, teaching_N, strict=True) if teaches))
