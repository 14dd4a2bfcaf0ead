"""``Memory``: five verbs on one file. recall → act → shown → settle → remember; explain at any time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.ledger import Ledger
from evolvent.core.protocols import Embedder
from evolvent.memory import events, explain, ledger, policies, recall, settle, write
from evolvent.memory.bank import Bank, check_opening, kept, kept_under, open_scope, pinned_embedder, pinned_range
from evolvent.memory.items import Explanation, Item, Recall, ValueChange
from evolvent.memory.maintenance import audit, compact, mend, story, verify, when
from evolvent.memory.maintenance.act import Mended
from evolvent.memory.maintenance.verify import Finding
from evolvent.memory.outcome import outcome_of
from evolvent.memory.policies import Policy
from evolvent.memory.store.engine import Progress, Search
from evolvent.memory.store.opening import open_store
from evolvent.memory.text import clean_word


class Memory:
    """Episodic memory with learned values, beside any agent framework.

    One file, one scope of it (tenant, agent or project: scopes never see each other), one policy. Safe to share
    between threads; several processes may open the same file.

    Args:
        path: SQLite file (created when missing) or ``":memory:"``.
        policy: a rule (rag, memp, memrl, memq, memlift, random, none, or your "my_rule.py"), or its ``Config``.
        embedder: name or object; default: what the store was made with, all-MiniLM-L6-v2 for a new one.
        scope: which part of the store.
        seed: of exploration and omission; with it, a sequence of calls has one result.
        reward_range: ``(failure, success)``, bounds of every reward; default: what the scope was made with, (0, 1) for
            a new one. Values would lose their meaning under another, so another is refused.
        sync: "full": what a verb returned is on disk; "normal": the last commits may go with the machine's power.
        search: "exact": a recall compares its task with every key; "approximate": with the candidates of a search
            graph (extra ``scale``); "auto": the latter from 100,000 keys on, where usearch is installed.

    Raises:
        BadInput: an argument is out of range, or policy and reward range would starve.
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
    ) -> None:
        if reward_range is not None:
            policies.check(policy, reward_range)  # before a file is made
        check_opening(seed, search)
        self._store = open_store(path, sync=sync)
        try:
            scope_id = open_scope(self._store, scope)
            bounds = pinned_range(self._store, scope, reward_range)
            self._bank = Bank(
                store=self._store,
                scope=scope,
                scope_id=scope_id,
                embedder=pinned_embedder(self._store, embedder),
                policy=policies.check(policy, bounds),
                reward_range=bounds,
                seed=seed,
                search=search,
            )
        except BaseException:
            self._store.close()
            raise

    @property
    def policy(self) -> Policy:
        """The policy of recalls that name no other."""
        return self._bank.policy

    @property
    def embedder(self) -> Embedder:
        """What turns texts into vectors here."""
        return self._bank.embedder

    @property
    def scope(self) -> str:
        """Name of the scope."""
        return self._bank.scope

    # ------------------------------------------------------------------------------------------------ the five verbs
    def recall(
        self,
        task: str,
        *,
        k: int | None = None,
        stage: str = "solve",
        policy: str | Policy | None = None,
        kinds: Sequence[str] | None = None,
        seed: int | None = None,
        frozen: bool = False,
        is_test: bool = False,
    ) -> Recall:
        """Memories for a task, best first, with a receipt that is on disk when this returns.

        Args:
            task: what the agent is asked; compared with the keys of memories.
            k: at most this many; default: the policy's.
            stage: part of the work; each stage has its own values (EvoKernel's draft and refine).
            policy: use another one for this recall, and for settling it.
            kinds: only memories of these kinds.
            seed: of exploration; default: derived from the memory's seed and the receipt's number.
            frozen: no exploration and no omission (evaluation).
            is_test: this receipt may never change values; settling it records the outcome alone.

        Raises:
            BadInput: task empty or not storable, k negative, unknown policy.
        """
        chosen = self._bank.policy if policy is None else policies.check(policy, self._bank.reward_range)
        size = chosen.k if k is None else k
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            raise BadInput("k is not a count", got=k, expected="an integer >= 0", where="recall")
        clean_word(stage, what="a stage", where="recall")
        if isinstance(kinds, str):
            raise BadInput("kinds is a single text", got=kinds, expected="a sequence, e.g. ['case']", where="recall")
        if seed is not None and not 0 <= seed < 1 << 63:
            raise BadInput("seed is out of range", got=seed, expected="0 to 2**63 - 1", where="recall")
        wanted = None if kinds is None else tuple(clean_word(kind, what="a kind", where="recall") for kind in kinds)
        return recall.recall(
            self._bank, recall.Request(task, size, stage, chosen, wanted, seed, bool(frozen), bool(is_test))
        )

    def shown(self, recalled: Recall | str, ids: Sequence[str] | None = None) -> None:
        """Say which memories were really in the prompt; without this call, all selected ones count as shown.

        Only these are credited when the receipt is settled. Calling again before settling replaces the earlier call.

        Raises:
            BadInput: an id that the recall did not hand out (or left out on purpose), or the receipt is settled.
        """
        recall.shown(self._bank, self._receipt(recalled, "shown"), ids)

    def settle(
        self,
        recalled: Recall | str,
        reward: float | None,
        *,
        source: str = "env",
        valid: bool = True,
        objective: str = "success",
        idempotency_key: str | None = None,
        action: str | None = None,
        child: str | None = None,
    ) -> list[ValueChange]:
        """Tell what came of it: credit flows to what was shown and to its ancestors. Calls no model, no embedder.

        The same outcome of a receipt again (a retry), or a known idempotency key under another receipt, changes nothing
        and returns the first changes. Another outcome for a settled receipt is refused.

        Args:
            recalled: the receipt.
            reward: within the memory's reward range; None is allowed when not valid.
            source: env, tests, judge, human or proxy: who says so.
            valid: False when the outcome says nothing about the attempt (judge or harness failed): recorded, no credit.
            objective: which value learns; each has its own.
            idempotency_key: name of the job where a retry may carry another receipt; once per objective.
            action: what the agent did, as text; memlift credits shown memories by how much of them it used.
            child: the memory written from this attempt; its value enters the target of memq.

        Raises:
            BadInput: unknown receipt, memory or source; reward out of range; settled with another outcome.
        """
        row = {
            "recalled": recalled, "reward": reward, "source": source, "valid": valid, "objective": objective,
            "idempotency_key": idempotency_key, "action": action, "child": child,
        }  # fmt: skip
        return self.settle_many([row])[0]

    def settle_many(self, rows: Iterable[Mapping[str, Any]]) -> list[list[ValueChange]]:
        """``settle`` for many rows (mappings of its arguments), in order, in one transaction: all of them or none."""
        return settle.settle(self._bank, [outcome_of(self._bank, row) for row in rows])

    def credit(self, episodes: Sequence[Episode], objective: str = "success") -> Ledger:
        """What the memories shown in recorded episodes earned when their receipts were settled (level "memory").

        Not scored where nothing was settled; voided credit does not count. ``BadInput``: receipts of another store.
        """
        return ledger.settled(self._bank, episodes, objective)

    def remember(
        self,
        key: str,
        body: str,
        *,
        kind: str = "case",
        polarity: str = "neutral",
        parents: Recall | str | Sequence[str] = (),
        source: str = "self",
        value: float | None = None,
        merge: float | None = 0.98,
        supersedes: str | None = None,
    ) -> str:
        """Keep an experience; returns its id, or the id of the memory that says the same already.

        Args:
            key: when it applies (the task); this is what recalls are compared with.
            body: what to show. Secrets in key and body are masked.
            kind: case, script, reflection, …: a free word to filter recalls by.
            polarity: success, failure, mixed or neutral.
            parents: the recall it was made under, or its receipt's id (what that showed becomes its provenance), or
                memory ids.
            source: who says so (self, reviewer, …); memlift keeps a track record per source.
            value: starting value; default: the policy's.
            merge: equal bodies of one kind merge, found by all keys, when their keys' cosine reaches this; None: never.
            supersedes: the memory that this one replaces; the old one leaves recall, its history stays.

        Raises:
            BadInput: key or body empty or not storable, unknown parent, value out of range. Nothing is written.
        """
        row = {
            "key": key, "body": body, "kind": kind, "polarity": polarity, "parents": parents, "source": source,
            "value": value, "merge": merge, "supersedes": supersedes,
        }  # fmt: skip
        return self.remember_many([row])[0]

    def remember_many(self, rows: Iterable[Mapping[str, Any]]) -> list[str]:
        """``remember`` for many rows (mappings of its arguments) in one transaction: all of them or none.

        Embeds in batches; returns one id per row.
        """
        bank = self._bank
        with self._store.session():
            drafts = [write.draft_of(bank, row) for row in rows]
        vectors = bank.vectors({d.key_hash: d.key for d in drafts})
        with self._store.session():
            bank.index.catch_up()
            with self._store.write() as db:
                bank.index.catch_up()  # what others committed before we got the lock
                return write.write(db, bank, drafts, vectors)

    def explain(self, subject: Recall | str) -> Explanation:
        """The ledger of a memory ("m3") or of a receipt ("r7" or the Recall): who paid, when, and why."""
        if isinstance(subject, str) and subject.startswith("m"):
            return explain.of_memory(self._bank, self._bank.memory_seq(subject, "explain"))
        return explain.of_recall(self._bank, self._receipt(subject, "explain"))

    # ------------------------------------------------------------------------------------------------ keeping house
    def get(self, id: str) -> Item:
        """One memory, whatever its status."""
        seq = self._bank.memory_seq(id, "get")
        return explain.items(self._bank, "m.seq = ?", (seq,))[0]

    def items(self, status: str | None = "active") -> list[Item]:
        """Memories of a status (None: of any), oldest first."""
        return explain.items_of(self._bank, status)

    def health(self) -> dict[str, Any]:
        """Whether the learning is alive: items, coverage (share with outcomes), updates per item, by source, …"""
        return audit.health(self._bank)

    def audit(self, *, top: int = 10, untrusted: Sequence[str] = (), near: float = 0.95) -> dict[str, Any]:
        """Everything worth a look: ``health()``, harmful memories, duplicates, descendants of what is not trusted, …

        Args:
            top: at most this many memories, receipts or groups are named in each list; all are counted.
            untrusted: sources of memories that are not trusted.
            near: keys are near duplicates when their cosine reaches this.
        """
        return audit.audit(self._bank, top=top, untrusted=untrusted, near=near)

    def story(self, *, about: Sequence[str] = (), untrusted: Sequence[str] = (), near: float = 0.95) -> dict[str, Any]:
        """What the audit page draws: values over time, provenance, what was shown when; its size is bounded.

        Args:
            about: memories whose relatives are drawn; default: quarantined ones and those with the most credit.
            untrusted: as in ``audit``.
            near: as in ``audit``.
        """
        seqs = [self._bank.memory_seq(id_, "story") for id_ in about]
        return story.story(self._bank, about=seqs, untrusted=untrusted, near=near)

    def values_as_of(self, recalled: Recall | str, objective: str = "success") -> dict[str, float]:
        """Value of every memory that a recall could see, as it was then."""
        return explain.values_as_of(self._bank, self._receipt(recalled, "values_as_of"), objective)

    def prepare(self, progress: Progress | None = None) -> None:
        """Build now what makes recalls in a large store fast, and wait for it; without this call it happens by and by.

        ``progress`` is called as ``progress(done, total, of_what)``, "vectors" or "search graph".
        """
        self._bank.index.prepare(progress)

    def rebuild_values(self) -> int:
        """Recompute all values from their events; returns how many rows were wrong (0 in a healthy store)."""
        return events.rebuild(self._store, self._bank.scope_id)

    def verify(self, *, embed: bool = False) -> list[Finding]:
        """Check every scope of the store against itself: what is found is not as it was written; empty when healthy.

        Finds what an engine does not notice: a flipped bit in a text, a vector or a value, credit that its outcome does
        not explain, counts that are off. Reads only; takes seconds per 100,000 memories.

        Args:
            embed: also embed every key again and compare with its vector (as slow as writing them was).
        """
        return verify.verify(self._bank, embed=embed)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Group verbs into one commit: all or none. Other threads and writers wait, so keep models outside."""
        with self._store.transaction():
            yield

    @property
    def path(self) -> str:
        """Where the store is."""
        return self._store.path

    def meta_get(self, name: str) -> Any:
        """A JSON value that the caller keeps with the memory (a position in a stream), or ``None``."""
        return kept(self._bank, name)

    def meta_set(self, name: str, value: Any) -> None:
        """Keep a small JSON value; inside ``transaction()`` it commits together with the verbs."""
        self._store.meta_set(kept_under(self._bank, name), value)

    def close(self) -> None:
        """Close the file; twice is allowed."""
        self._store.close()

    def __enter__(self) -> Memory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ------------------------------------------------------------------------------------------------ mending
    def archive(self, id: str, reason: str, *, dry_run: bool = False) -> Mended:
        """Take a memory out of recall for a reason. Nothing is deleted: value and history stay."""
        return mend.archive(self._bank, [id], reason, dry_run=dry_run)

    def quarantine(self, ids: Sequence[str], reason: str, *, descendants: bool = True, dry_run: bool = False) -> Mended:
        """Take memories out of recall that are not to be trusted, with all that was written while they were shown.

        Args:
            ids: the memories.
            reason: for the log.
            descendants: also what was written under a recall that showed them, and so on, and later versions.
            dry_run: change nothing, tell exactly what would change.
        """
        return mend.quarantine(self._bank, ids, reason, descendants=descendants, dry_run=dry_run)

    def restore(self, ids: Sequence[str], reason: str, *, descendants: bool = False, dry_run: bool = False) -> Mended:
        """Put memories back into recall, whatever took them out."""
        return mend.restore(self._bank, ids, reason, descendants=descendants, dry_run=dry_run)

    def rollback(self, to: Recall | str | datetime | float, reason: str, *, dry_run: bool = False) -> Mended:
        """Back to what a receipt saw, or to a time: see ``mend.rollback`` for what stays.

        Args:
            to: a receipt ("r12" or the Recall), or a time: ``datetime``, ISO text, or seconds since 1970.
            reason: for the log.
            dry_run: change nothing, tell exactly what would change.
        """
        return mend.rollback(self._bank, when.point(self._bank, to), reason, dry_run=dry_run)

    def undo(self, act: str, reason: str = "undo", *, dry_run: bool = False) -> Mended:
        """Take back an act of the log ("a17"): archive, quarantine, restore, supersede, rollback, compact, or an undo.

        Raises:
            BadInput: unknown or undone already, or a later act changed the same memories or values: undo that first.
        """
        return mend.undo(self._bank, act, reason, dry_run=dry_run)

    def compact(self, *, keep: int = 1000, file: str | Path | None = None, dry_run: bool = False) -> Mended:
        """Take out what nothing needs, after writing it to a file beside the store; ``undo`` puts it back from there.

        Args:
            keep: so many of the newest receipts keep the candidates that were not selected.
            file: where to write what is removed.
            dry_run: change nothing, tell exactly what would change.
        """
        return compact.compact(self._bank, keep=keep, file=None if file is None else Path(file), dry_run=dry_run)

    # ------------------------------------------------------------------------------------------------ inside
    def _receipt(self, recalled: Recall | str, where: str) -> int:
        id_ = recalled.id if isinstance(recalled, Recall) else recalled
        return self._bank.receipt_seq(id_, where)
