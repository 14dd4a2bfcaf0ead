"""A search run through the command line: several searches at one budget, the report with its trees, going on."""

import json

import numpy as np
import pytest

import tiny_language
from evolvent.cli import run as command
from evolvent.core.codec import load_episodes
from evolvent.core.config import from_json
from evolvent.core.errors import BadInput, EnvError
from evolvent.core.folder import RunFolder
from evolvent.running import write_report
from evolvent.runs.account.trees import read as read_trees
from evolvent.runs.language import pairs
from evolvent.runs.search.config import Plan, SearchConfig, check_value, wider
from evolvent.runs.search.grow import Grower
from evolvent.runs.search.outcome import REVISED
from evolvent.runs.search.summary import summarise
from evolvent.search.ways import ways
from sample_search_run import sample_search_run

folder = tiny_language.fixture(max_position_embeddings=1024)
SEARCHES = ("greedy", *(name for name in ways() if name != "greedy"))
WIDER = [name for name in ways() if wider(name)]


def arguments(model, out, *more):
    return [
        "search",
        "--model",
        f"train:{model}",
        "--env",
        "arithmetic:addition,shots=1",
        "--tasks",
        "5",
        "--batch",
        "3",
        "--budget-tokens",
        "30",
        "--unit",
        "token",
        "--out",
        str(out),
        "--plain",
        *more,
    ]


def lines(out):
    clock = ("t", "seconds", "model_s", "value_s")
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in row.items() if k not in clock} for row in rows]


def test_every_search_runs_at_one_budget_and_its_trees_are_shown(folder, tmp_path):
    out = tmp_path / "run"
    command.main(arguments(folder, out, "--search", *SEARCHES, "--seed", "3"))
    summary = json.loads((out / "summary.json").read_text())
    assert [arm["name"] for arm in summary["arms"]] == list(SEARCHES)
    assert all(arm["n"] == 5 and 0 < arm["tokens"] <= 30 for arm in summary["arms"])
    assert all(row["tokens"] <= 30 for row in lines(out))
    assert summary["score"]["name"] == "held-out success, greedy"
    trees = read_trees(out)
    assert {tree["search"] for tree in trees} == set(SEARCHES)
    assert all(any(node["taken"] for node in tree["nodes"]) for tree in trees)
    assert all(node["parent"] < i for tree in trees for i, node in enumerate(tree["nodes"]))
    page = (out / "report.html").read_text()
    assert page.count('class="tree"') == len(trees)
    assert "✗ wrong" in page
    assert list(load_episodes(out / "episodes.jsonl"))


