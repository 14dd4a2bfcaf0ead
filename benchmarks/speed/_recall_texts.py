"""The texts of the recall benchmark: queries with the keys that answer them, and other keys to any number.

``recall_cases.json``, written by hand: ``groups`` (a key, the same need in other words near, reworded and far, in other
languages, buried in a ``prompt``; a ``decoy`` shares words and means something else), ``kinds`` (questions of one kind
with other names and dates), ``nothing`` (what no key answers, near to the domains and far from them), ``context``
(paragraphs that stand before a task), ``fillers`` (frames and vocabularies of other keys of the same domains).
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

LANGUAGES = ("de", "es", "fr", "zh")
NOTHING = ("nothing fits, same domains", "nothing fits, other domains")


class Query(NamedTuple):
    """A question, and the keys that answer it."""

    stratum: str
    text: str
    right: frozenset[str]  # empty: no key does
    group: int  # queries of one group are not independent
    half: int  # 0: to choose by, 1: to judge by; fixed by the group


@lru_cache(maxsize=1)
def cases() -> dict[str, Any]:
    """The file."""
    return json.loads(Path(__file__).with_name("recall_cases.json").read_text("utf-8"))


def queries() -> list[Query]:
    """All queries, by group."""
    made, groups = [], cases()["groups"]
    pages = itertools.cycle(itertools.combinations(cases()["context"], 2))
    for number, group in enumerate(groups):
        texts = list(_wordings(group))
        if "prompt" in group:
            texts += [("long prompt", group["prompt"]), ("page", "\n\n".join([*next(pages), group["prompt"]]))]
        made += [Query(stratum, text, frozenset([group["key"]]), number, number % 2) for stratum, text in texts]
    for number, kind in enumerate(cases()["kinds"], start=len(groups)):
        keys, asked = _halves(number, kind["texts"])
        made += [Query("same kind, other names", text, frozenset(keys), number, number % 2) for text in asked]
    for stratum, texts in zip(NOTHING, cases()["nothing"].values(), strict=True):
        made += [Query(stratum, text, frozenset(), -1 - i, i % 2) for i, text in enumerate(texts)]
    return made


def _wordings(group: dict[str, str]) -> Iterator[tuple[str, str]]:
    foreign = group["domain"] in LANGUAGES
    for name, stratum in (("near", "near"), ("reworded", "reworded"), ("far", "no word in common")):
        if name in group:
            if group["domain"] == "software" and name == "far":
                stratum = "code, shell, stack traces"
            elif "decoy" in group and name == ("far" if group["domain"] == "misleading words" else "near"):
                stratum = "misleading words"
            yield "same language, not English" if foreign else stratum, group[name]
    for language in LANGUAGES:
        if language in group:
            yield f"{language} to an English key", group[language]


def _halves(number: int, texts: list[str]) -> tuple[list[str], list[str]]:
    """Keys and queries of a kind: the same names stand in keys of other kinds."""
    return texts[number % 2 :: 2], texts[1 - number % 2 :: 2]


def banks(size: int, seed: int = 0) -> list[tuple[list[str], list[Query]]]:
    """Keys of banks of ``size`` memories, and who is asked there: one bank, or several where the keys do not fit in."""
    groups = [[group["key"], group["decoy"]] if "decoy" in group else [group["key"]] for group in cases()["groups"]]
    groups += [_halves(n, kind["texts"])[0] for n, kind in enumerate(cases()["kinds"], start=len(groups))]
    parts = -(-sum(map(len, groups)) * 4 // (3 * size))  # at most three quarters of a bank
    asked, other, made = queries(), fillers(size, seed), []
    for part in range(parts):
        inside = [key for number, keys in enumerate(groups) if number // 2 % parts == part for key in keys]
        known = set(inside)
        mine = [q for q in asked if (q.right & known) or (not q.right and -q.group % parts == part)]
        made.append((inside + other[: size - len(inside)], mine))
    return made


def fillers(n: int, seed: int = 0) -> list[str]:
    """``n`` other keys, all different; the first ones are the same for every ``n``."""
    blocks = cases()["fillers"]
    sizes = [len(b["frames"]) * int(np.prod([len(slot) for slot in b["slots"]])) for b in blocks]
    ends = np.cumsum(sizes)
    made: dict[str, None] = {}
    for number in np.random.default_rng(seed).permutation(int(ends[-1])).tolist():
        if len(made) >= n:
            break
        block = int(np.searchsorted(ends, number, side="right"))
        frames, slots = blocks[block]["frames"], blocks[block]["slots"]
        at, frame = divmod(number - int(ends[block]) + sizes[block], len(frames))
        words = []
        for slot in slots:
            at, word = divmod(at, len(slot))
            words.append(slot[word])
        text = frames[frame].format(*words)
        made[text if blocks[block]["domain"] == "software" else text[0].upper() + text[1:]] = None
    return list(made)
