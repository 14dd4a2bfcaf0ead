"""The page of a team run: its score, how it learned, who earned the advantage, where the time went."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from evolvent.core.folder import RunFolder
from evolvent.evaluate import blocks
from evolvent.evaluate.blocks import Block, Curve, Hint, Line, Page, Pictures, Shares, Table, Text
from evolvent.evaluate.live import percent
from evolvent.runs.account import updates
from evolvent.runs.account.updates import Row, Updates, section

_COLOURS = (0, 2, 3, 4, 5)  # as many agents get a curve of their own; grey is the level of equal shares
PICTURES = "behaviour_random.png", "behaviour.png"
"""Frames of an attempt with random actions, and of one from the same start after training."""
TESTS = "tests"
"""Folder inside the run's: a page (``blocks.write``) of what a system judged by itself, shown with the run's own."""
_READING = (
    "Scores are mean returns of whole attempts of the frozen team with a 95 % bootstrap interval over attempts. "
    "Points are single updates; the line through them is a mean over neighbours on both sides: nothing is shifted."
)


def account(folder: RunFolder) -> Page:
    """What a run of a team tells of itself."""
    manifest = folder.manifest()
    summary = folder.summary() if folder.finished else {}
    run = updates.updates(folder.read_metrics(), "environment steps")
    agents = _agents(summary, run)
    beside = [
        ("return, actions sampled", summary.get("sampled")),
        ("return, random actions", run.chance),
        (f"return, {updates.NO_ACTION}", run.idle),
    ]
    against = updates.levels(summary, run)
    judged = updates.judged(summary, run, judged_as="return, greedy", beside=beside, against=against)
    trained = {"trained": "training, actions sampled", "judged_as": "evaluation, greedy", "chance": "random actions"}
    table = updates.evaluations(summary, run, sampled="actions sampled", chance="random actions")
    named = [name for name in run.reported() if name != "success_mean"]
    tests = blocks.read(folder.path / TESTS)
    body: list[Block] = [
        judged.headline,
        *judged.comparisons,
        *(tests.blocks if tests else ()),
        *section("Attempts before and after", _attempts(folder, summary, run)),
        *updates.pictures(run, **trained),
        *section("Who earned the advantage", _credit(run, agents)),
        *section("Learning in numbers", updates.small(run, run.learned())),
        *section("What the environment tells", updates.small(run, named)),
        *section("Where the time goes", _time(run)),
        *section("Evaluations", table),
        *updates.broken(summary),
    ]
    done = f"{len(run.updates)} updates" if run.updates else "no update yet"
    named_agents = f"{len(agents)} agents" if len(agents) > 1 else ""
    facts = updates.facts(manifest, summary, named_agents, f"{run.last_step:,} {run.unit}", done)
    last, unit, title = run.last_step, run.unit, updates.title(manifest)
    return Page("", tuple(body), judged.score, facts, last, unit, _hint(summary), _READING, title)


def _hint(summary: Row) -> Hint:
    greedy, sampled = (summary.get("greedy") or {}).get("value"), (summary.get("sampled") or {}).get("value")
    advice = "Train longer: most teams need far more steps than this."
    if greedy is not None and sampled is not None and sampled > greedy:
        advice = "Train longer: with sampled actions it earns more than greedily, so that it has not settled yet."
    done = summary.get("steps")
    return Hint(advice, ("--steps", str(2 * done)) if done else (), resume=bool(done))


def _agents(summary: Row, run: Updates) -> list[str]:
    named = [str(agent) for agent in summary.get("agents") or ()]
    credited = [row["credit"] for row in run.updates if isinstance(row.get("credit"), list)]
    count = max(map(len, credited), default=0)
    return named or [f"agent {i}" for i in range(count)]


def _attempts(folder: RunFolder, summary: Row, run: Updates) -> list[Block]:
    """Every judged attempt by its return: with random actions, and of the team as it ended."""
    last = summary.get("greedy") or (run.evaluations[-1] if run.evaluations else {})
    before, after = ([float(x) for x in (row or {}).get("returns") or ()] for row in (run.chance, last))
    if not before or not after:
        return _behaviour(folder)
    won = np.sign(np.subtract.outer(after, before)).mean() / 2 + 0.5  # a tie is half a win
    said = f"An attempt after learning earned more than one with random actions in {percent(float(won))} of all pairs."
    names = (("worst attempt", 0.0), ("middle one", 0.5), ("best attempt", 1.0))
    rows = tuple((name, *(float(np.quantile(some, q)) for some in (before, after))) for name, q in names)
    lines = tuple(
        Line(name, tuple(np.linspace(0, 100, len(some)).tolist()), tuple(some), style=style, mark="line")
        for name, some, style in (("random actions", before, 1), ("after learning", after, 0))
    )
    ticks = ((0.0, "worst"), (50.0, "middle"), (100.0, "best"))
    drawn = Curve("Returns of all attempts", lines, "attempts by their return", "return", ticks=ticks)
    table = Table(("return", "random actions", "after learning"), rows)
    return [Text((said,)), table, *_behaviour(folder), drawn]


def _behaviour(folder: RunFolder) -> list[Block]:
    told = ("With random actions", "After learning, greedily, from the same start")
    found = [(name, said) for name, said in zip(PICTURES, told, strict=True) if (folder.path / name).exists()]
    return [
        Pictures((name,), (f"frames of one attempt: {said}",), caption=f"{said}; from left to right and top to bottom.")
        for name, said in found
    ]


# ------------------------------------------------------------------------------------------------ credit
def shares(
    run: Updates, agents: Sequence[str], bins: int
) -> tuple[dict[str, float], list[float], dict[str, list[float]]]:
    """Each agent's share of the advantage, in all and over time.

    Every update counts the same: the size of advantages changes with the returns, shares do not.

    Returns:
        share by agent; step in the middle of each bin of neighbouring updates; share in each bin by agent.
    """
    credited = [row for row in run.updates if isinstance(row.get("credit"), list)]
    rows = [row for row in credited if len(row["credit"]) == len(agents) and sum(row["credit"]) > 0]
    if not rows:
        return {}, [], {}
    table_UA = np.array([row["credit"] for row in rows], dtype=np.float64)
    steps = np.array([float(row["step"]) for row in rows])
    parts = np.array_split(np.arange(len(rows)), min(bins, len(rows)))
    binned = np.stack([table_UA[part].mean(axis=0) for part in parts])
    total = table_UA.mean(axis=0)
    over = {agent: binned[:, a].tolist() for a, agent in enumerate(agents)}
    return dict(zip(agents, total.tolist(), strict=True)), [float(steps[part].mean()) for part in parts], over


def _credit(run: Updates, agents: Sequence[str]) -> list[Block]:
    total, _, thirds = shares(run, agents, 3)
    if not total or len(agents) == 1:
        return []
    _, x, over = shares(run, agents, 60)
    said = (
        "Each agent's share of the absolute advantage, every update counted alike: how much there was to learn from "
        f"what it did, not how well it played. Equal shares would be {100 / len(agents):.1f} %."
    )
    found: list[Block] = [Text((said,), "soft")]
    if len(x) > 1 and len(agents) <= len(_COLOURS):
        percent = {agent: tuple(100 * share for share in over[agent]) for agent in agents}
        lines = [Line(a, tuple(x), percent[a], style=_COLOURS[i], mark="line") for i, a in enumerate(agents)]
        lines.append(Line("equal shares", (0.0,), (100 / len(agents),), style=1, mark="level"))
        found.append(Curve("Share of the advantage", tuple(lines), run.unit, "share in %", zero=True))
    elif len(x) > 1:
        found.append(Shares("", tuple((agent, tuple(over[agent])) for agent in agents), run.unit, float(run.last_step)))
    ends = ("first third", "last third") if len(x) > 2 else ()
    rows: list[tuple[Any, ...]] = [
        (agent, share, *((thirds[agent][0], thirds[agent][-1]) if ends else ()))
        for agent, share in sorted(total.items(), key=lambda pair: -pair[1])
    ]
    return [*found, Table(("agent", "share in all", *ends), tuple(rows), meter=1)]


def _time(run: Updates) -> list[Block]:
    whole = sum(updates.seconds(run).values())
    if whole <= 0:
        return []
    facts = {
        "environment steps a second": f"{run.updates[-1]['step'] / whole:,.0f}",
        "seconds an update": whole / len(run.updates),
    }
    labels = {"steps_per_s": "environment steps a second"}
    return [*updates.time_split(run, facts), *updates.small(run, ["steps_per_s"], labels)]
