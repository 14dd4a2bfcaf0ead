"""What an update of a language run has to tell: its line in the metrics, the live line, an attempt as an example."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from evolvent.core.branches import trees_of
from evolvent.core.episode import Episode
from evolvent.evaluate.live import judged_on, percent
from evolvent.runs.language.copies import Played
from evolvent.runs.language.evaluation import summarise

SHOWN = ("observation", "action")
HEALTH = {"flat_mean": "flat groups", "entropy": "entropy", "kl_ref": "KL"}


def update_row(episodes: Sequence[Episode], played: Played, seconds: Mapping[str, float]) -> dict[str, Any]:
    """The columns of an update, named as in runs of teams so that reports and comparisons read both.

    Args:
        episodes: its attempts.
        played: what became of all that were begun.
        seconds: of each part of the loop.
    """
    metrics = summarise(episodes)
    sampled = sampled_tokens(episodes)
    begun = len(played.episodes) + len(played.broken)
    row = {"return": metrics["value"], "attempts": len(episodes), "broken": len(played.broken)}
    row |= {"broken_mean": len(played.broken) / begun} if begun else {}  # recorded attempts: none was begun
    row |= {name: metrics[name] for name in metrics if name.endswith("_mean")}
    row |= {f"{name}_s": round(spent, 4) for name, spent in seconds.items()}
    speed = {name: sampled / seconds[name] if seconds[name] else 0.0 for name in ("act", "learn")}  # recorded: no act
    row |= {"sampled_tokens": sampled, "sampled_per_s": round(speed["act"], 1)}
    return row | {"trained_per_s": round(speed["learn"], 1)}


def sampled_tokens(episodes: Sequence[Episode]) -> int:
    """Tokens that the model sampled for these attempts; what several of them share counts once."""
    return sum(tree.n_tokens for tree in trees_of(episodes))


def facts(row: Mapping[str, Any]) -> list[str]:
    """The live line, the most important first."""
    return [
        f"update {row['update']}", f"return {_number(row['return'])}", f"success {percent(row['success_mean'])}",
        *([f"{row['broken']} attempts broke"] if row.get("broken") else []),
        *(f"{word} {row[name]:.2g}" for name, word in HEALTH.items() if row.get(name) is not None),
        f"{row['sampled_per_s']:,.0f} tokens/s sampled", f"{row['trained_per_s']:,.0f} trained",
    ]  # fmt: skip


def in_words(result: Mapping[str, Any]) -> str:
    """An evaluation in words."""
    low, high = result["ci95"]
    interval = f"[{_number(low)}, {_number(high)}]"
    said = f"return {_number(result['value'])} {interval}, success {percent(result['success_mean'])}"
    return f"{said}, {judged_on(result)}" if result.get("tasks") != result.get("n") else said


def sample(episode: Episode) -> str:
    """An attempt in one line: its last situation or the end of its conversation, the answer, what it earned."""
    nodes = list(episode.nodes)
    act = max((node.index for node in nodes if node.step is not None), default=-1)
    path = [nodes[i] for i in episode.branch(act)] if act >= 0 else []
    shown = [n.text[-160:] if n.kind == "observation" else n.text[:160] for n in path if n.kind in SHOWN]
    return f"e.g. {' -> '.join(map(repr, shown[-4:]))}, return {episode.total_reward:g}"


def _number(value: float | None) -> str:
    return "–" if value is None or math.isnan(value) else f"{value:.3g}"
