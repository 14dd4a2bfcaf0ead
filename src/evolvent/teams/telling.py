"""What `teams.channels.measure` found, in words, as tables and as a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evolvent.evaluate.blocks import Bars, Curve, Headline, Line, Number, Table, Text
from evolvent.evaluate.live import count, interval
from evolvent.teams.channels import FEWEST

_PAIRS = 40  # rows of the table of pairs, at most
TWO = (
    "With plain majority vote two agents score the mean of the two: a pair pays by pooled confidence, by debate, or by "
    "somebody who tells which of them is right."
)
NOT_WORTH = (
    "None of this says what an agent is worth: correlation is not worth, and without an agent the others would have "
    "answered something else. To find out, run the team without it: evolvent.worth(run=…, parts=…)."
)


def words(data: Mapping[str, Any]) -> list[str]:
    """What the numbers say, a thought a line."""
    n, questions, left_out = len(data["agents"]), count(data["questions"], "question"), data["left_out"]
    more = f"; {left_out} more that not all of them answered are left out" if left_out else ""
    said = [f"{n} agents, {questions}{more}."]
    said += [
        f"{arm['name']}: {interval(arm['score'][0], arm['score'][1:])}{_than(arm['gain'])}" for arm in data["arms"]
    ]
    said += [
        "The best single was found on these very questions, which flatters it.",
        TWO,
        _errors(data["error_correlation"], n),
        *_channels(data["k_star"], n),
    ]
    if not data["ever_agree"]:
        said.append(
            "No two agents ever gave the same answer, so every vote is a lot. A vote needs short answers: put the "
            'final answer into "answer" and what was said into "text".'
        )
    for team in data["teams"]:
        (chosen_on, judged_on), (value, *ends) = team["questions"], team["score"]
        members, (alone, *alone_ends) = " + ".join(team["members"]), team["single_score"]
        said.append(
            f"Best {len(team['members'])} by {team['rule']}, chosen on {chosen_on} questions: {members}. On the other "
            f"{judged_on}: {interval(value, ends)}; {team['single']}, the best alone on the first half, "
            f"{interval(alone, alone_ends)}{_than(team['gain'])}."
        )
    if not data["teams"]:
        said.append(f"Too few questions to choose a team on one half and judge it on the other: {FEWEST} are needed.")
    return [*said, NOT_WORTH]


def _than(gain: Sequence[float] | None) -> str:
    if gain is None:
        return ""
    value, low, high = (100.0 * end for end in gain)
    verdict = "better than the best single" if low > 0 else "worse" if high < 0 else "no difference shown"
    return f"; {value:+.0f} points [{low:+.0f}, {high:+.0f}], {verdict}"


def _errors(errors: Mapping[str, Any], n: int) -> str:
    if errors["mean"] is None:
        return "Error correlation: not known, as no two agents are both sometimes right and sometimes wrong."
    size = errors["effective_size"]
    return f"Error correlation, mean over pairs: {errors['mean']:.2f}, as if {size:.1f} of {n} erred independently."


def _channels(k: Mapping[str, Any], n: int) -> list[str]:
    said = [
        f"K* of the answers, equal or not: {interval(k['answers'][0], k['answers'][1:], rate=False)} of {n} channels."
    ]
    if "embedder" in k:
        said.append(
            f"K* of the texts under {k['embedder']}: {interval(k['texts'][0], k['texts'][1:], rate=False)} of {n} "
            f"(one text repeated 1, unrelated texts {k['unrelated']:.2f}). It compares within this embedder only."
        )
        right, wrong = k["right"], k["wrong"]
        if right is not None and wrong is not None and right < wrong:
            said.append(
                f"Agents that are wrong differ more (K* {wrong:.2f}) than those that are right ({right:.2f}): part "
                "of this diversity is noise."
            )
    return said


def page_of(data: Mapping[str, Any], name: str) -> str:
    """The page: what can be said, each way to answer on one axis, accuracy by number of agents, the tables."""
    from evolvent.evaluate.pages.draw import draw
    from evolvent.evaluate.pages.page import page, text

    title = f"Do these agents differ, and does it pay? {name}"
    arms = tuple(_rate(arm["name"], arm["score"], data["questions"]) for arm in data["arms"])
    sizes = data["by_number"]
    ways = [way for way in sizes[0] if way not in ("agents", "teams")]
    lines = tuple(
        Line(
            way,
            tuple(row["agents"] for row in sizes),
            *(tuple(row[way][i] for row in sizes) for i in range(3)),
            style=s,
        )
        for s, way in enumerate(ways)
    )
    blocks = [
        Headline(arms[:3]),
        Text(tuple(words(data))),
        Bars("Right, with its interval over questions", arms),
        Curve("Right, by number of agents, mean over teams", lines, "agents", "right", rate=True),
        *tables(data),
    ]
    return page(title, [f"<header><h1>{text(title)}</h1></header>", draw(blocks, Path())])


def _rate(name: str, score: Sequence[float], n: int) -> Number:
    return Number(name, score[0], (score[1], score[2]), rate=True, n=n, over="questions")


def tables(data: Mapping[str, Any]) -> list[Table]:
    """Each agent, each number of agents, each pair."""
    adds = data["k_star"].get("adds", {})
    columns = ("agent", "right, %", "from", "to", "tokens a question", *(["adds to K*"] if adds else []))
    rows = [
        (
            one["name"],
            *_percent(one["score"]),
            one["tokens"] and round(one["tokens"]),
            *([round(adds[one["name"]], 3)] if adds else []),
        )
        for one in data["agents"]
    ]
    sizes = data["by_number"]
    ways = [way for way in sizes[0] if way not in ("agents", "teams")]
    numbers = [(row["agents"], row["teams"], *(_percent(row[way])[0] for way in ways)) for row in sizes]
    known = [pair for pair in data["error_correlation"]["pairs"] if pair["value"] == pair["value"]]
    least = sorted(known, key=lambda pair: pair["value"])[:_PAIRS]
    pairs = [(*pair["agents"], round(pair["value"], 2)) for pair in least]
    return [
        Table(columns, tuple(rows), title="Agents"),
        Table(("agents", "teams", *(f"{way}, %" for way in ways)), tuple(numbers), title="By number of agents"),
        Table(("agent", "and", "error correlation"), tuple(pairs), title="Pairs, the least alike first", left=(0, 1)),
    ]


def _percent(score: Sequence[float]) -> list[float]:
    return [round(100 * value, 1) for value in score]
