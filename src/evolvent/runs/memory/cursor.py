"""How far a run is whose own store is its checkpoint: the last step that is saved, and the newest receipt by then.

A step of such a run is one transaction of its memory, which says at its end that the step is saved. What a step leaves
before it (a run that was killed while its model answered) are receipts, and those are taken back when the run goes on.
"""

from __future__ import annotations

from collections.abc import Callable

from evolvent.memory.memory import Memory
from evolvent.memory.receipts import forget, newest_receipt
from evolvent.runs.shell import Shell


def saved(memory: Memory, step: int) -> None:
    """Say that a step is saved, 0 = the beginning; in the transaction of what it taught."""
    memory.meta_set("cursor", step)
    memory.meta_set("receipt", newest_receipt(memory.bank))


def begun(memory: Memory) -> bool:
    """Whether the memory is one that a run began with, and not a new one."""
    return memory.meta_get("cursor") is not None


def go_on(shell: Shell, memory: Memory, check: Callable[[int], object] = lambda done: None) -> None:
    """Begin, or stand where a resumed run was saved, as if nothing had come after it.

    ``check`` is called with the number of steps that are saved before anything is taken back.

    Raises:
        BadInput: the memory has learned more than it says is saved.
    """
    if not shell.resume:
        saved(memory, 0)
        return
    done = int(memory.meta_get("cursor") or 0)
    check(done)
    if (newest := memory.meta_get("receipt")) is not None:  # runs of earlier versions left no others behind
        forget(memory.bank, int(newest))
    shell.go_on(done, done)
