"""A step of GRPO on SmolLM2-135M, everything included: ours against TRL's GRPOTrainer.

    python benchmarks/language_trl.py --python .venv-trl/bin/python

8 prompts of 128 tokens, 4 completions of exactly 32 tokens each; the same weights, reward (share of even tokens), loss
(clipped, no reference, group mean and standard deviation, mean over attempts of means over tokens), AdamW, clipping
and thread on both sides; all weights, or LoRA of rank 8 on q and v. The sides take turns in processes of their own; the
first step of each is not counted. Rates are medians over steps of the process's own time. TRL has an environment of
its own (requirements-trl.txt).
"""

import argparse
import json
import os

# one thread, as the other side has; before numpy is imported
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from speed._language_memory import highest
from speed._language_step import LR, Ours, Shape

from evolvent.core.jsonfile import dump, write_atomic
from evolvent.core.machine import provenance
from evolvent.core.seeding import rng
from evolvent.evaluate.live import Live
from evolvent.models.language import model as language
from evolvent.runs.language.config import Plan

HERE = Path(__file__).parent
MODEL = "smollm2-135m"
RANKS = {"all_weights": 0, "lora": 8}
TYPES = ("float32", "bfloat16")
GOALS = {"all_weights_float32": 1.5, "all_weights_bfloat16": 2.4}


def main() -> None:
    """Race and write the result file."""
    a = _arguments()
    if a.ours:
        ours(json.load(sys.stdin))
        return
    shape = Shape()
    load = [round(x, 1) for x in os.getloadavg()]
    found: dict[str, Any] = {"settings": {"model": MODEL, "lr": LR, "shape": asdict(shape)}, "load_before": load}
    with Live(plain=True) as live:
        for name in a.settings:
            rank = RANKS[name]
            rows: dict[str, list[np.ndarray]] = {side: [] for side in ("trl", *TYPES)}
            for turn in range(a.rounds):
                for side in sorted(rows, reverse=bool(turn % 2)):
                    live.note(f"{name}, round {turn + 1} of {a.rounds}: {side}")
                    got, result = one_side(side, rank, shape, turn, a)
                    rows[side].append(got)
                    found.setdefault("told", {})[f"{name}_{side}"] = result
            found[name] = compared(rows, shape.tokens)
            live.note(f"{name}: {found[name]['ratio_cpu']}")
    ratios = {f"{name}_{kind}": found[name]["ratio_cpu"][kind] for name in a.settings for kind in TYPES}
    found["checks"] = {f"{name}_of_{goal}": ratios[name] >= goal for name, goal in GOALS.items() if name in ratios}
    command = f"python benchmarks/language_trl.py --python PYTHON --rounds {a.rounds} --steps {a.steps}"
    content = {"command": command, **found, **provenance()}
    write_atomic(Path(a.out), dump(content, indent=1) + "\n")


def one_side(side: str, rank: int, shape: Shape, turn: int, a: argparse.Namespace) -> tuple[np.ndarray, dict[str, Any]]:
    """Seconds ``[steps - 1, (wall, cpu)]`` of the steps, in a process of their own, and what it tells besides."""
    model = language.load(MODEL, dtype="float32")
    asked = texts(model, shape, a.steps, turn)
    want = {"kind": side, "shape": asdict(shape), "steps": a.steps, "seed": turn, "lr": LR, "lora_rank": rank}
    want |= {"model": model.network.name_or_path, "prompts": asked}
    model.close()
    if side == "trl":
        words, path = [a.python, str(HERE / "language_trl_worker.py")], ""
    else:
        words, path = [sys.executable, __file__, "--python", "", "--ours"], os.environ.get("PYTHONPATH", "")
    environment = {**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(words, input=json.dumps(want), capture_output=True, text=True, env=environment)
    if done.returncode:
        sys.exit(f"the side of {side} failed:\n{done.stderr[-3000:]}")
    data = json.loads(done.stdout.strip().splitlines()[-1])
    return np.diff(np.array(data.pop("rows")), axis=0)[1:], data


def ours(want: dict[str, Any]) -> None:
    """The steps of our side; prints what the other side's worker prints."""
    torch.set_num_threads(1)
    shape = Shape(**want["shape"])
    model = language.load(MODEL, dtype=want["kind"], lora_rank=want["lora_rank"])
    side = Ours(model, shape, Plan().micro_tokens)
    asked = [model.encode(text) for text in want["prompts"]]
    clock = [(time.perf_counter(), time.process_time())]
    gaps: list[float] = []
    for step in range(want["steps"]):
        some = asked[step * shape.prompts :][: shape.prompts]
        done = side.sample(some, seed=1000 * want["seed"] + step)
        gaps.append(side.train(some, done)["gap"])
        clock.append((time.perf_counter(), time.process_time()))
    facts = {
        "rows": clock,
        "prompt_tokens": sorted({len(ids) for ids in asked}),
        "micro_tokens": side.micro_tokens,
        "trained": sum(p.numel() for p in model.trainable()),
        "largest_gap": max(gaps),
        "peak_gb": round(highest(), 2),
    }
    sys.stdout.write(json.dumps(facts))


def texts(model: language.LanguageModel, shape: Shape, steps: int, turn: int) -> list[str]:
    """Prompts of exactly as many tokens: words of one token each, drawn at random."""
    generator = rng(turn, "bench", "words")
    vocabulary = [model.decode([i]) for i in range(model.n_vocab)]
    known = np.array([w for w in vocabulary if w[:1] == " " and w[1:].isascii() and w[1:].isalpha() and w.islower()])
    found = ["".join(generator.choice(known, shape.prompt)) for _ in range(steps * shape.prompts)]
    if {len(model.encode(text)) for text in found} != {shape.prompt}:
        sys.exit("the prompts are not as long as they should be")
    return found


def compared(rows: dict[str, list[np.ndarray]], tokens: int) -> dict[str, Any]:
    """Seconds of a step and tokens a second of each side, and how many times TRL's time ours is, with intervals."""
    out: dict[str, Any] = {}
    generator = np.random.default_rng(0)
    for column, name in enumerate(("wall", "cpu")):
        seconds = {side: np.concatenate(parts)[:, column] for side, parts in rows.items()}
        medians = {side: float(np.median(x)) for side, x in seconds.items()}
        out[f"step_s_{name}"] = {side: round(x, 2) for side, x in medians.items()}
        out[f"tokens_per_s_{name}"] = {side: round(tokens / x, 1) for side, x in medians.items()}
        out[f"ratio_{name}"] = {side: round(medians["trl"] / medians[side], 3) for side in TYPES}
        for side in TYPES:
            draws = [
                np.median(generator.choice(seconds["trl"], len(seconds["trl"])))
                / np.median(generator.choice(seconds[side], len(seconds[side])))
                for _ in range(2000)
            ]
            out[f"ratio_{name}_{side}_ci95"] = [round(float(x), 3) for x in np.percentile(draws, [2.5, 97.5])]
    out["steps_counted"] = sum(len(x) for x in rows["trl"])
    return out


def _arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--python", required=True, help="of the environment with TRL")
    p.add_argument("--settings", nargs="+", default=list(RANKS), choices=list(RANKS))
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--steps", type=int, default=3)
    p.add_argument("--ours", action="store_true", help=argparse.SUPPRESS)
    p.add_argument("--out", default=str(HERE / "results" / "language_trl.json"))
    return p.parse_args()


if __name__ == "__main__":
    main()
