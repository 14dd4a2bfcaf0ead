"""Weights and memory values learn in one run from the same attempts: one ledger, one checkpoint, frozen evaluation."""

import json
import subprocess
import sys
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest

import tiny_language
from evolvent import Memory, catalogue
from evolvent.core.folder import RunFolder
from evolvent.evaluate.live import Live
from evolvent.running import write_report
from evolvent.runs.language.run import LanguageRun
from language_runs import killed_in_update
from run_folders import begin, stable, weights

pytestmark = pytest.mark.usefixtures("one_thread")
model = tiny_language.fixture(max_position_embeddings=1024)
ROOM = "microwave:step_limit=3"


def config_of(name, model, **more):
    config = import_module(f"evolvent.algos.{name}").Config
    own = {"dtype": "float32", "eval_every": 0, "eval_tasks": 2, "memory": "memlift"} | more.pop("plan", {})
    plan = replace(config().plan, **own)
    return config(
        **({"env": ROOM, "model": model, "updates": 3, "prompts": 2, "group": 4, "lr": 0.01} | more), plan=plan
    )


def start(name, config, path, *, resume=False, ledgers=None):
    log = LanguageRun.log

    def noted(self, episodes, ledger, **values):
        log(self, episodes, ledger, **values)
        if ledgers is not None:
            ledgers.append((list(episodes), ledger))

    with (
        begin(path, name, config, resume=resume) as folder,
        Live(plain=True) as live,
        pytest.MonkeyPatch.context() as m,
    ):
        m.setattr(LanguageRun, "log", noted)
        summary = import_module(f"evolvent.algos.{name}").run(config, folder, live, resume=resume)
        folder.write_summary(summary)
    return summary


def held(path):
    with Memory(path / "memory.db") as memory:
        return [(i.id, i.key, i.body, i.value, i.n, i.n_omitted) for i in memory.items()]


@pytest.fixture(scope="module")
def whole(model, tmp_path_factory):
    path, ledgers = tmp_path_factory.mktemp("whole") / "run", []
    return path, start("grpo", config_of("grpo", model), path, ledgers=ledgers), ledgers


def test_one_ledger_holds_what_steps_and_what_memories_earned(whole):
    path, _, ledgers = whole
    start_value = {id_: value for id_, *_, value, n, _ in held(path) if n == 0}
    moved = dict.fromkeys((id_ for id_, *_ in held(path)), 0.0)
    for episodes, ledger in ledgers:
        assert (
            len(ledger.values("step")) == sum(e.n_steps for e in episodes) and np.isfinite(ledger.values("step")).all()
        )
        for address, credit in ledger.entries("memory"):
            moved[address.unit] += credit or 0.0
    earned = {id_: total for id_, total in moved.items() if total}
    assert earned and not earned.keys() & start_value.keys(), "values move by credit alone"
    shown = [e for episodes, _ in ledgers for e in episodes if e.shown_memories]
    assert shown and all(f"{m}" in moved for e in shown for m in e.shown_memories)
    assert all(use.propensity == 1.0 for e in shown for use in e.memory_uses), "nothing is left out unasked"


def test_what_is_in_sight_is_in_the_tokens_that_are_trained(whole, model):
    from evolvent.models.language import model as language

    decode = language.load(model, dtype="float32").decode
    _, _, ledgers = whole
    seen = next(e for e in ledgers[-1][0] if e.shown_memories)
    text = decode(seen.context_ids(0))
    assert text.count("The pancake is in your hand") > 1, "the situation, and examples of it"


def test_a_killed_run_goes_on_with_the_memory_of_its_checkpoint(whole, model, tmp_path):
    path, want, _ = whole
    with killed_in_update(2):
        start("grpo", config_of("grpo", model), tmp_path / "cut")
    found = start("grpo", config_of("grpo", model), tmp_path / "cut", resume=True)
    assert {**found, "seconds": 0} == {**want, "seconds": 0}
    assert stable(tmp_path / "cut") == stable(path) and held(tmp_path / "cut") == held(path)
    cut, uncut = weights(tmp_path / "cut")[1], weights(path)[1]
    assert {k: v for k, v in cut.items() if k != "memory.store"} == {
        k: v for k, v in uncut.items() if k != "memory.store"
    }


def test_threads_change_nothing_of_the_values(whole, model, tmp_path):
    path, _, _ = whole
    start("grpo", config_of("grpo", model, plan={"workers": 3}), tmp_path / "run")
    mine, its = ({(k, b): (v, n) for _, k, b, v, n, _ in held(p)} for p in (tmp_path / "run", path))
    assert mine.keys() == its.keys()


def test_an_evaluation_is_frozen_and_leaves_the_store_alone(whole):
    path, want, _ = whole
    before = held(path), (path / "memory.db").read_bytes()
    with Live(plain=True) as live:
        evaluated = catalogue.system("grpo").evaluate()(RunFolder.open(path), live)
    assert evaluated["greedy"]["value"] == want["greedy"]["value"]
    assert (held(path), (path / "memory.db").read_bytes()) == before


def test_the_report_shows_both_levels(whole):
    path, summary, _ = whole
    page = write_report(path).read_text()
    best = summary["top_memories"]  # of a small model that learns for a moment there may be none
    assert ("The most valuable memories" in page) == bool(best) and all(memory["body"] in page for memory in best)
    assert "Health of the memory" in page and "memories in sight in an attempt" in page
    nodes = [n for e in json.loads((path / "credit.json").read_text())["episodes"] for n in e["nodes"]]
    assert any(n["agent"] == "memory" and "(credit " in n["text"] for n in nodes)


TEAM = {"env": "arithmetic:addition,shots=2", "interval": 1}


@pytest.mark.parametrize(("name", "more"), [("marft", TEAM), ("poad", {}), ("dpo", {})])
def test_any_learner_may_have_a_memory(name, more, model, tmp_path):
    start(name, config_of(name, model, updates=2, **more), tmp_path / "run")
    rows = [row for row in stable(tmp_path / "run") if "update" in row]
    assert rows[-1]["shown_mean"] >= 0 and (tmp_path / "run" / "memory.db").exists()


def test_a_run_without_a_memory_imports_none(model, tmp_path):
    flags = {"--updates": 1, "--prompts": 1, "--group": 2, "--eval-tasks": 1, "--dtype": "float32", "--env": ROOM}
    flags |= {"--model": model, "--out": tmp_path / "run"}
    words = ["run", "grpo", *(str(word) for pair in flags.items() for word in pair)]
    names = [entry.name for entry in catalogue.entries("algos")]
    learners = [name for name in names if getattr(catalogue.settings_of(name), "KIND", "") in ("language", "team")]
    code = f"""
import importlib, sys
from evolvent.cli import main
for name in {learners!r}:
    importlib.import_module("evolvent.algos." + name)
    loaded = [one for one in sys.modules if one.startswith("evolvent.memory.")]
    assert not loaded, (name, loaded)
main({words!r})
loaded = [one for one in sys.modules if one.startswith("evolvent.memory.")]
assert not loaded, loaded
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
