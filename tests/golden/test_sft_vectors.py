"""Tokens, masks, losses and gradients of TRL's SFTTrainer on the same rows: ``golden/sft_trl.json``."""

import json
from pathlib import Path

import numpy as np
import pytest

import sft_rows
import tiny_language
from evolvent.algos import sft
from evolvent.evaluate.live import Live
from evolvent.models.language import model as language
from evolvent.runs.language.config import Plan
from evolvent.runs.language.examples import fitted
from evolvent.runs.language.rows import read_rows
from run_folders import begin

GOLDEN = json.loads((Path(__file__).parent / "sft_trl.json").read_text())["cases"]
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(params=sft_rows.CASES)
def case(request, tmp_path):
    template, rows = sft_rows.CASES[request.param]
    model = tiny_language.write(tmp_path / "model", template=sft_rows.plain(template), **sft_rows.SETTINGS)
    data = tmp_path / "rows.jsonl"
    data.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return request.param, model, data


def test_tokens_and_masks_are_those_of_trl(case):
    name, folder, data = case
    model = language.load(folder, dtype="float32")
    stop = () if name == "texts" else None
    found = fitted(read_rows(data), model, chat=False, stop=stop, longest=512)
    assert (found.answers_left_out, found.rows_cut, len(found.episodes)) == (0, 0, len(GOLDEN[name]["told"]))
    for episode, told in zip(found.episodes, GOLDEN[name]["told"], strict=True):
        last = episode.n_steps - 1
        ids = np.concatenate([episode.context_ids(last), episode.step_tokens(last)])
        mask = np.zeros(len(ids), int)
        for step in range(episode.n_steps):
            start = len(episode.context_ids(step))
            mask[start : start + len(episode.step_tokens(step))] = 1
        want = np.array(told["input_ids"]), np.array(told["mask"])
        assert not want[1][len(ids) :].any()  # behind the last answer's end nothing is learned
        assert np.array_equal(ids, want[0][: len(ids)]) and np.array_equal(mask, want[1][: len(ids)])


def test_losses_and_gradients_are_those_of_trl(case, tmp_path):
    name, folder, data = case
    n = len(GOLDEN[name]["told"])
    plan = Plan(dtype="float32", lora_rank=0, eval_every=0, save_every=99)
    config = sft.Config(
        data=str(data),
        model=folder,
        heldout=0.0,
        prompts=n,
        epochs=sft_rows.STEPS,
        lr=sft_rows.LR,
        warmup=0.0,
        schedule="constant",
        plan=plan,
    )
    with begin(tmp_path / "run", "sft", config) as run, Live(plain=True) as live:
        sft.run(config, run, live)
    rows = [row for row in run.read_metrics() if "update" in row]
    assert [row["loss"] for row in rows] == pytest.approx(GOLDEN[name]["losses"], abs=1e-5)
    assert [row["grad_norm"] for row in rows] == pytest.approx(GOLDEN[name]["grad_norms"], rel=1e-5)
