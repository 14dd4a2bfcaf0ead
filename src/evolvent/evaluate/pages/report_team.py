"""The page of a team run: its score, how it learned, who earned the advantage, where the time went."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from evolvent.evaluate.learning import Learning, credit, seconds
from evolvent.evaluate.learning_parts import evaluations, pictures, score, small, time_split
from evolvent.evaluate.pages.page import page, scroll, section, text
from evolvent.evaluate.pages.png import bright
from evolvent.evaluate.pages.report_parts import configuration, foot, head, title
from evolvent.evaluate.pages.svg import Curve, curves, shares, step_ticks

_COLOURS = (0, 2, 3, 4, 5)  # as many agents get a curve of their own; grey is the level of equal shares
_READING = (
    "Scores are mean returns of whole attempts of the frozen team with a 95 % bootstrap interval over attempts. "
    "Points are single updates; the line through them is a mean over neighbours on both sides: nothing is shifted."
)


def render(
    manifest: Mapping[str, Any], summary: Mapping[str, Any], run: Learning, top: str = "", picture: bytes = b""
) -> str:
    """The page as text.

    Args:
        manifest: content of ``config.json``.
        summary: content of ``summary.json``; empty for a run that has not ended.
        run: the lines of ``metrics.jsonl``.
        top: HTML below the title: verdict and links.
        picture: ``behaviour.png``, empty where there is none.
    """
    agents = _agents(summary, run)
    updates = f"{len(run.updates)} updates" if run.updates else "no update yet"
    facts = [f"seed {manifest['seed']}", f"{len(agents)} agents" if agents else ""]
    facts += [f"{run.last_step:,} {run.unit}", updates]
    figures = score(
        summary, run, judged_as="return, greedy", sampled="return, actions sampled", chance="return, random actions"
    )
    return page(
        title(manifest),
        [
            head(manifest, summary, facts, top),
            f'<div class="hero">{"".join(figures)}</div>' if figures else "",
            pictures(run, trained="training, actions sampled", judged_as="evaluation, greedy", chance="random actions"),
            section("What it does", _behaviour(picture)),
            section("Who earned the advantage", _credit(run, agents)),
            section("Learning in numbers", small(run, run.losses())),
            section("What the environment tells", small(run, [n for n in run.env_metrics() if n != "success_mean"])),
            section("Where the time goes", _time(run)),
            section("Evaluations", evaluations(summary, run, sampled="actions sampled", chance="random actions")),
            section("Configuration", configuration(manifest)),
            foot(manifest, _READING),
        ],
    )


def _agents(summary: Mapping[str, Any], run: Learning) -> list[str]:
    named = [str(agent) for agent in summary.get("agents") or ()]
    told = [row["credit"] for row in run.updates if isinstance(row.get("credit"), list)]
    count = max(map(len, told), default=0)
    return named or [f"agent {i}" for i in range(count)]


def _behaviour(picture: bytes) -> str:
    if not picture:
        return ""
    data = base64.b64encode(picture).decode("ascii")
    kind = "frames white" if bright(picture) else "frames"
    return (
        f'<img class="{kind}" alt="frames of one attempt" src="data:image/png;base64,{data}">'
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
            [*lines, level],
            ticks=step_ticks(run.last_step),
            x_label=run.unit,
            y_label="share in %",
            rates=False,
            zero=True,
        )
    else:
        ticks = [(step / run.last_step, said) for step, said in step_ticks(run.last_step)]
        picture = shares([(agent, over[agent]) for agent in agents], ticks=ticks, x_label=run.unit)
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
    return scroll(f"<table><thead>{header}</thead><tbody>{''.join(lines)}</tbody></table>", "share of each agent")


def _time(run: Learning) -> str:
    whole = sum(seconds(run).values())
    if whole <= 0:
        return ""
    facts = {
        "environment steps a second": f"{run.updates[-1]['step'] / whole:,.0f}",
        "seconds an update": whole / len(run.updates),
    }
    return time_split(run, facts) + small(run, ["steps_per_s"], {"steps_per_s": "environment steps a second"})
