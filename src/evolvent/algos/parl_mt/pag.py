"""Progress awareness generation: conversations with gold calls, notes for every turn, and which of them are kept.

Paper: Chai et al. 2025, PARL-MT (arXiv 2509.23206): notes are written, kept where the model to be trained makes the
gold call from them alone, and varied.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from evolvent.algos.parl_mt.awareness import TOKENS, Aware, Head, Situation, asked_call, asked_notes
from evolvent.core.episode import Episode
from evolvent.core.protocols import Completion, Engine, Env, Renderer, Request, Task, Turn
from evolvent.data.masking import mask
from evolvent.data.rows import Row
from evolvent.formulas.call_match import Call, match
from evolvent.formulas.call_text import read_calls
from evolvent.play.attempt import play
from evolvent.play.settings import AttemptSettings

End = Callable[[Sequence[str]], np.ndarray]
"""The tokens that end an answer whose stop strings these are."""
_WAYS = ("{}", "Please: {}", "The next thing: {}")


@dataclass(frozen=True)
class Pair:
    """The turn of a conversation, notes for it, and the gold calls."""

    task: str
    turn: int
    now: Situation
    notes: str
    calls: tuple[Call, ...]
    said: str = ""
    """What the verifier answered."""
    kept: bool = True
    guise: bool = False
    """Whether functions have other names; the notes, which are written without sight of them, are not learned then."""


def conversations(env: Any, tasks: Sequence[Task]) -> list[Pair]:
    """Gold calls carried out, with notes out of what results have shown and of the calls that remain."""
    pairs, aware = list[Pair](), Aware(env, "awareness")
    for task in tasks:
        turn, n = aware.reset(task, task.seed), 0
        while not turn.done:
            notes, calls = aware.gold_notes(), tuple(aware.left())
            pairs.append(Pair(task.id, n, aware.now, notes, calls))
            aware.step(notes)
            turn, n = aware.step(env.written(calls)), n + 1
    return pairs


def generated(pairs: Sequence[Pair], engine: Engine, by: Renderer) -> list[Pair]:
    """The same with notes that a model writes."""
    said = _asked(engine, by, [asked_notes(pair.now) for pair in pairs])
    return [replace(pair, notes=text) for pair, text in zip(pairs, said, strict=True)]


def verified(pairs: Sequence[Pair], env: Any, engine: Engine, by: Renderer, adapter: str | None) -> list[Pair]:
    """Kept is a pair whose calls a model makes when it sees the notes, the request and the functions alone."""
    said = _asked(engine, by, [asked_call(env, pair.now, pair.notes) for pair in pairs], adapter)
    right = [match(read_calls(text).calls, pair.calls).right for pair, text in zip(pairs, said, strict=True)]
    return [replace(p, said=text, kept=ok) for p, text, ok in zip(pairs, said, right, strict=True)]


def _asked(
    engine: Engine, by: Renderer, prompts: Sequence[tuple[Head, str]], adapter: str | None = "policy"
) -> list[str]:
    requests = [
        Request(by.first(cast("Any", head), Turn(text)), i, head.max_tokens, head.stop, adapter=adapter)
        for i, (head, text) in enumerate(prompts)
    ]
    return [answer.text.strip() for answer in engine(requests)]


# ------------------------------------------------------------------------------------------------ augmentation
def varied(pairs: Sequence[Pair], share: float, seed: int) -> list[Pair]:
    """The kept pairs of some conversations in another guise."""
    told: dict[str, list[Pair]] = {}
    for pair in pairs:
        if pair.kept:
            told.setdefault(pair.task, []).append(pair)
    found = list[Pair]()
    for task, some in told.items():
        draw = random.Random(f"{seed}/{task}")
        if draw.random() < share:
            found += _varied(some, draw)
    return found


def _varied(pairs: Sequence[Pair], draw: random.Random) -> list[Pair]:
    """Functions have other names and another order, the request is worded otherwise, and a tenth of its words that no
    gold call needs are hidden.
    """
    last = pairs[-1]  # some functions come later
    row = Row("", "", ({"role": "user", "content": last.now.request},), tuple(map(dict, last.now.tools)), last.calls)
    masked = mask(row, draw, parameters=False, defaults=False, scrub="none")
    names, way = dict((masked.mask or {})["functions"]), draw.choice(_WAYS)
    named = re.compile(rf"\b({'|'.join(map(re.escape, names))})\b")
    found = list[Pair]()
    for pair in pairs:
        calls = tuple({**call, "name": names[call["name"]]} for call in pair.calls)
        asked = _hidden(way.format(pair.now.request), calls, draw)
        texts = (pair.now.before, pair.now.news.replace(pair.now.request, asked), pair.notes)
        before, news, notes = (named.sub(lambda m: names[m[1]], text) for text in texts)
        found.append(
            replace(pair, now=Situation(before, news, asked, masked.tools), notes=notes, calls=calls, guise=True)
        )
    return found


def _hidden(text: str, calls: Sequence[Call], draw: random.Random) -> str:
    needed = " ".join(str(value) for call in calls for value in call["arguments"].values())
    return re.sub(r"[^\W\d_]+", lambda m: "_" if draw.random() < 0.1 and m[0] not in needed else m[0], text)


# ------------------------------------------------------------------------------------------------ as examples
def examples(pairs: Sequence[Pair], env: Any, by: Renderer, end: End) -> list[Episode]:
    """The kept pairs, those of a conversation as one attempt: notes and calls are decisions, all else is context.

    Notes that are longer than an agent may write are left out with their calls.
    """
    told: dict[str, list[Pair]] = {}
    for pair in pairs:
        if pair.kept and len(by.command(pair.notes)) < TOKENS:
            told.setdefault(pair.task, []).append(pair)
    return [_attempt(task, some, env, by, end) for task, some in told.items()]


def _attempt(task: str, pairs: Sequence[Pair], env: Any, by: Renderer, end: End) -> Episode:
    episode = Episode(task, group=task)
    for pair in pairs:
        asked = [(asked_notes(pair.now), pair.notes), (asked_call(env, pair.now, pair.notes), env.written(pair.calls))]
        for (head, text), said in asked[pair.guise :]:
            prompt: Any = by.first(cast("Any", head), Turn(text))
            episode.observe(text, token_ids=prompt, parent=-1)
            ids = np.concatenate([np.asarray(by.command(said)), end(head.stop)])
            episode.act(said, token_ids=ids.astype(np.int32), finish="stop")
    episode.end(terminated=True, source="example")
    return episode


def histories(env: Any, tasks: Sequence[Task], settings: AttemptSettings, end: End) -> list[Episode]:
    """Gold calls as answers to all that was said before."""
    found = list[Episode]()
    for task in tasks:
        aware = Aware(env, "history")
        wrapped = replace(settings, world=lambda _, to=aware: cast("Env", to))
        player = play(env, task, wrapped, seed=0, group=task.id)
        next(player)
        try:
            while True:
                said = env.written(aware.left())
                ids = np.concatenate([np.asarray(settings.renderer.command(said)), end(env.stop)])
                player.send(Completion(said, ids.astype(np.int32), np.zeros(0, np.float32)))
        except StopIteration as done:
            found.append(done.value)
    return found


def acceptance(rows: Sequence[Mapping[str, Any]], *, verified: bool = True) -> dict[str, Any]:
    """Of the lines of ``pag.jsonl``: pairs, and the share that passed, in all and by turn; ``None``: nobody looked."""
    turns = range(max(row["turn"] for row in rows) + 1)
    by_turn = [float(np.mean([row["kept"] for row in rows if row["turn"] == t])) for t in turns]
    share = float(np.mean([row["kept"] for row in rows]))
    told = {"accepted": share, "accepted_by_turn": by_turn}
    return {"pairs": len(rows), **(told if verified else dict.fromkeys(told))}
