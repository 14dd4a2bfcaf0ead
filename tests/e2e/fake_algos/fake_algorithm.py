"""Coin: a tiny stand-in for an algorithm, found by the command line only in these tests.

Draws one coin a step. It saves after each, polls for Ctrl-C, and can be told to fail.
"""

import time
from dataclasses import dataclass

import numpy as np

from evolvent.core.errors import ModelError
from evolvent.core.folder import Interrupted
from evolvent.formulas.statistics import wilson

PAPER = "arXiv 0000.00000"
LEVELS = ("memory", "step")
STATUS = "known broken"


@dataclass(frozen=True)
class Config:
    env: str = ""
    """Environment, unused."""
    model: str = "none"
    """Model, or 'missing' to fail while loading it."""
    seed: int = 0
    """Root of the seed tree."""
    steps: int = 8
    """Coins to draw."""
    bias: float = 0.5
    """Probability of heads."""
    wait_s: float = 0.0
    """Seconds a coin takes."""
    lessons: tuple[str, ...] = ("corrections", "successes")
    """A list of words."""


def run(config, folder, live, *, resume=False):
    if config.model == "missing":
        raise ModelError("no such model", got="missing", expected="one that is there", do="evolvent list models")
    rows = folder.read_metrics()
    done = rows[-1]["step"] if rows else 0
    live.phase("coins")
    with folder.interrupt as interrupt:
        for step in range(done + 1, config.steps + 1):
            time.sleep(config.wait_s)
            ok = int(np.random.default_rng([config.seed, step]).random() < config.bias)
            folder.log(step, phase="stream", task=f"t{step}", kind="coin", success=ok, first=1, repeat=0, **{"pass": 1})
            live.task(step, config.steps, question=f"coin {step}?", action="toss", ok=bool(ok))
            if interrupt.requested:
                raise Interrupted
    heads, n = sum(row["success"] for row in folder.read_metrics()), config.steps
    score = {"name": "heads", "value": heads / n, "ci95": wilson(heads, n), "higher_is_better": True}
    phase = {"name": "stream", "n": n, "successes": heads, "rate": heads / n, "ci95": wilson(heads, n)}
    return {"algo": "fake_algorithm", "env": config.env, "seed": config.seed, "score": score, "phases": [phase]}


def evaluate(folder, live, episodes):
    live.note(f"evaluating {episodes}")
    return {"n": episodes}
