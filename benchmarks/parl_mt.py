"""PARL-MT on conversations of four requests about orders: notes of one's own against all that was said.

    nice python benchmarks/parl_mt.py

SmolLM2-135M imitates gold conversations, then learns by GRPO; both stages of both ways are judged on the same held-out
conversations (other customers and goods), greedily. ``empty`` and ``gold`` are the model that learned with notes,
without notes and with notes out of what is true: floor and ceiling. ``calls`` is the share of right calls, ``success``
that of whole conversations; tokens are those of all prompts of a turn, and of the prompt that a call is made from.
"""

import argparse
import json
import shlex
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from evolvent.algos import parl_mt
from evolvent.core.config import to_json
from evolvent.core.folder import RunFolder
from evolvent.core.machine import provenance
from evolvent.evaluate.live import Live
from evolvent.formulas.statistics import student_interval
from evolvent.runs.language.config import Plan
from evolvent.runs.language.run import open_language

OUT = Path(__file__).parent / "results" / "parl_mt.json"
WAYS = ("awareness", "history")
NUMBERS = ("calls", "success", "prompt_tokens", "call_tokens", "calls_by_turn")
FIGURES = parl_mt.figures


def config_of(given, way, seed, imitate, rl):
    """Settings of a way: ``imitate`` updates of imitation, then ``rl`` of GRPO."""
    plan = Plan(eval_every=0, eval_tasks=1, threads=1, save_every=1000, lora_rank=16, lora_targets=("all-linear",))
    stages = parl_mt.Pag(
        conversations=given.conversations,
        verify=given.verify,
        verify_after=given.verify_after,
        augment=given.augment,
        talks=2,
        imitate_lr=given.lr,
    )
    made = {"model": given.model, "seed": seed, "sees": way, "prompts": 1, "group": given.group, "lr": given.rl_lr}
    return parl_mt.Config(updates=imitate + rl, imitate=imitate, plan=plan, pag=stages, **made)


def folder_of(path, config):
    """A new run folder."""
    named = {"algo": "parl_mt", "env": config.env, "seed": config.seed, "kind": config.KIND}
    return RunFolder.create(path, config=to_json(config), command="benchmarks/parl_mt.py", **named)


def untrained(given):
    """The model as it comes: from all that was said, and from gold notes."""
    rows = []
    with TemporaryDirectory() as place, Live(plain=True) as live:
        config = config_of(given, "history", 0, 1, 0)
        with folder_of(Path(place) / "run", config) as folder, open_language(config, folder, live) as run:
            for arm in ("history", "gold"):
                start = time.process_time()
                found = FIGURES(run, run.attempt_settings, arm, run.env.tasks("heldout", given.heldout, 0))
                cpu = round(time.process_time() - start, 1)
                rows.append({"way": "untrained", "seed": 0, "stage": "", "arm": arm, "cpu_s": cpu, **found})
    return rows


def measure(given, way, seed):
    """Rows of a way: after imitation and, going on from there, after GRPO; all arms of each."""

    def judged(run, plain, sees, tasks):
        return FIGURES(run, plain, sees, run.env.tasks("heldout", given.heldout, 0))

    parl_mt.figures, rows = judged, []
    with TemporaryDirectory() as place, Live(plain=True) as live:
        path = Path(place) / "run"
        for stage, rl in (("SFT", 0), ("SFT + GRPO", given.rl)):
            config, start = config_of(given, way, seed, given.imitate, rl), time.process_time()
            with RunFolder.open(path) if rl else folder_of(path, config) as folder:
                summary = parl_mt.run(config, folder, live, resume=rl > 0)
            cpu, notes = round(time.process_time() - start, 1), summary["notes"] or {}
            for arm, found in summary["arms"].items():
                own = {"way": way, "seed": seed, "stage": stage, "arm": arm, "cpu_s": cpu}
                rows.append(own | {"accepted": notes.get("accepted"), **found})
    return rows


def table():
    """The result file as lines of Markdown: means over seeds, with Student's interval of whole conversations."""
    result = json.loads(OUT.read_text("utf-8"))
    head = ["learned", "call made from", "right calls, by request", "whole conversations [95 %]", "tokens, of the call"]
    lines = [f"| {' | '.join(head)} |", "|---|---|---|---|---|"]
    rows, n = result["rows"], result["rows"][0]["n"]
    for way, stage, arm in dict.fromkeys((row["way"], row["stage"], row["arm"]) for row in rows):
        mine = [row for row in rows if (row["way"], row["stage"], row["arm"]) == (way, stage, arm)]
        mean = {key: np.mean([row[key] for row in mine], axis=0) for key in NUMBERS}
        low, high = student_interval([row["success"] for row in mine])
        interval = f" [{max(low, 0):.0%}, {min(high, 1):.0%}]" if len(mine) > 2 else ""
        turns = ", ".join(f"{share:.0%}" for share in mean["calls_by_turn"])
        learned = way if way == "untrained" else f"{way}, {stage}"
        cells = [learned, f"{arm}" if arm in WAYS else f"*{arm}* notes", f"{mean['calls']:.0%} ({turns})"]
        cells += [f"{mean['success']:.0%}{interval}", f"{mean['prompt_tokens']:.0f}, {mean['call_tokens']:.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    accepted = [row["accepted"] for row in rows if row.get("accepted") is not None]
    kept = f"; {np.mean(accepted):.0%} of the pairs were kept" if accepted else ""
    commit, model = result["provenance"]["commit"]["id"][:8], result["settings"]["model"]
    commands = "`, `".join(result["commands"])
    return [*lines, "", f"`{commands}`, {model}, {n} held-out conversations, commit {commit}{kept}."]


def main():
    """Run what is asked for and not there yet; the result file is written after every way and seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=list(WAYS))
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--conversations", type=int, default=80, help="gold conversations that are imitated")
    parser.add_argument("--imitate", type=int, default=48, help="updates of imitation, of two conversations each")
    parser.add_argument("--verify", default="target")
    parser.add_argument("--verify-after", type=int, default=24)
    parser.add_argument("--augment", type=float, default=0.1)
    parser.add_argument("--rl", type=int, default=5, help="updates of GRPO")
    parser.add_argument("--group", type=int, default=8)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--rl-lr", type=float, default=1e-4)
    parser.add_argument("--heldout", type=int, default=24, help="held-out conversations")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    settings = {k: v for k, v in vars(given).items() if k not in ("out", "seeds", "ways")}
    asked = [one for i, one in enumerate(sys.argv) if i and "--out" not in sys.argv[i - 1 : i + 1]]
    commands = [shlex.join(["python", "benchmarks/parl_mt.py", *asked])]
    result = {"commands": commands, "provenance": provenance(), "settings": settings, "rows": []}
    if given.out.exists():
        before = json.loads(given.out.read_text("utf-8"))
        if before["settings"] != settings:
            raise SystemExit(f"{given.out} holds rows of other settings; give --out")
        result |= {"commands": list(dict.fromkeys(before["commands"] + commands)), "rows": before["rows"]}
    jobs = [("untrained", 0), *((way, seed) for seed in given.seeds for way in given.ways)]
    done = {(row["way"], row["seed"]) for row in result["rows"]}
    for way, seed in jobs:
        if (way, seed) not in done:
            result["rows"] += untrained(given) if way == "untrained" else measure(given, way, seed)
            print(f"{way}, seed {seed}: {time.process_time():.0f} CPU-seconds so far", flush=True)
            given.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
