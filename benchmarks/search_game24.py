"""A policy for the game of 24: SmolLM2-135M is shown solutions of training puzzles, one pass, LoRA on attention.

python benchmarks/search_game24.py MODEL_DIR            # about ten minutes of an idle core
evolvent run search --env game24 --model train:MODEL_DIR --search mcts_rollout best_of_n cot_sc greedy
"""

import argparse
import json
import random
import time
from pathlib import Path

import numpy as np

from evolvent.envs.text import game24


def examples(n, seed=0):
    """``n`` solved training puzzles as texts, every puzzle about as often."""
    draw, puzzles = random.Random(seed), game24._split("train")
    order = [p for _ in range(-(-n // len(puzzles))) for p in draw.sample(puzzles, len(puzzles))]
    return [game24.worked(p, draw) for p in order[:n]]


def warm(folder, n, batch, lr):
    import torch

    from evolvent.models.language import model as language

    torch.set_num_threads(1)
    started = time.process_time()
    attention = ("q_proj", "k_proj", "v_proj", "o_proj")
    model = language.load("smollm2-135m", lora_rank=16, lora_alpha=32, targets=attention, dtype="float32")
    rows = [
        language.Row(model.encode(f"Numbers: {q}\nSteps:", start=True), model.encode(f" {a}\n\n"))
        for q, a in examples(n)
    ]
    optimizer = torch.optim.AdamW(model.trainable(), lr=lr, weight_decay=0.0)
    steps, losses = len(rows) // batch, []
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = lr * min(1.0, (step + 1) / 20) * 0.5 * (1 + np.cos(np.pi * step / steps))
        loss = -model.logprobs(rows[step * batch : (step + 1) * batch]).logp_K.mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.trainable(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(float(loss.detach()))
        if step % 5 == 0:
            print(f"{step}/{steps} loss {np.mean(losses[-20:]):.3f} {time.process_time() - started:.0f} s", flush=True)
    model.save(folder)
    told = {"examples": n, "batch": batch, "lr": lr, "loss": float(np.mean(losses[-20:])),
            "cpu_seconds": round(time.process_time() - started)}  # fmt: skip
    (Path(folder) / "warm.json").write_text(json.dumps(told))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--examples", type=int, default=1600)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--lr", type=float, default=1e-3)
    args = parser.parse_args()
    warm(args.folder, args.examples, args.batch, args.lr)
