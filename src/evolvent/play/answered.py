"""``Answered``: one answer, written with memories that the text of the task already holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from evolvent.core.episode import Episode
from evolvent.core.protocols import Completion, Turn
from evolvent.memory.items import Recall, Recalled
from evolvent.play.receipts import record


@dataclass
class Answered:
    """The recalls behind one answer and where the attempt ended; the ``Recalls`` of ``play``."""

    recalls: list[tuple[Recall, tuple[str, ...]]] = field(default_factory=list[tuple[Recall, tuple[str, ...]]])
    """Each recall, and the ids that were shown of it."""
    shown: list[Recalled] = field(default_factory=list[Recalled])
    last: Turn | None = None
    """Where the attempt ended."""

    def recall(self, turn: Turn, key: str, seed: int, said: Mapping[str, str] | None) -> str:
        """What was recalled stands in the task already."""
        return ""

    def choose(self, turn: Turn, answer: Completion, seed: int, episode: Episode) -> tuple[str, Completion]:
        """Any text is an answer; the record says which memories it was written with."""
        for recall, ids in self.recalls:
            record(episode, recall, ids)
        return answer.text.strip(), answer

    def stopped(self) -> None:
        """An answer is one decision."""

    def ended(self, turn: Turn) -> None:
        """What came of it."""
        self.last = turn
