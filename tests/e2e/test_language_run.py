"""A language model trained through the command line: continued, evaluated frozen."""

import json
import re
import shlex
import shutil
from functools import partial

import command
import pytest

import tiny_language
from evolvent.cli import run
from evolvent.core.errors import EvolventError
from evolvent.runs.account.changed import HELDOUT
from run_folders import stable, weights

evolvent = partial(command.evolvent, trains=True)

SETTINGS = shlex.split(
    "--env microwave --updates 6 --prompts 2 --group 2 --epochs 2 --minibatches 2 --lr 0.01 --dtype float32 "
    "--eval-every 3 --eval-tasks 2 --threads 1 --turns 2 --plain"
)
model = tiny_language.fixture()


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        yield


@pytest.fixture(scope="module")
def whole(tmp_path_factory, model):
    folder = tmp_path_factory.mktemp("whole")
    out, _ = evolvent("run", "poad", *SETTINGS, "--model", model, "--out", "run", cwd=folder)
    return folder / "run", out


def refused(*arguments):
    """The error of a command in this process: loading the libraries anew takes longer than all the rest."""
    with pytest.raises(EvolventError) as caught:
        run.main([str(word) for word in arguments[1:]])
    return str(caught.value)


def test_a_run_leaves_a_folder_that_says_all(whole, model):
    folder, out = whole
    assert "held-out tasks after update 0" in out and "report:" in out
    for row in ("random play +0", "greedy +0", "greedy +24", "answers sampled +24"):
        assert re.search(rf"\n{row} +[-\d]", out), row
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["updates"] == 6 and summary["steps"] == 6 * 4 and summary["model"] == model
    rows = stable(folder)
    updates = [row for row in rows if "update" in row]
    assert rows[0]["phase"] == "random" and rows[1]["phase"] == "eval" and len(updates) == 6
    assert max(row["gap"] for row in updates) < 1e-4, "trained log-probabilities are those that were sampled"
    assert updates[0]["grad_norm"] > 0 and updates[0]["value_loss"] > 0
    credit = json.loads((folder / "credit.json").read_text())
    assert credit["rules"][0]["name"] == "poad" and {"ntpo", "group_std"} <= {r["name"] for r in credit["rules"]}
    assert (folder / "model" / "adapter_config.json").exists()
    page = (folder / "report.html").read_text()
    assert "Credit of every token" in page and "One task, before and after" in page
    kept = [len((folder / name).read_text().splitlines()) for name in HELDOUT.values()]
    assert kept == [summary["greedy"]["n"]] * 2, "every attempt at a held-out task, before and after"
    assert "report.html" in out and not list((folder / "checkpoints").glob(".*"))


def test_a_run_that_has_ended_goes_on_to_a_larger_total(tmp_path, monkeypatch, whole, model):
    """It was ended by its tokens, between two checkpoints: nothing is lost, and the limit is lifted."""
    monkeypatch.chdir(tmp_path)
    run.main([str(w) for w in ("poad", *SETTINGS, "--model", model, "--save-every", 2, "--sampled", 1, "--out", "run")])
    folder = tmp_path / "run"
    assert json.loads((folder / "summary.json").read_text())["updates"] == 1 and weights(folder)[0] == "step-000000001"
    run.main(["poad", "--resume", "run", "--sampled", "0", "--updates", "4", "--plain"])
    run.main(["poad", "--resume", "run", "--updates", "6", "--plain"])
    kept = json.loads((folder / "config.json").read_text())
    assert kept["config"]["updates"] == 6 and kept["config"]["plan"]["sampled"] == 0 and len(kept["extended"]) == 2
    assert json.loads((folder / "summary.json").read_text())["updates"] == 6
    ours, theirs = ([row for row in stable(path) if "update" in row] for path in (folder, whole[0]))
    assert ours == theirs and weights(folder) == weights(whole[0])
    assert "has done more" in refused("run", "poad", "--resume", "run", "--updates", 5)


