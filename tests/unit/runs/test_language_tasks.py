"""A world with few tasks can be trained on: they come again; what is held out does not, and the run says so."""

import json
from dataclasses import replace

import pytest

import tiny_language
from evolvent import envs
from evolvent.algos import grpo
from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.protocols import Task, distinct
from evolvent.evaluate.live import Live, judged_on
from evolvent.formulas.statistics import wilson
from evolvent.runs.account.updates import success_interval
from evolvent.runs.language.config import LanguageConfig, Plan
from evolvent.runs.language.evaluation import summarise
from evolvent.runs.language.frozen import evaluate_language
from evolvent.runs.language.tasks import drawn, repeated, run_tasks
from run_folders import begin

folder = tiny_language.fixture(max_position_embeddings=512)
CONFIG = LanguageConfig(env="few", updates=3, prompts=4, plan=Plan(eval_tasks=8))


class Few:
    """A world that refuses to give more tasks than it has, as those of other packages do."""

    def __init__(self, train, heldout):
        self.has = {"train": train, "heldout": heldout}

    def tasks(self, split, n, seed):
        if n > self.has[split]:
            raise BadInput("too many tasks", got=n, expected=f"about {self.has[split]}")
        return [Task(f"{split}/{(i + seed) % self.has[split]}", "", "few", split, i) for i in range(n)]


def test_too_few_tasks_come_again_and_the_run_says_so():
    said = []
    train, heldout = run_tasks(Few(5, 3), CONFIG, said.append)
    assert len(train) == 12 and len({t.id for t in train}) == 3
    assert [t.id for t in train[:3]] == [t.id for t in train[3:6]]
    assert len(heldout) == 2 == len({t.id for t in heldout})
    assert "fewer than 12 different training tasks: 3" in said[0] and "fewer than 8 held-out tasks" in said[1]


def test_enough_tasks_are_those_of_the_world_and_nothing_is_said():
    said = []
    train, heldout = run_tasks(Few(40, 40), CONFIG, said.append)
    assert len({t.id for t in train}) == 12 and len(heldout) == 8 and not said
    other, _ = run_tasks(Few(40, 40), replace(CONFIG, seed=1), said.append)
    assert [t.id for t in other] != [t.id for t in train]


def test_an_update_that_draws_anew_gets_all_it_asks_for():
    assert len(drawn(Few(3, 1), 8, 0)) == 8


def test_a_world_without_tasks_is_refused():
    with pytest.raises(BadInput, match="too many tasks"):
        run_tasks(Few(9, 0), CONFIG, print)


def test_tasks_are_distinguished_by_what_they_are_and_not_by_their_names():
    again = [Task("a/1", "x", repeats="a"), Task("c", "x"), Task("b/1", "y", repeats="b")]
    tasks = [Task("a", "x"), Task("b", "y"), *again]
    assert [task.id for task in distinct(tasks)] == ["a", "b", "c"]
    assert [task.id for task in distinct(again)] == ["a/1", "c", "b/1"]


def task_file(path, n, heldout):
    rows = [{"prompt": f"{i} + 1 =", "answer": str(i + 1)} for i in range(n)]
    rows = [row | ({"split": "heldout"} if i < heldout else {"split": "train"}) for i, row in enumerate(rows)]
    path.write_text(f"PROMPTS = {rows!r}\ndef reward(completion, prompt, answer): return float(answer in completion)\n")
    return f"graded:{path}"


