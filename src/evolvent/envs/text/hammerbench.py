"""HammerBench: call the function that a conversation asks for, with the arguments said so far and no others.

Wang et al. (arXiv 2412.16516, ACL 2025 Findings). After each turn of the user the answer is the call that is due,
arguments that nobody has said left out; the next turn comes whatever was answered. ``hammerbench:ST_Perfect+IS,n=60``
holds out 60 conversations, as many of each type as there are to have; ``train`` has those of other functions.

A return is the share of snapshots with right arguments, 0 where the first function is wrong, so that its mean is close
to the metric Args (which weighs snapshots alike, not conversations); all metrics are ``figures`` of what attempts gave.
In the types ``ir_…`` no function fits, in ``IS`` none fits the last turn: right is an answer without a call. The prompt
is ours.
"""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import chain, zip_longest
from typing import Any

from evolvent.core.errors import BadInput
from evolvent.core.protocols import Correction, Task, Turn
from evolvent.data.asking import FORM, LABELS, SHOWN, STOP, own
from evolvent.envs.text._picking import asks
from evolvent.envs.text._text import TextEnv, check_request, drawn, known, named, playing
from evolvent.envs.text.hammerbench_rows import FILES, Conversation, conversations
from evolvent.formulas.call_match import Difference, Match, judgement, match
from evolvent.formulas.call_text import read_calls
from evolvent.formulas.slots import Snapshot, cleaned, metrics, same_arguments, snapshot

_LEAVE = "Leave out what nobody has said. "


def make(
    variant: str = "ST_Perfect+ST_Imperfect+ir_ST_Perfect+Based+SO_case1",
    *,
    n: int = 0,
    folder: str = "",
    max_tokens: int = 160,
    leave: bool = True,
) -> Hammerbench:
    """Conversations of some types of HammerBench in English, downloaded at first use (0.2 to 0.6 MB a type).

    Args:
        variant: types joined by "+": ST_Perfect, ST_Imperfect, ST_External (one turn: all required is said, little of
            it, or a text elsewhere is meant), ir_ST_… (the same, no function fits), Based, mQmA, mQsA, sQmA (slots are
            filled turn by turn: Multiple or Single Questions and Answers), IS (the user turns to something else),
            SO_case1, SO_case2 (corrects a value), mSv (wants the same again with another value), External.
        n: held-out conversations in all, always the same ones; 0 = those of half of the functions.
        folder: a clone of the repository at that commit, or where files are downloaded to; default:
            ``data/hammerbench`` in the cache.
        max_tokens: longest answer.
        leave: whether the prompt says to leave out what nobody has said.

    Raises:
        BadInput: no such type, or fewer conversations than ``n``. EvolventError: a file cannot be had, or is another.
    """
    kinds = list(dict.fromkeys(filter(None, variant.split("+"))))
    for kind in kinds or [variant]:
        known(kind, tuple(FILES), "type of conversation", f"hammerbench:{variant}")
    if max_tokens < 1:
        raise BadInput(
            "no room for an answer", got=max_tokens, expected="max_tokens ≥ 1", where="envs.hammerbench.make"
        )
    return Hammerbench({kind: conversations(kind, folder) for kind in kinds}, n, max_tokens, leave)


