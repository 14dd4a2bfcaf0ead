"""``Memory``: five verbs on one file. recall → act → shown → settle → remember; explain at any time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Literal

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.core.protocols import Embedder
from evolvent.memory import effect_report, explain, ledger, recall, receipts, replay, settle, user_values, write
from evolvent.memory.bank import Bank
from evolvent.memory.health import health
from evolvent.memory.items import Explanation, Item, Recall, Recalled, Receipt, ValueChange
from evolvent.memory.listing import Listing
from evolvent.memory.maintenance.drop import drop_own
from evolvent.memory.maintenance.mend import Mending
from evolvent.memory.metadata import Filter
from evolvent.memory.opening import open_bank
from evolvent.memory.outcome import outcome, outcome_of
from evolvent.memory.rule import Policy
from evolvent.memory.store.engine import Progress, Search
from evolvent.memory.text import callback, each_row, listed


class Memory(Listing, Mending):
    """Episodic memory with learned values, beside any agent framework.

    One file, one scope of it (tenant, agent or project: scopes never see each other), one policy. Safe to share
    between threads; several processes may open the same file.

    Args:
        path: SQLite file (created when missing) or ``":memory:"``.
        policy: a rule (rag, memp, memento, memrl, memq, memlift, none, or your "my_rule.py"), or its ``Config``.
        embedder: name or object; default: what the store was made with, all-MiniLM-L6-v2 for a new one. Its first
            vector binds a store to it.
        scope: which part of the store.
        seed: of exploration and omission; the same seed and calls give the same results.
        reward_range: ``(failure, success)``, bounds of every reward; default: what the scope was made with, (0, 1) for
            a new one. Another range is refused, since values would lose their meaning.
        sync: "full": what a verb returned is on disk; "normal": a power failure may lose the last commits.
        search: "exact": a recall compares its task with every key; "approximate": with the candidates of a search
            graph (extra ``scale``); "auto": the latter from 100,000 keys on, where usearch is installed.
        holdout: share of attempts that get nothing, drawn by chance, so that ``lift`` can say whether the memory helps;
            True: .2 until that is known, then .02.
        mask: keys, tokens and passwords that texts spell out are stored as ``[secret]``, and what was masked stands in
            the log, ``Item.masked``, ``explain`` and the audit. False: texts are stored as they are.

    Raises:
        BadInput: an argument is out of range, or under these settings an untried memory could never be shown.
        StoreError: the file cannot be opened, is damaged, of another version, or made with another embedder or
            reward range.
    """

    def __init__(
        self,
        path: str | Path = ":memory:",
        *,
        policy: str | Policy = "memlift",
        embedder: str | Embedder | None = None,
        scope: str = "default",
        seed: int = 0,
        reward_range: tuple[float, float] | None = None,
        sync: Literal["full", "normal"] = "full",
        search: Search = "auto",
        mask: bool = True,
        holdout: float | bool = 0.0,
    ) -> None:
        # what functions on a memory that stand elsewhere work with
        self.bank: Bank = open_bank(
            path,
            policy=policy,
            embedder=embedder,
            scope=scope,
            seed=seed,
            reward_range=reward_range,
            sync=sync,
            search=search,
            mask=mask,
            held_out=holdout,
        )

    @property
    def policy(self) -> Policy:
        """The policy of recalls that name no other."""
        return self.bank.policy

    @property
    def embedder(self) -> Embedder:
        """What turns texts into vectors here."""
        return self.bank.embedder

    @property
    def scope(self) -> str:
        """Name of the scope."""
        return self.bank.scope

    # ------------------------------------------------------------------------------------------------ the five verbs
    def recall(
        self,
        task: str,
        *,
        k: int | None = None,
        stage: str = "solve",
        policy: str | Policy | None = None,
        kinds: Sequence[str] | None = None,
        filter: Filter | None = None,
        seed: int | None = None,
        frozen: bool = False,
        is_test: bool = False,
        attempt: str | None = None,
        task_id: str | None = None,
        candidates: Sequence[Mapping[str, Any]] | None = None,
        keep_text: bool = False,
    ) -> Recall:
        """Memories for a task, best first, with a receipt that is on disk when this returns.

        Args:
            task: what the agent is asked; compared with the keys of memories.
            k: at most this many; default: the policy's.
            stage: part of the work; each stage has its own values (EvoKernel's draft and refine).
            policy: another one for this recall and for settling it.
            kinds: only memories of these kinds.
            filter: only memories whose metadata hold this: ``{"repo": "x", "year": {">=": 2020}}``; operators are ==,
                !=, in, not in, <, <=, >, >= and exists. What it leaves out takes no place from the others.
            seed: of exploration; default: derived from the memory's seed and the receipt's number.
            frozen: no exploration and no omission (evaluation).
            is_test: this receipt may never change values; settling it records the outcome alone.
            attempt: name of the job that it is for: all recalls of one are held out together, or none.
            task_id: name of the task, where the same is attempted again and again; default: what is asked.
            candidates: what is kept elsewhere, ``[{"id", "text", "score"}, …]``, instead of the memories of this store:
                what to show of it is chosen, held out, settled and measured likewise. The ``pool`` best are looked at.
                Scores are as cosines (beyond 1, divided by the largest); without, the order goes.
            keep_text: keep the texts of candidates; default: a hash of each.

        Raises:
            BadInput: task empty or not storable, k negative, unknown policy, no candidates that can be told apart.
        """
        return self.recall_many(
            [task],
            k=k,
            stage=stage,
            policy=policy,
            kinds=kinds,
            filter=filter,
            seed=seed,
            frozen=frozen,
            is_test=is_test,
            attempts=[attempt],
            task_ids=[task_id],
            candidates=None if candidates is None else [candidates],
            keep_text=keep_text,
        )[0]

    def recall_many(
        self,
        tasks: Sequence[str],
        *,
        k: int | None = None,
        stage: str = "solve",
        policy: str | Policy | None = None,
        kinds: Sequence[str] | None = None,
        filter: Filter | None = None,
        seed: int | None = None,
        frozen: bool = False,
        is_test: bool = False,
        attempts: Sequence[str | None] | None = None,
        task_ids: Sequence[str | None] | None = None,
        candidates: Sequence[Sequence[Mapping[str, Any]] | None] | None = None,
        keep_text: bool = False,
    ) -> list[Recall]:
        """``recall`` for many tasks, with its options for all of them: the results of one call after the other.

        New tasks are embedded together, and all receipts are one transaction. ``attempts``, ``task_ids`` and
        ``candidates``: one for each task.
        """
        asked = recall.requests_of(
            self.bank,
            tasks,
            k=k,
            stage=stage,
            policy=policy,
            kinds=kinds,
            filter=filter,
            seed=seed,
            frozen=frozen,
            is_test=is_test,
            attempts=attempts,
            task_ids=task_ids,
            candidates=candidates,
            keep_text=keep_text,
        )
        return recall.recall(self.bank, asked)

    def search(
        self,
        task: str,
        *,
        k: int | None = None,
        stage: str = "solve",
        policy: str | Policy | None = None,
        kinds: Sequence[str] | None = None,
        filter: Filter | None = None,
    ) -> list[Recalled]:
        """What a frozen ``recall`` would show, best first, without a receipt: nothing is written, nobody is credited.

        It waits for no other process that writes, and works where the store can only be read. Arguments and errors are
        those of ``recall``.
        """
        (asked,) = recall.requests_of(
            self.bank, [task], k=k, stage=stage, policy=policy, kinds=kinds, filter=filter, frozen=True
        )
        return recall.search(self.bank, asked)

    def shown(self, recalled: Recall | str, ids: Sequence[str | Recalled] | None = None) -> None:
        """Say which memories (items of the recall, or their ids) were really in the prompt, and so are credited.

        Without it, all selected ones count.

        Calling again before settling replaces the earlier call. The order of ``ids`` has no effect: credit by place
        uses the order of the recall.

        Raises:
            BadInput: an id that the recall did not hand out (or left out on purpose), or the receipt is settled.
        """
        receipts.shown(self.bank, self.bank.receipt_seq(recalled, "shown"), ids)

    def settle(
        self,
        recalled: Recall | Receipt | str,
        reward: float | bool | None,
        *,
        source: str = "env",
        valid: bool = True,
        objective: str = "success",
        idempotency_key: str | None = None,
        action: str | None = None,
        child: str | None = None,
        weight: float = 1.0,
        parts: Sequence[tuple[str, float]] | None = None,
    ) -> list[ValueChange]:
        """Report the outcome: what was shown is credited, under memq its ancestors too. Calls no model and no embedder.

        The same outcome of a receipt again (a retry), or a known idempotency key under another receipt, changes nothing
        and returns the first changes. Another outcome is refused; see ``revise``.

        Args:
            recalled: the receipt.
            reward: within the memory's reward range; a truth value is one end of it (False: failure). None is allowed
                when not valid.
            source: env, tests, judge, human or proxy: who says so.
            valid: False when the outcome says nothing about the attempt (judge or harness failed): recorded, no credit.
            objective: which value learns; each has its own.
            idempotency_key: name of the job where a retry may carry another receipt; once per objective.
            action: what the agent did, as text; memlift credits shown memories by how much of them was used.
                Without it the best of those shown is credited in full, the others by half.
            child: the memory written from this attempt; its value enters the target of memq.
            weight: how much the outcome counts, above 0 and at most 1; scales the step and the evidence.
            parts: parts of the answer as text, each with a reward; instead of action. A shown memory earns the rewards
                of the parts that used it. ``reward`` is that of the whole; None: their mean.

        Raises:
            BadInput: unknown receipt, memory or source; reward out of range; settled with another outcome.
        """
        given = outcome(
            self.bank, recalled, reward, source, valid, objective, idempotency_key, action, child, weight, parts
        )
        return settle.settle(self.bank, [given])[0]

    def settle_many(self, rows: Iterable[Mapping[str, Any]]) -> list[list[ValueChange]]:
        """``settle`` for many rows (mappings of its arguments), in order, in one transaction: all of them or none."""
        every = listed(rows, what="rows", expected="a sequence of mappings", where="settle_many")
        return settle.settle(self.bank, each_row(every, partial(outcome_of, self.bank), "rows"))

    def credit(self, episodes: Sequence[Episode], objective: str = "success") -> Ledger:
        """What the memories shown in recorded episodes earned when their receipts were settled (level "memory").

        Not scored where nothing was settled; voided credit does not count. ``BadInput``: receipts of another store.
        """
        every = listed(episodes, what="episodes", expected="a sequence of Episodes", where="credit")
        return ledger.settled(self.bank, every, objective)

    def remember(
        self,
        key: str,
        body: str,
        *,
        kind: str = "case",
        polarity: str = "neutral",
        parents: Recall | str | Sequence[str | Recalled] = (),
        source: str = "self",
        value: float | None = None,
        merge: float | None = 0.98,
        supersedes: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        expires: date | timedelta | str | float | None = None,
        created_at: date | str | float | None = None,
    ) -> str:
        """Store an experience; returns its id, or the id of the memory that says the same already.

        Args:
            key: when it applies (the task); this is what recalls are compared with.
            body: what to show. Secrets in key, body and metadata are masked, unless ``Memory(mask=False)``.
            kind: case, script, reflection, …: a free word to filter recalls by.
            polarity: success, failure, mixed or neutral.
            parents: the recall it was made under, or its receipt's id (what that showed becomes its provenance), or
                memories (ids, or items of a recall).
            source: who says so (self, reviewer, …); memlift keeps a track record per source.
            value: starting value; default: the policy's.
            merge: equal bodies of one kind and metadata merge, found by all keys, when their keys' cosine reaches
                this; None: never.
            supersedes: the memory that this one replaces; the old one leaves recall, its history stays.
            metadata: what to filter by: names to texts, numbers, booleans, or lists of these; 16,384 bytes of
                JSON at most.
            expires: from then on it is out of recall: a ``datetime``, ``date`` or ISO text (without a zone: local), or
                how long from now (``timedelta`` or seconds).
            created_at: when it was experienced, where that was earlier: a ``datetime``, ``date`` or ISO text (without a
                zone: local), or seconds since 1970. Their order and ``rollback`` go by when they were written.

        Raises:
            BadInput: key or body empty or not storable, unknown parent, value out of range. Nothing is written.
        """
        row = {
            "key": key,
            "body": body,
            "kind": kind,
            "polarity": polarity,
            "parents": parents,
            "source": source,
            "value": value,
            "merge": merge,
            "supersedes": supersedes,
            "metadata": metadata,
            "expires": expires,
            "created_at": created_at,
        }
        return self.remember_many([row])[0]

    def remember_many(self, rows: Iterable[Mapping[str, Any]]) -> list[str]:
        """``remember`` for many rows (mappings of its arguments) in one transaction: all of them or none.

        Embeds in batches; returns one id per row.
        """
        return write.remember(self.bank, rows)

    def update(
        self,
        id: str,
        reason: str,
        *,
        key: str | None = None,
        body: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> str:
        """Rewrite a memory; returns the id of the new version, which keeps what was learned.

        Arguments that are left out stay; the value and its statistics, further keys, kind, source, parents and expiry
        are those of the old version, which leaves recall (superseded). The value is kept under the number of the first
        version: receipts that showed an older one settle as ever. ``remember(…, supersedes=id)`` instead begins with no
        value. The same call once more changes nothing.
        """
        return write.update(self.bank, id, key=key, body=body, metadata=metadata, reason=reason)

    def explain(self, subject: Recall | Recalled | Item | str) -> Explanation:
        """The ledger of a memory ("m3") or of a receipt ("r7" or the Recall): who paid, when, and why."""
        return explain.explain(self.bank, subject)

    def lift(
        self,
        by: effect_report.By | None = None,
        *,
        objective: str = "success",
        since: date | str | float | None = None,
        alpha: float = 0.05,
        margin: float = 0.05,
        level: float = 0.1,
    ) -> effect_report.Lift:
        """Whether the memory helps, from attempts that chance held out; may be asked after every outcome.

        Args:
            by: also of each "item", "source" or "kind" of memories (what each adds beside the rest, where the policy
                leaves memories out by chance), "scope", "stage" or "week" (the memory as a whole).
            objective: which outcomes.
            since: only recalls from then on.
            alpha: the interval misses the truth, ever, with this probability.
            margin: a smaller difference is none, as a share of the reward range.
            level: of memories that are named as helping or harming, the share that is expected to be named wrongly.
        """
        return effect_report.lift(self.bank, by, objective, since, alpha, margin, level)

    # ------------------------------------------------------------------------------------------------ keeping house
    def health(self) -> dict[str, Any]:
        """Whether the learning is alive: items, coverage (share with outcomes), updates per item, by source, …"""
        return health(self.bank)

    def values_as_of(self, recalled: Recall | str, objective: str = "success") -> dict[str, float]:
        """Value of every memory that a recall could see, as it was then."""
        return explain.values_as_of(self.bank, recalled, objective)

    def prepare(self, progress: Progress | None = None) -> None:
        """Build now what makes a large store fast, and wait; ``progress(done, total, "vectors" or "search graph")``."""
        callback(progress, "prepare")
        self.bank.index.prepare(progress)

    def rebuild_values(self) -> int:
        """Recompute all values from their events; returns how many rows were wrong (0 in a healthy store)."""
        return replay.rebuild(self.bank.store, self.bank.scope_id)

    def transaction(self) -> AbstractContextManager[Any]:
        """Group verbs into one commit: all or none. Other threads and writers wait, so call no model inside.

        Enter and leave it in one thread. Where the database itself undoes it (no room), every later verb in the block
        and its end raise ``StoreError`` (``undone``).
        """
        return self.bank.store.transaction()

    @property
    def path(self) -> str:
        """Where the store is."""
        return self.bank.store.path

    def meta_get(self, name: str) -> Any:
        """A JSON value that the caller stored with the memory (a position in a stream), or ``None``."""
        return user_values.get(self.bank, name)

    def meta_set(self, name: str, value: Any) -> None:
        """Store a small JSON value; inside ``transaction()`` it commits together with the verbs."""
        user_values.put(self.bank, name, value)

    def close(self) -> None:
        """Close the file; twice is allowed."""
        self.bank.store.close()

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def drop_scope(self, name: str, reason: str) -> dict[str, int]:
        """Erase the scope of this memory (``name`` says so once more) with all in it, for good, and close the memory.

        Returns rows by table. Another scope is dropped on the store: ``maintenance.drop.drop_scope(store, name, …)``.
        """
        removed = drop_own(self.bank, name, reason)
        self.close()
        return removed
