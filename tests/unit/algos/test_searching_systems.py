"""Systems that search while they learn, on a tiny random model: the policy alone improves, a killed run goes on."""

import json
from importlib import import_module
from statistics import fmean

import numpy as np
import pytest

import letters_env
import tiny_language
from evolvent.algos import openr
from evolvent.core.codec import load_episodes
from evolvent.core.config import from_json
from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.core.reward_kinds import reward_total
from evolvent.credit import step_process_std
from evolvent.evaluate.live import Live
from evolvent.learn.critics.search_value import SearchValue
from evolvent.models.language import model as language
from evolvent.play.renderers import renderer
from evolvent.running import write_report
from evolvent.runs.account import trees as grown
from evolvent.runs.language.config import Plan
from evolvent.runs.language.searching import ValueRows, behind_lines, labelled_lines, lines
from evolvent.search.record import divided
from language_runs import killed_in_update
from run_folders import begin, stable

SETTINGS = {
    "ts_llm": {"rollouts": 12, "simulations": 5, "widths": (9,), "group": 6, "prompts": 4, "epochs": 3},
    "openr": {
        "questions": 12,
        "samples": 4,
        "rollouts": 40,
        "prompts": 2,
        "group": 4,
        "prm_lr": 0.01,
        "env": f"{letters_env.__file__}:make",
    },
}

pytestmark = pytest.mark.usefixtures("one_thread")
folder = tiny_language.fixture(max_position_embeddings=512)


@pytest.fixture(scope="module")
def writer(tmp_path_factory):
    """A tiny model that writes three lines of ``a`` or ``b``."""
    folder = tiny_language.write(tmp_path_factory.mktemp("writer") / "model")
    letters_env.teach(folder)
    return folder


def settings(name, folder, **more):
    plan = Plan(dtype="float32", eval_every=0, eval_tasks=2)
    base = {"model": folder, "env": "microwave:step_limit=4", "updates": 2, "lr": 0.01, **SETTINGS[name]}
    return import_module(f"evolvent.algos.{name}").Config(**(base | more), plan=plan)


def start(name, config, path, *, resume=False):
    with begin(path, name, config, resume=resume) as made, Live(plain=True) as live:
        return import_module(f"evolvent.algos.{name}").run(config, made, live, resume=resume)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
def test_ts_llm_teaches_the_policy_what_its_search_found(folder, tmp_path, seed):
    found = start("ts_llm", settings("ts_llm", folder, seed=seed), tmp_path / "run")
    assert found["before"]["success_mean"] == 0.0
    assert found["greedy"]["success_mean"] == 1.0  # without any search
    first, second = (row for row in stable(tmp_path / "run") if "update" in row)
    assert second["right"] >= first["right"] > 0
    trees = grown.read(tmp_path / "run")
    assert {tree["step"] for tree in trees} == {0, 1} and first["states"] > 1
    assert write_report(tmp_path / "run").read_text().count('class="tree"') == len(trees)
    model = language.load(str(tmp_path / "run" / "model"), dtype="float32")
    value = SearchValue.load(model, tmp_path / "run" / "value")
    assert np.isfinite(value.judge([model.encode("open the microwave")])).all()


def test_the_control_of_ts_llm_learns_from_samples_alone(folder, tmp_path):
    found = start("ts_llm", settings("ts_llm", folder, value="none", group=24, updates=1), tmp_path / "run")
    (row,) = (row for row in stable(tmp_path / "run") if "update" in row)
    assert row["right"] > 0 and found["greedy"]["success_mean"] == 1.0
    assert "value_loss" not in row and not (tmp_path / "run" / "value").exists()


@pytest.mark.slow
def test_openr_finds_the_wrong_lines_and_pays_the_right_ones(writer, tmp_path):
    start("openr", settings("openr", writer, how="grpo", updates=12, prompts=8, seed=0), tmp_path / "run")
    data = json.loads((tmp_path / "run" / "prm_labels.json").read_text())
    assert data["bisected"] > 0 and data["value_auc"] > 0.9
    model = language.load(str(tmp_path / "run" / "model"), dtype="float32")
    prm = SearchValue.load(model, tmp_path / "run" / "prm")
    asked = [model.encode(f"Ask: 777\nSay: {said}\n\n") for said in ("a\na\na", "a\nb\na", "b\na\na")]
    right, *wrong = prm.judge(asked).tolist()
    assert right > 2 * max(wrong)
    rows = [row for row in stable(tmp_path / "run") if "update" in row]
    assert fmean(row["success_mean"] for row in rows[-3:]) > 2 * fmean(row["success_mean"] for row in rows[:3])