def test_what_was_learned_is_evaluated_frozen(whole):
    folder, _ = whole
    before = (folder / "metrics.jsonl").read_bytes()
    evolvent("eval", folder, "--plain", cwd=folder.parent)
    result, summary = (json.loads((folder / name).read_text()) for name in ("eval.json", "summary.json"))
    assert result["greedy"] == summary["greedy"] and result["sampled"] == summary["sampled"]
    out, _ = evolvent("eval", folder, "--env", "microwave:long=true", "--episodes", 2, "--plain", cwd=folder.parent)
    there = json.loads((folder / "eval-microwave-long=true.json").read_text())
    assert there["n"] == 1 and there["sampled"]["n"] == 2 and "microwave:long=true" in out
    assert (folder / "metrics.jsonl").read_bytes() == before, "nothing in the run changes"


GRADED = """PROMPTS = [{{"prompt": "{prompt} " + str(i)}} for i in range(5)]
def reward(completion, prompt): return {value}
MAX_TOKENS = 3"""


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("reward", "not a reward"),
        ("long", "context"),
        ("template", "template"),
        ("word", "trained as wholes"),
        ("model", "no such"),
        ("sampler", "vLLM samples from adapters"),
    ],
)
def test_bad_input_is_reported(tmp_path, monkeypatch, model, case, said):
    monkeypatch.chdir(tmp_path)
    task = tmp_path / "task.py"
    prompt = "x" * 300 if case == "long" else "x"
    task.write_text(GRADED.format(prompt=prompt, value="float('nan')" if case == "reward" else "0.5"))
    arguments = ["--env", f"graded:{task}", "--model", model, "--updates", 1, "--prompts", 1, "--plain", "--out", "run"]
    algo = "grpo"
    if case == "template":
        arguments[3] = tiny_language.write(tmp_path / "plain", template=None)
        arguments += ["--style", "chat"]
    if case == "model":
        arguments[3] = str(tmp_path / "nowhere")
    if case == "sampler":
        arguments += ["--sampler", "vllm", "--lora-rank", 0]
    if case == "word":
        algo = "twosome"
        arguments[1] = "microwave"
        arguments += ["--act", "trie"]
    err = refused("run", algo, *arguments)
    assert said in err, err
    assert not (tmp_path / "run" / "summary.json").exists()


def test_a_checkpoint_of_another_model_is_refused(tmp_path, monkeypatch, whole):
    other = tiny_language.write(tmp_path / "other", hidden_size=48)
    folder = tmp_path / "run"
    shutil.copytree(whole[0], folder)
    (folder / "summary.json").unlink()
    config = json.loads((folder / "config.json").read_text())
    config["config"]["model"] = other
    (folder / "config.json").write_text(json.dumps(config))
    monkeypatch.chdir(tmp_path)
    err = refused("run", "poad", "--resume", "run", "--plain")
    assert "does not fit" in err or "another model" in err, err


SOLVED = """
PROMPTS = [{"prompt": f"x {i}"} for i in range(10)]
calls = [0]
def reward(completion, prompt, **rest):
    calls[0] += 1
    return calls[0] % 2 if 2 < calls[0] <= 6 else 1
"""


def test_the_page_shows_attempts_that_differed_where_the_last_ones_do_not(tmp_path, model):
    task = tmp_path / "task.py"
    task.write_text(SOLVED)  # attempts of the first update differ, all later ones are right
    arguments = ("--env", f"graded:{task}", "--model", model, "--updates", 3, "--prompts", 2, "--group", 2)
    arguments += ("--eval-tasks", 2, "--threads", 1, "--plain", "--out", tmp_path / "run")
    run.main(["grpo", *map(str, arguments)])
    shown = json.loads((tmp_path / "run" / "credit.json").read_text())["episodes"]
    assert {e["update"] for e in shown} == {1} and {e["return"] for e in shown} == {0.0, 1.0}
