"""The page of ``evolvent memory audit --html``: one file, nothing fetched; plain data in, text out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from evolvent.evaluate.live import percent, size
from evolvent.evaluate.pages.audit_svg import graph, shade, strip, trend, value_chart
from evolvent.evaluate.pages.page import fold, page, scroll, section, table, text, tiles


def render(story: Mapping[str, Any]) -> str:
    """The page as text, from what ``story()`` beside the command returns; its size is bounded by that."""
    audit = story["audit"]
    lo, hi = story["reward_range"]
    # the last part of the path, with the folder where the file has the name that runs give it; no more of the machine
    parts = str(story["store"]).replace("\\", "/").rsplit("/", 2)
    title = "Memory " + "/".join(parts[-2:] if parts[-1] == "memory.db" else parts[-1:])
    return page(
        title,
        [
            _head(story, title),
            _warnings(audit["warnings"]),
            _numbers(audit),
            _charts(story["charts"], lo, hi),
            _strip(story["strip"], lo, hi),
            _graph(story["graph"], lo, hi),
            section("Where the credit comes from", _credit(audit["credit"])),
            section("Growth", _growth(audit)),
            section("Worth a look", _findings(audit)),
            section("Acts", _acts(audit["acts"])),
            "<footer>Values are in units of reward. Every number comes from the append-only log of the store; "
            "<code>evolvent memory explain STORE m1</code> is the ledger of one memory.</footer>",
        ],
        styles=("report.css", "audit.css"),
    )


def _head(story: Mapping[str, Any], title: str) -> str:
    facts = [f"scope {story['scope']}", f"policy {story['policy']}"]
    if at := story["audit"]["growth"]["at"]:
        facts.append(" to ".join(dict.fromkeys(_moment(when)[:10] for when in (at[0], at[-1]))))
    return f'<header><h1>{text(title)}</h1><p class="soft">{text(" · ".join(facts))}</p></header>'


def _warnings(found: Sequence[str]) -> str:
    if not found:
        return '<div class="warnings fine"><p>Nothing looks wrong.</p></div>'
    return '<div class="warnings">' + "".join(f"<p>{text(_sentence(line))}</p>" for line in found) + "</div>"


def _numbers(audit: Mapping[str, Any]) -> str:
    asked = audit["recalls"] - audit["test_recalls"]
    shown = {
        "memories in use": audit["items"],
        "had an outcome": percent(audit["coverage"]),
        "never shown": audit["never_shown"],
        "receipts": audit["recalls"],
        "of them settled": percent(audit["settled"] / asked if asked else None),
        "seem to do harm": audit["harmful"]["memories"],
        "made from memories not trusted": audit["poisoned"]["memories"],
        "near duplicates": audit["duplicates"]["near"]["memories"],
    }
    shown |= {status: count for status, count in audit["by_status"].items() if status != "active"}
    if audit["bytes"]:
        shown["on disk"] = size(sum(audit["bytes"].values()))
    return tiles(shown)


# ---------------------------------------------------------------------------------------------------- pictures
def _charts(charts: Mapping[str, Sequence[Mapping[str, Any]]], lo: float, hi: float) -> str:
    keys = (
        _key('<circle class="mark t6" cx="8" cy="8" r="5"/>', "shown")
        + _key('<circle class="out t6" cx="8" cy="8" r="4.5"/>', "left out on purpose")
        + _key('<path class="mark t6" d="M8 2l6 6-6 6-6-6z"/>', "credit from a descendant")
        + f"<span>{_scale('reward')}</span>"
        + _key('<line class="start" x1="0" x2="16" y1="8" y2="8"/>', "starting value")
    )
    if any(not point[4] for group in charts.values() for chart in group for point in chart["points"]):
        keys += _key('<circle class="mark t6 void" cx="8" cy="8" r="5"/>', "voided")
    body = f'<div class="keys">{keys}</div>'
    for name, group in charts.items():
        cards = "".join(_chart(chart, lo, hi) for chart in group)
        body += f'<h3>{text(name.capitalize())}</h3><div class="small-charts">{cards}</div>' if cards else ""
    return section("Value over time", body if any(charts.values()) else "")


def _chart(chart: Mapping[str, Any], lo: float, hi: float) -> str:
    head = f'<i>{text(chart["id"])}</i> <span title="{text(chart["key"])}">{text(chart["key"])}</span>'
    return f'<div><h3>{head}<b class="is">{chart["value"]:.2f}</b></h3>{value_chart(chart, lo, hi)}</div>'


def _strip(data: Mapping[str, Any], lo: float, hi: float) -> str:
    if not data["rows"]:
        return ""
    keys = f"<span>{_scale('mean reward of what followed')}</span>"
    keys += _key('<rect class="left" x="3" y="3" width="9" height="9"/>', "left out on purpose")
    keys += _key('<rect class="cell none" x="2" y="2" width="12" height="12"/>', "not settled")
    caption = (
        f'<p class="soft small">The {len(data["rows"])} memories that were shown most, and those that seem to do harm, '
        "oldest first; receipts from left to right.</p>"
    )
    picture = scroll(strip(data, lo, hi), "what was shown when")
    return section("What was shown when", f'{caption}<div class="keys">{keys}</div>{picture}')


def _graph(data: Mapping[str, Any], lo: float, hi: float) -> str:
    if not data["edges"]:
        return ""
    keys = f"<span>{_scale('value')}</span>"
    keys += _key('<circle class="bad-ring" cx="8" cy="8" r="6"/>', "quarantined")
    keys += _key('<circle class="node t6 gone" cx="8" cy="8" r="6"/>', "archived or superseded")
    keys += _key('<path class="edge" d="M0 8h16"/>', "written while it was shown")
    keys += _key('<path class="edge revised" d="M0 8h16"/>', "new version")
    more = f'<p class="soft small">{data["more"]} more relatives are not drawn.</p>' if data["more"] else ""
    picture = scroll(graph(data, lo, hi), "provenance")
    return section("Provenance", f'<div class="keys">{keys}</div>{picture}{more}')


def _key(shape: str, name: str) -> str:
    return f'<span><svg viewBox="0 0 16 16" aria-hidden="true">{shape}</svg>{text(name)}</span>'


def _scale(name: str) -> str:
    steps = "".join(f'<i class="{shade(i, 0, 6)}"></i>' for i in range(7))
    return f'low<span class="scale">{steps}</span>high {text(name)}'


# ---------------------------------------------------------------------------------------------------- tables
def _credit(credit: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> str:
    outcomes = [
        [name, row["outcomes"], row["invalid"], row["mean_reward"], row["credits"], percent(row["share"])]
        for name, row in credit["by_outcome"].items()
    ]
    counts = ("memories", "active", "quarantined", "tried", "mean_value")
    memories = [
        [name, *(row[one] for one in counts), percent(row["share"])] for name, row in credit["by_memory"].items()
    ]
    first = table(["outcomes said by", "outcomes", "invalid", "mean reward", "credits", "share of credit"], outcomes)
    columns = ["memories written by", "memories", "in use", "quarantined", "tried", "mean value", "share of credit"]
    return first + (f"<p></p>{table(columns, memories)}" if memories else "")


def _growth(audit: Mapping[str, Any]) -> str:
    growth = audit["growth"]
    at = growth["at"]
    parts = "".join(
        f'<div><h3>{name} <b class="soft">{growth[name][-1]:,}</b></h3>{trend(name, at, growth[name])}</div>'
        for name in ("memories", "receipts", "outcomes")
        if len(at) > 1
    )
    pictures = f'<div class="three">{parts}</div>' if parts else ""
    rows = [[name, size(n)] for name, n in list(audit["bytes"].items())[:12]]
    return pictures + fold("Bytes by table", table(["table", "on disk"], rows))


def _findings(audit: Mapping[str, Any]) -> str:
    harmful = _columns(audit["harmful"]["worst"], "id", "why", "value", "n", "source")
    poisoned = [[r["id"], f"{r['root']} ({r['why']})", r["depth"]] for r in audit["poisoned"]["nearest"]]
    doubles, same = (
        [[", ".join(group)] for group in audit["duplicates"][kind]["largest"]] for kind in ("near", "same_body")
    )
    replaced = _columns(audit["replaced_by_nothing"], "id", "by", "which_is")
    untried = _columns(audit["untried"], "id", "key", "body", "source")
    opened = [[r["id"], _moment(r["at"])] for r in audit["unsettled"]["oldest"]]
    parts = [
        fold(
            _count(audit["harmful"]["memories"], "memory seems to do harm", "memories seem to do harm"),
            table(["memory", "because", "value", "outcomes", "source"], harmful, left=(0, 1)),
            opened=bool(harmful),
        ),
        fold(
            _count(audit["poisoned"]["memories"], "memory in use descends", "memories in use descend")
            + " from what is not trusted",
            table(["memory", "descends from", "links"], poisoned, left=(0, 1)),
            opened=bool(poisoned),
        ),
        fold(
            _count(audit["duplicates"]["near"]["groups"], "group", "groups") + " of near duplicates",
            table(["memories"], doubles),
        ),
        fold(
            _count(audit["duplicates"]["same_body"]["groups"], "text", "texts") + " under several keys",
            table(["memories"], same),
        ),
        fold("Replaced by what is out of recall itself", table(["memory", "by", "which is"], replaced, left=(0, 1, 2))),
        fold(
            _count(audit["unsettled"]["receipts"], "receipt", "receipts") + " without an outcome",
            table(["receipt", "since"], opened),
        ),
        fold("Never tried, newest first", table(["memory", "when", "what", "source"], untried, left=(0, 1, 2, 3))),
    ]
    return "".join(parts)


def _columns(records: Sequence[Mapping[str, Any]], *names: str) -> list[list[Any]]:
    return [[record[name] for name in names] for record in records]


def _acts(acts: Sequence[Mapping[str, Any]]) -> str:
    rows = [[a["id"], a["verb"], a["target"], a["memories"], a["reason"], _moment(a["at"])] for a in acts]
    return table(["id", "act", "of", "memories", "reason", "when"], rows, left=(0, 1, 2, 4, 5))


def _count(n: int, one: str, many: str) -> str:
    return f"{n} {one if n == 1 else many}"


def _sentence(line: str) -> str:
    return line[:1].upper() + line[1:] + ("" if line.endswith("?") else ".")


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at).strftime("%Y-%m-%d %H:%M")
