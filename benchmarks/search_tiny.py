"""A policy of 0.4 million weights that writes solutions: trained from nothing on worked examples, in about a minute.

python benchmarks/search_tiny.py game24 FOLDER            # or chain; tokens are characters

Small enough that searches, values and iterations can be measured with several seeds on one core. It knows one world and
nothing else: what it shows is the method, not the model.
"""

import argparse
import json
import random
import string
import time
from pathlib import Path
from typing import Any

import numpy as np

from evolvent.envs.text import chain, game24


def examples(world, n, seed=0):
    """``n`` prompts and answers of training tasks."""
    draw = random.Random(seed)
    if world == "game24":
        puzzles = game24._split("train")
        some = [game24.worked(draw.choice(puzzles), draw) for _ in range(n)]
        return [(f"Numbers: {q}\nSteps:", f" {a}\n\n") for q, a in some]
    found = chain.make().tasks("train", n, seed)
    return [(f"Sum: {t.text}\nSteps:", f" {chain.worked(t.text)}\n\n") for t in found]


def tokenizer():
    """One token a character; the end of a text is a token."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocab = {"<unk>": 0} | {c: i + 1 for i, c in enumerate(string.printable)}
    made = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Split(Regex(r"(?m)."), "isolated")
    made.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=made, unk_token="<unk>", eos_token="<end>")


def train(world, folder, n, seed=0, batch=128, lr=2e-3, width=96, layers=4):
    import torch
    import transformers

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    words: Any = tokenizer()
    config = transformers.LlamaConfig(
        hidden_size=width, intermediate_size=2 * width, num_hidden_layers=layers, num_attention_heads=4,
        num_key_value_heads=2, vocab_size=len(words), max_position_embeddings=256, eos_token_id=words.eos_token_id,
        bos_token_id=None, pad_token_id=None, tie_word_embeddings=True,
    )  # fmt: skip
    model = transformers.AutoModelForCausalLM.from_config(config)
    rows = [(words.encode(q), words.encode(a)) for q, a in examples(world, n, seed)]
    length = max(len(q) + len(a) for q, a in rows)
    ids, wanted = np.zeros((n, length), np.int64), np.full((n, length), -100)
    for i, (q, a) in enumerate(rows):
        ids[i, : len(q) + len(a)] = q + a
        wanted[i, len(q) : len(q) + len(a)] = a
    ids, wanted = torch.from_numpy(ids), torch.from_numpy(wanted)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.01)
    started, steps, losses = time.process_time(), n // batch, []
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = lr * min(1.0, (step + 1) / 20) * 0.5 * (1 + np.cos(np.pi * step / steps))
        mine = slice(step * batch, (step + 1) * batch)
        loss = model(input_ids=ids[mine], labels=wanted[mine]).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(float(loss.detach()))
        if step % 25 == 0:
            print(f"{step}/{steps} loss {np.mean(losses[-25:]):.3f} {time.process_time() - started:.0f} s", flush=True)
    model.save_pretrained(folder)
    words.save_pretrained(folder)
    told = {"world": world, "examples": n, "seed": seed, "batch": batch, "lr": lr, "loss": float(np.mean(losses[-25:])),
            "weights": sum(p.numel() for p in model.parameters()),
            "cpu_seconds": round(time.process_time() - started)}  # fmt: skip
    (Path(folder) / "warm.json").write_text(json.dumps(told))
    return told


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("world", choices=["game24", "chain"])
    parser.add_argument("folder")
    parser.add_argument("--examples", type=int, default=40_000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    print(train(args.world, args.folder, args.examples, args.seed))
