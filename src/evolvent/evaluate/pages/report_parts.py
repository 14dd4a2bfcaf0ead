"""What the reports of all kinds of runs have: head, score beside its baseline, configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evolvent.core.config import flat
from evolvent.evaluate.live import cell_text, interval
from evolvent.evaluate.pages.page import fold, table, text, tiles

_BODY_LIMIT = 2000


def head(manifest: Mapping[str, Any], summary: Mapping[str, Any], facts: Sequence[str]) -> str:
    """Title, what the run was in one line, its command, and whether it has ended.

    Args:
        manifest: content of ``config.json``.
        summary: content of ``summary.json``; empty for a run that has not ended.
        facts: what to say before the duration and the date; empty ones are left out.
    """
    facts = list(facts)
    seconds = summary.get("seconds")
    if seconds is not None:
        facts.append(f"{seconds / 60:.1f} minutes" if seconds >= 90 else f"{seconds:.0f} seconds")
    if summary.get("tokens"):
        facts.append(f"{summary['tokens']:,} tokens")
    facts.append(str(manifest.get("started", ""))[:10])
    state = "" if summary else '<p class="bad tag">This run has not ended; the page shows what there is so far.</p>'
    line = " · ".join(text(fact) for fact in facts if fact)
    command = f'<p class="small"><code>{text(manifest.get("command", ""))}</code></p>'
    return f'<header><h1>{text(title(manifest))}</h1><p class="soft">{line}</p>{command}{state}</header>'


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
    return (
        f"<footer><p>{words} One seed says little: <code>evolvent run … --seeds 0 1 2 3 4</code> and "
        "<code>evolvent compare</code> say more.</p>"
        f"<p>Made by evolvent {text(version)} from the files beside this page.</p></footer>"
    )


def memories(found: Sequence[Mapping[str, Any]], kind: str = "memory") -> str:
    """Memories with their key, body, numbers and what earned them their value."""
    out: list[str] = []
    for memory in found:
        numbers = [
            f"{label} {cell_text(memory[name])}"
            for name, label in (("value", "value"), ("lift", "lift"), ("n", "settled"))
            if memory.get(name) is not None
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
    plain = {name.replace("_", " "): value for name, value in health.items() if not isinstance(value, dict | list)}
    return tiles(plain)
