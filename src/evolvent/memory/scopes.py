"""Several scopes in one recall: what a project, a team and a user each know, each with values of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from evolvent.core.errors import BadInput
from evolvent.memory import settle
from evolvent.memory.bank import parse_id
from evolvent.memory.candidates import Request
from evolvent.memory.holdout import Draw, attempt_of
from evolvent.memory.items import Recall, Recalled, Receipt, Trace, ValueChange
from evolvent.memory.maintenance.act import Mended
from evolvent.memory.memory import Memory
from evolvent.memory.outcome import outcome_of
from evolvent.memory.recall import recall as run_recalls
from evolvent.memory.recall import requests_of
from evolvent.memory.text import listed, needs


@dataclass(frozen=True)
class ScopedRecall:
    """One receipt a scope, and the ``items`` to show of all of them, best first; also the sequence of these items."""

    items: tuple[Recalled, ...]
    receipts: Mapping[str, Recall] = field(hash=False)

    @property
    def id(self) -> str:
        """All receipts in one word (``r7+r8``): a process that settles later needs no more."""
        return "+".join(receipt.id for receipt in self.receipts.values())

    @property
    def ids(self) -> list[str]:
        """Ids of the items to show, best first; no two scopes of a store share one."""
        return [item.id for item in self.items]

    def scope_of(self, id: str) -> str:
        """The scope that an item of this recall came from."""
        for scope, receipt in self.receipts.items():
            if id in receipt.ids:
                return scope
        raise BadInput(
            "not an item of this recall",
            got=id,
            expected=", ".join(self.ids) or "none were recalled",
            where="a recall of scopes",
            code="not_handed_out",
        )

    def __iter__(self) -> Iterator[Recalled]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


class Scopes:
    """``recall``, ``search``, ``shown``, ``settle`` and ``revise`` over several scopes of one store.

        user, team = Memory("a.db", scope="user-7"), Memory("a.db", scope="team-2")
        both = Scopes(user, team)
        recalled = both.recall(task, k=3)
        both.settle(recalled, 1.0)

    Each scope ranks its own memories by its own rule; of what they hand out, the ``k`` best are shown: highest sum of
    relevance and value, the value as a share of its scope's reward range. What had no room counts as handed out and
    dropped (``Memory.shown``). New memories are written to the scope that they belong to: ``user.remember(…)``.

    Args:
        memories: one for each scope, first those that come first on a tie.

    Raises:
        BadInput: none, a scope twice, or memories of several stores.
    """

    def __init__(self, *memories: Memory) -> None:
        for memory in memories:
            needs(memory, Memory, what="a memory", where="Scopes")
        names = [memory.scope for memory in memories]
        if not memories or len(set(names)) < len(names):
            raise BadInput(
                "not a set of scopes",
                got=names,
                expected="one Memory for each of some scopes",
                where="Scopes",
                code="bad_scopes",
            )
        if len({_place(memory) for memory in memories}) > 1 or (len(names) > 1 and memories[0].path == ":memory:"):
            raise BadInput(
                "scopes of several stores",
                got=[memory.path for memory in memories],
                expected="one store: ids of several stores could be the same",
                where="Scopes",
                code="bad_scopes",
            )
        self.memories: dict[str, Memory] = dict(zip(names, memories, strict=True))

    def recall(
        self,
        task: str,
        *,
        k: int | None = None,
        attempt: str | None = None,
        task_id: str | None = None,
        **options: Any,
    ) -> ScopedRecall:
        """The ``k`` best memories of all scopes (default: the first scope's); other arguments are ``Memory.recall``'s.

        A receipt of every scope is on disk when this returns. Where memories hold out, chance decides once for all.
        """
        return self.recall_many([task], k=k, attempts=[attempt], task_ids=[task_id], **options)[0]

    def recall_many(self, tasks: Sequence[str], *, k: int | None = None, **options: Any) -> list[ScopedRecall]:
        """``recall`` for many tasks; new ones are embedded together, and the receipts of a scope are one commit."""
        tasks = listed(tasks, what="tasks", expected="a sequence of texts", where="recall_many")
        if options.get("candidates") is not None:
            do = "recall them in the scope that they belong to: Memory.recall(candidates=…)"
            raise BadInput("candidates of several scopes", where="Scopes.recall", do=do, code="conflicting")
        made: dict[str, list[Recall]] = {}
        for name, one in self.memories.items():
            requests = requests_of(one.bank, tasks, k=k, **options)
            if made:  # chance decides once for all scopes that hold out, in the first that has something
                requests = [replace(r, draw=_draw(r, [m[i] for m in made.values()])) for i, r in enumerate(requests)]
            made[name] = run_recalls(one.bank, requests)
        found = []
        for place in range(len(tasks)):
            receipts = {name: many[place] for name, many in made.items()}
            found.append(ScopedRecall(self._best(receipts, k), receipts))
        for name, one in self.memories.items():
            with one.transaction():
                for recalled in found:
                    one.shown(recalled.receipts[name], [id for id in recalled.receipts[name].ids if id in recalled.ids])
        return found

    def search(self, task: str, *, k: int | None = None, **options: Any) -> list[Recalled]:
        """What a frozen ``recall`` would show, without receipts; see ``Memory.search``."""
        found = {name: one.search(task, k=k, **options) for name, one in self.memories.items()}
        return list(self._best(found, k))

    def shown(self, recalled: ScopedRecall, ids: Sequence[str | Recalled] | None = None) -> None:
        """Say which items (or their ids) are really in the prompt (default: all); see ``Memory.shown``.

        Takes the recall itself: its id does not say which items of which scope were among the best.
        """
        needs(recalled, ScopedRecall, what="a recall of scopes", where="Scopes.shown")
        self._receipts(recalled, "Scopes.shown")
        every = recalled.ids if ids is None else ids
        named = listed(every, what="ids", expected="a sequence of ids", where="Scopes.shown")
        wanted = [one.id if isinstance(one, Recalled) else one for one in named]
        for id in wanted:
            recalled.scope_of(id)
        for name, receipt in recalled.receipts.items():
            self.memories[name].shown(receipt, [id for id in receipt.ids if id in wanted])

    def settle(
        self, recalled: ScopedRecall | str, reward: float | None, **options: Any
    ) -> dict[str, list[ValueChange]]:
        """Tell every scope what came of it; what changed, by scope. Arguments: ``Memory.settle``'s, but no ``child``.

        ``recalled`` is the recall or its ``id``. The reward lies in the reward range of each scope. One transaction a
        scope, none of them where one would refuse; after a crash between them call it again, nothing counts twice.
        """
        receipts = self._receipts(recalled, "Scopes.settle")
        self._no_child(options, "Scopes.settle")
        for name, one in receipts.items():  # what one of them would refuse is reported to none
            bank = self.memories[name].bank
            settle.check(bank, outcome_of(bank, {"recalled": one, "reward": reward, **options}))
        return {name: self.memories[name].settle(one, reward, **options) for name, one in receipts.items()}

    def revise(
        self, recalled: ScopedRecall | str, reward: float | None, reason: str, *, dry_run: bool = False, **options: Any
    ) -> dict[str, Mended]:
        """Tell every scope that it turned out otherwise; what changed, by scope. Arguments: ``Memory.revise``'s.

        One transaction a scope, none of them where one scope would refuse; after a crash between them call it again.
        """
        receipts = self._receipts(recalled, "Scopes.revise")
        self._no_child(options, "Scopes.revise")
        rehearsed = {
            name: self.memories[name].revise(one, reward, reason, dry_run=True, **options)
            for name, one in receipts.items()
        }
        if dry_run:
            return rehearsed
        return {name: self.memories[name].revise(one, reward, reason, **options) for name, one in receipts.items()}

    def find(self, text: str) -> dict[str, list[Trace]]:
        """Every trace of a text, by scope; see ``Memory.find``. Each scope's memory erases its own."""
        return {name: one.find(text) for name, one in self.memories.items()}

    def count(self, status: str | None = "active", **options: Any) -> dict[str, int]:
        """How many memories there are, by scope; see ``Memory.count``."""
        return {name: one.count(status, **options) for name, one in self.memories.items()}

    def open_receipts(self, **options: Any) -> dict[str, list[Receipt]]:
        """Receipts without an outcome, by scope, also of recalls of one scope alone; see ``Memory.open_receipts``."""
        return {name: one.open_receipts(**options) for name, one in self.memories.items()}

    def close(self) -> None:
        """Close the memories of all scopes; twice is allowed."""
        for one in self.memories.values():
            one.close()

    def _receipts(self, recalled: ScopedRecall | str, where: str) -> dict[str, str]:
        """The receipt of each scope, by its name."""
        if isinstance(recalled, str):
            given, ids = None, recalled.split("+")
        else:
            needs(recalled, ScopedRecall, what="a recall of scopes or its id", where=where)
            given = {name: receipt.id for name, receipt in recalled.receipts.items()}
            ids = list(given.values())
        found: dict[str, str] = {}
        questions: set[str] = set()
        for id in ids:
            number = parse_id(id, "r", "receipt", where)
            for name, one in self.memories.items():
                question = one.bank.question_of(number)
                if question is not None:
                    found[name] = id
                    questions.add(question)
        if not len(found) == len(ids) == len(self.memories) or len(questions) > 1 or given not in (None, found):
            raise BadInput(
                "not the receipts of one recall, one of each scope",
                got=given or recalled,
                expected=f"what Scopes.recall returned for {', '.join(self.memories)}",
                where=where,
                code="unknown_receipt",
            )
        return found

    def _no_child(self, options: Mapping[str, Any], where: str) -> None:
        if options.get("child") is not None:
            do = "tell each scope's receipt by itself: recalled.receipts"
            raise BadInput("a new memory has one scope", got=options["child"], where=where, do=do, code="conflicting")

    def _best(self, found: Mapping[str, Iterable[Recalled]], k: int | None) -> tuple[Recalled, ...]:
        def worth(name: str, item: Recalled) -> float:
            low, high = self.memories[name].bank.reward_range
            return item.relevance + (item.value - low) / (high - low)

        every = [(worth(name, item), item) for name, items in found.items() for item in items]
        every.sort(key=lambda pair: -pair[0])  # stable: earlier scopes and better places first
        first = next(iter(self.memories.values()))
        return tuple(item for _, item in every[: first.policy.k if k is None else k])


def _draw(request: Request, earlier: Sequence[Recall]) -> Draw:
    """The draw of the scopes that were asked before."""
    rate = next((round(1.0 - one.handed, 12) for one in earlier if one.handed < 1.0), None)
    return Draw(attempt_of(request.attempt, earlier[0].id), rate)


def _place(memory: Memory) -> str:
    """Where a store is, however its path is spelled."""
    return memory.path if "://" in memory.path else str(Path(memory.path).resolve())