@pytest.mark.slow
def test_labels_by_the_schedule_of_medss_take_fewer_samples(writer, tmp_path):
    config = settings("openr", writer, samples=(8, 2), labels="soft", how="grpo", updates=1, questions=4)
    start("openr", config, tmp_path / "run")
    data = json.loads((tmp_path / "run" / "prm_labels.json").read_text())
    assert 2 * data["estimates"] <= data["samples"] < 8 * data["estimates"] and data["bisected"] > 0
    assert from_json(openr.Config, RunFolder.open(tmp_path / "run").config).samples == (8, 2)  # as --resume reads it
    with pytest.raises(BadInput, match="samples of a state"):
        start("openr", settings("openr", "nothing", samples=(2, 8)), tmp_path / "refused")


@pytest.mark.slow
def test_a_process_model_learns_from_lines_that_were_changed(writer, tmp_path):
    config = settings("openr", writer, how="tppo", labels="mutants", updates=1)
    start("openr", config, tmp_path / "run")
    data = json.loads((tmp_path / "run" / "prm_labels.json").read_text())
    assert data["states"] == 72 and data["right"] == 36 and data["questions"] == 12 and "tokens" not in data
    model = language.load(str(tmp_path / "run" / "model"), dtype="float32")
    prm = SearchValue.load(model, tmp_path / "run" / "prm")
    asked = [model.encode(f"Ask: 777\nSay: {said}\n\n") for said in ("a\na\na", "a\na\nb")]
    asked += [model.encode(f"Ask: 777\nSay: {said}\n") for said in ("a\nb", "b")]
    right, *wrong = prm.judge(asked).tolist()
    assert right > 2 * max(wrong)
    config = settings("openr", writer, how="grpo", labels=str(tmp_path / "run" / "prm"), updates=1)
    start("openr", config, tmp_path / "again")  # with the model that is there: nothing is labelled
    assert not (tmp_path / "again" / "prm_labels.json").exists()
    assert SearchValue.load(model, tmp_path / "again" / "prm").judge(asked).tolist() == [right, *wrong]
    with pytest.raises(BadInput, match="no such labels"):
        start("openr", settings("openr", "train:no-such-model", labels=str(tmp_path)), tmp_path / "refused")


def test_contexts_of_labelled_lines_end_where_an_answer_is_cut(writer):
    model, env = language.load(writer, dtype="float32"), letters_env.make()
    rows = labelled_lines(env, renderer("plain", model), model.decode, env.tasks("train", 2, 0))
    read = [(model.decode(ids).rpartition("Ask: ")[2], label) for ids, label in rows]
    assert read[:6] == [
        ("100\nSay: a\n", 1.0),
        ("100\nSay: a\na\n", 1.0),
        ("100\nSay: a\na\na\n\n", 1.0),
        ("100\nSay: b\n", 0.0),
        ("100\nSay: a\nb\n", 0.0),
        ("100\nSay: a\na\nb\n\n", 0.0),
    ]
    assert len(read) == 12


def test_a_world_that_labels_no_lines_is_refused_before_a_model_is_loaded(tmp_path):
    config = settings("openr", "train:no-such-model", env="microwave:step_limit=4", labels="mutants")
    with pytest.raises(BadInput, match="does not label lines"):
        start("openr", config, tmp_path / "run")


def test_nothing_to_learn_labels_from_is_said(folder, tmp_path):
    with pytest.raises(BadInput, match=r"(?s)right and wrong steps.*states, all wrong"):  # a random model
        start("openr", settings("openr", folder, questions=2), tmp_path / "run")
    with pytest.raises(BadInput, match="nothing is paid"):
        start("openr", settings("openr", folder, process=0.0), tmp_path / "other")


def test_the_outcome_alone_labels_nothing_and_pays_the_last_line(writer, tmp_path):
    config = settings("openr", writer, how="grpo", process=0.0, outcome=1.0, updates=1)
    start("openr", config, tmp_path / "run")
    assert not (tmp_path / "run" / "prm").exists()
    for episode in load_episodes(tmp_path / "run" / "episodes.jsonl"):
        assert episode.rewards_T[:-1].tolist() == [0.0] * (episode.n_steps - 1)
        assert episode.rewards_T[-1] == reward_total(episode, "outcome")


