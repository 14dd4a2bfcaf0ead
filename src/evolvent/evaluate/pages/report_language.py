"""The page of a run that trains a language model: score, learning, credit of every token, health, time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evolvent.evaluate.learning import Learning, column, seconds, success_interval
from evolvent.evaluate.learning_parts import PART_WORDS, evaluations, pictures, score, small, time_split
from evolvent.evaluate.live import interval
from evolvent.evaluate.pages import credit_page, report_search
from evolvent.evaluate.pages.credit_book import CreditBook
from evolvent.evaluate.pages.page import fold, page, section, text
from evolvent.evaluate.pages.report_parts import (
    configuration,
    foot,
    head,
    least_valuable,
    memory_health,
    most_valuable,
    title,
)
from evolvent.evaluate.pages.svg import count

_HEALTH = {
    "entropy": "entropy where there is a choice, nats",
    "kl_ref": "distance from the reference, nats",
    "approx_kl": "distance moved by an update, nats",
    "clipped": "tokens clipped",
    "clip_low": "tokens clipped below",
    "clip_high": "tokens clipped above",
    "flat_mean": "groups in which all earned the same",
    "cut_mean": "answers cut off by their length",
    "broken_mean": "attempts that broke",
    "tokens_mean": "tokens of an attempt",
    "length_mean": "turns of an attempt",
    "calls_mean": "calls of tools in an attempt",
    "failed_calls_mean": "calls that came back with an error",
    "gap": "sampler and trainer differ by, nats",
    "ess": "effective sample size, share",
    "grad_norm": "norm of the gradient",
    "zero_advantage": "tokens without advantage, share",
    "memories": "memories in the store",
    "shown_mean": "memories in sight in an attempt",
}
_RATES = ("flat_mean", "cut_mean", "broken_mean", "failed_calls_mean")
_SPEEDS = {"sampled_per_s": "tokens a second, sampling", "trained_per_s": "tokens a second, training"}
_PARTS = PART_WORDS | {"act": "sampling answers", "learn": "changing weights"}
_NODES, _SEEN, _SAID, _WORST_AND_BEST = 24, 700, 1200, 2
_POINTER = re.compile(r"\s*\((docs/[\w.-]+\.md#([\w-]+))\)\s*$")
_READING = (
    "Scores are mean returns of one attempt at each held-out task, with sampled answers of several where there are few "
    "tasks; 95 % intervals are over tasks, by bootstrap, and Wilson's for success. Attempts that broke are failures "
    "with the lowest reward. Points are single updates; the line through them is a mean over neighbours on both "
    "sides: nothing is shifted."
)


def render(
    manifest: Mapping[str, Any],
    summary: Mapping[str, Any],
    run: Learning,
    top: str = "",
    *,
    credit: CreditBook | str | None = None,
    samples: Sequence[Mapping[str, Any]] = (),
    trees: Sequence[Mapping[str, Any]] = (),
) -> str:
    """The page as text.

    Args:
        manifest: content of ``config.json``.
        summary: content of ``summary.json``; empty for a run that has not ended.
        run: the lines of ``metrics.jsonl``.
        top: HTML below the title: verdict and links.
        credit: content of ``credit.json``; why it cannot be read; ``None`` where there is none.
        samples: recorded attempts with their ``step``, as in ``episodes.jsonl``.
        trees: of a run that searches, the lines of ``trees.jsonl``; shown of its first and its last update.
    """
    model = str(summary.get("model") or manifest["config"].get("model") or "")
    updates = f"{len(run.updates)} updates" if run.updates else "no update yet"
    sampled = _tokens(run)
    facts = [model, f"seed {manifest['seed']}", f"{run.last_step:,} {run.unit}", updates]
    facts += [f"{count(sampled)} tokens sampled"] if sampled else []
    broken = sum(row.get("broken") or 0 for row in run.updates)
    facts += [f"{broken:,} attempts broke and were not learned from"] if broken else []
    named = {"sampled": "answers sampled", "chance": "random play"}
    shown = credit_page.render(credit) if isinstance(credit, CreditBook) else ""
    trouble = f'<p class="bad">{text(credit)}</p>' if isinstance(credit, str) else ""
    return page(
        title(manifest),
        [
            head(manifest, summary, facts, top),
            _score(summary, run),
            _success(summary, run),
            pictures(run, trained="training, sampled", judged_as="held-out tasks, greedy", chance="random play"),
            section("Warnings", _warnings(run)),
            section("Credit of every token", shown or trouble),
            section("The most valuable memories", most_valuable(summary)),
            section("The least valuable memories", least_valuable(summary)),
            section("Trees, first and last", report_search.drawn(_first_and_last_trees(trees))),
            section("Attempts, first and last", "".join(map(_sample, samples))),
            section("Health", _numbers(run, list(_HEALTH))),
            section("Learning in numbers", _numbers(run, [name for name in run.losses() if name not in _HEALTH])),
            section("What the environment tells", _numbers(run, _told(run))),
            section("Health of the memory", memory_health(summary)),
            section("Where the time goes", _time(run)),
            section("Evaluations", evaluations(summary, run, **named)),
            section("Configuration", configuration(manifest)),
            foot(manifest, _READING),
        ],
        styles=("report.css", *(("credit.css",) if shown else ()), *(("tree.css",) if trees else ())),
        scripts=("credit.js",) if shown else (),
    )


def _first_and_last_trees(trees: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    steps = [tree["step"] for tree in trees]
    return [tree for tree in trees if tree["step"] in (min(steps), max(steps))]


# ------------------------------------------------------------------------------------------------ score
def _before(summary: Mapping[str, Any], run: Learning) -> Mapping[str, Any]:
    """The held-out tasks before the first update."""
    first = run.evaluations[0] if run.evaluations else {}
    return first if first.get("step") == 0 else summary.get("before") or {}


def _score(summary: Mapping[str, Any], run: Learning) -> str:
    learned = bool(summary) or any(row["step"] > 0 for row in run.evaluations)
    shown = score(
        summary,
        run,
        judged_as="held-out return, greedy",
        sampled="answers sampled",
        chance="random play",
        before=_before(summary, run) if learned else None,
    )
    return f'<div class="hero">{"".join(shown)}</div>' if shown else ""


def _success(summary: Mapping[str, Any], run: Learning) -> str:
    """Success before and after in one sentence."""
    after = summary.get("greedy") or next((row for row in reversed(run.evaluations) if row["step"] > 0), {})
    rows = [
        ("before learning", _before(summary, run)),
        ("after it", after),
        ("with sampled answers", summary.get("sampled")),
        ("by random play", run.chance),
    ]
    said = [
        f"{interval(row['success_mean'], success_interval(dict(row)))} {when}"
        for when, row in rows
        if row and row.get("success_mean") is not None
    ]
    return f"<p>{text('Held-out tasks solved: ' + ', '.join(said) + '.')}</p>" if said else ""


# ------------------------------------------------------------------------------------------------ warnings, numbers
def _warnings(run: Learning) -> str:
    """Each sign once: when it was seen, what it said last, and where its causes are described."""
    found: dict[str, list[tuple[int, str]]] = {}
    for row in run.updates:
        for warning in row.get("warnings") or ():
            pointer = _POINTER.search(str(warning))
            found.setdefault(pointer[1] if pointer else "", []).append(
                (int(row["update"]), _POINTER.sub("", str(warning)))
            )
    lines: list[str] = []
    for pointer, told in found.items():
        when = ", ".join(str(update) for update, _ in told[:6]) + (" …" if len(told) > 6 else "")
        see = f" Causes and remedies: <code>{text(pointer)}</code>" if pointer else ""
        said = told[-1][1]
        lines.append(
            f"<p>{text(said[:1].upper() + said[1:])}. <span class='soft'>(update {text(when)})</span>{see}</p>"
        )
    return f'<div class="warnings">{"".join(lines)}</div>' if lines else ""


def _told(run: Learning) -> list[str]:
    return [
        name for name in run.env_metrics() if name != "success_mean" and name not in _HEALTH
    ]  # rewards of several kinds


def _numbers(run: Learning, names: Sequence[str]) -> str:
    """Small pictures; columns that never left zero are named in a line."""
    columns = {name: column(run.updates, name)[1] for name in names}
    idle = [name for name, values in columns.items() if values and not any(values)]
    said = [_HEALTH.get(name, name.removesuffix("_mean").replace("_", " ")) for name in idle]
    line = f'<p class="small soft">Always 0: {text("; ".join(said))}.</p>' if said else ""
    return small(run, [name for name in names if name not in idle], _HEALTH, _RATES) + line


def _tokens(run: Learning) -> float:
    """Tokens sampled while learning."""
    return sum((row.get("tokens_mean") or 0) * (row.get("attempts") or 0) for row in run.updates)


def _time(run: Learning) -> str:
    spent = seconds(run)
    whole = sum(spent.values())
    if whole <= 0:
        return ""
    tokens = _tokens(run)
    facts: dict[str, object] = {"attempts a minute": 60 * sum(row.get("attempts") or 0 for row in run.updates) / whole}
    facts["seconds an update"] = whole / len(run.updates)
    if tokens and spent["act"] > 0 and spent["learn"] > 0:
        facts |= {
            "tokens a second, sampling": tokens / spent["act"],
            "tokens a second, training": tokens / spent["learn"],
        }
    return time_split(run, facts, _PARTS) + small(run, list(_SPEEDS), _SPEEDS)


# ------------------------------------------------------------------------------------------------ attempts
def first_and_last(records: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Two attempts of the first update; of the last one those that earned least and most."""
    first: list[Mapping[str, Any]] = []
    last: list[Mapping[str, Any]] = []
    for record in records:
        if last and last[0]["step"] != record["step"]:
            first, last = first or last[:_WORST_AND_BEST], []
        last.append(record)
    ranked = sorted(last, key=_earned)
    chosen = ranked if len(ranked) <= 2 * _WORST_AND_BEST else ranked[:_WORST_AND_BEST] + ranked[-_WORST_AND_BEST:]
    return [*first, *chosen]


