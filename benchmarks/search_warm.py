"""A policy to search with, that has seen the form: SmolLM2-135M with LoRA, or (``--scratch``) a small network.

# SmolLM2-135M, 200 tokens a second of one core:
python benchmarks/search_warm.py MODEL_DIR --env game24 --examples 1600
# 0.3M parameters, a minute or two of an idle core:
python benchmarks/search_warm.py MODEL_DIR --env chain:steps=4,digits=1 --scratch --examples 64000 --batch 64 --lr 1e-3
evolvent run search --env game24 --model train:MODEL_DIR --search mcts_rollout best_of_n cot_sc greedy
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


def network(folder, seed):
    """A network of 0.3M parameters that reads single characters, untrained, as a folder of transformers."""
    import string

    import torch
    import transformers
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    made = Tokenizer(models.WordLevel({c: i for i, c in enumerate("?" + string.printable)}, unk_token="?"))
    made.pre_tokenizer = pre_tokenizers.Split(Regex("(?m)."), "isolated")
    made.decoder = decoders.Fuse()
    words = transformers.PreTrainedTokenizerFast(tokenizer_object=made, unk_token="?")
    config = transformers.LlamaConfig(
        hidden_size=96,
        intermediate_size=192,
        num_hidden_layers=3,
        num_attention_heads=4,
        vocab_size=len(words),
        max_position_embeddings=512,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    )
    torch.manual_seed(seed)
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    words.save_pretrained(folder)


def warm(folder, a):
    """Train and save."""
    import torch

    from evolvent.models.language import model as language

    torch.set_num_threads(1)
    started, n, batch, lr = time.process_time(), a.examples, a.batch, a.lr
    if a.scratch:
        if not (folder / "config.json").exists():  # otherwise it goes on
            network(folder, a.seed)
        model = language.load(str(folder), lora_rank=0, dtype="float32")
    else:
        attention = ("q_proj", "k_proj", "v_proj", "o_proj")
        model = language.load("smollm2-135m", lora_rank=16, lora_alpha=32, targets=attention, seed=a.seed)
    rows = [language.Row(model.encode(q, start=True), model.encode(a)) for q, a in examples(a.env, n, a.seed)]
    optimizer = torch.optim.AdamW(model.trainable(), lr=lr, weight_decay=0.0)
    steps, losses = len(rows) // batch, []
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = lr * min(1.0, (step + 1) / 20, 5.0 * (1.0 - step / steps))  # even, but for the last fifth
        loss = -model.logprobs(rows[step * batch : (step + 1) * batch]).logp_K.mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.trainable(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(float(loss.detach()))
        if step % 20 == 0:
            print(f"{step}/{steps} loss {np.mean(losses[-20:]):.3f} {time.process_time() - started:.0f} s", flush=True)
    model.save(folder)
    facts = {**vars(a), "loss": float(np.mean(losses[-20:])), "cpu_seconds": round(time.process_time() - started)}
    (Path(folder) / "warm.json").write_text(json.dumps(facts))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--env", default="game24")
    parser.add_argument("--examples", type=int, default=1600)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scratch", action="store_true")
    arguments = parser.parse_args()
    warm(Path(arguments.folder), arguments)
