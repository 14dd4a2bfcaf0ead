"""The part of a page that shows credit: attempts of a language model, each token coloured by what it earned.

Text of models and tasks is HTML text and nothing else; the script gets numbers only. Without the script the attempts
stand there under the rule that trained; with it the rule can be switched, and a second one put beside it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from evolvent.evaluate.pages.credit_book import (
    SHADES,
    Column,
    CreditBook,
    Decision,
    EpisodeView,
    Observation,
    Rule,
    shade,
)
from evolvent.evaluate.pages.page import text

_WIDTH, _HEIGHT, _REACH = 1000, 100, 46
_LONG, _PREVIEW = 360, 110
_HOW = (
    '<p class="how small soft" hidden>Point at a token or tap it for its numbers; with the keyboard, tab to a turn and '
    "use ← →, Escape closes them.</p>"
)
_UNITS = {"token": "a number for each token", "turn": "one number for a whole turn"}


def render(book: CreditBook) -> str:
    """The inside of the section; empty where there is no attempt or no rule."""
    if not book.attempts or not book.rules:
        return ""
    n = len(book.attempts)
    marks = "".join(
        f'<input type="radio" name="credit-attempt" id="credit-attempt-{i}"{" checked" if i == 0 else ""}>'
        for i in range(n)
    )
    listed = "".join(_listed(i, attempt) for i, attempt in enumerate(book.attempts))
    panes = "".join(_pane(attempt, book) for attempt in book.attempts)
    more = f"<p class='small soft'>and {book.left_out} more attempts in credit.json</p>" if book.left_out else ""
    return (
        f'<div id="credit">{_intro(book)}{_choice(book)}{_legend(book)}{_HOW}'
        f'<div class="attempts">{marks}<div class="list">{listed}</div>{more}<div class="panes">{panes}</div></div>'
        '<output class="readout" hidden></output>'
        '<svg class="paint" width="0" height="0" aria-hidden="true"><linearGradient id="credit-paint" '
        f'gradientUnits="userSpaceOnUse" x1="0" x2="0" y1="0" y2="{_HEIGHT}"><stop offset="0.5" class="good-stop"/>'
        '<stop offset="0.5" class="bad-stop"/></linearGradient></svg>'
        f'<script type="application/json" id="credit-numbers">{_numbers(book)}</script></div>'
    )


def signed(value: float | None) -> str:
    """A credit in a few characters, with its sign; a dash where nothing is scored."""
    return "–" if value is None else f"{value:+.3g}".replace("-", "−") if value else "0"


def track(values: Column, full: float) -> str:
    """Credit over tokens as the path of an area around zero; gaps where nothing is scored, cut at the full colour."""
    step, middle = _WIDTH / max(1, len(values)), _HEIGHT / 2
    out: list[str] = []
    inside = False
    for k, value in enumerate(values):
        if value is None:
            out += [f"V{middle:g}"] if inside else []
        else:
            share = max(-1.0, min(1.0, value / full)) if full > 0 else 0.0
            start = "" if inside else f"M{k * step:.5g} {middle:g}"
            out.append(f"{start}V{middle - _REACH * share:.4g}H{(k + 1) * step:.5g}")
        inside = value is not None
    return "".join(out) + (f"V{middle:g}" if inside else "")


# ------------------------------------------------------------------------------------------------ rules
def _intro(book: CreditBook) -> str:
    rule = book.rules[book.first]
    how = f"Coloured by {rule.name}, the rule that trained." if rule.trained else f"Coloured by {rule.name}."
    return (
        f'<p class="soft small">{text(how)} Blue tokens were made more likely by this attempt, orange ones less, '
        "the stronger the more. Every rule has a scale of its own: where its numbers are large can be compared "
        "with another rule, how large they are cannot.</p>"
    )


def _choice(book: CreditBook) -> str:
    """Buttons that switch the rule, shown where the script runs; and what each rule is."""
    first = "".join(_button("rule", i, rule, i == book.first) for i, rule in enumerate(book.rules))
    second = '<label><input type="radio" name="credit-beside" value="-1" checked><span>nothing</span></label>'
    second += "".join(_button("beside", i, rule, False) for i, rule in enumerate(book.rules))
    buttons = f'<div class="choice" hidden><fieldset><legend>coloured by</legend>{first}</fieldset>'
    buttons += f"<fieldset><legend>beside it</legend>{second}</fieldset></div>"
    says = "".join(
        f"<li><b>{text(rule.name)}</b>{' (trained)' if rule.trained else ''}: {text(rule.summary)} "
        f'<span class="soft">Level {text(rule.level)}, {_UNITS[rule.unit]}.</span></li>'
        for rule in book.rules
    )
    return f'{buttons if len(book.rules) > 1 else ""}<ul class="says small">{says}</ul>'


def _button(name: str, i: int, rule: Rule, checked: bool) -> str:
    mark = ' <small class="soft">trained</small>' if rule.trained else ""
    return (
        f'<label><input type="radio" name="credit-{name}" value="{i}"{" checked" if checked else ""}>'
        f"<span>{text(rule.name)}{mark}</span></label>"
    )


def _legend(book: CreditBook) -> str:
    names = [f"n{i}" for i in range(SHADES, 0, -1)] + ["z"] + [f"p{i}" for i in range(1, SHADES + 1)]
    cells = "".join(f'<i class="{name}"></i>' for name in names)
    end = f"{book.full[book.first]:.3g}"
    return (
        f'<p class="scale small"><span class="least">≤ −{end}</span>'
        f'<span class="cells" aria-hidden="true">{cells}</span><span class="most">≥ +{end}</span>'
        '<span class="soft"><i class="x">like this</i>: not scored</span></p>'
    )


# ------------------------------------------------------------------------------------------------ attempts
def _listed(i: int, attempt: EpisodeView) -> str:
    mark = {True: '<b class="good">✓</b>', False: '<b class="bad">✗</b>', None: ""}[attempt.success]
    facts = [f"return {attempt.total:.3g}"] if attempt.total is not None else []
    facts += [f"update {attempt.update}"] if attempt.update is not None else []
    facts += [f"group {attempt.group[:24]}"] if attempt.group and attempt.group != attempt.task else []
    n_turns = len(attempt.turns) + attempt.left_out
    facts.append("1 turn" if n_turns == 1 else f"{n_turns} turns")
    return (
        f'<label for="credit-attempt-{i}">{mark}<span><b>{text(attempt.task[:80])}</b>'
        f'<small class="soft">{text(" · ".join(facts))}</small></span></label>'
    )


def _pane(attempt: EpisodeView, book: CreditBook) -> str:
    parts: list[str] = []
    several, number = len({node.agent for node in attempt.nodes}) > 1, 0
    for node in attempt.nodes:
        who = node.agent if several else ""
        if isinstance(node, Observation):
            parts.append(_seen(node, who))
        else:
            number += 1
            parts.append(_act(node, number, who, book))
    if attempt.left_out:
        parts.append(f'<p class="small soft">and {attempt.left_out} more turns in credit.json</p>')
    outcome = {True: "success", False: "no success", None: ""}[attempt.success]
    total = "" if attempt.total is None else f"return {attempt.total:.4g}"
    end = " · ".join(filter(None, [total, outcome]))
    parts.append(f'<p class="small end">end: {text(end)}</p>' if end else "")
    return f'<article class="pane">{_plot(attempt.turns, book)}{"".join(parts)}</article>'


def _plot(turns: Sequence[Decision], book: CreditBook) -> str:
    rule = book.first
    values = tuple(value for turn in turns for value in turn.credit[rule])
    if len(values) < 2:
        return ""
    at, bounds = 0, ""
    for turn in turns[:-1]:
        at += len(turn.tokens)
        bounds += f"M{_WIDTH * at / len(values):.5g} 0V{_HEIGHT}"
    end = f"{book.full[rule]:.3g}"
    return (
        f'<figure class="plot"><figcaption class="small soft">credit of each token in order'
        f' · <span class="rule">{text(book.rules[rule].name)}</span></figcaption>'
        f'<div class="frame"><span class="most">+{end}</span><span class="least">−{end}</span>'
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-label="credit by token"><path class="bounds" d="{bounds}"/>'
        f'<path class="zero" d="M0 {_HEIGHT // 2}H{_WIDTH}"/>'
        f'<path class="track" d="{track(values, book.full[rule])}"/><path class="cursor" d=""/></svg></div></figure>'
    )


def _seen(seen: Observation, who: str) -> str:
    named = f"{text(who)} sees" if who else "sees"
    if len(seen.text) <= _LONG and seen.text.count("\n") < 8:
        inside = f"<pre>{text(seen.text)}</pre>"
    else:
        first = " ".join(seen.text[: 4 * _PREVIEW].split())[:_PREVIEW]
        inside = f"<details><summary>{text(first)} …</summary><pre>{text(seen.text)}</pre></details>"
    return f'<div class="seen"><span class="who">{named}</span>{inside}</div>'


def _act(turn: Decision, number: int, who: str, book: CreditBook) -> str:
    rule = book.first
    full = book.full[rule]
    kind, worth = _worth_of(turn, rule, book)
    pieces = "".join(
        f'<i class="{shade(value, full)}" title="{signed(value)}">{_piece(piece)}</i>'
        for piece, value in zip(turn.tokens, turn.credit[rule], strict=True)
    )
    if not turn.tokens:  # nothing of it was sampled
        pieces = f'<span class="soft">{text(turn.text)}</span>'
    rest = f'<span class="soft"> … {turn.left_out} more tokens</span>' if turn.left_out else ""
    reward = f"reward {turn.reward:.3g}" if turn.reward else ""
    facts = " · ".join(filter(None, [f"turn {number}", who, reward]))
    return (
        f'<div class="act"><div class="head small"><b>{text(facts)}</b></div><div class="columns"><div class="column">'
        f'<div class="worth small"><span class="rule"></span> <span class="sum {kind}">{worth}</span></div>'
        f'<div class="tokens" dir="auto" tabindex="0">{pieces}{rest}</div></div></div></div>'
    )


def _worth_of(turn: Decision, rule: int, book: CreditBook) -> tuple[str, str]:
    """Colour and words for a turn's credit."""
    noun = "turn" if book.rules[rule].unit == "turn" else "sum"
    return shade(turn.worth[rule], book.full_turn[rule]), f"{noun} {signed(turn.worth[rule])}"


