"""What the five verbs hand out: plain frozen records, no connection inside."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple, overload

from evolvent.memory.secrets import MASK

# of lists of memories
Order = Literal["oldest", "newest", "created", "value", "outcomes"]


@dataclass(frozen=True)
class Recalled:
    """One memory that a recall selected.

    ``value`` is what it was ranked by, in units of reward: the learned value of ``get``, under memlift the
    expected success at this task; ``n`` how many settled outcomes there are, ``uncertainty`` the standard
    error of the learned value (a running mean rests on the newest outcomes), ``similarity`` the cosine of task and key,
    ``relevance`` what ranking makes of it (the cosine, with telling words under a hybrid policy), ``score`` what it was
    ranked by, ``propensity`` the probability with which it would be shown; ``why`` says all this in words.
    """

    id: str
    key: str
    body: str
    kind: str
    polarity: str
    value: float
    n: int
    uncertainty: float
    similarity: float
    relevance: float
    score: float
    propensity: float
    why: str
    metadata: dict[str, Any] = field(default_factory=dict[str, Any], hash=False)


@dataclass(frozen=True)
class Recall:
    """The durable receipt of one recall: put ``items`` into the prompt, keep ``id`` for ``settle``.

    It is also the sequence of its items: ``for item in recall``, ``len(recall)``, ``recall[0]``; false when empty.

    ``omitted`` were selected and left out on purpose (omission credit) or because they are known to harm; do not show
    them. ``pool_size`` counts the candidates that passed the gate. ``held_out``: by chance nothing is handed out, to
    measure what the memory adds; ``handed``: the probability that it was handed out, 1 where no draw was made.
    """

    id: str
    items: tuple[Recalled, ...]
    omitted: tuple[Recalled, ...]
    pool_size: int
    stage: str
    policy: str
    frozen: bool = False
    is_test: bool = False
    explored: bool = False
    held_out: bool = False
    handed: float = 1.0

    @property
    def ids(self) -> list[str]:
        """Ids of the items to show, best first."""
        return [item.id for item in self.items]

    def __iter__(self) -> Iterator[Recalled]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    @overload
    def __getitem__(self, place: int) -> Recalled: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Recalled, ...]: ...
    def __getitem__(self, place: int | slice) -> Recalled | tuple[Recalled, ...]:
        return self.items[place]


class ValueChange(NamedTuple):
    """One line of the ledger: what one outcome did to the value of one memory.

    ``rule`` is "shown" (it was in the prompt), "omitted" (left out on purpose, or, with weight 0, handed out and
    dropped; q is unchanged, its statistics are not) or "ancestor" (credit that came back along provenance); ``depth``
    counts the links it came back.
    """

    id: str
    objective: str
    stage: str
    rule: str
    depth: int
    weight: float
    reward: float
    q_before: float
    q_after: float


@dataclass(frozen=True)
class Item:
    """One stored memory with its value under one objective, in the stage where it has the most outcomes.

    ``status``: active, archived, quarantined, superseded, erased, or "expired" of what is active and past
    ``expires_at`` (seconds since 1970, as ``created_at``). ``stage``: of the value; "" before any. ``explain`` has all.
    """

    id: str
    key: str
    body: str
    kind: str
    polarity: str
    source: str
    status: str
    value: float
    start: float
    n: int
    uncertainty: float
    lift: float | None
    n_omitted: int
    parents: tuple[str, ...]
    superseded_by: str | None
    content_version: int
    merged: int
    created_at: float
    metadata: dict[str, Any] = field(default_factory=dict[str, Any], hash=False)
    expires_at: float | None = None
    stage: str = ""

    @property
    def masked(self) -> int:
        """How many secrets in its key, body and metadata are stored as ``[secret]``."""
        return sum(str(said).count(MASK) for said in (self.key, self.body, self.metadata))


@dataclass(frozen=True)
class Receipt:
    """A recall as the store keeps it: what was asked and shown, and whether there is an outcome.

    ``task`` is empty where it was erased, ``created_at`` seconds since 1970. ``settle`` takes it, or its ``id``.
    """

    id: str
    task: str
    stage: str
    policy: str
    shown: tuple[str, ...]
    settled: bool
    created_at: float
    is_test: bool = False
    frozen: bool = False


@dataclass(frozen=True)
class Trace:
    """Where a text stands: ``id`` of a memory (m3), receipt (r7), line of the log (a2) or kept value (kept:NAME).

    ``where`` says in what: key, body, metadata, source, kind; task, action, idempotency key; log; kept. ``text`` is all
    of that.
    """

    id: str
    where: str
    text: str


@dataclass(frozen=True)
class Explanation:
    """The ledger of one memory or one receipt: ``to_dict()`` for programs, ``str()`` for people."""

    subject: str
    data: dict[str, Any]
    text: str

    def to_dict(self) -> dict[str, Any]:
        """Everything that is known, as JSON values."""
        return asdict(self)["data"]

    def __str__(self) -> str:
        return self.text


def memory_id(seq: int, name: str | None = None) -> str:
    """The public id of a memory; ``name``: the caller's, of what is kept elsewhere."""
    return f"m{seq}" if name is None else name


def receipt_id(seq: int) -> str:
    """The public id of a recall."""
    return f"r{seq}"


def named(thing: object) -> object:
    """The id of what has one: a recall, an item, a receipt or a trace stands for it."""
    return thing.id if isinstance(thing, Recall | Recalled | Item | Receipt | Trace) else thing
