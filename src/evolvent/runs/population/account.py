"""The page of a run over populations: NashConv, the mixture, who beats whom, plays move by move, who worked when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from evolvent.core.folder import RunFolder
from evolvent.core.game import CHANCE, Game, decode_game
from evolvent.core.jsonfile import dump, lines, read_object
from evolvent.evaluate.blocks import (
    Block,
    Curve,
    Headline,
    Hint,
    Line,
    Node,
    Number,
    Page,
    Shares,
    Table,
    Text,
    Tree,
)
from evolvent.evaluate.live import count, number
from evolvent.formulas import meta_games
from evolvent.runs.account.updates import facts, section
from evolvent.runs.population.summary import MATCHES, PAYOFFS

Row = Mapping[str, Any]
SHOWN = 6
"""Members of a player in the payoff table; twice as many in the map of the mixture."""
ITERATIONS, BINS = 4, 96
"""Of the picture of who worked when."""
KINDS = {"response": "responses", "plays": "matches", "more": "matches", "judge": "judging"}
_READING = (
    "NashConv is what all players together would gain if each alone answered best: 0 at a Nash equilibrium. OpenSpiel "
    "computes it from the whole game, exactly. Payoffs are returns; those without an interval are exact, too. A member "
    "beats another where it earns more than the value. Added: what the player secured more when it joined; lost "
    "without: what it would secure less."
)


def account(folder: RunFolder) -> Page:
    """What a run over populations tells of itself."""
    manifest, rows = folder.manifest(), folder.read_metrics()
    summary = folder.summary() if folder.finished else {}
    score = _score(summary, rows)
    beside = [Number(f"value of player {p}", value) for p, value in enumerate(summary.get("values", ()))]
    body: list[Block] = [Headline((score, *beside))] if score else []
    body += [*_said(summary), *_curve(summary, rows)]
    body += section("The mixture", _mixtures(rows, summary))
    if summary:
        payoffs = read_object(folder.path / PAYOFFS, "a run that has ended")
        body += section("Who beats whom", _beaten(summary, payoffs))
        body += section("Plays of the mixture, move by move", _plays(folder))
    body += section("Who worked when", _timeline(list(lines(folder.path / "tasks.jsonl"))))
    shown = facts(manifest, summary, str(summary.get("game", "")), count(len(rows), "iteration"))
    done = summary.get("iterations")
    flags = ("--iterations", str(2 * done)) if done and not summary.get("stopped") else ()
    hint = Hint("Go on with more iterations." if flags else "", flags, bool(flags), verdict=_verdict(summary, rows))
    return Page("", tuple(body), score, shown, len(rows), "iterations", hint, _READING)


def _score(summary: Row, rows: Sequence[Row]) -> Number | None:
    if summary:
        return Number(summary["score"]["name"], summary["score"]["value"], higher_is_better=False)
    return (
        Number("NashConv", rows[-1]["nash_conv"], higher_is_better=False) if rows and "nash_conv" in rows[-1] else None
    )


def _verdict(summary: Row, rows: Sequence[Row]) -> str:
    if not summary or not rows or "nash_conv" not in rows[0]:
        return ""
    before, after = rows[0]["nash_conv"], summary["score"]["value"]
    if summary["stopped"]:
        return f"NashConv {number(after)}: an equilibrium, as near as was asked for. It began at {number(before)}."
    least = min(row["nash_conv"] for row in rows)
    end = f"NashConv {number(after)} after {count(len(rows), 'iteration')}; it began at {number(before)}"
    if after >= before:
        return f"{end}: it did not fall."
    return f"{end} and was once at {number(least)}: it does not settle." if after > 2 * least else f"{end}."


def _said(summary: Row) -> list[Block]:
    if not summary:
        return []
    used = " and ".join(f"{sum(w > 0 for w in own)} of {len(own)}" for own in summary["mixture"])
    end = "It stopped by itself" if summary["stopped"] else "It was stopped by the number of iterations"
    return [
        Text((f"{end}; the mixture holds {used} members, by player. mixture.json is one policy of it.",), said=True)
    ]


def _curve(summary: Row, rows: Sequence[Row]) -> list[Block]:
    x = tuple(float(row["update"] - 1) for row in rows)
    drawn: list[Line] = []
    if rows and "nash_conv" in rows[0]:
        y = tuple(float(row["nash_conv"]) for row in rows)
        more = summary.get("score", {}).get("value")
        at, y = ((*x, len(rows)), (*y, more)) if more is not None else (x, y)
        drawn.append(Line("NashConv of the mixture", tuple(map(float, at)), y, mark="line", role="judged"))
    if rows and (not drawn or any(row["gain_error"] > 0 for row in rows)):
        gain = [(row["gain"], 1.96 * row["gain_error"]) for row in rows]
        lo, hi = tuple(g - e for g, e in gain), tuple(g + e for g, e in gain)
        drawn.append(Line("what the responses gain", x, tuple(g for g, _ in gain), lo, hi, style=2, mark="line"))
    ticks = tuple((float(at), str(at)) for at in np.unique(np.linspace(0, len(rows), 6).astype(int)))
    return [Curve("Exploitability", tuple(drawn), "iterations", "return", zero=True, ticks=ticks)] if drawn else []


def _mixtures(rows: Sequence[Row], summary: Row) -> list[Block]:
    """By player a map of its weightiest members: a row a member, a column an iteration."""
    found: list[Block] = []
    for p in range(len(rows[0]["mixture"]) if rows else 0):
        columns = [row["mixture"][p] for row in rows]
        if summary:
            columns.append({str(k): w for k, w in enumerate(summary["mixture"][p]) if w})
        total = dict.fromkeys((k for column in columns for k in column), 0.0)
        for i, column in enumerate(columns):  # late columns first: those are what the run came to
            for k, w in column.items():
                total[k] += w * (1 + i)
        best = sorted(sorted(total, key=total.__getitem__, reverse=True)[: 2 * SHOWN], key=int)
        cells = tuple((f"member {k}", tuple(float(column.get(k, 0.0)) for column in columns)) for k in best)
        found.append(Shares(f"Weight of the members of player {p}", cells, "iterations", len(columns) - 1))
    return found


# ------------------------------------------------------------------------------------------------ members
def _beaten(summary: Row, payoffs: Row) -> list[Block]:
    """What the weightiest members earn against each other, and by player each with what it adds."""
    mean, plays, variance = (np.array(payoffs[name]) for name in ("mean", "count", "variance"))
    error = np.where(plays > 0, 1.96 * np.sqrt(variance / np.maximum(plays, 1)), 0.0)
    mixture = [np.array(own) for own in summary["mixture"]]
    best = [_weightiest(own, SHOWN) for own in mixture]
    found: list[Block] = []
    if len(mixture) == 2:
        cells = tuple((f"member {i}", *(_earned(mean[0, i, j], error[0, i, j]) for j in best[1])) for i in best[0])
        columns = ("player 0 earns against", *(f"member {j}" for j in best[1]))
        found.append(Table(columns, cells, title="The weightiest members against each other"))
    joined, left_out = (summary["credit"].get(name) for name in ("joined", "left_out"))
    for p, own in enumerate(mixture):
        earned, columns = meta_games.deviations(mean, mixture, p), ["member", "weight, %", "earns"]
        rows: list[list[str | float | None]] = [[f"{k}", 100 * float(own[k]), float(earned[k])] for k in best[p]]
        if len(mixture) == 2:
            columns.append(f"beats of player {1 - p}")
            margin = np.moveaxis(mean[p] - error[p], p, 0) - summary["values"][p]
            for row, k in zip(rows, best[p], strict=True):
                row.append(", ".join(str(j) for j in best[1 - p] if margin[k, j] > 1e-9) or "none of these")
        if joined and left_out:
            columns += ["added", "lost without"]
            for row, k in zip(rows, best[p], strict=True):
                row += [round(joined[p][k], 9) + 0.0, round(left_out[p][k], 9) + 0.0]  # no -0
        found.append(Table(tuple(columns), tuple(map(tuple, rows)), title=f"Members of player {p}", left=(0, 3)))
    return found


def _weightiest(weight: np.ndarray, most: int) -> list[int]:
    return sorted(sorted(range(len(weight)), key=lambda k: (-weight[k], -k))[:most])


def _earned(mean: float, error: float) -> str:
    return f"{round(mean, 3) + 0.0:+.3f}" + (f" [{mean - error:+.3f}, {mean + error:+.3f}]" if error else "")


# ------------------------------------------------------------------------------------------------ plays
def _plays(folder: RunFolder) -> list[Block]:
    """Each play as a list of moves; a move opens, and shows what its player knew and what else it could do."""
    return [_play(decode_game(dump(row))) for row in lines(folder.path / MATCHES)]


def _play(game: Game) -> Tree:
    nodes: list[Node] = []
    for ply, words in zip(game.plies, game.meta["words"], strict=True):
        share = ply.probs[ply.legal.index(ply.action)]
        if ply.player == CHANCE:
            nodes.append(Node(-1, f"chance: {ply.text}", facts=f"{share:.0%}"))
            continue
        odds = tuple((word, round(100 * p, 1)) for word, p in zip(words, ply.probs, strict=True))
        knew = Text(("What it knew: " + " ".join(ply.knows.split()),), "soft")
        inside, said = (knew, Table(("could be", "chance, %"), odds)), f"{game.players[ply.player]}: {ply.text}"
        nodes.append(Node(-1, said, facts=f"{share:.0%}", weight=share, taken=True, inside=inside))
    heading = f"{' against '.join(game.players)}: {' to '.join(f'{value:+g}' for value in game.returns)}"
    return Tree(heading, tuple(nodes))


# ------------------------------------------------------------------------------------------------ workers
def _timeline(done: Sequence[Row]) -> list[Block]:
    """What each worker did in the last iterations, and how busy they were in all; nothing where there is one."""
    names = {name: i for i, name in enumerate(dict.fromkeys(row["worker"] for row in done))}
    if len(names) < 2:
        return []
    last = [row for row in done if row["iteration"] > done[-1]["iteration"] - ITERATIONS]
    start, end = min(row["began"] for row in last), max(row["ended"] for row in last)
    edges, busy = np.linspace(start, end, BINS + 1), dict[str, np.ndarray]()
    for row in sorted(last, key=lambda row: names[row["worker"]]):
        name = f"{names[row['worker']]} {KINDS[row['task'].partition(' ')[0]]}"
        inside = np.minimum(edges[1:], row["ended"]) - np.maximum(edges[:-1], row["began"])
        busy[name] = busy.get(name, np.zeros(BINS)) + np.maximum(inside, 0.0) / np.diff(edges)
    cells = tuple((name, tuple(map(float, share))) for name, share in busy.items())
    return [Text((_busy(done),)), Shares("Workers in the last iterations", cells, "seconds", round(end - start, 2))]


def _busy(done: Sequence[Row]) -> str:
    """How much went on at once, how long tasks took, and how long a free worker waited for one that was asked for."""
    spent = np.array([row["ended"] - row["began"] for row in done])
    waits = list[float]()
    for worker in {row["worker"] for row in done}:
        own = sorted((row for row in done if row["worker"] == worker), key=lambda row: row["began"])
        waits += [b["began"] - max(b["asked"], a["ended"]) for a, b in pairwise(own)]
    wall = sum(
        max(row["ended"] for row in some) - min(row["asked"] for row in some)
        for some in ([row for row in done if row["iteration"] == i] for i in {row["iteration"] for row in done})
    )
    return (
        f"{count(len(done), 'task')}, {number(float(spent.mean()))} s each in the mean; "
        f"{number(float(spent.sum()) / max(wall, 1e-9))} at once, {number(len(done) / max(wall, 1e-9))} a second. "
        f"From asking to beginning: {number(1000 * float(np.median(waits)) if waits else 0.0)} ms, where a worker was "
        "free (median)."
    )
