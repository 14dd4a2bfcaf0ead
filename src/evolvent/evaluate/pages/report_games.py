"""``report.html`` of a run over games: how often the model's pages play, and each lineage with pictures, to be played.

A version opens on a click; its page is started in a frame of its own, which may run scripts and reach nothing.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evolvent.evaluate.live import count, interval
from evolvent.evaluate.pages.page import cards, fold, page, section, table, text
from evolvent.evaluate.pages.report_parts import configuration, figure, foot, head, title
from evolvent.evaluate.pages.svg import Bar, bars

_READING = (
    "Shares are of answers of the model, with 95 % Wilson intervals: valid by its text, playable where a browser "
    "painted it without an error. Answers of one version are not independent. Whether a mechanic does what its words "
    "say is not judged. Rewards: at most 0.90, and 0.75 where no model rates creativity."
)
_GATES = {"": "plays", "text": "no program", "static": "refused by its text", "browser": "fails in the browser"}
Row = Mapping[str, Any]


def read_pictures(folder: Path) -> dict[int, bytes]:
    """How each version looked, by its number; none where there are no such files."""
    return {int(path.stem): path.read_bytes() for path in (folder / "games").glob("*.jpg") if path.stem.isdigit()}


def render(
    manifest: Mapping[str, Any],
    summary: Mapping[str, Any],
    rows: Sequence[Row],
    pictures: Mapping[int, bytes],
    top: str = "",
) -> str:
    """The page as text; of a run that has not ended without its tables.

    Args:
        manifest: content of ``config.json``.
        summary: content of ``summary.json``.
        rows: lines of ``metrics.jsonl``, one a version.
        pictures: JPEG by version.
        top: verdict and links.
    """
    facts = [str(summary.get("model") or manifest["config"].get("model", "")), f"seed {manifest['seed']}"]
    facts.append(count(len(rows), "version"))
    if summary:
        facts.append(f"played in {summary['browser']}" if summary["browser"] else "no browser: judged by their text")
    return page(
        title(manifest),
        [
            head(manifest, summary, facts, top),
            _hero(summary),
            cards(_shares(summary)),
            section("Pages of the model", _table(summary)),
            section("Lineages", _lineages(rows, pictures)),
            section("Mechanics, and how often the model could write them", _ideas(summary.get("ideas", []))),
            section("Configuration", configuration(manifest)),
            foot(manifest, _READING),
        ],
        styles=("report.css", "tree.css", "games.css"),
        frames=True,
    )


def _hero(summary: Mapping[str, Any]) -> str:
    if not summary.get("score") or summary["score"]["value"] is None:
        return ""
    nodes, shown = summary["nodes"], [figure(summary["score"], rates=True)]
    if nodes["features"]:
        own = {
            "name": "mechanics that the model wrote itself",
            "value": nodes["by_the_model"] / nodes["features"],
            "ci95": nodes["by_the_model_ci95"],
        }
        shown.append(figure(own, rates=True, minor=True))
    shown.append(figure({"name": "reward of a version, mean", "value": nodes["reward"]}, rates=False, minor=True))
    return f'<div class="hero">{"".join(shown)}</div>'


def _shares(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    shown: list[tuple[str, str]] = []
    for name, heading in (("iteration", "Playable by iteration"), ("depth", "Playable by depth in the lineage")):
        found = summary.get(f"{name}s", [])
        if found:
            rows = [
                Bar(f"{name} {a[name]}, {a['n']} pages", a["playable"], lo, hi, i % 5)
                for i, a in enumerate(found)
                for lo, hi in [a["playable_ci95"]]
            ]
            shown.append((heading, bars(rows)))
    return shown


def _table(summary: Mapping[str, Any]) -> str:
    cells: list[list[object]] = []
    for name in ("stage", "iteration", "depth"):
        for one in summary.get(f"{name}s", []):
            shares = [interval(one[what], one[f"{what}_ci95"]) for what in ("valid", "playable")]
            cells.append([f"{name} {one[name]}", one["n"], *shares, interval(one["realised"], None)])
    return table(["by", "pages", "valid [95 %]", "playable [95 %]", "with the mechanic in it"], cells)


def _ideas(ideas: Sequence[Row]) -> str:
    cells = [[a["name"], a["asked"], a["there"], None if a["value"] is None else f"{a['value']:.2f}"] for a in ideas]
    return table(["mechanic", "asked for", "written", "value"], cells)


# ------------------------------------------------------------------------------------------------ lineages
def _lineages(rows: Sequence[Row], pictures: Mapping[int, bytes]) -> str:
    out: list[str] = []
    for game in dict.fromkeys(row["lineage"] for row in rows):
        mine = [row for row in rows if row["lineage"] == game]
        best = max(mine, key=lambda row: (row["reward"], row["step"]))
        ends = max(mine, key=lambda row: (row["depth"], row["reward"]))
        path: set[int] = set()
        at: Row | None = ends
        while at is not None:
            path.add(at["step"])
            at = next((row for row in mine if row["step"] == at["parent"]), None)
        below: dict[int | None, list[Row]] = {}
        for row in mine:
            below.setdefault(row["parent"], []).append(row)
        inside = "".join(_version(row, below, path, pictures) for row in below.get(None, []))
        heading = f"{game}: {count(len(mine), 'version')}, best reward {best['reward']:.2f}, depth {ends['depth']}"
        out.append(fold(heading, f'<div class="tree games">{inside}</div>', opened=not out))
    return "".join(out)


def _version(row: Row, below: Mapping[int | None, Sequence[Row]], path: set[int], pictures: Mapping[int, bytes]) -> str:
    """One version with those made of it; depth is bounded by the versions."""
    by = ", ".join(deltas(row)) or "nothing changed"
    tag = '<span class="tag good">plays</span>' if row["ok"] else '<span class="tag bad">the model\'s failed</span>'
    label = (
        f'<span class="mono">{text(row["phase"])}: {text(by)}</span> {tag} '
        f'<span class="soft small">reward {row["reward"]:.2f}</span>'
    )
    inside = _seen(row, pictures) + "".join(_call(call) for call in row["calls"])
    inside += "".join(_version(child, below, path, pictures) for child in below.get(row["step"], []))
    taken = row["step"] in path
    style = f"--value:{120 * min(1.0, max(0.0, row['reward'] / 0.75)):.0f};border-left-width:{4 if taken else 1}px"
    opened = " open" if taken else ""
    kind = "state taken" if taken else "state"
    return f'<div class="{kind}" style="{style}"><details{opened}><summary>{label}</summary>{inside}</details></div>'


def _seen(row: Row, pictures: Mapping[int, bytes]) -> str:
    name, said = f"{row['lineage']} {row['phase']}", ", ".join(row["mechanics"])
    parts = ", ".join(f"{key.replace('_', ' ')} {value:g}" for key, value in row["signals"].items())
    facts = f'<p class="small">Mechanics: {text(said)}<br>{text(parts)}</p>{_planned(row)}'
    picture = ""
    if row["step"] in pictures:
        code = base64.b64encode(pictures[row["step"]]).decode("ascii")
        picture = f'<img alt="{text(name)}" src="data:image/jpeg;base64,{code}" width="240" height="160">'
    step = int(row["step"])
    frame = (  # empty until the link is followed: no game runs that nobody asked for
        f'<p class="small"><a href="games/{step}.html" target="play-{step}" rel="noreferrer">Start {text(name)}</a>, '
        "then click into it: arrow keys and space.</p>"
        f'<iframe name="play-{step}" title="{text(name)}, to be played" sandbox="allow-scripts"></iframe>'
    )
    return f'<div class="version">{picture}<div>{facts}</div></div>{fold("play it", frame)}'


def deltas(row: Row) -> list[str]:
    """What a version has more and less than its parent, and whence, one a mechanic."""
    done = [one for one in row.get("changes", ()) if one["done"]]  # runs of before had none
    gone = [f"removed {one['mechanic']} ({one['why']})" for one in done if one["what"] == "remove"]
    come = [f"took {one['mechanic']} of {_whence(one['from'])}" for one in done if one["what"] == "take"]
    return [*gone, *come, *(f"added {name} ({who})" for name, who in row["added"].items())]


def _whence(origin: Row) -> str:
    """A game and its version; runs of before noted no version."""
    return f"{origin['lineage']} v{origin['version']}" if "version" in origin else origin["lineage"]


def _planned(row: Row) -> str:
    """What was planned, and what of it was not done."""
    aims = [f"{what} {', '.join(names)}" for what, names in row.get("plan", {}).items() if names]
    undone = [
        f"not done: {one['what']} {one['mechanic']}, the page then fails ({one['words']})"
        for one in row.get("changes", ())
        if not one["done"]
    ]
    return f'<p class="small">{"<br>".join(map(text, ["Plan: " + "; ".join(aims), *undone]))}</p>' if aims else ""


def _call(call: Row) -> str:
    gate = _GATES.get(call["gate"], call["gate"])
    if call["gate"] == "" and not call["there"]:
        gate = "plays, without the mechanic"
    shown = [f"{m['kind']} {m['id']} ({m['value']:+.2f})" for m in call["advice"]]
    said = f'<p class="small">{text(call["words"])}{" · with " + text(", ".join(shown)) if shown else ""}</p>'
    code = f"<pre>{text(call['source'])}</pre>" if call["source"] else ""
    return fold(f"{call['stage']} {call['mechanic']}, call {call['iteration']}: {gate}", said + code)
