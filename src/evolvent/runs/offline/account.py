"""The page of a run that learned from recorded attempts: its score beside the data, and how it learned."""

from __future__ import annotations

from typing import Any

import numpy as np

from evolvent.core.folder import RunFolder
from evolvent.core.jsonfile import read_object
from evolvent.evaluate.blocks import Block, Curve, Hint, Line, Page, Table, Text, Tiles
from evolvent.evaluate.live import interval, number
from evolvent.runs.account import updates
from evolvent.runs.account.updates import Row, Updates, section

DATA, _UNIT = "data.json", "gradient steps"
_READING = (
    "Scores are mean returns of whole attempts that the frozen policy played in the environment, with a 95 % bootstrap "
    "interval over attempts; their seeds are not those of the data. Nothing that was learned came from these attempts."
)


def account(folder: RunFolder) -> Page:
    """What a run from recorded attempts tells of itself."""
    manifest = folder.manifest()
    summary = folder.summary() if folder.finished else {}
    data = read_object(folder.path / DATA, "the data of a run") if (folder.path / DATA).exists() else {}
    run = updates.updates(folder.read_metrics(), _UNIT)
    beside = [("return, random actions", run.chance), (f"return, {updates.NO_ACTION}", run.idle)]
    against = updates.levels(summary, run)
    judged = updates.judged(summary, run, judged_as="return, greedy", beside=beside, against=against)
    body: list[Block] = [
        judged.headline,
        *judged.comparisons,
        *_scaled(summary, data),
        *_curve(run, data),
        *section("Asked for, and got", _asked(summary)),
        *section("The data", _data(summary, run, data)),
        *section("Learning in numbers", updates.small(run, run.learned())),
        *_speed(run),
        *section("Evaluations", updates.evaluations(summary, run, sampled="sampled", chance="random actions")),
    ]
    facts = updates.facts(manifest, summary, f"{run.last_step:,} {_UNIT}")
    done = summary.get("steps") if summary.get("extendable", True) else None
    hint = Hint("Train longer, or on more data.", ("--steps", str(2 * done)) if done else (), resume=bool(done))
    title = updates.title(manifest)
    return Page("", tuple(body), judged.score, facts, run.last_step, _UNIT, hint, _READING, title)


def _scaled(summary: Row, data: Row) -> list[Block]:
    scaled, scale = summary.get("normalised"), data.get("scale") or {}
    if scaled is None:
        return []
    said = (
        f"{number(scaled)} on the scale of the data: 0 is random play ({number(scale['random'])}), 100 the expert that "
        f"the data's maker measured ({number(scale['expert'])}). It is no score of D4RL, whose constants are of other "
        "versions of the tasks."
    )
    return [Text((said,), said=True)]


def _curve(run: Updates, data: Row) -> list[Block]:
    """Return while learning, with levels of random play and of the data."""
    lines = [updates.evaluated(run, "evaluation, greedy")]
    levels: list[tuple[str, Any]] = [("random actions", (run.chance or {}).get("value"))]
    returns = data.get("returns") or []
    if returns:
        levels += [("data, mean attempt", float(np.mean(returns))), ("data, best attempt", max(returns))]
    for style, (name, value) in enumerate(levels, 1):
        if value is not None:
            lines.append(Line(name, (0.0,), (float(value),), style=style, mark="level"))
    drawn = tuple(line for line in lines if line.x)
    return [Curve("Return of an attempt", drawn, _UNIT, "return")] if run.evaluations else []


def _speed(run: Updates) -> list[Block]:
    spent = updates.seconds(run)["learn"]
    if not spent:
        return []
    return [Tiles({"gradient steps a second": f"{run.updates[-1]['step'] / spent:,.0f}", "seconds of learning": spent})]


def _asked(summary: Row) -> list[Block]:
    """What a policy that is asked for a return, or promises one, then got."""
    rows = summary.get("asked") or []
    if not rows:
        return []
    name = rows[0].get("as", "asked for")
    x = [float(row["asked"]) for row in rows]
    got = [float(row["value"]) for row in rows]
    table = Table(
        (name, "got [95 %]", "attempts"),
        tuple((row["asked"], interval(row["value"], row["ci95"], rate=False), row["n"]) for row in rows),
    )
    if len(rows) == 1:
        return [table]
    order = np.argsort(x)
    line = Line("got", tuple(np.array(x)[order].tolist()), tuple(np.array(got)[order].tolist()))
    same = Line("as asked", (min(x), max(x)), (min(x), max(x)), style=1, mark="line")
    return [table, Curve("What was got, by what was asked for", (line, same), f"return {name}", "return")]


def _data(summary: Row, run: Updates, data: Row) -> list[Block]:
    if not data:
        return []
    cut = data["attempts"] - data["terminated"]
    made = f" by {data['made_by']}" if data.get("made_by") else ""
    said = [
        f"{data['attempts']:,} attempts of {data['steps']:,} steps{made}, {number(data['length'])} steps each in the "
        f"mean; {data['terminated']:,} ended by the environment's rules, {cut:,} were cut off."
    ]
    last = summary.get("greedy") or (run.evaluations[-1] if run.evaluations else {})
    series = [("data", data["returns"], 3), ("random actions", (run.chance or {}).get("returns"), 1)]
    series.append(("after learning", last.get("returns"), 0))
    lines = tuple(
        Line(name, tuple(np.linspace(0, 100, len(some)).tolist()), tuple(map(float, some)), style=style, mark="line")
        for name, some, style in series
        if some
    )
    ticks = ((0.0, "worst"), (50.0, "middle"), (100.0, "best"))
    cells = (("worst attempt", 0.0), ("middle one", 0.5), ("best attempt", 1.0))
    table = Table(
        ("return", *(line.name for line in lines)),
        tuple((name, *(float(np.quantile(line.y, q)) for line in lines)) for name, q in cells),
    )
    drawn = Curve("Returns of all attempts", lines, "attempts by their return", "return", ticks=ticks)
    return [Text((*said, *data.get("notes", ()))), table, drawn]
