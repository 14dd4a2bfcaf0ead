"""The default memory in worlds drawn at random, against similarity, memrl, no memory and the best there is.

    python benchmarks/random_worlds.py --first 100000 --draws 150     # the judgement
    python benchmarks/random_worlds.py --first 0 --draws 100 --arms …  # development

Rules are developed on seeds 0 to 199; those from 100,000 on are for one judgement and are not looked at while a rule is
chosen (those from 10,000 to 90,000 on were for the judgements of versions before). Success is the *expected* success by
the world's own probabilities, over the whole stream: realised outcomes of identical rules differ by more than what is
to be seen. Every arm goes through the real ``Memory``, with a store in memory; ``random_world.py`` says what is drawn.
Rows that are there are not run again; ``--render`` writes the pages.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from random_world import Note, Options, World, draw, run
from text_baselines import filled

from evolvent.core.jsonfile import dump, write_atomic
from evolvent.core.machine import provenance
from evolvent.core.protocols import Embedder
from evolvent.formulas.statistics import clustered_bootstrap
from evolvent.memory.embedders import gate_of, load
from evolvent.memory.memory import Memory
from evolvent.memory.policies import preset

HERE = Path(__file__).parent
SOURCE, PAGE = HERE / "results" / "random_worlds.json", HERE.parent / "docs" / "results" / "random-worlds.md"
GUIDE = HERE.parent / "docs" / "memlift.md"
JUDGEMENT = 100_000  # first seed of the draws that decide
ARMS = ("rag", "memrl", "memlift")
MEASURES = {"stream": "while learning", "late": "last third", "frozen": "frozen"}
WITHIN, WORST = -0.01, -0.05  # what the default may lose: on average, and in its tenth quantile
# the default without one of its parts, or with one that it does not have: fields of the policy, what is not told
PARTS: dict[str, tuple[dict[str, Any], bool]] = {
    "the action told": ({}, False),
    "a source's record": ({"strength": 1e9}, True),
    "changes of answers": ({"hazard": 0.0}, True),
    "hiding": ({"hide": 0.0}, True),
    "one answer to a question": ({"outdone": 0.0}, True),
    "a pool of 10, not 40": ({"pool": 40}, True),
}


class Kept:
    """An embedder that remembers its vectors from world to world."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder, self._vectors = embedder, dict[str, np.ndarray]()
        self.id, self.dim, self.gate = embedder.id, embedder.dim, gate_of(embedder)

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors ``[N, dim]``, float32."""
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        for i in range(0, len(new), 64):
            self._vectors |= zip(new[i : i + 64], self._embedder.embed(new[i : i + 64]), strict=True)
        return np.array([self._vectors[text] for text in texts], np.float32)


@cache
def _embedder(name: str) -> Kept:
    return Kept(load(name))


class WithMemory:
    """The library, as in the README: recall, settle, remember."""

    def __init__(self, options: Options, arm: str, seed: int) -> None:
        changed, self._told = PARTS.get(arm, ({}, True))
        settings = {"k": options.k, "pool": max(10, options.k)} | changed
        policy = preset("memlift" if arm in PARTS else arm, **settings)
        self._memory = Memory(policy=policy, embedder=_embedder(options.embedder), seed=seed)
        self._notes: dict[str, Note] = {}

    def write(self, notes: Sequence[Note]) -> None:
        """Remember them; one that says what stands there already is none of its own."""
        ids = self._memory.remember_many({"key": note.key, "body": note.body} for note in notes)
        for id_, note in zip(ids, notes, strict=True):
            self._notes.setdefault(id_, note)

    def recall(self, task: str, frozen: bool = False) -> tuple[Any, list[Note]]:
        """A receipt and what is shown."""
        recall = self._memory.recall(task, frozen=frozen)
        return recall, [self._notes[item.id] for item in recall.items]

    def settle(self, receipt: Any, reward: float, action: str | None) -> None:
        """Tell an outcome."""
        self._memory.settle(receipt, reward, action=action if self._told else None)


def row(seed: int, arm: str, runs: int) -> dict[str, Any]:
    """One arm in one world: means over runs, which differ in luck."""
    options, found = draw(seed), list[dict[str, Any]]()
    for luck in range(runs):
        world = World(options, seed, luck)
        found.append(run(world, WithMemory(options, arm, luck)))
    mean = {m: round(float(np.mean([f[m] for f in found])), 6) for m in MEASURES}
    best = {m: round(float(np.mean([f["best"][m] for f in found])), 6) for m in MEASURES}
    return {"draw": seed, "arm": arm, "runs": runs, **mean, "none": round(options.base, 6), "best": best}


def main() -> None:
    """Run the missing rows, then write the pages."""
    a = _arguments()
    path = Path(a.out)
    stored = json.loads(path.read_text("utf-8")) if path.exists() else {"rows": []}
    rows = stored["rows"]
    have = {(r["draw"], r["arm"]) for r in rows if r["arm"] not in a.redo}
    rows = [r for r in rows if r["arm"] not in a.redo or not a.first <= r["draw"] < a.first + a.draws]
    start = time.perf_counter()
    command = " ".join(["python", "benchmarks/random_worlds.py", *sys.argv[1:]])
    about = stored["made"] if a.render else {"command": command, **provenance()}
    for i, seed in enumerate([] if a.render else range(a.first, a.first + a.draws)):
        for arm in a.arms:
            if (seed, arm) not in have:
                rows.append(row(seed, arm, a.runs) | {"commit": about["commit"]})
        if i % 10 == 9 or i == a.draws - 1:
            lines = ",\n".join(map(dump, sorted(rows, key=lambda r: (r["draw"], r["arm"]))))
            write_atomic(path, f'{{"benchmark": "random_worlds", "made": {dump(about)}, "rows": [\n{lines}\n]}}\n')
            print(f"{i + 1:4}/{a.draws} draws  {time.perf_counter() - start:6.0f} s", flush=True)
    if path == SOURCE:
        PAGE.write_text(page(rows, about), encoding="utf-8")
        GUIDE.write_text(filled(GUIDE.read_text("utf-8"), {"random": "\n".join(guide(rows))}), encoding="utf-8")


# ------------------------------------------------------------------------------------------------------------ the page
Table = dict[str, dict[int, dict[str, Any]]]  # rows by arm and draw


def _table(rows: Sequence[dict[str, Any]], judgement: bool) -> Table:
    """Rows of the draws that have all of ``ARMS``."""
    by: Table = {}
    for r in rows:
        if (r["draw"] >= JUDGEMENT) == judgement:
            by.setdefault(r["arm"], {})[r["draw"]] = r
    whole = set.intersection(*(set(by.get(arm, ())) for arm in ARMS))
    return {arm: {d: r for d, r in found.items() if d in whole} for arm, found in by.items()}


def behind(table: Table, arm: str, measure: str, draws: Sequence[int]) -> np.ndarray:
    """How far an arm is ahead of the better of similarity and memrl, by draw."""
    better = [max(table["rag"][d][measure], table["memrl"][d][measure]) for d in draws]
    return np.array([table[arm][d][measure] for d in draws]) - better


def _gap(x: np.ndarray) -> str:
    lo, hi = clustered_bootstrap(x, range(len(x)))
    return f"{x.mean():+.3f} [{lo:+.3f}, {hi:+.3f}]"


def page(rows: Sequence[dict[str, Any]], about: dict[str, Any]) -> str:
    """docs/results/random-worlds.md; no number is typed."""
    table = _table(rows, True)
    draws = sorted(table["memlift"])
    gaps = {arm: _gap(behind(table, arm, "late", draws)) for arm in ARMS}
    commits = sorted(
        {r["commit"]["id"][:12] + (" (dirty)" if r["commit"]["dirty"] else "") for r in rows if r["commit"]}
    )
    out = [
        "# Does the default memory do harm in worlds it was not made for?",
        "",
        "<!-- generated by benchmarks/random_worlds.py from benchmarks/results/random_worlds.json; do not edit -->",
        "",
        f"In {len(draws)} worlds drawn from seeds that nobody had looked at, the default `memlift` is compared with "
        "the *better* of similarity alone and MemRL in each world. In the last third of a run its expected success "
        f"differs from that by {gaps['memlift']}; similarity alone by {gaps['rag']}, MemRL by {gaps['memrl']}. It "
        "does not show that no world is harmed (the tenth quantile is below), nor what a language model does: agents "
        "are scripted.",
        "",
        *_summary(table),
        "",
        "Two runs a draw, 95 % bootstrap over draws; *behind*: share of the draws behind the better arm by more than "
        f".02. No memory has {np.mean([table['rag'][d]['none'] for d in draws]):.3f}, the best notes there are "
        f"{np.mean([table['rag'][d]['best']['stream'] for d in draws]):.3f} while learning. What is drawn "
        "(`benchmarks/random_world.py`): 2 to 30 names, 1 to 10 wordings, answers that depend on name, topic or "
        "both, up to 40 % of the notes wrong and 30 % out of date, outcomes reported for 10 to 100 % and up to 200 "
        "tasks late, 1 to 5 notes shown, agents that read, follow the first or get confused.",
        "",
        "## Where it is ahead or behind",
        "",
        *_where(table),
        "",
        f"`{about['command']}`; commits {', '.join(commits)}. Every draw and arm: "
        "[random_worlds.json](../../benchmarks/results/random_worlds.json).",
    ]
    return "\n".join(out) + "\n"


def _summary(table: Table) -> list[str]:
    draws = sorted(table["memlift"])
    out = [
        "| measure | arm | success | to the better arm | tenth quantile | behind | to similarity |",
        "|---" * 7 + "|",
    ]
    for measure, name in MEASURES.items():
        for arm in ARMS:
            x = behind(table, arm, measure, draws)
            success = np.array([table[arm][d][measure] for d in draws])
            similar = success - [table["rag"][d][measure] for d in draws]
            out.append(
                f"| {name} | {arm} | {success.mean():.3f} | {_gap(x)} | {np.quantile(x, 0.1):+.3f} | "
                f"{np.mean(x < -0.02):.0%} | {_gap(similar) if arm != 'rag' else '–'} |"
            )
    return out


_NEEDS = {
    "one": "one note",
    "facts": "one of several facts under a key",
    "both": "two notes at once",
    "substitutes": "substitutes",
}
_DEPENDS = {"both": "name and topic", "topic": "the topic", "entity": "the name"}
_AGENTS = {"reads": "read", "first": "follow the first", "confused": "get confused"}
_GROUPS: dict[str, Callable[[Options], str]] = {
    "needs": lambda o: _NEEDS[o.structure],
    "depends on": lambda o: f"answers depend on {_DEPENDS[o.depends]}",
    "agent": lambda o: f"agents: {_AGENTS[o.agent]}",
    "k": lambda o: f"k = {o.k}",
    "notes": lambda o: "wrong or outdated notes" if o.wrong or o.outdated else "all notes right",
    "corrections": lambda o: "corrections are written" if o.corrected else "no corrections",
    "own": lambda o: "own successes are written" if o.own else "no own successes",
    "drift": lambda o: "answers change" if o.drift else "answers stay",
    "base": lambda o: f"success without notes {'<' if o.base < 0.2 else '≥'} .2",
    "told": lambda o: "under 40 % of outcomes told" if o.told < 0.4 else "40 % or more told",
    "delay": lambda o: "outcomes late" if o.delay else "at once",
    "action": lambda o: "action told" if o.action else "action not told",
    "embedder": lambda o: f"embedder {o.embedder}",
}


def _where(table: Table) -> list[str]:
    """The groups of draws in which all intervals exclude zero."""
    rows, groups = ["| worlds | draws | " + " | ".join(MEASURES.values()) + " |", "|---" * (2 + len(MEASURES)) + "|"], 0
    options = {d: draw(d) for d in sorted(table["memlift"])}
    for group in _GROUPS.values():
        for name in sorted({group(o) for o in options.values()}):
            draws = [d for d, o in options.items() if group(o) == name]
            gaps = [behind(table, "memlift", m, draws) for m in MEASURES]
            groups += 1
            if all(low > 0 or high < 0 for low, high in (clustered_bootstrap(x, range(len(x))) for x in gaps)):
                rows.append(f"| {name} | {len(draws)} | " + " | ".join(map(_gap, gaps)) + " |")
    return [
        f"`memlift` against the better of similarity and MemRL, in the {len(rows) - 2} of {groups} groups of draws in "
        f"which all three intervals exclude 0 (of {groups * len(MEASURES)} intervals, one in twenty does by chance).",
        "",
        *rows,
    ]


def guide(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The tables of docs/memlift.md: the judgement, and what each part is worth on draws of development."""
    judged, table = _table(rows, True), dict[str, dict[int, dict[str, Any]]]()
    for r in rows:
        if r["draw"] < JUDGEMENT:
            table.setdefault(r["arm"], {})[r["draw"]] = r
    out = []
    if judged.get("memlift"):
        draws = sorted(judged["memlift"])
        out += ["| arm | " + " | ".join(MEASURES.values()) + " | tenth quantile |", "|---" * (2 + len(MEASURES)) + "|"]
        for arm in ARMS:
            gaps = [behind(judged, arm, m, draws) for m in MEASURES]
            worst = ", ".join(f"{np.quantile(x, 0.1):+.3f}" for x in gaps)
            out.append(f"| {arm} | " + " | ".join(map(_gap, gaps)) + f" | {worst} |")
    if any(part in table for part in PARTS):
        draws = sorted(table["memlift"])
        out += [
            "",
            f"What each part is worth in {len(draws)} draws of development (with it less without it):",
            "",
            "| part | " + " | ".join(MEASURES.values()) + " |",
            "|---" * (1 + len(MEASURES)) + "|",
        ]
        for part in PARTS:
            gaps = [_gap(np.array([table["memlift"][d][m] - table[part][d][m] for d in draws])) for m in MEASURES]
            out.append(f"| {part} | " + " | ".join(gaps) + " |")
    return out


def _arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--first", type=int, default=JUDGEMENT, help="first seed")
    p.add_argument("--draws", type=int, default=150)
    p.add_argument("--arms", nargs="+", default=list(ARMS), choices=[*ARMS, *PARTS])
    p.add_argument("--runs", type=int, default=2, help="runs of a draw, which differ in luck")
    p.add_argument("--out", default=str(SOURCE))
    p.add_argument("--redo", nargs="*", default=[], help="arms that are run again (their code has changed)")
    p.add_argument("--render", action="store_true", help="only write the pages")
    return p.parse_args()


if __name__ == "__main__":
    main()
