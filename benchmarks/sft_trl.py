"""Steps of supervised fine-tuning on SmolLM2-135M, everything included: ours against TRL's SFTTrainer.

    python benchmarks/sft_trl.py --python .venv-trl/bin/python

Conversations of two answers behind one instruction, four a step; the same weights, rows, mask (answers alone), loss
(mean over the tokens of a step), AdamW, clipping and thread on both sides; LoRA of rank 8 on q and v in float32. Each
side runs in a process of its own, in turns; the first step of each is not counted. Tokens and masks are compared one by
one, losses of the first step (afterwards the sides see rows in another order). TRL has an environment of its own
(requirements-trl.txt).
"""

import argparse
import json
import os

# one thread, as the other side has; before numpy is imported
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from evolvent.algos import sft
from evolvent.core.config import to_json
from evolvent.core.folder import RunFolder
from evolvent.core.jsonfile import dump, write_atomic
from evolvent.core.machine import provenance
from evolvent.core.seeding import rng
from evolvent.evaluate.live import Live
from evolvent.learn.tokens.batch import token_batch
from evolvent.learn.tokens.logprobs import TokenLogprobs
from evolvent.models.language import model as language
from evolvent.models.language.load import source
from evolvent.runs.language.config import Plan
from evolvent.runs.language.examples import fitted
from evolvent.runs.language.imitation import imitated
from evolvent.runs.language.rows import read_rows
from evolvent.runs.language.tuning import Tuning

HERE = Path(__file__).parent
MODEL, BATCH, LR = "smollm2-135m", 4, 1e-4
TURN = "message['role'] == 'assistant'"
WORDS = ["apple", "river", "stone", "cloud", "lamp", "green", "seven", "north", "winter", "paper", "silver", "bridge"]


def main() -> None:
    """Race and write the result file."""
    a = _arguments()
    if a.ours:
        ours(json.load(sys.stdin))
        return
    load = [round(x, 1) for x in os.getloadavg()]
    seconds: dict[str, list[np.ndarray]] = {"trl": [], "ours": []}
    folder = shortened(a.layers)
    told: dict[str, dict[str, Any]] = {}
    with Live(plain=True) as live:
        for turn in range(a.rounds):
            for side in sorted(seconds, reverse=bool(turn % 2)):
                live.note(f"round {turn + 1} of {a.rounds}: {side}")
                told[side] = one_side(side, a.python, folder, a.steps, turn)
                seconds[side].append(np.diff(np.array(told[side].pop("rows")), axis=0)[1:])
    found = compared(seconds)
    alike = told["ours"]["told"] == told["trl"]["told"]
    loss = {side: one["losses"][0] for side, one in told.items()}
    found["checks"] = {"tokens_and_masks_equal": alike, "first_loss_differs_by": abs(loss["ours"] - loss["trl"])}
    command = f"python benchmarks/sft_trl.py --python PYTHON --rounds {a.rounds} --steps {a.steps} --layers {a.layers}"
    settings = {
        "model": MODEL,
        "batch": BATCH,
        "lr": LR,
        "lora_rank": 8,
        "steps": a.steps,
        "rounds": a.rounds,
        "layers": a.layers,
    }
    content = {"command": command, "settings": settings, "load_before": load, **found, **provenance()}
    write_atomic(Path(a.out), dump(content, indent=1) + "\n")


def shortened(layers: int) -> str:
    """The folder of the model, or of one that has its first ``layers`` alone."""
    folder = source(MODEL)[0]
    if not layers:
        return folder
    place = tempfile.mkdtemp()
    AutoModelForCausalLM.from_pretrained(folder, num_hidden_layers=layers).save_pretrained(place)
    AutoTokenizer.from_pretrained(folder).save_pretrained(place)
    return place


def rows(steps: int, seed: int) -> list[dict[str, Any]]:
    """As many conversations as a side's steps take."""
    draw = rng(seed, "bench", "rows")

    def said(n: int) -> str:
        return " ".join(draw.choice(WORDS, n).tolist())

    head = {"role": "system", "content": "Answer in as few words as you can, and never more than asked for."}
    return [
        {
            "messages": [
                head,
                {"role": "user", "content": f"Repeat: {said(int(draw.integers(10, 25)))}"},
                {"role": "assistant", "content": said(int(draw.integers(5, 25)))},
                {"role": "user", "content": f"Again: {said(10)}"},
                {"role": "assistant", "content": said(int(draw.integers(5, 15)))},
            ]
        }
        for _ in range(BATCH * steps)
    ]


