"""An outcome as it is reported: checked before the store is asked, and compared with what was reported before."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from evolvent.core.errors import BadInput
from evolvent.memory.bank import Bank, parse_id
from evolvent.memory.items import receipt_id
from evolvent.memory.text import among_words, clean_text, clean_word, finite, flag, storable

SOURCES = ("env", "tests", "judge", "human", "proxy")
_HUGE = 1e300  # what an invalid outcome reports is no number beyond that


class Outcome(NamedTuple):
    """One outcome, checked as far as that goes without the store."""

    receipt: int
    reward: float | None
    source: str
    valid: bool
    objective: str
    key: str | None
    action: str | None
    child: int | None
    weight: float = 1.0
    parts: tuple[tuple[str, float], ...] | None = None  # of the answer, each with its reward

    def repeats(self, first: Outcome) -> bool:
        """Whether this reports what the first reported, or less of it."""
        return not _differences(self, first)


_ARGUMENTS = (
    "recalled",
    "reward",
    "source",
    "valid",
    "objective",
    "idempotency_key",
    "action",
    "child",
    "weight",
    "parts",
)


def outcome_of(bank: Bank, row: Mapping[str, Any]) -> Outcome:
    """Check one row of ``settle_many``."""
    if not isinstance(row, Mapping) or not {"recalled", "reward"} <= set(row) <= set(_ARGUMENTS):
        got, expected = list(row) if isinstance(row, Mapping) else row, f"recalled, reward and any of {_ARGUMENTS[2:]}"
        raise BadInput("not an outcome", got=got, expected=expected, where="settle_many", code="wrong_type")
    return outcome(bank, **row)


def outcome(
    bank: Bank,
    recalled: Any,
    reward: Any,
    source: Any = "env",
    valid: Any = True,
    objective: Any = "success",
    idempotency_key: Any = None,
    action: Any = None,
    child: Any = None,
    weight: Any = 1.0,
    parts: Any = None,
) -> Outcome:
    """The outcome that the arguments of ``settle`` tell; ``BadInput`` where they are none."""
    number = parse_id(recalled, "r", "receipt", "settle")
    where = f"settle({receipt_id(number)!r})"
    valid = flag(valid, what="valid", where=where)
    if not among_words(source, SOURCES):
        raise BadInput(
            "unknown source of an outcome", got=source, expected=", ".join(SOURCES), where=where, code="unknown_source"
        )
    clean_word(objective, what="an objective", where=where)
    if parts is not None:
        parts = _parts(bank, parts, valid and action is None, where)
        action = "\n".join(text for text, _ in parts)
        reward = math.fsum(r for _, r in parts) / len(parts) if reward is None else reward
    reward = _number(bank, reward)
    if valid:
        lo, hi = bank.reward_range
        reward = finite(reward, what="reward", where=where, lo=lo, hi=hi)
    else:
        # what an invalid outcome reports is kept only when it is a number; nothing is learned from it
        reward = float(reward) if isinstance(reward, int | float) and abs(reward) < _HUGE else None
    if action is not None:
        action = clean_text(storable(action), what="the action", where=where, empty=True, mask=bank.mask) or None
    if idempotency_key is not None:
        clean_word(idempotency_key, what="an idempotency key", where=where, limit=500)
    child = None if child is None else parse_id(child, "m", "memory", where)
    weight = finite(weight, what="weight", where=where, lo=0.0, hi=1.0)
    if weight == 0.0:
        raise BadInput(
            "an outcome without weight says nothing",
            got=weight,
            expected="above 0, at most 1",
            where=where,
            code="out_of_range",
        )
    return Outcome(number, reward, source, valid, objective, idempotency_key, action, child, weight, parts)


def _number(bank: Bank, reward: Any) -> Any:
    """A reward; a truth value says success or failure, and so one end of the range."""
    return bank.reward_range[bool(reward)] if isinstance(reward, bool | np.bool_) else reward


def _parts(bank: Bank, given: Any, alone: bool, where: str) -> tuple[tuple[str, float], ...]:
    """Check the parts of an answer."""
    pairs = list(given) if isinstance(given, (list, tuple)) else []
    if not pairs or not all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in pairs):
        raise BadInput(
            "not the parts of an answer", got=given, expected="[(text, reward), …]", where=where, code="wrong_type"
        )
    if not alone:
        do = "leave action= out (the parts are the action), and valid= too"
        raise BadInput(
            "parts of an answer beside its action, or of an invalid outcome", where=where, do=do, code="conflicting"
        )
    lo, hi = bank.reward_range
    return tuple(
        (
            clean_text(storable(text), what="a part of the answer", where=where, mask=bank.mask),
            finite(_number(bank, reward), what="the reward of a part", where=where, lo=lo, hi=hi),
        )
        for text, reward in pairs
    )


def spans(parts: Sequence[tuple[str, float]] | None) -> str | None:
    """What is kept of parts beside the action, which is their texts in lines: the length and reward of each, JSON."""
    return None if parts is None else json.dumps([[len(text), reward] for text, reward in parts])


def parts_of(action: str | None, lengths: str | None) -> tuple[tuple[str, float], ...] | None:
    """Parts from the action and ``spans``; none where the action was erased since."""
    if lengths is None or not action:
        return None
    found, at = [], 0
    for length, reward in json.loads(lengths):
        found.append((action[at : at + length], reward))
        at += length + 1
    return tuple(found)


def check_same(o: Outcome, first: Outcome | None, known: Iterable[Outcome]) -> None:
    """``BadInput`` when this is another story about the same attempt; a retry tells the same, or less of it.

    Args:
        o: what is reported.
        first: the outcome that it repeats; ``None`` or one of another receipt: another attempt at a job that was
            reported already, of which the first report counts.
        known: all outcomes of these receipts so far; an invalid one reported again is a retry too.
    """
    if first is None or first.receipt != o.receipt or not (o.valid or first.valid):
        return
    if not o.valid and any(
        (x.receipt, x.objective, x.valid, x.reward) == (o.receipt, o.objective, False, o.reward) for x in known
    ):
        return
    if differences := _differences(o, first):
        raise BadInput(
            f"the receipt is settled already for {o.objective!r}, with another outcome",
            got={name: now for name, (now, _) in differences.items()},
            expected={name: was for name, (_, was) in differences.items()},
            where=f"settle({receipt_id(o.receipt)!r})",
            code="settled_already",
            do="the first outcome stands; if it was wrong: revise(receipt, reward); keep a second opinion as another "
            "objective: settle(…, objective='…')",
        )


def _differences(o: Outcome, first: Outcome) -> dict[str, tuple[Any, Any]]:
    """What one outcome says otherwise than the first: ``{name: (now, first)}``; not what was erased of that."""
    texts = () if first.action == "" else ("action", "parts")
    return {
        name: (getattr(o, name), getattr(first, name))
        for name in ("valid", "reward", "source", "child", "weight", *texts)
        if getattr(o, name) is not None and getattr(o, name) != getattr(first, name)
    }
