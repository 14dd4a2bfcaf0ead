"""Calls of a frozen model, and of what needs no model: BFCL's items and HammerBench's snapshots.

    nice python benchmarks/bfcl_frozen.py --threads 1 [--parts bfcl hammerbench]

BFCL: 40 items each of simple_python, multiple and irrelevance. The model sees all functions (``free``), or the one that
an embedder (``nearest``) or words in common (``words``) pick, or none below a threshold chosen on other items. Without
a model stand the pickers alone (no threshold for ``cosine alone`` and ``words alone``), the first function always, and
never a call. HammerBench: conversations of five types, with the sentence "Leave out what nobody has said" in the prompt
and without it. Answers that are there are not asked for again; the seconds of one that two arms share count for both.
"""

from __future__ import annotations

import argparse
import json
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import shlex
import sys
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, cast

from evolvent import models
from evolvent.core.jsonfile import dump, write_atomic
from evolvent.core.machine import provenance
from evolvent.core.protocols import Env, Model, Task
from evolvent.data.pickers import Pick, Remembered, best, common_words, cosines, first_tool, no_tool
from evolvent.envs import load
from evolvent.envs.text.bfcl import Bfcl
from evolvent.envs.text.bfcl_items import REFUSE
from evolvent.envs.text.hammerbench import figures
from evolvent.formulas.statistics import wilson
from evolvent.memory import embedders
from evolvent.play.renderers import Text

OUT = Path(__file__).parent / "results" / "bfcl_frozen.json"
BFCL = "bfcl:simple_python+multiple+irrelevance"
HAMMER = "hammerbench:ST_Perfect+ST_Imperfect+ir_ST_Perfect+Based+SO_case1"
ASKED = {"free": "all", "nearest": "nearest", "words": "words"}
PICKED = ("cosine alone", "words alone", "first function", "never calls")
LEAVES = {"as it is": "yes", "without the sentence": "no"}
COLUMNS = ("function right", "arguments right", "refusals right", "call rate", "whole right")
Ask = Callable[[str, tuple[str, ...], int], tuple[str, float, int]]
"""Prompt, stops, longest answer to the answer, its CPU seconds and its tokens."""


def asking(model: Model) -> Ask:
    """The model, asked each question once."""

    @cache
    def ask(prompt: str, stop: tuple[str, ...], most: int) -> tuple[str, float, int]:
        start = time.process_time()
        said = model.generate(prompt, max_tokens=most, temperature=0.0, seed=0, stop=stop)
        return said.text.strip(), round(time.process_time() - start, 2), len(said.token_ids)

    return ask


def attempt(env: Env, task: Task, ask: Ask) -> dict[str, Any]:
    """One attempt of the model: what each step was told, seconds and tokens."""
    turn, steps, seconds, tokens = env.reset(task, 0), list[dict[str, Any]](), 0.0, 0
    while not turn.done:
        answer = turn.admissible[0] if turn.admissible else ""
        if not answer:
            answer, s, n = ask(Text().first(env, turn), env.stop, env.max_tokens)
            seconds, tokens = seconds + s, tokens + n
        turn = env.step(answer)
        steps.append({"said": answer, **turn.info})
    return {"right": turn.success, "steps": steps, "cpu_s": round(seconds, 2), "tokens": tokens}


def judged(env: Bfcl, task: Task, done: dict[str, Any]) -> dict[str, Any]:
    """The row of a BFCL item."""
    (step,) = done["steps"]
    told, serves = step["rewards"], task.kind not in REFUSE
    row = {"item": task.id, "kind": task.kind, "said": step["said"], "cpu_s": done["cpu_s"], "tokens": done["tokens"]}
    return row | {
        "called": bool(told["called"]),
        "function": bool(told["name"]) if serves else None,
        "arguments": bool(told["arguments"]) if serves else None,
        "right": done["right"],
    }


def picks() -> dict[str, Pick]:
    """What picks without a model."""
    near = best(cosines(Remembered(embedders.load())))
    return dict(zip(PICKED, (near, best(common_words), first_tool, no_tool), strict=True))


def picked(env: Bfcl, task: Task, pick: Pick) -> dict[str, Any]:
    """The row of an item whose function is picked and no argument filled in."""
    item, start = env.item(task), time.process_time()
    name = pick(item.question, cast("Any", item.tools))
    answer = [] if name is None else [{"name": name, "arguments": {}}]
    seconds = round(time.process_time() - start, 2)
    env.reset(task, 0)
    turn = env.step(json.dumps(answer))
    done = {"steps": [{"said": json.dumps(answer), **turn.info}], "right": turn.success, "cpu_s": seconds, "tokens": 0}
    return judged(env, task, done)


# -------------------------------------------------------------------------------------------------------- tables
def table() -> list[str]:
    """Both tables as lines of Markdown, of what is there."""
    return tables(json.loads(OUT.read_text("utf-8"))) if OUT.exists() else ["None published yet."]


