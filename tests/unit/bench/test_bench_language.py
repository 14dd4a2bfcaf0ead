"""The benchmark of language models measures what it says, small."""

import subprocess
import sys

import numpy as np
import torch
from speed import FRESH
from speed import _language_step as step
from speed import language as bench
from speed._language_memory import highest

import tiny_language
from evolvent.models.language import model as language

torch.set_num_threads(1)
SMALL = step.Shape(prompts=2, prompt=12, group=3, answer=5)
folder = tiny_language.fixture(attention_dropout=0.0)


def test_it_runs_small_and_tells_what_was_reached(monkeypatch, folder):
    monkeypatch.setattr(bench, "SHAPE", SMALL)
    monkeypatch.setattr(bench, "peak", lambda model, kind, shape, micro: {"step": 1.4 if kind == "float32" else 1.6})
    monkeypatch.setattr(
        bench.ledger, "run", lambda seed: {"seconds": {"arrays_all": 0.5}, "peak_mb": {"arrays_all": 300.0}}
    )
    lines = []
    result = bench.run(seed=1, rounds=2, progress=lines.append, model=folder)
    assert len(lines) == 7
    for name, _, _, beside in bench.SETTINGS:
        for work in ("sample", "train", "step") + ("plain_sample", "plain_train", "plain_step") * beside:
            assert result["milliseconds"][f"{work}_{name}"]["cpu"] > 0
    checks = result["checks"]
    assert len(checks) == len(bench.TARGETS) + 3 + 2 + 2
    assert checks["lora_step_float32_within_1.5_gb"] and not checks["lora_step_bfloat16_within_1.5_gb"]
    assert checks["ledger_within_1_s"] and not checks["ledger_within_200_mb"]
    assert max(result["gap"][n] for n in result["gap"] if "bf16" not in n) <= 1e-4


def test_both_sides_take_the_same_step(folder):
    """From the same weights and completions: Adam moves every weight the same way."""
    moved = []
    for plain in (False, True):
        model = language.load(folder, dtype="float32", lora_rank=0)
        side = step.Ours(model, SMALL, 10**6)
        asked = step.prompts(model.n_vocab, SMALL, 0)
        sampled = side.sample(asked, 0)
        assert {len(done.token_ids) for done in sampled} == {SMALL.answer}
        before = torch.cat([p.detach().flatten().clone() for p in model.trainable()])
        if plain:
            step.Plain(side).train(step.together(asked, sampled, SMALL.group))
        else:
            side.train(asked, sampled)
        moved.append(torch.cat([p.detach().flatten() for p in model.trainable()]) - before)
    assert float(moved[0].abs().max()) > 0
    assert float(torch.cosine_similarity(*moved, dim=0)) > 0.95


def test_prompts_differ_and_rewards_do():
    asked = step.prompts(100, SMALL, 0)
    assert [len(ids) for ids in asked] == [12, 12] and not np.array_equal(*asked)
    assert step.reward([2, 4, 5, 6]) == 0.75


def test_the_memory_of_a_fresh_process_is_its_own():
    block = np.ones(10**8)  # 0.8 GB here must not be counted for a process that is started now
    code = FRESH + "from benchmarks.speed._language_memory import highest; print(highest())"
    other = float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)
    assert block.nbytes / 1e9 < highest() and 0.0 < other < highest() - 0.5