class Hammerbench(TextEnv):
    """One conversation an attempt, one snapshot a step.

    Args:
        pool: conversations by type.
        n: held out in all; 0 = those of half of the functions.
        max_tokens: longest answer.
        leave: whether the prompt says to leave out what nobody has said.
    """

    labels = LABELS
    stop = STOP

    def __init__(
        self, pool: Mapping[str, Sequence[Conversation]], n: int, max_tokens: int = 160, leave: bool = True
    ) -> None:
        self.instructions = f"{FORM}{_LEAVE if leave else ''}If no tool fits, answer [].\n\n{SHOWN}"
        self.name, self.max_tokens = f"hammerbench-{'+'.join(pool)}", max_tokens
        self._rows = {one.name: one for group in pool.values() for one in group}
        held = {one.name for one in _held_out(pool, n)}
        asked = {self._rows[name].function for name in held}
        rest = [name for name, one in self._rows.items() if one.function not in asked]
        self._split = {"heldout": [name for name in self._rows if name in held], "train": rest}

    def tasks(self, split: str, n: int, seed: int) -> list[Task]:
        """``n`` conversations in drawn order; used up, they come again. A function is asked for in one split alone."""
        check_request(split, n, f"{self.name}.tasks")
        names = self._split[split]
        if n and not names:
            do = "take a smaller n, or more types"
            raise BadInput("no conversations are left", got=split, where=self.name, do=do)
        order = drawn(names, n, random.Random(f"hammerbench/{split}/{seed}")) if n else []
        return named((self._task(self._rows[name], split, seed) for name in order), len(names))

    def _task(self, row: Conversation, split: str, seed: int) -> Task:
        text, meta = row.moments[0].said, {"row": row.name, "answer": _gold(row)}
        return Task(f"hammerbench/{row.name}", text, row.kind, split, seed, meta)

    def row(self, task: Task) -> Conversation:
        """The conversation behind a task.

        Raises:
            BadInput: a task of another environment.
        """
        if (name := task.meta.get("row")) not in self._rows:
            raise BadInput("not a task of this world", got=task.id, expected="one of env.tasks(…)", where=self.name)
        return self._rows[str(name)]

    def reset(self, task: Task, seed: int = 0) -> Turn:
        """The first turn of the user, and the functions; ``seed`` changes nothing."""
        self._row, self._seen = self.row(task), list[Snapshot]()
        self._turn = self._asks(0)
        return self._turn

    def step(self, action: str) -> Turn:
        """Judge the call, and show what the user says next.

        ``info`` holds the call as read (``action`` as JSON), its ``form``, and the ``snapshot``.
        """
        playing(self._turn, self.name)
        said, moments = read_calls(action), self._row.moments
        call = own(said.calls[:1], moments[len(self._seen)].tools)[0] if said.calls else None
        self._seen.append(snapshot(call, moments[len(self._seen)].gold))
        done, last = len(self._seen) == len(moments), self._seen[-1]
        info = {
            "action": json.dumps(call if call else [], ensure_ascii=False),
            "form": said.form,
            "snapshot": asdict(last),
            "rewards": {"name": float(last.function), "arguments": float(last.arguments)},
            "judged": _judgement(call, moments[len(self._seen) - 1].gold, last),
        }
        right = self._seen[0].function and last.arguments
        self._turn = replace(
            Turn("The end.", terminated=True) if done else self._asks(len(self._seen)),
            reward=right / len(moments),
            success=done and self._seen[0].function and all(one.arguments for one in self._seen),
            info=info,
        )
        return self._turn

    def _asks(self, number: int) -> Turn:
        one = self._row.moments[number]
        return asks(one.tools, one.messages, one.said)

    def review(self, task: Task, seed: int) -> Correction | None:
        """The gold calls, one a line and turn; ``[]`` where none fits."""
        return Correction(_gold(self.row(task)), source="gold")


def figures(attempts: Iterable[tuple[str, Sequence[Mapping[str, Any]]]]) -> dict[str, dict[str, float]]:
    """The metrics by type, and over all (``""``).

    Args:
        attempts: of each its type (``task.kind``), and ``info["snapshot"]`` of its steps.
    """
    seen = [(kind, [Snapshot(**one) for one in steps]) for kind, steps in attempts if steps]
    kinds = dict.fromkeys(kind for kind, _ in seen)
    found = {kind: metrics([steps for one, steps in seen if one == kind]) for kind in kinds}
    return found | {"": metrics([steps for _, steps in seen])}


def _judgement(said: Mapping[str, Any] | None, gold: Mapping[str, Any] | None, found: Snapshot) -> dict[str, Any]:
    """The verdict on a snapshot; what differs are the arguments that are no longer alike as texts."""
    calls, wanted = ([] if one is None else [one] for one in (said, gold))
    right = found.function and found.arguments
    differs = () if right else tuple(one for one in match(calls, wanted).differs if not _alike(one))
    return judgement(calls, wanted, Match(found.function, found.arguments, right, differs), right=right)


def _alike(one: Difference) -> bool:
    empty = one.kind == "unexpected" and bool(one.argument) and not cleaned({"": one.got})
    return empty or (one.kind == "value" and same_arguments({"": one.got}, {"": one.expected}))


def _gold(row: Conversation) -> str:
    return "\n".join(json.dumps(one.gold or [], ensure_ascii=False) for one in row.moments)


def _held_out(pool: Mapping[str, Sequence[Conversation]], n: int) -> list[Conversation]:
    """Conversations of each type in turn; those of half of the functions, drawn by their names, come first."""
    orders = [random.Random(f"hammerbench/{kind}").sample(rows, len(rows)) for kind, rows in pool.items()]
    halves = [[one for one in order if zlib.crc32(one.function.encode()) % 2] for order in orders]
    if not n:
        return [one for half in halves for one in half]
    total = sum(map(len, orders))
    if not 0 < n <= total:
        expected = f"1 to {total}, or 0: those of half of the functions"
        raise BadInput("number of conversations", got=n, expected=expected, where="envs.hammerbench.make")
    others = [[one for one in order if one not in half] for order, half in zip(orders, halves, strict=True)]
    in_turn = chain(chain.from_iterable(zip_longest(*halves)), chain.from_iterable(zip_longest(*others)))
    return [one for one in in_turn if one is not None][:n]
