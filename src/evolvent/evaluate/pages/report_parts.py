"""What the reports of all kinds of runs have: head, score beside its baseline, configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evolvent.core.config import flat
from evolvent.evaluate.live import cell_text, duration, interval, percent
from evolvent.evaluate.pages.page import fold, table, text, tiles
from evolvent.evaluate.verdict import RANKED, Verdict, seeds_of

_BODY_LIMIT = 2000
_FILES = ("config.json", "metrics.jsonl", "episodes.jsonl", "summary.json", "credit.json", "credit.html", "trees.jsonl")
_ARXIV = re.compile(r"arXiv[ :](\d{4}\.\d{4,5})")
_HEALTH = {
    "items": "memories",
    "coverage": "memories with an outcome",
    "nonzero": "memories with a value that moved",
    "updates_per_item": "outcomes a memory",
    "test_recalls": "recalls in evaluations",
    "empty_recalls": "recalls that found nothing",
    "settled": "recalls with an outcome",
    "merged": "written again",
    "gate": "least similarity for a recall",
    "gate_top_fifth": "similarity of the closest fifth of all pairs",
}
_SHARES = ("coverage", "nonzero")


def head(manifest: Mapping[str, Any], summary: Mapping[str, Any], facts: Sequence[str], top: str = "") -> str:
    """Title, what the run came to, what it was in one line, its command.

    Args:
        manifest: content of ``config.json``.
        summary: content of ``summary.json``; empty for a run that has not ended.
        facts: what to say before the duration and the date; empty ones are left out.
        top: HTML below the title: verdict and links.
    """
    facts = list(facts)
    seconds = summary.get("seconds")
    if seconds is not None:
        facts.append(duration(seconds))
    if summary.get("tokens"):
        facts.append(f"{summary['tokens']:,} tokens")
    facts.append(str(manifest.get("started", ""))[:10])
    state = "" if summary else '<p class="bad tag">This run has not ended; the page shows what there is so far.</p>'
    line = " · ".join(text(fact) for fact in facts if fact)
    command = f'<p class="small"><code>{text(manifest.get("command", ""))}</code></p>'
    return f'<header><h1>{text(title(manifest))}</h1>{state}{top}<p class="soft">{line}</p>{command}</header>'


def verdict_block(verdict: Verdict) -> str:
    """What a run came to in a sentence, the numbers behind it, and what to try next, with a command to copy."""
    lines = "".join(f"<li>{text(line)}</li>" for line in verdict.lines())
    numbers = f'<ul class="small">{lines}</ul>' if lines else ""
    advice = f"Next: {verdict.advice}" if verdict.advice else "To go on:" if verdict.command else ""
    command = f'<code class="copy">{text(verdict.command)}</code>' if verdict.command else ""
    after = f'<p class="small">{text(advice)} {command}</p>' if advice else ""
    said = f"<p><b>{text(verdict.sentence)}</b> {text(verdict.note)}</p>"
    return f'<div class="verdict {verdict.state}">{said}{numbers}{after}</div>'


def links(folder: Path, manifest: Mapping[str, Any]) -> str:
    """Ways on from the page: the files of the run, its paper, the runs beside it."""
    found = [(name, name) for name in _FILES if (folder / name).exists()]
    found += [("other runs", "../runs.html" if (folder.parent / "runs.html").exists() else "../")]
    found += [("comparison", "../compare.html")] if (folder.parent / "compare.html").exists() else []
    paper = _ARXIV.search(str(manifest.get("paper", "")))
    found += [(paper[0], f"https://arxiv.org/abs/{paper[1]}")] if paper else []
    items = "".join(f'<a href="{text(where)}">{text(name)}</a>' for name, where in found)
    return f'<nav class="links small" aria-label="this run">{items}</nav>'


def title(manifest: Mapping[str, Any]) -> str:
    """Algorithm and environment."""
    return f"{manifest['algo']} on {manifest['env']}"


def figure(score: Mapping[str, Any], *, rates: bool, minor: bool = False) -> str:
    """A score in large figures with its name and interval."""
    number, _, ends = interval(score["value"], score.get("ci95"), rate=rates).partition(" [")
    below = f"{score['name']}{', 95 % interval [' + ends if ends else ''}"
    kind = "figure minor" if minor else "figure"
    return f'<div class="{kind}"><b>{text(number)}</b><span class="soft small">{text(below)}</span></div>'


def configuration(manifest: Mapping[str, Any]) -> str:
    """Every field, and with which command, code, machine and versions the run was made."""
    commit = manifest.get("commit")
    about: list[list[object]] = [["command", manifest.get("command", "")]]
    about.append(["commit", f"{commit['id']}{' with local changes' if commit['dirty'] else ''}" if commit else None])
    about += [[name, value] for name, value in manifest.get("machine", {}).items()]
    about += [[name, value] for name, value in manifest.get("versions", {}).items()]
    fields = [[name, value if value != "" else None] for name, value in flat(manifest["config"]).items()]
    return fold("Every field", table(["field", "value"], fields, left=(0, 1))) + fold(
        "Command, code, machine, versions", table(["what", "value"], about, left=(0, 1))
    )


def foot(manifest: Mapping[str, Any], words: str) -> str:
    """How to read the numbers (``words`` is HTML of this package), and what made the page."""
    version = manifest.get("versions", {}).get("evolvent", "")
    more = "One seed says little: <code>evolvent run … --seeds 0 1 2 3 4</code> says more."
    return (
        f"<footer><p>{words} {'' if len(seeds_of(manifest)) > 1 else more}</p>"
        f"<p>Made by evolvent {text(version)} from the files beside this page.</p></footer>"
    )


def most_valuable(summary: Mapping[str, Any]) -> str:
    """The memories that earned most."""
    listed = _memories(summary.get("top_memories") or (), "memory")
    return listed and f'<p class="small soft">By value; where there were few outcomes, it counts less.</p>{listed}'


def least_valuable(summary: Mapping[str, Any]) -> str:
    """The memories that earned least, of those with outcomes enough to say so."""
    listed = summary.get("worst_memories") or ()
    return _memories([row for row in listed if row.get("n", RANKED) >= RANKED], "memory worst")


def _memories(listed: Sequence[Mapping[str, Any]], kind: str) -> str:
    """Memories with their key, body, numbers and what earned them their value."""
    out: list[str] = []
    for memory in listed:
        numbers = [
            f"{label} {cell_text(memory[name])}".strip()
            for name, label in (("value", "value"), ("adds", ""), ("n", "settled"))
            if memory.get(name) not in (None, "")
        ]
        out.append(
            f'<div class="{kind}"><div class="q">{text(memory.get("key", ""))}</div>'
            f"<pre>{text(str(memory.get('body', ''))[:_BODY_LIMIT])}</pre>"
            f'<p class="small soft">{text(memory.get("id", ""))} · {text(" · ".join(numbers))}</p>'
            f'<p class="small">{text(memory.get("why", ""))}</p></div>'
        )
    return "".join(out)


def memory_health(summary: Mapping[str, Any]) -> str:
    """The numbers of a store."""
    health: Mapping[str, Any] = summary.get("health") or {}
    plain = {name: value for name, value in health.items() if value is not None and not isinstance(value, dict | list)}
    return tiles(dict(health_words(name, value) for name, value in plain.items()))


def health_words(name: str, value: object) -> tuple[str, object]:
    """What a number of a store is, in words, and how to write it: shares in per cent."""
    said = percent(value) if name in _SHARES and isinstance(value, int | float) else value
    if name == "gate" and value == -1.0:  # the least that a cosine can be
        said = "none"
    return _HEALTH.get(name, name.replace("_", " ")), said
