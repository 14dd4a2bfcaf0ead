"""Output of a language run: metrics, live progress, sample attempts, the page of credit."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

from evolvent.core.branches import trees_of
from evolvent.core.episode import Episode
from evolvent.core.folder import RunFolder
from evolvent.core.jsonfile import dump, write_atomic
from evolvent.core.ledger import Ledger
from evolvent.core.seeding import rng
from evolvent.evaluate.live import Live, judged_on, percent
from evolvent.runs.copies import Played
from evolvent.runs.language.credit import Decode, Discounted, Rule, credit_page, differ, standard_rules
from evolvent.runs.language.evaluation import summarise
from evolvent.runs.shell import Phase

SHOWN = ("observation", "action")
HEALTH = {"flat_mean": "flat groups", "entropy": "entropy", "kl_ref": "KL"}


def update_row(episodes: Sequence[Episode], played: Played, seconds: Mapping[Phase, float]) -> dict[str, Any]:
    """The columns of an update, named as in runs of teams so that reports and comparisons read both; ``played`` is what
    became of all attempts that were begun.
    """
    metrics = summarise(episodes)
    sampled = sampled_tokens(episodes)
    begun = len(played.episodes) + len(played.broken)
    row = {"return": metrics["value"], "attempts": len(episodes), "broken": len(played.broken)}
    row |= {"broken_mean": len(played.broken) / begun} if begun else {}  # recorded attempts: none was begun
    row |= {name: metrics[name] for name in metrics if name.endswith("_mean")}
    act_s, learn_s = seconds["act"], seconds["learn"]  # recorded attempts: none was acted
    row |= {"sampled_tokens": sampled, "sampled_per_s": round(sampled / act_s, 1) if act_s else 0.0}
    return row | {"trained_per_s": round(sampled / learn_s, 1) if learn_s else 0.0}


def sampled_tokens(episodes: Sequence[Episode]) -> int:
    """Tokens that the model sampled for these attempts; what several of them share counts once."""
    return sum(tree.n_tokens for tree in trees_of(episodes))


def facts(row: Mapping[str, Any]) -> list[str]:
    """Of the live line, the most important first."""
    return [
        f"return {_number(row['return'])}",
        f"success {percent(row['success_mean'])}",
        *([f"{row['broken']} attempts broke"] if row.get("broken") else []),
        *([f"{row['search_tokens']:,.0f} tokens, {row['states']:,.0f} states a task"] if row.get("states") else []),
        *(f"{word} {row[name]:.2g}" for name, word in HEALTH.items() if row.get(name) is not None),
        f"{row['sampled_per_s']:,.0f} tokens/s sampled",
        f"{row['trained_per_s']:,.0f} trained",
    ]


def described(result: Mapping[str, Any]) -> str:
    """An evaluation as text."""
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


class Shown:
    """What a reader sees of the attempts: ``most`` of every update, all of the last, the credit of some, one a minute
    live.
    """

    def __init__(self, folder: RunFolder, live: Live, most: int, seed: int) -> None:
        self._folder, self._live, self._most, self._seed = folder, live, most, seed
        self._last: list[Episode] = []
        self._telling: tuple[int, list[Episode], Ledger] | None = None
        self._sampled_at = time.monotonic()

    def add(self, update: int, episodes: Sequence[Episode], ledger: Ledger) -> None:
        """The attempts of an update and their credit."""
        self._last = list(episodes)
        if self._telling is None or differ(episodes):
            self._telling = (update, self._last, ledger)
        for episode in trees_of(episodes[: self._most]):
            self._folder.episode(episode)
        if episodes and time.monotonic() - self._sampled_at > 60.0:
            self._sampled_at = time.monotonic()
            self._live.note(sample(episodes[int(rng(self._seed, "sample", update).integers(len(episodes)))]))

    def finish(self, rule: Rule, decode: Decode) -> None:
        """All attempts of the last update; some of the newest one in which attempts differed, with their credit."""
        trees, first = trees_of(self._last), trees_of(self._last[: self._most])
        for episode in trees[len(first) :]:  # in order of their first attempts: those of the first stand first
            self._folder.episode(episode)
        if self._telling is not None:
            update, episodes, ledger = self._telling
            others = standard_rules(episodes, rule.config if isinstance(rule.config, Discounted) else None)
            page = credit_page(episodes, ledger, rule, others, decode, update)
            write_atomic(self._folder.path / "credit.json", dump(page) + "\n")
