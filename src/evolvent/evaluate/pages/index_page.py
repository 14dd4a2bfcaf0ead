"""The page over a folder of runs: one line a run, sorted and filtered where scripts run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evolvent.evaluate.index import Listed
from evolvent.evaluate.live import count, duration
from evolvent.evaluate.pages.page import page, scroll, text

_COLUMNS = ("run", "state", "score [95 %]", "verdict", "system", "environment", "started", "took")
_MARKS = {"running": "●", "finished": "✓", "stopped": "■", "failed": "!", "broken": "!"}


def render(title: str, runs: Sequence[Listed], where: dict[str, str]) -> str:
    """The page as text; ``where`` has the address of the report of each run that has one, by its path."""
    states = {state: sum(run.state == state for run in runs) for state in _MARKS}
    counts = " · ".join([count(len(runs), "run"), *(f"{n} {state}" for state, n in states.items() if n)])
    head = "".join(f'<th class="first" scope="col">{name}</th>' for name in _COLUMNS)
    rows = "".join(_row(run, where.get(run.path, "")) for run in runs)
    table = scroll(f'<table class="runs"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>', "runs")
    body = [f'<header><h1>{text(title)}</h1><p class="soft">{text(counts)}</p></header>', table]
    body.append(
        "<footer><p>A verdict is of one seed. <code>evolvent compare</code> puts runs of several seeds beside one "
        "another.</p></footer>"
    )
    return page(title, body, styles=("report.css", "index.css"), scripts=("index.js",))


def _row(run: Listed, address: str) -> str:
    name = f'<a href="{text(address)}">{text(run.path)}</a>' if address else text(run.path)
    state = f'<span class="state {run.state}"><span aria-hidden="true">{_MARKS[run.state]}</span> {run.state}</span>'
    if run.state == "broken":
        return f'<tr class="broken"><td>{name}</td><td>{state}</td><td colspan="6">{text(run.trouble)}</td></tr>'
    assert run.verdict is not None
    seed = f' <span class="soft">seed {run.seed}</span>'
    said = f'<span class="{_KINDS.get(run.verdict.state, "soft")}">{text(run.verdict.sentence)}</span>'
    if run.trouble:
        said = f'<span class="bad">{text(run.trouble)}</span>'
    cells = [
        _cell(name + seed, run.path),
        _cell(state, run.state),
        _cell(text(run.score), "" if run.value is None else run.value),
        _cell(said, run.verdict.state),
        _cell(f'<span title="{text(run.kind)}">{text(run.algo)}</span>', run.algo),
        _cell(text(run.env), run.env),
        _cell(text(run.started[:16].replace("T", " ")), run.started),
        _cell(text(duration(run.seconds)), run.seconds),
    ]
    return f'<tr class="{run.state}">{"".join(cells)}</tr>'


_KINDS = {"better": "good", "worse": "bad"}


def _cell(inside: str, key: Any) -> str:
    return f'<td data-key="{text(key)}">{inside}</td>'
