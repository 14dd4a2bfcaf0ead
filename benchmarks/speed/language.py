"""How fast a language model acts and learns: shared beginnings against one row for each.

A step of GRPO has 8 prompts of 128 tokens, 4 completions of exactly 32 tokens each, SmolLM2-135M, one thread; the plain
side is transformers' ``generate`` and one padded row a completion, with the same weights, optimizer and loss. Ratios
are medians over rounds in which both sides take their turn, on a CPU of this process's own time, on a GPU of the
clock's. ``benchmarks/language_trl.py`` races the same step against TRL.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from evolvent.core.errors import BadInput
from evolvent.core.seeding import rng
from evolvent.models.language import model as language
from evolvent.models.language.model import LanguageModel
from evolvent.runs.language.config import Plan

from . import ledger
from ._language_memory import peak
from ._language_step import Ours, Plain, Shape, prompts, rows_of, together
from ._marl_clock import Spent, in_turns, ratio

MODEL = "smollm2-135m"
SHAPE = Shape()
WARM = Shape(prompts=1, prompt=16, group=2, answer=4)
# name, LoRA rank (0 = all weights), number format, whether the plain side runs beside it
SETTINGS = (
    ("all_weights", 0, "float32", True),
    ("lora", 8, "float32", True),
    ("all_weights_bf16", 0, "bfloat16", False),
    ("lora_bf16", 8, "bfloat16", False),
)
ACTIONS, ACTION_PROMPT, ACTION_TOKENS = 6, 166, 3
STEP_GB, GAP = 1.5, 1e-4
# what is promised: names of ratios with the least value
TARGETS = {
    "plain_over_ours_step_all_weights": 1.5,
    "plain_over_ours_sample_all_weights": 1.5,
    "plain_over_ours_sample_lora": 1.5,
    "plain_over_bf16_step_all_weights": 2.4,
    "one_by_one_over_packed": 5.0,
}
Progress = Callable[[str], None]


def run(
    seed: int = 0, device: str = "cpu", rounds: int = 3, progress: Progress | None = None, model: str = MODEL
) -> dict[str, Any]:
    """Measure steps, sampling, scoring, memory and the ledger; about fifteen minutes on an idle core.

    Args:
        seed: of prompts and draws.
        device: of the model: cpu, cuda.
        rounds: measurements of a step; scoring takes three times as many.
        progress: called with a line of text now and then.
        model: what is measured.

    Returns:
        ``ratios``, ``milliseconds``, ``tokens_per_second`` (sampled and trained on, of a whole step), ``gap`` (largest
        differences between log-probabilities as sampled and as trained, and between packed scores and single ones),
        ``memory_gb`` of a step with LoRA (CPU only), ``ledger``: seconds and MB of 1,000 episodes of 2,000 tokens,
        ``checks``: what of the targets is reached.
    """
    say = progress or (lambda text: None)
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise BadInput("no GPU is at hand", got=device, expected="cpu", where="bench language --device")
    threads, load = torch.get_num_threads(), [round(x, 1) for x in os.getloadavg()]
    torch.set_num_threads(1)
    micro = Plan().micro_tokens
    result: dict[str, Any] = {
        "name": "language",
        "seed": seed,
        "model": model,
        "device": device,
        "torch_threads": 1,
        "micro_tokens": micro,
        "rounds": rounds,
        "ratios": {},
        "milliseconds": {},
        "tokens_per_second": {},
        "gap": {},
        "load_before": load,
    }
    try:
        steps: dict[str, dict[str, Spent]] = {}
        for name, rank, kind, beside in SETTINGS:
            say(f"a step: {name.replace('_', ' ')}")
            loaded = language.load(model, dtype=kind, lora_rank=rank, device=device)
            steps[name] = _measure_step(loaded, name, beside, seed, rounds, result)
            if name == "lora":
                say("packed scoring")
                _measure_scoring(loaded, seed, 3 * rounds, result)
            loaded.close()
            del loaded
            gc.collect()
        _compare(steps, device, result["ratios"])
        if device == "cpu":
            say("memory of a step")
            result["memory_gb"] = {kind: peak(model, kind, SHAPE, micro) for kind in ("float32", "bfloat16")}
        say("ledger")
        found = ledger.run(seed)
        result["ledger"] = {"seconds": found["seconds"]["arrays_all"], "peak_mb": found["peak_mb"]["arrays_all"]}
    finally:
        torch.set_num_threads(threads)
    result["load_after"] = [round(x, 1) for x in os.getloadavg()]
    result["checks"] = _checks(result)
    return result


def _measure_step(
    model: LanguageModel, name: str, beside: bool, seed: int, rounds: int, result: dict[str, Any]
) -> dict[str, Spent]:
    """Sampling and training of both sides, each on what it sampled itself."""
    asked, few = prompts(model.n_vocab, SHAPE, seed), prompts(model.n_vocab, WARM, seed)
    warm = Ours(model, WARM, result["micro_tokens"])
    side = Ours(model, SHAPE, result["micro_tokens"])
    side.optimizer = warm.optimizer  # with its moments made
    warm.train(few, warm.sample(few, seed))
    plain = Plain(side)
    state: dict[str, Any] = {"turn": seed}

    def sample() -> None:
        state["turn"] += 1
        state["sampled"] = side.sample(asked, state["turn"])

    def plain_sample() -> None:
        state["rows"] = plain.sample(asked)

    sample()
    state["rows"] = together(asked, state["sampled"], SHAPE.group).to(model.device)
    works: dict[str, Callable[[], Any]] = {
        "sample": sample,
        "train": lambda: side.train(asked, state["sampled"]),
    }
    if beside:
        works |= {"plain_sample": plain_sample, "plain_train": lambda: plain.train(state["rows"])}
    differences = _differences(side, plain, asked, state)
    result["gap"] |= {f"{what}_{name}": most for what, most in differences.items()}
    spent = in_turns(works, rounds, device=str(model.device), warm=0)
    for part in ("", "plain_") if beside else ("",):
        spent[f"{part}step"] = _sum(spent[f"{part}sample"], spent[f"{part}train"])
        seconds = spent[f"{part}step"].wall if str(model.device) != "cpu" else spent[f"{part}step"].cpu
        result["tokens_per_second"][f"{part}step_{name}"] = round(SHAPE.tokens / float(np.median(seconds)), 1)
    for work, times in spent.items():
        result["milliseconds"][f"{work}_{name}"] = times.milliseconds()
    return spent


def _differences(side: Ours, plain: Plain, asked: Sequence[np.ndarray], state: dict[str, Any]) -> dict[str, float]:
    """Of log-probabilities: as sampled to the packed pass, and (one prompt's completions) to a row for each."""
    n, sampled = SHAPE.group, state["sampled"]
    with torch.no_grad():
        ours = side.model.logprobs(rows_of(asked, sampled, n)).logp_K.cpu()
        theirs = plain.logp(state["rows"][:n]).flatten().cpu()
    as_sampled = torch.from_numpy(np.concatenate([done.logp for done in sampled]))
    return {
        "sampled_to_trained": float((as_sampled - ours).abs().max()),
        "plain_to_ours": float((theirs - ours[: len(theirs)]).abs().max()),
    }


def _sum(one: Spent, other: Spent) -> Spent:
    return Spent(one.wall + other.wall, one.cpu + other.cpu)


def _compare(steps: dict[str, dict[str, Spent]], device: str, ratios: dict[str, float]) -> None:
    for name, _, _, beside in SETTINGS:
        for part in ("step", "sample", "train") if beside else ():
            over = steps[name][f"plain_{part}"]
            ratios[f"plain_over_ours_{part}_{name}"] = ratio(over, steps[name][part], device)
            fast = steps[f"{name}_bf16"][part]
            # measured one after the other, so medians and not rounds are compared
            ratios[f"plain_over_bf16_{part}_{name}"] = ratio(_median(over), _median(fast), device)


def _median(spent: Spent) -> Spent:
    return Spent(np.median(spent.wall, keepdims=True), np.median(spent.cpu, keepdims=True))


def _measure_scoring(model: LanguageModel, seed: int, rounds: int, result: dict[str, Any]) -> None:
    """Log-probabilities of all actions behind one prompt, at once and one row each."""
    generator = rng(seed, "bench", "actions")
    context = generator.integers(3, model.n_vocab, ACTION_PROMPT).astype(np.int32)
    actions = [generator.integers(3, model.n_vocab, ACTION_TOKENS).astype(np.int32) for _ in range(ACTIONS)]
    rows = torch.tensor(np.stack([np.concatenate([context, action]) for action in actions]).astype(np.int64))
    rows, network = rows.to(model.device), model.network
    said: dict[str, Tensor] = {}

    @torch.no_grad()
    def packed() -> None:
        (said["packed"],) = model.choice_logprobs([context], [actions], normalise="sum")

    @torch.no_grad()
    def one_by_one() -> None:
        sums = []
        for row in rows:
            logits = network(input_ids=row[None], use_cache=False, logits_to_keep=ACTION_TOKENS + 1).logits[0, :-1]
            logp = logits.float().log_softmax(-1).gather(-1, row[-ACTION_TOKENS:, None])
            sums.append(logp.sum())
        said["one_by_one"] = torch.stack(sums).log_softmax(-1)

    spent = in_turns({"packed": packed, "one_by_one": one_by_one}, rounds, device=str(model.device))
    for work, times in spent.items():
        result["milliseconds"][f"score_{work}"] = times.milliseconds()
    result["ratios"]["one_by_one_over_packed"] = ratio(spent["one_by_one"], spent["packed"], str(model.device))
    result["gap"]["packed_to_one_by_one"] = float((said["packed"] - said["one_by_one"]).abs().max())


def _checks(result: dict[str, Any]) -> dict[str, bool]:
    checks = {f"{name}_of_{least:g}": result["ratios"][name] >= least for name, least in TARGETS.items()}
    for name in ("packed_to_one_by_one", "sampled_to_trained_all_weights", "sampled_to_trained_lora"):
        checks[f"{name}_within_{GAP:g}"] = result["gap"][name] <= GAP
    for kind, facts in result.get("memory_gb", {}).items():
        checks[f"lora_step_{kind}_within_{STEP_GB:g}_gb"] = facts["step"] <= STEP_GB
    checks["ledger_within_1_s"] = result["ledger"]["seconds"] <= 1.0
    checks["ledger_within_200_mb"] = result["ledger"]["peak_mb"] <= 200.0
    return checks
