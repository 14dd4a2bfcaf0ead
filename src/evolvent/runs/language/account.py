"""The page of a run that trains a language model: score, learning, credit of every token, health, time."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from evolvent.core.folder import RunFolder
from evolvent.evaluate.blocks import Block, Comparison, Credit, Curve, Hint, Page, Text, Tree
from evolvent.evaluate.live import interval
from evolvent.runs.account import calls, changed, memories, samples, series, tasks, trees, updates
from evolvent.runs.account.tasks import Seen
from evolvent.runs.account.updates import PART_LABELS, Row, Updates, section, success_interval

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
_PARTS = PART_LABELS | {"act": "sampling answers", "learn": "changing weights"}
_CREDIT, _BEFORE = "credit.json", "before learning"
_POINTER = re.compile(r"\s*\((docs/[\w.-]+\.md#([\w-]+))\)\s*$")
_READING = (
    "Scores are mean returns of one attempt at each held-out task, with sampled answers of several where there are few "
    "tasks; 95 % intervals are over tasks, by bootstrap, and Wilson's for success, Newcombe's for differences on the "
    "same tasks. Attempts that broke are failures with the lowest reward. Points are single updates; the line through "
    "them is a mean over neighbours on both sides: nothing is shifted."
)


def account(folder: RunFolder) -> Page:
    """What a run that trains a language model tells of itself."""
    manifest = folder.manifest()
    summary = folder.summary() if folder.finished else {}
    rows = folder.read_metrics()
    run = updates.updates(rows, "examples" if any("examples" in row for row in rows) else "attempts")
    others = [n for n in run.reported() if n != "success_mean" and n not in _HEALTH]  # rewards of several kinds
    learned = [name for name in run.learned() if name not in _HEALTH]
    drawn = _first_and_last(trees.read(folder.path))
    judged, heldout = _judged(summary, run), changed.read(folder.path)
    named = {"sampled": "answers sampled", "chance": "random play"}
    body: list[Block] = [
        judged.headline,
        *_paired(judged.comparisons, heldout[0]),
        *_success(summary, run),
        *changed.example(*heldout),
        *calls.blocks(_called(*heldout)),
        *updates.pictures(run, trained="training, sampled", judged_as="held-out tasks, greedy", chance="random play"),
        *_losses(run, rows),
        *_warnings(run),
        *([Credit(_CREDIT, "Credit of every token")] if (folder.path / _CREDIT).exists() else []),
        *memories.valuable(summary),
        *section("Trees, first and last", [*drawn, *([Text((trees.LEGEND,), "soft")] if drawn else [])]),
        *section("Attempts, first and last", samples.first_and_last(folder.read_episodes())),
        *section("Health", updates.numbers(run, list(_HEALTH), _HEALTH, _RATES)),
        *section("Learning in numbers", updates.numbers(run, learned, _HEALTH, _RATES)),
        *section("What the environment tells", updates.numbers(run, others, _HEALTH, _RATES)),
        *memories.health(summary),
        *section("Where the time goes", _time(run)),
        *section("Evaluations", updates.evaluations(summary, run, **named)),
        *updates.broken(summary),
    ]
    facts = _facts(manifest, summary, run)
    last, unit, title = run.last_step, run.unit, updates.title(manifest)
    return Page("", tuple(body), judged.score, facts, last, unit, _hint(summary), _READING, title)


def _facts(manifest: Row, summary: Row, run: Updates) -> tuple[str, ...]:
    sampled, broken = _tokens(run), sum(row.get("broken") or 0 for row in run.updates)
    return updates.facts(
        manifest,
        summary,
        f"{run.last_step:,} {run.unit}",
        f"{len(run.updates)} updates" if run.updates else "no update yet",
        f"{_short(sampled)} tokens sampled" if sampled else "",
        f"{broken:,} attempts broke and were not learned from" if broken else "",
    )


def _short(n: float) -> str:
    """A number of tokens in a few characters: ``200k``, ``1.5M``."""
    unit, letter = next(((u, letter) for u, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")) if n >= u), (1.0, ""))
    return f"{n / unit:.3g}{letter}"


def _hint(summary: Row) -> Hint:
    if summary.get("policy_updates") == 0:
        return Hint(
            "Nothing was learned from: attempts of a group all earned the same (docs/when-it-does-not-learn.md)."
        )
    advice = "Train longer; signs that it cannot learn are in docs/when-it-does-not-learn.md."
    done = summary.get("updates")
    if "examples" in summary:  # its learning rate has fallen: it does not go on
        return Hint("More examples, more passes (--epochs) or a larger model; held-out loss that rises has had enough.")
    return Hint(advice, ("--updates", str(2 * done)) if done else (), resume=bool(done))


# ------------------------------------------------------------------------------------------------ score
def _before(summary: Row, run: Updates) -> Row:
    """The held-out tasks before the first update."""
    first = run.evaluations[0] if run.evaluations else {}
    return first if first.get("step") == 0 else summary.get("before") or {}


def _judged(summary: Row, run: Updates) -> updates.Judged:
    learned = bool(summary) or any(row["step"] > 0 for row in run.evaluations)
    beside: list[tuple[str, Row | None]] = [
        (_BEFORE, _before(summary, run) if learned else None),
        ("answers sampled", summary.get("sampled")),
        ("random play", run.chance),
    ]
    against = updates.levels(summary, run)
    return updates.judged(summary, run, judged_as="held-out return, greedy", beside=beside, against=against)


def _paired(found: Sequence[Comparison], rows: Sequence[Row]) -> list[Block]:
    """The comparisons; success before learning task by task, where the recorded attempts are those that were scored."""
    after, before = (
        [{**row, "success": bool(row["valid"] and row["success"]), "valid": 1} for row in rows if row["phase"] == when]
        for when in ("after", "before")
    )
    made: list[Block] = []
    for one in found:
        rates = one.name == _BEFORE and one.own is not None and one.own.rate
        pairs = tasks.pairs(one.name, after, before) if rates else []
        scored = np.array([side and side.value for side in (one.own, one.other)], np.float64)
        same = all(np.allclose(np.mean([won for _, *won in pair.pairs], 0), scored) for pair in pairs)
        made += pairs if pairs and same else [one]
    return made


def _success(summary: Row, run: Updates) -> list[Block]:
    """Success before and after in one sentence."""
    after = summary.get("greedy") or next((row for row in reversed(run.evaluations) if row["step"] > 0), {})
    rows = [
        (_BEFORE, _before(summary, run)),
        ("after it", after),
        ("with sampled answers", summary.get("sampled")),
        ("by random play", run.chance),
    ]
    said = [
        f"{interval(row['success_mean'], success_interval(row))} {when}"
        for when, row in rows
        if row and row.get("success_mean") is not None
    ]
    return [Text(("Held-out tasks solved: " + ", ".join(said) + ".",))] if said else []


def _losses(run: Updates, rows: Sequence[Row]) -> list[Block]:
    """The loss of examples, learned from and held out."""
    held = updates.updates(({**row, "phase": "eval"} for row in rows if row.get("phase") == "loss"), run.unit)
    if not held.evaluations:
        return []
    lines = [*updates.training(run, "loss", "learned from", 2), updates.evaluated(held, "held out")]
    if run.evaluations:  # a comparison of runs draws what they earn
        lines = [replace(line, role="") for line in lines]
    return [Curve("Loss of examples", tuple(line for line in lines if line.x), run.unit, "loss, nats a token")]


def _called(rows: list[series.Row], attempts: Mapping[int, Seen]) -> dict[str, list[Seen]]:
    """Attempts at the held-out tasks before learning and after it."""
    return {when: [attempts[row["step"]] for row in rows if row["phase"] == when] for when in ("before", "after")}


# ------------------------------------------------------------------------------------------------ warnings, time
def _warnings(run: Updates) -> list[Block]:
    """Each sign once: when it was seen, what it said last, and where its causes are described."""
    found: dict[str, list[tuple[int, str]]] = {}
    for row in run.updates:
        for warning in row.get("warnings") or ():
            pointer = _POINTER.search(str(warning))
            found.setdefault(pointer[1] if pointer else "", []).append(
                (int(row["update"]), _POINTER.sub("", str(warning)))
            )
    lines: list[str] = []
    for pointer, warned in found.items():
        when = ", ".join(str(update) for update, _ in warned[:6]) + (" …" if len(warned) > 6 else "")
        see = f" Causes and remedies: {pointer}" if pointer else ""
        said = warned[-1][1]
        lines.append(f"{said[:1].upper() + said[1:]}. (update {when}){see}")
    return [Text(tuple(lines), "warning", "Warnings")] if lines else []


def _tokens(run: Updates) -> float:
    """Tokens sampled while learning."""
    return sum((row.get("tokens_mean") or 0) * (row.get("attempts") or 0) for row in run.updates)


def _time(run: Updates) -> list[Block]:
    spent = updates.seconds(run)
    whole = sum(spent.values())
    if whole <= 0:
        return []
    tokens = _tokens(run)
    facts: dict[str, Any] = {"attempts a minute": 60 * sum(row.get("attempts") or 0 for row in run.updates) / whole}
    facts["seconds an update"] = whole / len(run.updates)
    if tokens and spent["act"] > 0 and spent["learn"] > 0:
        facts |= {
            "tokens a second, sampling": tokens / spent["act"],
            "tokens a second, training": tokens / spent["learn"],
        }
    return [*updates.time_split(run, facts, _PARTS), *updates.small(run, list(_SPEEDS), _SPEEDS)]


def _first_and_last(found: list[Row]) -> list[Tree]:
    """The trees of the first and of the last update."""
    steps = [tree["step"] for tree in found]
    return trees.trees([tree for tree in found if tree["step"] in (min(steps), max(steps))])