def test_a_run_that_was_stopped_goes_on_with_the_same_numbers(folder, tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    more = ("--search", "mcts_rollout", "cot_sc")
    for out in (whole, cut):
        command.main(arguments(folder, out, *more))
    want, trees = lines(whole), (whole / "trees.jsonl").read_text()
    assert lines(cut) == want
    (cut / "summary.json").unlink()
    kept = (cut / "metrics.jsonl").read_text().splitlines(keepends=True)
    (cut / "metrics.jsonl").write_text("".join(kept[:4]))  # in the second batch of the first search
    command.main(["search", "--resume", str(cut), "--plain"])
    assert lines(cut) == want
    assert (cut / "trees.jsonl").read_text() == trees


def test_commands_of_a_world_are_searched_without_a_model(tmp_path):
    out = tmp_path / "run"
    command.main(
        [
            "search",
            "--model",
            "none",
            "--env",
            "microwave:step_limit=3",
            "--search",
            "rap",
            "--tasks",
            "1",
            "--value",
            "flat",
            "--paths",
            "6",
            "--budget-tokens",
            "0",
            "--out",
            str(out),
            "--plain",
        ]
    )
    (row,) = lines(out)
    assert row["paths"] == 6
    assert write_report(out).exists()


def test_pairs_of_attempts_without_tokens_are_refused_with_the_reason(tmp_path):
    out = tmp_path / "run"
    command.main(
        [
            "search",
            "--model",
            "none",
            "--env",
            "microwave:step_limit=8",
            "--search",
            "best_of_n",
            "--tasks",
            "4",
            "--value",
            "flat",
            "--paths",
            "10",
            "--budget-tokens",
            "0",
            "--out",
            str(out),
            "--plain",
        ]
    )
    with pytest.raises(BadInput, match=r"(?s)no attempt with tokens.*train:"):
        pairs.find_pairs(str(out))


@pytest.mark.parametrize("search", ["best_of_n", "cot_sc"])
def test_samples_end_where_no_command_fits_the_rest_of_the_budget(tmp_path, search):
    out = tmp_path / "run"
    command.main(
        [
            "search",
            "--model",
            "none",
            "--env",
            "microwave",
            "--search",
            search,
            "--tasks",
            "1",
            "--value",
            "flat",
            "--paths",
            "200000",
            "--budget-tokens",
            "100",
            "--out",
            str(out),
            "--plain",
        ]
    )
    (row,) = lines(out)
    assert row["calls"] > 0 and row["nodes"] < 400 and row["tokens"] <= 100


@pytest.mark.parametrize(("value", "ranks"), [((), 0.5), (("--verifier",), 1.0)])
def test_how_well_the_value_ranks_is_said(tmp_path, value, ranks):
    command.main(
        [
            "search",
            "--model",
            "none",
            "--env",
            "microwave:step_limit=8",
            "--search",
            "best_of_n",
            "--tasks",
            "4",
            "--value",
            "flat",
            *value,
            "--paths",
            "40",
            "--budget-tokens",
            "0",
            "--out",
            str(tmp_path / "run"),
            "--plain",
        ]
    )
    (arm,) = json.loads((tmp_path / "run" / "summary.json").read_text())["arms"]
    assert arm["oracle"] > 0
    assert arm["ranks"] == ranks


def test_what_a_round_mends_and_spoils_is_said(tmp_path):
    folder = sample_search_run(tmp_path / "run", arms=("cot_sc", "dser"), summary=False)
    rows = RunFolder.open(folder).read_metrics()
    counts = dict(zip(REVISED, (1, 10, 1, 20), strict=True))
    rows = [row | (counts if row["phase"] == "dser" else {}) for row in rows]
    plain, revised = summarise(SearchConfig(search=("cot_sc", "dser")), "none", rows)["arms"]
    assert "mends" not in plain
    assert (revised["mends"], revised["spoils"]) == (0.1, 0.05)
    assert revised["mends_ci95"][0] < 0.1 < revised["mends_ci95"][1]
    assert revised["right_after_80_rounds"] == pytest.approx(2 / 3, abs=1e-4)
    RunFolder.open(folder).write_summary({"arms": [plain, revised]})
    page = write_report(folder).read_text()
    assert "a round mends 10 % [" in page and "would lead to 67 %" in page


@pytest.mark.parametrize(
    ("setting", "error"),
    [
        ({"search": ("mcts",)}, "no such search"),
        ({"search": ()}, "one or several"),
        ({"tasks": 0}, "out of bounds"),
        ({"budget_tokens": 0}, "without an end"),
        ({"model": "none", "value": "judge"}, "judge without a model"),
        ({"plan": Plan(threads=-1)}, "out of bounds"),
        ({"plan": Plan(threads=2**40)}, "0 to 4,096[^?]*--threads"),
        ({"widths": ()}, "--widths[^?]*leave it out for 8 4 1"),
        ({"widths": (8, 0)}, "--widths"),
        ({"widths": (10**12,)}, "--widths"),
        ({"keep": (-1,)}, "--keep"),
        ({"tasks": 10**12}, "--tasks"),
        ({"parallel": 10**12}, "--parallel"),
        ({"c": float("nan")}, "--c"),
        ({"budget_seconds": float("inf")}, "--budget-"),
    ],
)
def test_settings_that_cannot_be(setting, error):
    with pytest.raises(BadInput, match=error):
        SearchConfig(**setting)


def test_a_learned_value_is_read_from_its_folder(folder, tmp_path):
    from evolvent.learn.critics.search_value import Fit, SearchValue
    from evolvent.models.language import model as language

    model = language.load(folder, dtype="float32")
    value = SearchValue(model, "process")
    value.fit([model.encode("1 + 2"), model.encode("3 + 4")], [0.0, 1.0], Fit(epochs=1, steps=1))
    value.save(tmp_path / "value")
    out = tmp_path / "run"
    command.main(arguments(folder, out, "--search", "mcts_rollout", "--value", str(tmp_path / "value")))
    assert all(0 <= row["value"] <= 1 and row["judged"] for row in lines(out))
    with pytest.raises(BadInput, match="model in torch"):
        SearchConfig(value=str(tmp_path / "value"), model="smollm2-135m")
    with pytest.raises(BadInput, match="no such value"):
        check_value(SearchConfig(model="train:smollm2-135m", value="nonsense"))


def test_a_search_in_torch_has_the_threads_that_were_asked_for(folder, tmp_path, monkeypatch):
    import torch

    seen, before, grow = set(), torch.get_num_threads(), Grower.grow
    monkeypatch.setattr(Grower, "grow", lambda *a, **k: seen.add(torch.get_num_threads()) or grow(*a, **k))
    command.main(arguments(folder, tmp_path / "run", "--search", "greedy", "--threads", str(before + 1)))
    assert seen == {before + 1} and torch.get_num_threads() == before


def test_a_model_in_torch_keeps_what_a_search_has_read(folder, tmp_path):
    command.main(arguments(folder, tmp_path / "run", "--search", "cot_sc"))
    read, kept = (sum(row[f"{name}_tokens"] for row in lines(tmp_path / "run")) for name in ("prompt", "cached"))
    assert kept > 0.9 * read, "of paths of ten tokens behind one prompt only the first reads it"


def test_situations_that_are_the_same_are_searched_once_where_that_is_asked_for(tmp_path):
    """A house of few situations: all of them are known before the calls are spent."""
    facts = {}
    for join in ("--no-join", "--join"):
        command.main(
            [
                "search",
                "--model",
                "none",
                "--env",
                "household",
                "--search",
                "rap",
                "--value",
                "flat",
                "--widths",
                "4",
                "--budget-calls",
                "320",
                "--budget-tokens",
                "0",
                "--tasks",
                "1",
                join,
                "--plain",
                "--out",
                str(tmp_path / join[2:]),
            ]
        )
        (facts[join],) = json.loads((tmp_path / join[2:] / "summary.json").read_text("utf-8"))["arms"]
    alone, joined = facts["--no-join"], facts["--join"]
    assert joined["calls"] < alone["calls"] == 320 and joined["paths"] > alone["paths"]


def test_settings_of_earlier_folders_are_read():
    assert from_json(SearchConfig, {"batch": 3}).plan.batch == 3


def test_what_a_judge_reads_is_in_its_budget_and_said(folder, tmp_path, capsys):
    out, more = tmp_path / "run", ("--search", "beam", "--value", "judge", "--keep", "2")
    command.main([*arguments(folder, out, *more), "--budget-tokens", "400"])
    rows = lines(out)
    assert all(row["judge_tokens"] > row["tokens"] for row in rows)
    assert "read by the judge" in capsys.readouterr().out and "read by the judge" in (out / "report.html").read_text()
    (arm,) = json.loads((out / "summary.json").read_text())["arms"]
    assert arm["judge_tokens"] == pytest.approx(sum(row["judge_tokens"] for row in rows) / len(rows))
    assert arm["left"] < -0.05 and "spent of the budget: beam" in (out / "report.html").read_text()
    freely = tmp_path / "freely"
    command.main([*arguments(folder, freely, *more), "--budget-tokens", "4000"])
    assert sum(row["tokens"] for row in rows) < sum(row["tokens"] for row in lines(freely)) < 400 * len(rows)


def test_a_search_that_ends_before_its_budget_says_so_and_what_to_set(folder, tmp_path, capsys):
    out = tmp_path / "run"
    command.main([*arguments(folder, out, "--search", "best_of_n", "beam", "--keep", "1"), "--budget-tokens", "400"])
    rows = {name: [row for row in lines(out) if row["phase"] == name] for name in ("best_of_n", "beam")}
    best, beam = json.loads((out / "summary.json").read_text())["arms"]
    assert beam["left"] == pytest.approx(1 - sum(row["tokens"] for row in rows["beam"]) / 400 / len(rows["beam"]))
    assert best["left"] < 0.25 < beam["left"]
    for printed in (" ".join(capsys.readouterr().out.split()), (out / "report.html").read_text()):
        assert "set --widths, --keep, or compare it" in printed and "beam left" in printed
        assert "budget left" in printed and "best_of_n left" not in printed


def test_what_is_advised_lets_every_such_search_spend_more(folder, tmp_path):
    tokens = []
    for number, more in enumerate(((), ("--widths", "24", "--keep", "12", "--paths", "4"))):
        out = tmp_path / str(number)
        command.main([*arguments(folder, out, "--search", *WIDER, *more), "--tasks", "1", "--budget-tokens", "600"])
        tokens.append([row["tokens"] for row in lines(out)])
    assert all(wide > narrow or narrow > 450 for narrow, wide in zip(*tokens, strict=True))


def test_fewer_tasks_than_were_asked_for_are_said(tmp_path, capsys):
    command.main(
        [
            "search",
            "--model",
            "none",
            "--env",
            "household:long=True",
            "--search",
            "best_of_n",
            "--tasks",
            "3",
            "--value",
            "flat",
            "--paths",
            "2",
            "--budget-tokens",
            "0",
            "--out",
            str(tmp_path / "run"),
            "--plain",
        ]
    )
    said = " ".join(capsys.readouterr().out.split())
    assert "household:long=True has fewer held-out tasks than the 3 asked for: 1" in said
    assert len(lines(tmp_path / "run")) == 1


def test_a_mean_of_values_is_one(folder, tmp_path):
    value = {}
    for name in ("likelihood", "judge", "likelihood+judge"):
        out = tmp_path / name
        command.main([*arguments(folder, out, "--search", "greedy", "--value", name), "--budget-tokens", "400"])
        value[name] = [row["value"] for row in lines(out)]
        assert all(bool(row["judge_tokens"]) == ("judge" in name) for row in lines(out))  # a part knows its search
    mean = (np.array(value["likelihood"]) + value["judge"]) / 2
    assert value["likelihood+judge"] == pytest.approx(mean, abs=1e-4) and np.ptp(value["judge"]) > 0
    for wrong in ("likelihood+nonsense", "judge+judge"):
        with pytest.raises(BadInput, match=r"no such value|each once"):
            check_value(SearchConfig(value=wrong))


def test_rollouts_take_as_many_samples_as_they_are_asked_for(tmp_path):
    calls = {}
    for value in ("rollouts", "rollouts:n=8", "rollouts:n=8,least=2"):
        command.main(
            [
                "search",
                "--model",
                "none",
                "--env",
                "microwave:step_limit=4",
                "--search",
                "beam",
                "--tasks",
                "1",
                "--value",
                value,
                "--budget-tokens",
                "0",
                "--budget-calls",
                "4000",
                "--widths",
                "2",
                "--keep",
                "1",
                "--out",
                str(tmp_path / value),
                "--plain",
            ]
        )
        (row,) = lines(tmp_path / value)
        calls[value] = row["calls"]
    assert calls["rollouts:n=8,least=2"] < calls["rollouts"] < calls["rollouts:n=8"]
    for wrong, message in (
        ("rollouts:n=0", "samples of a state"),
        ("rollouts:n=1000000000000", "samples of a state"),
        ("rollouts:m=3", "unknown field"),
        ("rollouts:bounds=1", "unknown field"),
        ("rollouts:n", "without a value"),
        ("rollouts:n=x", "where: --value rollouts.n"),
    ):
        with pytest.raises(BadInput, match=message):
            check_value(SearchConfig(model="none", value=wrong))


LIFT = """
from evolvent.core.errors import BadInput, EnvError
from evolvent.core.protocols import Task, Turn

class Lift:
    name, instructions, labels, stop, max_tokens, reward_range = "lift", "", ("At", "Go"), ("\\n",), 4, (0.0, 1.0)

    def tasks(self, split, n, seed):
        if split not in ("train", "heldout"):
            raise BadInput("unknown split", got=split)
        return [Task(f"{split}{i}", f"floor {i}", split=split, seed=i) for i in range(n)]

    def reset(self, task, seed=0):
        self.task, self.path = task, ""
        return Turn(task.text, ("up", "down"))

    def step(self, action):
        self.path += action[0]
        if self.task.seed in STUCK:
            raise EnvError("it is stuck")
        done = len(self.path) == 2
        return Turn("on", ("up", "down"), float(self.path == "uu"), terminated=done, success=self.path == "uu")

    def review(self, task, seed=0):
        return None

    def advance(self, pass_number):
        pass

    def close(self):
        pass

def make():
    return Lift()
"""


def searched(folder, stuck, *more):
    (folder / "lift.py").write_text(LIFT + f"STUCK = {stuck}\n")
    out = folder / "run"
    command.main(
        [
            "search",
            "--model",
            "none",
            "--env",
            str(folder / "lift.py"),
            "--search",
            "best_of_n",
            "rap",
            "--tasks",
            "4",
            "--value",
            "flat",
            "--budget-tokens",
            "0",
            "--budget-calls",
            "12",
            "--out",
            str(out),
            "--plain",
            *more,
        ]
    )
    return out


def test_a_task_whose_attempts_all_broke_does_not_count(tmp_path, capsys):
    out = searched(tmp_path, (1,))
    rows = lines(out)
    assert [(row["valid"], row["success"]) for row in rows if row["task"] == "heldout1"] == [(0, 0), (0, 0)]
    assert sum(row["valid"] for row in rows) == 6 and (out / "report.html").exists()
    assert [arm["n"] for arm in json.loads((out / "summary.json").read_text())["arms"]] == [3, 3]
    said = capsys.readouterr().out
    assert "broke, not counted" in said and "an attempt broke, and is left out: it is stuck" in said


def test_a_search_in_a_world_that_mostly_breaks_ends(tmp_path):
    with pytest.raises(EnvError, match=r"attempts in a search broke: it is stuck(.|\n)*lift\.py"):
        searched(tmp_path, (0, 1, 2, 3))


@pytest.mark.parametrize(
    "flags",
    [
        ("--widths", "0"),
        ("--keep", "0"),
        ("--c", "nan"),
        ("--temperature", "nan"),
        ("--budget-tokens", "-1"),
        ("--budget-seconds", "nan"),
        ("--search", "greedy", "dser"),
    ],
)
def test_what_cannot_be_searched_is_said_before_anything_is(tmp_path, flags):
    with pytest.raises((BadInput, SystemExit)):
        searched(tmp_path, (), *flags)
    assert not (tmp_path / "run" / "metrics.jsonl").exists() or not lines(tmp_path / "run")


@pytest.mark.parametrize("value", ["judge", "likelihood+judge", "judge+flat"])
def test_a_remote_model_is_refused_as_a_judge_before_anything_is_loaded(value):
    with pytest.raises(BadInput, match=r"cannot score words[^§]*--value judge"):
        SearchConfig(model="remote:some@http://127.0.0.1:1", value=value)
    SearchConfig(model="remote:some@http://127.0.0.1:1", value="likelihood")