def _piece(piece: str) -> str:
    """A token as it reads; one that is empty, or only a line break, gets a sign to be seen by."""
    if not piece:
        return "∅"
    return text(piece).replace("\n", '<span class="soft">↵</span>\n')


# ------------------------------------------------------------------------------------------------ numbers
def _numbers(book: CreditBook) -> str:
    """What the script needs, all of it numbers and names of colours."""
    attempts: list[dict[str, object]] = []
    for attempt in book.attempts:
        turns = attempt.turns
        row: dict[str, object] = {
            "sizes": [len(turn.tokens) for turn in turns],
            "worth": [[list(_worth_of(turn, r, book)) for turn in turns] for r in range(len(book.rules))],
            "credit": [_joined([turn.credit[r] for turn in turns], turns) for r in range(len(book.rules))],
        }
        for name in ("logp", "entropy", "value"):
            row[name] = _joined([getattr(turn, name) for turn in turns], turns)
        attempts.append(row)
    content = {"full": [_rounded(v) for v in book.full], "first": book.first, "attempts": attempts}
    return json.dumps(content, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _joined(columns: Sequence[Column | None], turns: Sequence[Decision]) -> list[float | int | None] | None:
    """Columns of turns one after the other; ``None`` where no turn has it."""
    if all(column is None for column in columns):
        return None
    whole = [column or (None,) * len(turn.tokens) for column, turn in zip(columns, turns, strict=True)]
    return [_rounded(value) for column in whole for value in column]


def _rounded(value: float | None) -> float | int | None:
    if value is None:
        return None
    short = float(f"{value:.4g}")
    return int(short) if short.is_integer() and abs(short) < 1e6 else short