@pytest.mark.parametrize(
    ("spec", "few"),
    [
        ("graded", 5),
        ("arithmetic:parity", 0),
        ("arithmetic:largest", 0),
        ("microwave", 1),
        ("household", 0),
        ("overcooked:tomato-salad", 1),
        ("twx:game=coin", 0),
        ("babyai:GoToRedBallNoDists", 0),
    ],
)
@pytest.mark.parametrize("asked", [32, 500])
def test_no_world_has_the_same_task_held_out_twice(spec, few, asked, tmp_path):
    """Two tasks that are shown and rebuilt alike, whatever they are called, are one."""
    if asked > 32 and spec.startswith(("twx", "babyai")):
        pytest.skip("their tasks are distinguished by how they start, at some length")
    pytest.importorskip({"twx": "textworld_express", "babyai": "minigrid"}.get(spec.partition(":")[0], "numpy"))
    spec = task_file(tmp_path / "few.py", 9, 5) if spec == "graded" else spec
    env, said = envs.load(spec), []
    try:
        _, heldout = run_tasks(env, replace(CONFIG, env=spec, plan=Plan(eval_tasks=asked)), said.append)
        seeded = spec.startswith(("twx", "babyai"))
        alike = {(task.text, json.dumps(dict(task.meta)), task.seed if seeded else 0) for task in heldout}
    finally:
        env.close()
    assert len(alike) == len(heldout) == len({task.id for task in heldout})
    assert not few or len(heldout) == few
    assert len(heldout) == asked or f"evaluations attempt {len(heldout)}" in said[-1]


def test_attempts_at_few_tasks_are_as_many_as_asked_for_and_as_many_at_each():
    tasks = [Task(str(i), "") for i in range(5)]
    assert len(repeated(tasks, 32)) == 30 and len(repeated(tasks, 3)) == 5 and len(repeated(tasks, 5)) == 5


def attempts(outcomes):
    """``outcomes``: task to what its attempts earned."""
    made = []
    for task, earned in outcomes.items():
        for reward in earned:
            episode = Episode(task, group=task)
            episode.act("x", token_ids=[1])
            episode.add_reward(reward)
            episode.end(terminated=True, success=reward > 0)
            made.append(episode)
    return made


def test_attempts_at_one_task_are_not_counted_as_tasks():
    alike = {str(task): [float(task < 3)] * 6 for task in range(5)}  # each task goes as it goes
    summary, once = (
        summarise(attempts(alike)),
        summarise(attempts({task: earned[:1] for task, earned in alike.items()})),
    )
    assert (summary["n"], summary["tasks"], judged_on(summary)) == (30, 5, "30 attempts at 5 tasks")
    assert (once["n"], once["tasks"], judged_on(once)) == (5, 5, "5")
    assert summary["value"] == once["value"] == 0.6
    assert summary["ci95"] == pytest.approx(once["ci95"]) and summary["ci95"][1] - summary["ci95"][0] > 0.7
    assert success_interval(summary) == pytest.approx(wilson(3, 5))


def test_of_a_single_task_there_is_no_interval():
    summary = summarise(attempts({"only": [1.0, 0.0] * 8}))
    assert summary["n"] == 16 and summary["tasks"] == 1
    assert all(end != end for end in summary["ci95"])


@pytest.mark.usefixtures("one_thread")
def test_a_run_on_few_prompts_says_how_many_tasks_it_was_judged_on(folder, tmp_path, capsys):
    plan = Plan(dtype="float32", eval_every=0, eval_tasks=32, answer=3)
    spec = task_file(tmp_path / "few.py", 9, 5)
    config = grpo.Config(env=spec, model=folder, updates=1, prompts=2, group=2, kl=0.0, plan=plan)
    with begin(tmp_path / "run", "grpo", config) as made, Live(plain=True) as live:
        summary = grpo.run(config, made, live)
    assert [(summary[k]["n"], summary[k]["tasks"]) for k in ("greedy", "sampled", "baseline", "before")] == [
        (5, 5),
        (30, 5),
        (30, 5),
        (5, 5),
    ]
    with Live(plain=True) as live:
        frozen = evaluate_language(grpo.Config, made, live)
        several = evaluate_language(grpo.Config, made, live, attempts=3)["sampled"]
    assert (frozen["n"], frozen["tasks"], frozen["sampled"]["n"]) == (5, 5, 30)
    assert (several["n"], several["tasks"], several["attempts"]) == (15, 5, 3)
    at = several["pass_at"]
    assert list(at) == ["1", "2", "3"] and at["1"]["value"] == pytest.approx(several["success_mean"])
    assert "pass_at" not in frozen["sampled"] and at["1"]["value"] <= at["2"]["value"] <= at["3"]["value"]
    said = capsys.readouterr()
    assert "avg@3 = pass@1" in said.out + said.err and "pass@3" in said.out + said.err
    assert "30 attempts at 5 tasks" in said.out + said.err and "32 held-out" in said.out + said.err
