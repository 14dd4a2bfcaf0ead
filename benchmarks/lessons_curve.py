"""Where a memory pays: the analyst's held-out questions with 12 to 1,000 lessons in the store, three ways to use them.

    python benchmarks/lessons_curve.py --threads 1 [--seeds 0] [--lessons 12 30 100 300 1000]

One right lesson for each of the twelve kinds that are asked, then lessons of other kinds and of another database, in an
order drawn from the seed. Nothing has an outcome yet, so memlift has nothing but nearness. "icl" has them in the
prompt, newest next to the question, as far as about 8,000 tokens of them go. Rows that are there are not run again; the
seconds of an answer that another row asked for, too, are those of its first computation. docs/cost.md shows them.
"""

from __future__ import annotations

import argparse
import json
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from cached_model import Cached

from evolvent import envs, models
from evolvent.core.jsonfile import dump, write_atomic
from evolvent.core.machine import provenance
from evolvent.core.protocols import Completion, Engine, Env, Request, Task
from evolvent.core.seeding import rng
from evolvent.memory.embedders import DEFAULT
from evolvent.memory.memory import Memory
from evolvent.memory.policies import preset
from evolvent.play.experience import Use
from evolvent.play.settings import AttemptSettings
from evolvent.runs.memory.attempt import Agent, attempt
from evolvent.runs.opening import answering

SOURCE = Path(__file__).parent / "results" / "lessons_curve.json"
ASKED, OTHERS = "analyst:kinds=12", ("analyst", "analyst:database=baseball")
ARMS = ("none", "icl", "rag", "memlift")
TOKENS, CHARS = 8_000, 24_000  # of lessons in a prompt: about three characters a token
HELDOUT, MOST = 24, 1000


def lessons(env: Env, n: int, seed: int) -> list[dict[str, str]]:
    """Of each kind that is asked one, and ``n`` in all, oldest first: questions and the house's own queries."""
    kinds: dict[str, tuple[Env, Task]] = {}
    for task in env.tasks("train", 24, seed):
        kinds.setdefault(task.kind, (env, task))
    others = [
        (other, task)
        for other in map(envs.load, OTHERS)
        for task in other.tasks("train", MOST, seed)
        if task.kind not in kinds
    ]
    order = rng(seed, "lessons", "others").permutation(len(others))
    chosen = [*kinds.values(), *(others[i] for i in order.tolist())][:n]
    place = rng(seed, "lessons", "place").random(len(chosen))  # a longer list has the shorter one's order
    written = []
    for i in sorted(range(len(chosen)), key=lambda i: float(place[i])):
        world, task = chosen[i]
        correction = world.review(task, seed)
        assert correction is not None
        written.append({"key": task.text, "body": correction.body, "source": correction.source})
    return written


@dataclass
class Timed:
    """An engine, and the seconds that its answers took when they were first computed."""

    engine: Engine
    seconds: float = 0.0

    def __call__(self, requests: Sequence[Request]) -> list[Completion]:
        """Ask it."""
        answers = self.engine(requests)
        self.seconds += sum(answer.seconds for answer in answers)
        return answers


def row(model: Cached, arm: str, n: int, seed: int) -> dict[str, Any]:
    """One arm with ``n`` lessons."""
    env = envs.load(ASKED)
    engine, renderer = answering(model, 0.0)
    engine = Timed(engine)
    use = Use(how="none" if arm == "none" else "context", budget_chars=CHARS)
    agent = Agent(engine, model.name, use, AttemptSettings(renderer))
    with Memory(policy=preset(arm), embedder=DEFAULT, seed=seed) as memory:
        for lesson in lessons(env, n, seed) if arm != "none" else ():
            memory.remember(**lesson, merge=None)
        stored = memory.count()
        done = [
            attempt(env, task, agent, memory, seed=i, learn=False)
            for i, task in enumerate(env.tasks("heldout", HELDOUT, seed))
        ]
    return {
        "arm": arm,
        "lessons": n,
        "stored": stored,
        "seed": seed,
        "n": len(done),
        "right": sum(a.success for a in done),
        "shown": round(mean(len(a.shown) for a in done), 1),
        "prompt_tokens": round(mean(a.prompt_tokens for a in done), 1),
        "seconds": round(engine.seconds / len(done), 2),
        **provenance(),
    }


def main() -> None:
    """Run the missing rows."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--lessons", nargs="+", type=int, default=[12, 30, 100, 300, 1000])
    p.add_argument("--arms", nargs="+", default=list(ARMS), choices=ARMS)
    p.add_argument("--seeds", nargs="+", type=int, default=[0])
    p.add_argument("--model", default="qwen2.5-coder-1.5b")
    p.add_argument("--threads", type=int, default=0)
    p.add_argument("--cache", default=str(SOURCE.parents[1] / "runs" / "lessons.db"))
    p.add_argument("--out", default=str(SOURCE))
    a = p.parse_args()
    path = Path(a.out)
    rows = json.loads(path.read_text("utf-8"))["rows"] if path.exists() else []
    threads = {"n_threads": a.threads} if a.threads else {}
    model = Cached(models.load(a.model, n_ctx=TOKENS + 2048, **threads), a.cache)
    for seed in a.seeds:
        for n in a.lessons:
            for arm in a.arms:
                # what has no room changes nothing, and without lessons there is nothing to count
                if (arm == "icl" and n > 300) or (arm == "none" and n != a.lessons[0]):
                    continue
                if any((r["arm"], r["lessons"], r["seed"]) == (arm, n, seed) for r in rows):
                    continue
                rows.append(row(model, arm, n, seed))
                lines = ",\n".join(map(dump, rows))
                write_atomic(
                    path, f'{{"benchmark": "lessons_curve", "model": {dump(a.model)}, "rows": [\n{lines}\n]}}\n'
                )
                found = rows[-1]
                print(f"{arm:8} {n:5} lessons: {found['right']} of {found['n']}, {found['seconds']} s", flush=True)


if __name__ == "__main__":
    main()
