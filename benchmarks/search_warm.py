"""A policy to search with: SmolLM2-135M is shown solutions of training tasks, one pass, LoRA on attention.

# two minutes of an idle core:
python benchmarks/search_warm.py MODEL_DIR --env chain:steps=4,digits=1 --examples 400 --batch 4
evolvent run search --env chain:steps=4,digits=1 --model train:MODEL_DIR --search mcts_rollout best_of_n cot_sc greedy
"""

import argparse
import json
import random
import time
from pathlib import Path

import numpy as np

from evolvent import envs
from evolvent.envs.text import chain, game24


def examples(spec, n, seed=0):
    """``n`` solved training tasks as (prompt, answer); where there are fewer tasks, every one about as often."""
    env, draw = envs.load(spec), random.Random(seed)
    question, answer = env.labels
    texts = [task.text for task in env.tasks("train", n, seed)]
    if env.name == "chain":
        solved = [(text, chain.worked(text)) for text in texts]
    else:
        numbers = [tuple(int(text[i : i + 2]) for i in range(0, len(text), 2)) for text in texts]
        solved = [game24.worked(one, draw) for one in numbers]
    return [(f"{question}: {q}\n{answer}:", f" {a}\n\n") for q, a in solved]


def warm(folder, spec, n, batch, lr, seed=0):
    """Train and save; returns what was told."""
    import torch

    from evolvent.models.language import model as language

    torch.set_num_threads(1)
    started = time.process_time()
    attention = ("q_proj", "k_proj", "v_proj", "o_proj")
    model = language.load("smollm2-135m", lora_rank=16, lora_alpha=32, targets=attention, seed=seed)
    rows = [language.Row(model.encode(q, start=True), model.encode(a)) for q, a in examples(spec, n, seed)]
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
    told = {"env": spec, "examples": n, "batch": batch, "lr": lr, "seed": seed, "loss": float(np.mean(losses[-20:])),
            "cpu_seconds": round(time.process_time() - started)}  # fmt: skip
    (Path(folder) / "warm.json").write_text(json.dumps(told))
    return told


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--env", default="game24")
    parser.add_argument("--examples", type=int, default=1600)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    warm(args.folder, args.env, args.examples, args.batch, args.lr, args.seed)