def tables(result: dict[str, Any]) -> list[str]:
    """The same of a result."""
    lines = [f"| BFCL | {' | '.join(COLUMNS)} | CPU-s an item | tokens |", "|---" * (len(COLUMNS) + 3) + "|"]
    for arm in (*ASKED, *PICKED):
        rows = [row for row in result["rows"] if (row["part"], row["arm"]) == ("bfcl", arm)]
        if rows:
            cells = [_share([row[key] for row in some]) for key, some in _columns(rows)]
            cells += [f"{_mean(rows, 'cpu_s'):.2f}", f"{_mean(rows, 'tokens'):.0f}"]
            lines.append(f"| {arm} | {' | '.join(cells)} |")
    asked = [arm for arm in LEAVES if any(row["arm"] == arm for row in result["rows"])]
    if asked:
        lines += ["", "| HammerBench | type | n | Func | Args | PHR [95 %] | PMR |", "|---" * 7 + "|"]
    for arm in asked:
        rows = [row for row in result["rows"] if (row["part"], row["arm"]) == ("hammerbench", arm)]
        for kind, found in figures([(row["kind"], row["snapshots"]) for row in rows]).items():
            lines.append(f"| {arm} | {kind or 'all'} | {_hallucinated(rows, kind, found)} |")
    commit = result["provenance"]["commit"]["id"][:8]
    return [*lines, "", f"`{'`, `'.join(result['commands'])}`, {result['model']}, commit {commit}."]


def _columns(rows: Sequence[dict[str, Any]]) -> list[tuple[str, Sequence[dict[str, Any]]]]:
    serves = [row for row in rows if row["function"] is not None]
    none = [row for row in rows if row["function"] is None]
    whole = [("called", rows), ("right", rows)]
    return [("function", serves), ("arguments", serves), ("right", none), *whole]


def _share(values: Sequence[bool]) -> str:
    low, high = wilson(sum(values), len(values))
    return f"{sum(values) / len(values):.0%} [{low:.0%}, {high:.0%}]" if values else "–"


def _mean(rows: Sequence[dict[str, Any]], key: str) -> float:
    return sum(row[key] for row in rows) / len(rows)


def _hallucinated(rows: Sequence[dict[str, Any]], kind: str, found: dict[str, float]) -> str:
    """Snapshots, and the metrics; PHR over the snapshots of conversations with the right function, as it is defined."""
    mine = [row["snapshots"] for row in rows if row["kind"] == kind or not kind]
    extra = [one["extra"] > 0 for each in mine if each[0]["function"] for one in each]
    cells = [f"{sum(map(len, mine))}", f"{found['Func']:.2f}", f"{found['Args']:.2f}", _share(extra)]
    return " | ".join([*cells, f"{found['PMR']:.2f}"])


# ---------------------------------------------------------------------------------------------------------- main
def main() -> None:
    """Ask what is not there yet; the file is written after every attempt."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--parts", nargs="+", default=["bfcl", "hammerbench"], choices=["bfcl", "hammerbench"])
    p.add_argument("--arms", nargs="+", default=[*ASKED, *PICKED, *LEAVES])
    p.add_argument("--n", type=int, default=120, help="items of BFCL")
    p.add_argument("--conversations", type=int, default=35, help="of HammerBench, some 60 snapshots")
    p.add_argument("--model", default="qwen2.5-coder-1.5b")
    p.add_argument("--threads", type=int, default=0)
    p.add_argument("--folder", default="", help="where the data of both lie, if not in the cache")
    p.add_argument("--out", type=Path, default=OUT)
    a = p.parse_args()
    asked = [one for i, one in enumerate(sys.argv) if i and "--out" not in sys.argv[i - 1 : i + 1]]
    result = {"commands": [shlex.join(["python", "benchmarks/bfcl_frozen.py", *asked])], "rows": []}
    if a.out.exists():
        before = json.loads(a.out.read_text("utf-8"))
        result = {"commands": list(dict.fromkeys(before["commands"] + result["commands"])), "rows": before["rows"]}
    result |= {"model": a.model, "provenance": provenance()}
    known = {(row["part"], row["arm"], row["item"]) for row in result["rows"]}
    model = models.load(a.model, n_ctx=4096, **({"n_threads": a.threads} if a.threads else {}))
    ask, more = asking(model), f",folder={a.folder}" if a.folder else ""

    def keep(part: str, arm: str, row: dict[str, Any]) -> None:
        result["rows"].append({"part": part, "arm": arm, **row})
        head = {key: value for key, value in result.items() if key != "rows"}
        rows = ",\n".join(map(dump, result["rows"]))
        write_atomic(a.out, f'{dump(head)[:-1]}, "rows": [\n{rows}\n]}}\n')

    for arm in [arm for arm in (*ASKED, *PICKED) if arm in a.arms and "bfcl" in a.parts]:
        env = cast("Bfcl", load(f"{BFCL},n={a.n},pick={ASKED.get(arm, 'all')}{more}"))
        pick = picks()[arm] if arm in PICKED else None
        for task in env.tasks("heldout", a.n, 0):
            if ("bfcl", arm, task.id) not in known:
                keep("bfcl", arm, picked(env, task, pick) if pick else judged(env, task, attempt(env, task, ask)))
    for arm in [arm for arm in LEAVES if arm in a.arms and "hammerbench" in a.parts]:
        env = load(f"{HAMMER},n={a.conversations},leave={LEAVES[arm]}{more}")
        for task in env.tasks("heldout", a.conversations, 0):
            if ("hammerbench", arm, task.id) not in known:
                done = attempt(env, task, ask)
                row = {"item": task.id, "kind": task.kind, "said": [one["said"] for one in done["steps"]]}
                row |= {"snapshots": [one["snapshot"] for one in done["steps"]]}
                keep("hammerbench", arm, row | {key: done[key] for key in ("right", "cpu_s", "tokens")})
    print("\n".join(tables(result)))


if __name__ == "__main__":
    main()
