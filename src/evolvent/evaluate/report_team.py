"""The page of a team run: its score, how it learned, who earned the advantage, where the time went."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from evolvent.evaluate.learning import PARTS, STEPS, Learning, chance_level, column, credit, judged, seconds, training
from evolvent.evaluate.live import interval, percent
from evolvent.evaluate.page import page, section, table, text, tiles
from evolvent.evaluate.report_parts import configuration, figure, foot, head, title
from evolvent.evaluate.svg import SMALL, Curve, curves, shares, step_ticks
from evolvent.formulas.statistics import wilson

_COLOURS = (0, 2, 3, 4, 5)  # as many agents get a curve of their own; grey is the level of equal shares
_PART_WORDS = {
    "act": "choosing actions", "step": "the environment", "credit": "working out credit", "learn": "changing weights",
}  # fmt: skip
_READING = (
    "Scores are mean returns of whole attempts of the frozen team with a 95 % bootstrap interval over attempts. "
    "Points are single updates; the line through them is a mean over neighbours on both sides: nothing is shifted."
)


def render(manifest: Mapping[str, Any], summary: Mapping[str, Any], run: Learning, picture: bytes = b"") -> str:
    """The page as text.

    Args:
        manifest: content of ``config.json``.
        summary: content of ``summary.json``; empty for a run that has not ended.
        run: the lines of ``metrics.jsonl``.
        picture: ``behaviour.png``, empty where there is none.
    """
    agents = _agents(summary, run)
    updates = f"{len(run.updates)} updates" if run.updates else "no update yet"
    facts = [f"seed {manifest['seed']}", f"{len(agents)} agents" if agents else ""]
    facts += [f"{run.last_step:,} {STEPS}", updates]
    return page(
        title(manifest),
        [
            head(manifest, summary, facts),
            _score(summary, run),
            _pictures(run),
            section("What it does", _behaviour(picture)),
            section("Who earned the advantage", _credit(run, agents)),
            section("Learning in numbers", _small(run, run.losses())),
            section("What the environment tells", _small(run, [n for n in run.told() if n != "success_mean"])),
            section("Where the time goes", _time(run)),
            section("Evaluations", _evaluations(summary, run)),
            section("Configuration", configuration(manifest)),
            foot(manifest, _READING),
        ],
    )


def _agents(summary: Mapping[str, Any], run: Learning) -> list[str]:
    named = [str(agent) for agent in summary.get("agents") or ()]
    count = max((len(row.get("credit") or ()) for row in run.updates), default=0)
    return named or [f"agent {i}" for i in range(count)]


# ------------------------------------------------------------------------------------------------ score and curves
def _score(summary: Mapping[str, Any], run: Learning) -> str:
    score = summary.get("score")
    if not score and run.evaluations:
        score = {**run.evaluations[-1], "name": f"return, greedy, after {run.evaluations[-1]['step']:,} steps"}
    shown = [figure(score, rates=False)] if score and score.get("value") is not None else []
    sampled = summary.get("sampled") or {}
    if sampled.get("value") is not None:
        shown.append(figure({**sampled, "name": "return, actions sampled"}, rates=False, minor=True))
    if run.chance and run.chance.get("value") is not None:
        shown.append(figure({**run.chance, "name": "return, random actions"}, rates=False, minor=True))
    return f'<div class="hero">{"".join(shown)}</div>' if shown else ""


def _pictures(run: Learning) -> str:
    if not run.updates:
        return ""
    ticks = step_ticks(run.last_step)
    lines = training(run, "return", "training, actions sampled", 2)
    lines += [*chance_level(run.chance), judged(run, "evaluation, greedy", 0)]
    picture = curves(lines, ticks=ticks, x_label=STEPS, y_label="return", rates=False)
    cards = [f'<div class="card"><h3>Return of an attempt</h3>{picture}</div>']
    if "success_mean" in run.told():
        lines = training(run, "success_mean", "training, actions sampled", 2)
        lines.append(_success(run))
        picture = curves(lines, ticks=ticks, x_label=STEPS, y_label="success")
        cards.append(f'<div class="card"><h3>Success</h3>{picture}</div>')
    return f'<div class="cards">{"".join(cards)}</div>'


def _success(run: Learning) -> Curve:
    """Success of the evaluations with its Wilson interval over attempts, where it is a count of them."""
    x, y = column(run.evaluations, "success_mean")
    _, tried = column(run.evaluations, "n")
    ends: list[tuple[float | None, float | None]] = [(None, None)] * len(x)
    if len(tried) == len(y) and all(abs(p * n - round(p * n)) < 1e-6 for p, n in zip(y, tried, strict=True)):
        ends = [wilson(round(p * n), n) for p, n in zip(y, tried, strict=True)]
    mark = "dots" if len(x) <= 30 else "line"
    return Curve("evaluation, greedy", x, y, [lo for lo, _ in ends], [hi for _, hi in ends], 0, mark)


def _small(run: Learning, names: Sequence[str]) -> str:
    """One small picture for each of ``names``."""
    cards: list[str] = []
    for name in names:
        x, _ = column(run.updates, name)
        if len(x) > 1:
            said = name.removesuffix("_mean").replace("_", " ")
            lines = training(run, name, "", 0)
            picture = curves(
                lines, ticks=step_ticks(run.last_step), x_label=STEPS, y_label=said, rates=False, size=SMALL
            )
            cards.append(f"<div><h3>{text(said)}</h3>{picture}</div>")
    return f'<div class="small-cards">{"".join(cards)}</div>' if cards else ""


def _evaluations(summary: Mapping[str, Any], run: Learning) -> str:
    rows: list[list[object]] = []
    for name, row in [("random actions", run.chance), *(("greedy", row) for row in run.evaluations)]:
        if row is not None:
            rows.append([name, f"{int(row['step']):,}", *_judged_cells(row)])
    if summary.get("sampled"):
        rows.append(["actions sampled", f"{run.last_step:,}", *_judged_cells(summary["sampled"])])
    most = 12
    if len(rows) > most:  # the ends, and every k-th between them
        keep = -(-(len(rows) - 3) // (most - 3))
        rows = [row for i, row in enumerate(rows) if i in (0, 1) or i >= len(rows) - 2 or i % keep == 0]
    return table(["", STEPS, "return [95 %]", "success", "length", "attempts"], rows)


def _judged_cells(row: Mapping[str, Any]) -> list[object]:
    success = row.get("success_mean")
    said = percent(success) if success is not None else None
    return [interval(row["value"], row.get("ci95"), rate=False), said, row.get("length_mean"), row.get("n")]


# ------------------------------------------------------------------------------------------------ other parts
def _behaviour(picture: bytes) -> str:
    if not picture:
        return ""
    data = base64.b64encode(picture).decode("ascii")
    return (
        f'<img class="frames" alt="frames of one attempt" src="data:image/png;base64,{data}">'
        '<p class="small soft">One greedy attempt after training, from left to right and top to bottom.</p>'
    )


def _credit(run: Learning, agents: Sequence[str]) -> str:
    total, _, thirds = credit(run, agents, 3)
    if not total:
        return ""
    _, x, over = credit(run, agents, 60)
    if len(x) < 2:
        picture = ""
    elif len(agents) <= len(_COLOURS):
        empty = [None] * len(x)
        per_cent = {agent: [100 * share for share in over[agent]] for agent in agents}
        lines = [Curve(a, x, per_cent[a], empty, empty, _COLOURS[i], "line") for i, a in enumerate(agents)]
        level = Curve("equal shares", [0.0], [100 / len(agents)], [None], [None], 1, "level")
        picture = curves(
            [*lines, level], ticks=step_ticks(run.last_step), x_label=STEPS, y_label="share in %", rates=False,
            zero=True,
        )  # fmt: skip
    else:
        ticks = [(step / run.last_step, said) for step, said in step_ticks(run.last_step)]
        picture = shares([(agent, over[agent]) for agent in agents], ticks=ticks, x_label=STEPS)
    said = (
        "Each agent's share of the absolute advantage, every update counted alike: how much there was to learn from "
        f"what it did, not how well it played. Equal shares would be {100 / len(agents):.1f} %."
    )
    early, late = ("first third", "last third") if len(x) > 2 else ("", "")
    return f'<p class="soft small">{text(said)}</p>{picture}{_credit_table(total, thirds, early, late)}'


def _credit_table(total: Mapping[str, float], thirds: Mapping[str, Sequence[float]], early: str, late: str) -> str:
    """Agents with the largest share first, each with a bar as long as its share of the largest."""
    most = max(total.values())
    ends = [name for name in (early, late) if name]
    names = "".join(f'<th class="n">{text(name)}</th>' for name in ends)
    lines: list[str] = []
    for agent, share in sorted(total.items(), key=lambda pair: -pair[1]):
        bar = f'<span class="meter"><i style="width:{100 * share / most:.0f}%"></i></span>'
        cells = [thirds[agent][0], thirds[agent][-1]] if ends else []
        numbers = "".join(f'<td class="n">{100 * cell:.1f} %</td>' for cell in cells)
        lines.append(
            f'<tr><td class="first">{text(agent)}</td><td class="n">{bar}{100 * share:.1f} %</td>{numbers}</tr>'
        )
    header = f'<tr><th class="first">agent</th><th class="n">share in all</th>{names}</tr>'
    return f'<div class="scroll"><table><thead>{header}</thead><tbody>{"".join(lines)}</tbody></table></div>'


def _time(run: Learning) -> str:
    spent = seconds(run)
    whole = sum(spent.values())
    if whole <= 0:
        return ""
    styles = dict(zip(PARTS, (0, 1, 4, 2), strict=True))
    pieces = "".join(
        f'<span class="s{styles[part]}" style="width:{100 * spent[part] / whole:.2f}%"></span>' for part in PARTS
    )
    keys = "".join(f'<span class="key s{styles[p]}">{p} {100 * spent[p] / whole:.0f} %</span>' for p in PARTS)
    x, speed = column(run.updates, "steps_per_s")
    _, per_update = column(run.updates, "update")
    facts: dict[str, object] = {
        "environment steps a second": f"{run.updates[-1]['step'] / whole:,.0f}",
        "seconds an update": whole / max(len(per_update), 1),
        **{f"{part}: {_PART_WORDS[part]}, s": spent[part] for part in PARTS},
    }
    bar = f'<div class="legend">{keys}</div><div class="split">{pieces}</div>{tiles(facts)}'
    if len(x) < 2 or max(speed) <= 0:
        return bar
    lines = training(run, "steps_per_s", "", 0)
    picture = curves(
        lines, ticks=step_ticks(run.last_step), x_label=STEPS, y_label="steps a second", rates=False, size=SMALL
    )
    return f'{bar}<div class="small-cards"><div><h3>environment steps a second</h3>{picture}</div></div>'
