"""Makes the stores of schema 3 that migration is tested with; run once, with the library at commit 0f57baf.

It writes ``memory_schema3.sqlite`` and ``memory_schema3_postgres.sql`` beside this file: a SQLite store with every
kind of row there was, and the statements that made the tables on PostgreSQL. Later
versions of the library write later schemas: the files are kept, this text says what is in them.
"""

import itertools
import sqlite3
import time
from pathlib import Path

from evolvent.memory.memory import Memory
from evolvent.memory.store import postgres_schema

HERE = Path(__file__).parent
POLICIES = ("memlift", "memrl", "memq")


def fill(memory: Memory, n: int) -> None:
    """Kinds, merged keys, families, settled, unsettled, invalid and test receipts."""
    questions = [f"How many flights of group {i % 7} left terminal {i} on day {i * 3 % 11}?" for i in range(n)]
    for i, question in enumerate(questions):
        receipt = memory.recall(question, k=3, policy=POLICIES[i % 3])
        if i % 5 < 3:
            reward = (i * 7 % 10) / 10
            memory.settle(receipt, reward, source=("tests", "human", "judge")[i % 3], action=f"SELECT {i} FROM flights")
        elif i % 5 == 3:
            memory.settle(receipt, None, valid=False, source="env")
        memory.remember(
            question,
            f"SELECT {i} FROM flights",
            kind=("case", "script", "reflection")[i % 3],
            polarity=("success", "failure", "neutral")[i % 3],
            source=("self", "reviewer")[i % 2],
            parents=receipt if i % 2 else (),
            value=0.25 if i % 9 == 4 else None,
        )
    for i in range(0, n, 6):  # one more key of a memory, and the very same again
        for key in (f"{questions[i]} And which of them in the storm of week {i}?", questions[i]):
            memory.remember(
                key,
                f"SELECT {i} FROM flights",
                kind=("case", "script", "reflection")[i % 3],
                polarity=("success", "failure", "neutral")[i % 3],
                merge=0.0,
            )


def main() -> None:
    """Write both files."""
    path = HERE / "memory_schema3.sqlite"
    path.unlink(missing_ok=True)
    clock = itertools.count(1_700_000_000)
    time.time = lambda: float(next(clock))  # type: ignore[assignment]
    with Memory(path, embedder="hash:16") as memory:
        fill(memory, 24)
        memory.remember("How many flights of group 2 left terminal 2?", "a better lesson", supersedes="m3")
        memory.archive("m5", "no longer true")
        memory.quarantine(["m8"], "an untrusted source")
        at = memory.recall("How many flights of group 4 left?", frozen=True)
        for i in range(12):
            memory.settle(memory.recall(f"flights of group {i}", k=5), float(i % 2), action=f"SELECT {i} FROM flights")
        memory.remember("written after the moment", "to be rolled back")
        memory.rollback(at, "a bad hour")
        memory.settle(memory.recall("flights of group 1"), 1.0)
        memory.recall("a test of values", is_test=True)
        memory.restore(["m5"], "true again")
        memory.meta_set("position", {"line": 7})
    with Memory(path, scope="other", reward_range=(-1.0, 1.0)) as memory:
        fill(memory, 6)
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA journal_mode=DELETE")
        db.execute("PRAGMA page_size=1024")
        db.execute("VACUUM")
    db.close()
    # memory_schema3.jsonl.xz: `evolvent memory export memory_schema3.sqlite`, packed
    statements = ";\n".join(postgres_schema.statements())
    (HERE / "memory_schema3_postgres.sql").write_text(f"{statements};\n")


if __name__ == "__main__":
    main()