def test_lines_are_cut_as_a_search_cuts_them(writer):
    model = language.load(writer, dtype="float32")
    episode = Episode("letters")
    episode.observe("Ask", token_ids=model.encode("Ask: 1\nSay:"), parent=-1)
    ids = model.encode(" a\nb\na\n\n")
    episode.act("a\nb\na", token_ids=ids, logp=np.zeros(len(ids)), reward=1.0)
    episode.end(terminated=True, success=True)
    (pieces,) = lines(episode, model.decode)
    assert [piece.text for piece in pieces] == [" a", "b", "a"]
    assert np.array_equal(np.concatenate([piece.token_ids for piece in pieces]), ids)
    read = behind_lines(episode, [pieces])
    assert [model.decode(one).rpartition("Say:")[2] for one in read] == [" a\n", " a\nb\n", " a\nb\na\n\n"]
    paid = divided(episode, [pieces], pays=[0.5, 0.25, 0.125])
    assert paid.rewards_T.tolist() == [0.5, 0.25, 0.125] and paid.success
    assert reward_total(paid, "outcome") == 1.0


def test_process_rewards_are_normalised_as_by_hand():
    def attempt(rewards, group):
        e = Episode("t", group=group)
        for i, r in enumerate(rewards):
            e.observe("", parent=-1 if i == 0 else None)
            e.act("x", token_ids=[1], reward=r)
        e.end(terminated=True)
        return e

    batch = [attempt([0.9, 0.5], "a"), attempt([0.1, 0.7], "b")]
    coded = step_process_std.assign(batch, step_process_std.Config("batch", to_go=False)).values("step")
    want = [1.183216, -0.169031, -1.521278, 0.507093]
    assert coded.tolist() == pytest.approx(want, abs=1e-5)
    to_go = step_process_std.assign(batch, step_process_std.Config("batch")).values("step")
    assert to_go.tolist() == pytest.approx([want[0] + want[1], want[1], want[2] + want[3], want[3]], abs=1e-5)
    grouped = step_process_std.assign(batch).values("step")
    assert grouped.tolist() == pytest.approx([0, -1, 0, 1], abs=1e-5)


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("ts_llm", {"value": "probe", "seed": 2}),
        pytest.param("openr", {"how": "appo"}, marks=pytest.mark.slow),
        pytest.param("ts_llm", {"value": "lora"}, marks=pytest.mark.slow),
        pytest.param("openr", {"how": "tppo", "labels": "soft", "outcome": 1.0}, marks=pytest.mark.slow),
    ],
)
def test_a_killed_run_goes_on_to_the_same_numbers(name, more, folder, writer, tmp_path):
    config = settings(name, writer if name == "openr" else folder, **more)
    want = start(name, config, tmp_path / "whole")
    with killed_in_update(1):
        start(name, config, tmp_path / "cut")
    found = start(name, config, tmp_path / "cut", resume=True)
    assert {**found, "seconds": 0} == {**want, "seconds": 0}
    assert stable(tmp_path / "cut") == stable(tmp_path / "whole")
    if name == "ts_llm":
        assert grown.read(tmp_path / "cut") == grown.read(tmp_path / "whole")


def test_rows_of_a_value_are_kept_by_task():
    rows = ValueRows(keep=2, seed=0)
    rows.add([(task, [(np.arange(i + 1), float(i)), (np.arange(9), 1.0)]) for task in "ab" for i in range(5)], 0)
    assert len(rows) == 20
    rows.add([("a", [(np.arange(3), -1.0)])], 1)
    contexts, targets = rows.columns()
    assert len(rows) == 2 * 2 * 2 + 1 and targets[-1] == -1.0
    other = ValueRows(keep=2, seed=0)
    other.load_state_dict(rows.state_dict())
    again, same = other.columns()
    assert same == targets and all(np.array_equal(a, b) for a, b in zip(again, contexts, strict=True))
    other.add([], 2)
    rows.add([], 2)
    assert other.columns()[1] == rows.columns()[1]
    empty = ValueRows(1, 0)
    empty.load_state_dict(ValueRows(1, 0).state_dict())
    assert len(empty) == 0
