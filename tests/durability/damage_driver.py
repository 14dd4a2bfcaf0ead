"""Bits of a memory file flip at random: each flip is refused, found by ``verify``, without effect, or counted here.

python tests/durability/damage_driver.py --flips 2000 --seed 0 [--out FILE]
"""

import argparse
import random
import sqlite3
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from evolvent.core.errors import EvolventError
from evolvent.core.jsonfile import dump, write_atomic
from evolvent.core.machine import provenance
from evolvent.memory.maintenance.verify import SAME, verify
from evolvent.memory.memory import Memory

OUT = Path(__file__).parents[2] / "benchmarks" / "results" / "memory_damage.json"


def make(path: Path, n: int = 40) -> bytes:
    """A store with a history; returns the bytes of its file."""
    rng = random.Random(0)
    with Memory(path, policy="memlift", embedder="hash:32", sync="normal") as memory:
        for i in range(n):
            key = f"how many flights of carrier {i} left Newark in month {i % 12}"
            memory.remember(key, f"SELECT count(*) WHERE carrier='{i}'", parents=[f"m{rng.randint(1, i)}"] if i else [])
        for i in range(n):
            r = memory.recall(f"flights of carrier {i} in month {i % 12}")
            memory.settle(r, float(i % 2), action="SELECT count(*) FROM flights")
        memory.archive("m3", "no longer true")
        assert verify(memory, embed=True) == []
    return path.read_bytes()


def flips(path: Path, number: int, seed: int) -> tuple[Counter[str], Counter[str]]:
    """Flip one bit at a time of a new store; returns what came of it, and the columns of what nobody noticed."""
    whole = make(path)
    original = _content(path)
    rng, came, unnoticed = random.Random(seed), Counter(), Counter()
    for _ in range(number):
        damaged = bytearray(whole)
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        for beside in path.parent.glob(f"{path.name}-*"):
            beside.unlink()
        path.write_bytes(damaged)
        try:
            with Memory(path, policy="memlift") as memory:
                found = verify(memory, embed=True)
        except EvolventError as error:
            came[f"refused when opened: {error.what}"] += 1
            continue
        if found:
            came[f"found by verify: {found[0].check}"] += 1
            continue
        different = _different(original, _content(path))
        came["unnoticed" if different else "without effect"] += 1
        unnoticed.update(different)
    return came, unnoticed


def _content(path: Path) -> dict[str, tuple[list[str], list[tuple]]]:
    """Every row of every table, read without the library."""
    db = sqlite3.connect(path)
    # not by sqlite_schema's own column type: the engine does not look at it, so a bit of it has no effect; nor does one
    # that makes a letter of a table's name a capital
    tables = [row[1] for row in db.execute("PRAGMA main.table_list") if row[1] != "sqlite_schema"]
    read = {}
    for table in tables:
        rows = db.execute(f"SELECT * FROM {table}")
        read[table.lower()] = ([column[0] for column in rows.description], rows.fetchall())
    db.close()
    return read


def _different(a: dict[str, Any], b: dict[str, Any]) -> set[str]:
    """Columns that differ; vectors only where a similarity would change by more than ``SAME``."""
    found = set()
    for table, (names, rows) in a.items():
        others = b.get(table, ((), ()))[1]
        if len(others) != len(rows):
            found.add(f"{table}: rows")
            continue
        for row, other in zip(rows, others, strict=True):
            for name, x, y in zip(names, row, other, strict=True):
                if x == y:
                    continue
                if name == "vec" and np.abs(np.frombuffer(x, "<f4") - np.frombuffer(y, "<f4")).max() <= SAME:
                    continue
                found.add(f"{table}.{name}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--flips", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help=f"write the result here, e.g. {OUT}")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        came, unnoticed = flips(Path(folder) / "a.db", given.flips, given.seed)
    result = {"flips": given.flips, "seed": given.seed, "came": dict(came.most_common()), "unnoticed": dict(unnoticed)}
    print(dump(result, indent=2))
    if given.out:
        command = f"python tests/durability/damage_driver.py --flips {given.flips} --seed {given.seed}"
        write_atomic(
            given.out, dump({"benchmark": "memory_damage", "command": command, "result": result, **provenance()})
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