def _earned(record: Mapping[str, Any]) -> float:
    return sum(float(node.get("reward") or 0.0) for node in _first(record))


def _first(record: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The nodes of its first attempt, where several share a beginning."""
    ends = record.get("ends") or ()
    return record["nodes"][: ends[0]["leaf"] + 1] if len(ends) > 1 else record["nodes"]


def _sample(record: Mapping[str, Any]) -> str:
    ends = record.get("ends") or [record.get("end") or {}]  # "end" until schema 2
    success = ends[0].get("success")
    mark = {True: "✓ ", False: "✗ ", None: ""}[success]
    heading = (
        f"{mark}{str(record.get('task_id', ''))[:80]}, after {record['step']:,} attempts: return {_earned(record):.3g}"
    )
    shown = [node for node in _first(record) if node.get("kind") in ("observation", "action")]
    lines = [_line(node) for node in shown[:_NODES]]
    if len(shown) > _NODES:
        lines.append(f'<p class="soft small">and {len(shown) - _NODES} more parts in episodes.jsonl</p>')
    return fold(heading, "".join(lines))


def _line(node: Mapping[str, Any]) -> str:
    said = str(node.get("text", ""))
    if node["kind"] == "observation":
        return f'<pre class="soft">{text(said[:_SEEN])}{" …" if len(said) > _SEEN else ""}</pre>'
    reward = f" (reward {node['reward']:.3g})" if node.get("reward") else ""
    return f"<p>→ <b>{text(said[:_SAID])}</b>{text(reward)}</p>"
