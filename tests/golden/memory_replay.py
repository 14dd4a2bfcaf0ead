"""Lives of memories under every policy, call by call the same: what they wrote before must be written again.

    python tests/golden/memory_replay.py      writes memory_replay.json: what the rules do now; again where one changes

``memory_replay.tar.xz`` holds two stores: ``before.db``, with a receipt in five still open, and ``after.db``, where
those were settled too. It was written by version 0.1.0, whose policies were one flat record, and whose memlift paid
ancestors.
"""

import hashlib
import json
import sqlite3
import tempfile
from pathlib import Path

import numpy as np

from evolvent.memory.memory import Memory
from evolvent.memory.policies import preset

ARCHIVE = Path(__file__).with_name("memory_replay.tar.xz")
NOW = Path(__file__).with_name("memory_replay.json")
STEPS = 36
WORDS = ["fly", "late", "early", "united", "delta", "may", "june", "red", "eye", "count", "share"]


def lives():
    """``{scope: (policy, reward range)}``."""
    near = {"gate": -1.0, "pool": 5}
    return {
        "rag": (preset("rag", pool=5), (0.0, 1.0)),
        "none": (preset("none"), (0.0, 1.0)),
        "random": (preset("random", pool=5), (0.0, 1.0)),
        "memp": (preset("memp", **near), (0.0, 1.0)),
        "memrl": (preset("memrl", **near), (-1.0, 1.0)),
        "memrl explores": (preset("memrl", gate=0.1, pool=6, epsilon=0.3, q_init="high"), (0.0, 1.0)),
        "memq": (preset("memq", **near), (0.0, 1.0)),
        "memq far": (preset("memq", **near, gamma=0.9, trace=0.9, q_init="middle", epsilon=0.0), (-2.0, 1.0)),
        "memlift": (preset("memlift"), (0.0, 1.0)),
        "memlift drifts": (
            preset("memlift", **near, margin=2.0, omit=0.5, epsilon=0.1, strength=2.0, alpha=0.1),
            (-1.0, 2.0),
        ),
        "memlift of cosines": (preset("memlift", **near, omit=0.3), (0.0, 1.0)),
        "neighbours": (preset("neighbours", gate=0.05, k=6, pool=6), (0.0, 1.0)),
    }


def opened(path, scope):
    """A memory of one life."""
    policy, bounds = lives()[scope]
    return Memory(path, policy=policy, embedder="hash:16", scope=scope, seed=7, reward_range=bounds, sync="normal")


def live(path):
    """All lives, one after the other, with a receipt in five left open."""
    for number, scope in enumerate(lives()):
        with opened(path, scope) as memory:
            _life(memory, np.random.default_rng(number), lives()[scope][1])


def finish(path):
    """Settle what the lives left open."""
    for number, scope in enumerate(lives()):
        rng = np.random.default_rng(1000 + number)
        with opened(path, scope) as memory:
            open_ = memory.bank.store.rows(
                "SELECT seq FROM recall WHERE scope_id = ? AND seq NOT IN (SELECT recall_id FROM outcome) ORDER BY seq",
                (memory.bank.scope_id,),
            )
            rows = [{"recalled": f"r{seq}", "reward": _reward(rng, lives()[scope][1])} for (seq,) in open_]
            memory.settle_many({**row, "action": _text(rng, 6)} for row in rows)


def _text(rng, n):
    return " ".join(rng.choice(WORDS, size=n).tolist())


def _reward(rng, bounds):
    share = [0.0, 0.0, 0.25, 1.0, 1.0, round(float(rng.random()), 3)][rng.integers(6)]
    return bounds[0] + share * (bounds[1] - bounds[0])


def _life(memory, rng, bounds):
    kinds = [preset("memlift", gate=-1.0, pool=5), "memrl", "rag", preset("memq", gate=-1.0)]
    tasks = [_text(rng, 4) for _ in range(6)]
    for i, task in enumerate(tasks):
        value = float(bounds[0] + 0.3 * (bounds[1] - bounds[0])) if i == 2 else None
        memory.remember(task, _text(rng, 5), source=("self", "reviewer")[i % 2], value=value)
    waiting = []
    for step in range(STEPS):
        other = kinds[rng.integers(len(kinds))] if rng.random() < 0.1 else None
        frozen, test, k = bool(rng.random() < 0.1), bool(rng.random() < 0.05), int(rng.integers(1, 5))
        recall = memory.recall(
            tasks[rng.integers(len(tasks))],
            k=k,
            policy=other,
            frozen=frozen,
            is_test=test,
            stage="draft" if rng.random() < 0.15 else "solve",
        )
        if rng.random() < 0.3:
            memory.shown(recall, [id_ for id_ in recall.ids if rng.random() < 0.7])
        child = None
        if rng.random() < 0.5:
            polarity = ("success", "failure", "neutral")[rng.integers(3)]
            body = _text(rng, 5) if rng.random() < 0.8 or not recall.items else recall.items[0].body
            child = memory.remember(tasks[rng.integers(6)], body, polarity=polarity, parents=recall, source="self")
        if step % 5 == 3:
            continue
        row = {"recalled": recall, "reward": _reward(rng, bounds), "valid": bool(rng.random() < 0.92), "child": child}
        if rng.random() < 0.6:
            row["action"] = _text(rng, 6)
        waiting.append(row)
        if rng.random() < 0.2:
            waiting.append({**row, "objective": "speed", "reward": _reward(rng, bounds), "valid": True})
        if rng.random() < 0.6:
            memory.settle_many(waiting)
            waiting = []
        if step == 20:
            memory.archive("m" + str(min(int(item.id[1:]) for item in memory.items())), "old")
    memory.settle_many(waiting)


def events(path):
    """Value events by scope, in order."""
    with sqlite3.connect(path) as db:
        rows = db.execute(
            "SELECT s.name, e.memory_id, e.rule, e.recall_id, e.reward, e.weight, e.alpha, e.ipw, e.depth, e.target, "
            "e.q_before, e.q_after FROM value_event e JOIN recall r ON r.seq = e.recall_id "
            "JOIN scope s ON s.scope_id = r.scope_id ORDER BY e.seq"
        ).fetchall()
    return {scope: [row[1:] for row in rows if row[0] == scope] for scope in lives()}


def candidates(path):
    """What recalls chose among, and what became of it, by scope, in order."""
    with sqlite3.connect(path) as db:
        rows = db.execute(
            "SELECT s.name, i.recall_id, i.memory_id, i.rank, i.q, i.value, i.n, i.score, i.selected, i.omitted, "
            "i.propensity, i.shown FROM recall_item i JOIN recall r ON r.seq = i.recall_id "
            "JOIN scope s ON s.scope_id = r.scope_id ORDER BY i.recall_id, i.rank"
        ).fetchall()
    return {scope: [row[1:] for row in rows if row[0] == scope] for scope in lives()}


def state_of(path):
    """What these calls did, as digests by scope; numbers to nine digits."""

    def digest(rows):
        text = repr([[round(x, 9) if isinstance(x, float) else x for x in row] for row in rows])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    made, seen = events(path), candidates(path)
    return {scope: {"events": digest(made[scope]), "candidates": digest(seen[scope])} for scope in lives()}


def main():
    """Write what the rules do now."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.db"
        live(path)
        finish(path)
        NOW.write_text(json.dumps(state_of(path), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
