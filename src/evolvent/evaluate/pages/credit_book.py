"""``credit.json`` of a run: the same attempts under several credit rules, checked, and cut to the size of a page.

{"rules": [{"name", "level", "summary", "trained", "unit": "token" or "turn"}],
 "episodes": [{"id", "task", "group", "return", "success", "update", "nodes": [
    {"kind": "observation", "agent", "text"},
    {"kind": "action", "agent", "text", "reward", "tokens": [text of each], "logp": [...], "entropy": [...] or null,
     "value": [...] or null, "credit": {rule: [one number for each token, or null where it is not scored]}}]}]}
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from evolvent.core.errors import BadInput
from evolvent.core.jsonfile import read_object

Column = tuple[float | None, ...]
SHADES = 9
"""Steps of colour on each side of zero."""
_EPISODES, _RULES = 8, 8
_TOKENS, _CHARACTERS, _SEEN, _PIECE = 6400, 150_000, 3000, 80  # of all attempts; of one observation, one token
_NEAR_ZERO = 0.005
_FULL_QUANTILE = 0.99


@dataclass(frozen=True)
class Rule:
    """A credit rule: ``unit`` says whether a token or a whole turn earns, ``trained`` that it moved the weights."""

    name: str
    level: str
    summary: str
    trained: bool
    unit: Literal["token", "turn"]


@dataclass(frozen=True)
class Observation:
    """What an agent saw."""

    agent: str
    text: str


@dataclass(frozen=True)
class Decision:
    """A decision: one number for each token in every column; ``credit`` has a column for each rule.

    ``left_out`` tokens at its end are not there; ``worth`` is the credit of the turn under each rule, those included:
    the sum over its tokens, or of a rule for turns the number that all of them share.
    """

    agent: str
    text: str
    reward: float | None
    tokens: tuple[str, ...]
    logp: Column | None
    entropy: Column | None
    value: Column | None
    credit: tuple[Column, ...]
    worth: Column
    left_out: int = 0


@dataclass(frozen=True)
class EpisodeView:
    """An episode; ``left_out`` decisions at its end are not there."""

    task: str
    group: str
    total: float | None
    success: bool | None
    update: int | None
    nodes: tuple[Observation | Decision, ...]
    left_out: int = 0

    @property
    def turns(self) -> list[Decision]:
        """Its decisions."""
        return [node for node in self.nodes if isinstance(node, Decision)]


@dataclass(frozen=True)
class CreditBook:
    """Rules and attempts; ``full`` and ``full_turn`` are the credit of a token, and of a turn, with the full colour."""

    rules: tuple[Rule, ...]
    attempts: tuple[EpisodeView, ...]
    full: tuple[float, ...]
    full_turn: tuple[float, ...]
    left_out: int = 0

    @property
    def first(self) -> int:
        """The rule to begin with: the one that trained."""
        return next((i for i, rule in enumerate(self.rules) if rule.trained), 0)


def read(path: Path) -> CreditBook:
    """The content of ``credit.json``, at most 8 attempts and about 6,400 tokens of it.

    Raises:
        BadInput: a part is missing, or a column does not have one number for every token.
    """
    content, where = read_object(path, "a file that `evolvent run` wrote"), str(path)
    try:
        rules = tuple(_rule(row) for row in content["rules"][:_RULES])
        rows = content["episodes"]
        attempts = [_attempt(row, rules, f"{where}, episode {row.get('id')}") for row in rows[:_EPISODES]]
    except (KeyError, TypeError, AttributeError) as error:
        raise BadInput(
            "credit.json lacks a part",
            got=repr(error),
            expected="rules and episodes as in docs/run-folder.md",
            where=where,
        ) from error
    turns = [turn for attempt in attempts for turn in attempt.turns]
    full = tuple(_full([v for turn in turns for v in turn.credit[i]]) for i in range(len(rules)))
    full_turn = tuple(_full([turn.worth[i] for turn in turns]) for i in range(len(rules)))
    share = max(1, len(attempts))
    cut = tuple(_cut(a, tokens=_TOKENS // share, characters=_CHARACTERS // share) for a in attempts)
    return CreditBook(rules, cut, full, full_turn, max(0, len(rows) - _EPISODES))


def shade(value: float | None, full: float) -> str:
    """Name of a colour: ``x`` not scored, ``z`` about nothing, ``p1`` … ``p9`` above zero, ``n1`` … ``n9`` below."""
    if value is None:
        return "x"
    share = abs(value) / full if full > 0 else 0.0
    if share < _NEAR_ZERO:
        return "z"
    return f"{'p' if value > 0 else 'n'}{min(SHADES, max(1, math.ceil(SHADES * share - 1e-9)))}"


# ------------------------------------------------------------------------------------------------ reading
def _rule(row: Mapping[str, Any]) -> Rule:
    unit = "turn" if row["unit"] == "turn" else "token"
    return Rule(str(row["name"]), str(row["level"]), str(row["summary"]), bool(row["trained"]), unit)


def _attempt(row: Mapping[str, Any], rules: Sequence[Rule], where: str) -> EpisodeView:
    nodes: list[Observation | Decision] = []
    for node in row["nodes"]:
        if node["kind"] == "action":
            nodes.append(_turn(node, rules, f"{where}, node {len(nodes)}"))
        else:
            nodes.append(Observation(str(node.get("agent", "")), str(node["text"])))
    success, update = row.get("success"), row.get("update")
    return EpisodeView(
        str(row["task"]),
        str(row.get("group", "")),
        _number(row.get("return")),
        None if success is None else bool(success),
        None if update is None else int(update),
        tuple(nodes),
    )


def _turn(node: Mapping[str, Any], rules: Sequence[Rule], where: str) -> Decision:
    tokens = tuple(str(piece) for piece in node["tokens"])
    given: Mapping[str, Any] = node["credit"]

    def column(name: str, values: Sequence[Any] | None) -> Column | None:
        if values is None:
            return None
        if len(values) != len(tokens):
            raise BadInput(
                "not one number for every token", got=f"{name}: {len(values)}", expected=len(tokens), where=where
            )
        return tuple(_number(value) for value in values)

    nothing: Column = (None,) * len(tokens)
    credit = tuple(column(rule.name, given.get(rule.name)) or nothing for rule in rules)
    worth = tuple(_worth(numbers, rule) for numbers, rule in zip(credit, rules, strict=True))
    return Decision(
        str(node.get("agent", "")),
        str(node["text"]),
        _number(node.get("reward")),
        tokens,
        column("logp", node.get("logp")),
        column("entropy", node.get("entropy")),
        column("value", node.get("value")),
        credit,
        worth,
    )


def _worth(numbers: Column, rule: Rule) -> float | None:
    scored = [number for number in numbers if number is not None]
    if not scored:
        return None
    shared = rule.unit == "turn" and max(scored) - min(scored) <= 1e-6 * max(map(abs, scored))
    return scored[0] if shared else math.fsum(scored)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _full(values: Sequence[float | None]) -> float:
    """One in a hundred may be stronger than the full colour, so that a single one does not pale all others."""
    sizes = [abs(v) for v in values if v]
    return float(np.quantile(sizes, _FULL_QUANTILE, method="higher")) if sizes else 0.0


# ------------------------------------------------------------------------------------------------ cutting
def _cut(attempt: EpisodeView, *, tokens: int, characters: int) -> EpisodeView:
    """As much of its beginning as fits."""
    shown_nodes: list[Observation | Decision] = []
    for node in attempt.nodes:
        if tokens <= 0 or characters <= 0:
            break
        if isinstance(node, Observation):
            text, more = node.text[: min(_SEEN, characters)], len(node.text) - min(_SEEN, characters)
            text += f" … ({more:,} characters)" if more > 0 else ""
            shown_nodes.append(replace(node, text=text))
            characters -= len(text)
            continue
        shown = _shorter(node, tokens, characters)
        if not shown.tokens and node.tokens:
            break
        shown_nodes.append(shown)
        tokens -= len(node.tokens)  # a turn that was cut is the last one
        characters -= sum(map(len, shown.tokens)) or len(shown.text)
    left_out = len(attempt.turns) - sum(isinstance(node, Decision) for node in shown_nodes)
    return replace(attempt, nodes=tuple(shown_nodes), left_out=left_out)


def _shorter(turn: Decision, tokens: int, characters: int) -> Decision:
    pieces: list[str] = []
    for piece in turn.tokens[:tokens]:
        pieces.append(piece if len(piece) <= _PIECE else f"{piece[:_PIECE]}…")
        characters -= len(pieces[-1])
        if characters < 0:
            pieces.pop()
            break
    n = len(pieces)
    return replace(
        turn,
        text=turn.text[:_SEEN],
        tokens=tuple(pieces),
        logp=turn.logp and turn.logp[:n],
        entropy=turn.entropy and turn.entropy[:n],
        value=turn.value and turn.value[:n],
        credit=tuple(column[:n] for column in turn.credit),
        left_out=len(turn.tokens) - n,
    )