def one_side(side: str, python: str, folder: str, steps: int, turn: int) -> dict[str, Any]:
    """What a process of its own tells of its steps."""
    template = AutoTokenizer.from_pretrained(folder).chat_template
    said = "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
    if said not in template:
        sys.exit("the chat template of the model is another one now")
    opened = "{{'<|im_start|>' + message['role'] + '\n'}}"
    inner = "{{message['content'] + '<|im_end|>'}}"
    marked = "{% if " + TURN + " %}{% generation %}" + inner + "{% endgeneration %}{% else %}" + inner + "{% endif %}"
    want = {"folder": folder, "template": template.replace(said, opened + marked + "{{'\n'}}")}
    want |= {"rows": rows(steps, turn), "batch": BATCH, "steps": steps, "lr": LR, "lora_rank": 8, "dtype": "float32"}
    words, path = [python, str(HERE / "sft_trl_worker.py")], ""
    if side == "ours":
        words, path = [sys.executable, __file__, "--python", "", "--ours"], os.environ.get("PYTHONPATH", "")
    environment = {**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(words, input=json.dumps(want), capture_output=True, text=True, env=environment)
    if done.returncode:
        sys.exit(f"the side of {side} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def ours(want: dict[str, Any]) -> None:
    """The steps of our side; prints what the other side's worker prints."""
    torch.set_num_threads(1)
    place = Path(tempfile.mkdtemp())
    data = place / "rows.jsonl"
    data.write_text("".join(f"{json.dumps(row)}\n" for row in want["rows"]))
    plan = Plan(dtype="float32", eval_every=0, save_every=10_000, threads=1)
    more = {"epochs": 1, "heldout": 0.0, "warmup": 0.0, "schedule": "constant"}
    config = sft.Config(data=str(data), model=want["folder"], prompts=want["batch"], lr=want["lr"], plan=plan, **more)
    clock: list[tuple[float, float]] = []
    begun, log = Tuning.updates, Tuning.log

    def updates(self: Tuning) -> Any:
        clock.append((time.perf_counter(), time.process_time()))
        return begun(self)

    def logged(self: Tuning, *args: Any) -> None:
        log(self, *args)
        clock.append((time.perf_counter(), time.process_time()))

    Tuning.updates, Tuning.log = updates, logged
    facts = {"algo": "sft", "config": to_json(config), "env": "", "seed": 0, "command": "bench", "kind": "language"}
    with RunFolder.create(place / "run", **facts) as folder, Live(plain=True, stream=sys.stderr) as live:
        sft.run(config, folder, live)
    model = language.load(want["folder"], dtype="float32")
    episodes = fitted(read_rows(data), model, chat=False, stop=(), longest=8192).episodes
    batch = token_batch(episodes[:BATCH], imitated(episodes[:BATCH]), level="step")
    loss = -float(batch.looked_up(TokenLogprobs(model), plan.micro_tokens)[0].mean())
    told = [_told(model, one) for one in episodes]
    sys.stdout.write(json.dumps({"rows": clock, "told": told, "losses": [loss]}))


def _told(model: language.LanguageModel, episode: Any) -> dict[str, list[int]]:
    last = episode.n_steps - 1
    ids = np.concatenate([episode.context_ids(last), episode.step_tokens(last), model.encode("\n")])
    mask = np.zeros(len(ids), int)
    for step in range(episode.n_steps):
        start = len(episode.context_ids(step))
        mask[start : start + len(episode.step_tokens(step))] = 1
    return {"input_ids": ids.tolist(), "mask": mask.tolist()}


def compared(seconds: dict[str, list[np.ndarray]]) -> dict[str, Any]:
    """Seconds of a step on each side, and how many times TRL's time ours is, with intervals."""
    out: dict[str, Any] = {}
    generator = np.random.default_rng(0)
    for column, name in enumerate(("wall", "cpu")):
        mine, other = (np.concatenate(seconds[side])[:, column] for side in ("ours", "trl"))
        out[f"step_s_{name}"] = {"ours": round(float(np.median(mine)), 2), "trl": round(float(np.median(other)), 2)}
        out[f"ratio_{name}"] = round(float(np.median(other) / np.median(mine)), 3)
        draws = [
            np.median(generator.choice(other, len(other))) / np.median(generator.choice(mine, len(mine)))
            for _ in range(2000)
        ]
        out[f"ratio_{name}_ci95"] = [round(float(x), 3) for x in np.percentile(draws, [2.5, 97.5])]
    return out | {"steps_counted": sum(len(x) for x in seconds["trl"])}


def _arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--python", required=True, help="of the environment with TRL")
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--steps", type=int, default=4)
    p.add_argument("--layers", type=int, default=0, help="of the model, the first ones; 0 = all")
    p.add_argument("--ours", action="store_true", help=argparse.SUPPRESS)
    p.add_argument("--out", default=str(HERE / "results" / "sft_trl.json"))
    return p.parse_args()


if __name__ == "__main__":
    main()
