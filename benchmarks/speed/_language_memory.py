"""Peak memory of a step with LoRA, in a fresh process."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import torch

from evolvent.models.language import model as language

from . import FRESH
from ._language_step import Ours, Shape, prompts


def peak(model: str, kind: str, shape: Shape, micro_tokens: int) -> dict[str, float]:
    """GB: the weights, the process with the model loaded, its peak in a step, and what the step took on top."""
    asked = {"model": model, "kind": kind, "shape": asdict(shape), "micro_tokens": micro_tokens}
    code = f"{FRESH}from benchmarks.speed._language_memory import answer; answer()"
    done = subprocess.run(
        [sys.executable, "-c", code], input=json.dumps(asked), check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout)


def answer() -> None:
    """The other side of ``peak``: measures itself, answers in JSON."""
    want = json.load(sys.stdin)
    torch.set_num_threads(1)
    model = language.load(want["model"], dtype=want["kind"])
    shape = Shape(**want["shape"])
    side = Ours(model, shape, want["micro_tokens"])
    loaded = resident()
    asked = prompts(model.n_vocab, shape, 0)
    side.train(asked, side.sample(asked, 0))
    weights = sum(p.numel() * p.element_size() for p in model.network.parameters()) / 1e9
    most = highest()
    facts = {"weights": weights, "loaded": loaded, "peak": most, "step": most - loaded}
    sys.stdout.write(json.dumps({name: round(gb, 3) for name, gb in facts.items()}))


def resident() -> float:
    """GB of this process in RAM now; its peak where the system does not tell."""
    return _of_process("VmRSS")


def highest() -> float:
    """GB of this process in RAM at most so far."""
    return _of_process("VmHWM")


def _of_process(name: str) -> float:
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text("utf-8").splitlines() if line.startswith(name))
        return int(line.split()[1]) * 1024 / 1e9
    # on Linux a process inherits this number from the one that started it, however large that was
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e9
