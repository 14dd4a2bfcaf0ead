"""Agent scaling: who answers, who reads whom, and what every arm is compared with."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest

import evolvent
from evolvent.algos.agent_scaling import arms, members
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.core.protocols import Task
from evolvent.memory import embedders
from evolvent.running import page_of
from evolvent.teams.table import read
from run_folders import stable

TOOLS = [{"name": "add two", "description": "adds"}, {"name": "sine", "description": "takes the sine of an angle"}]
GOLD = ({"sine": {}},)


class Chooser:
    """Scores by rule, and counts what it is asked."""

    name = "chooser"

    def __init__(self):
        self.asked = 0

    def tokenize(self, text, *, special=True):
        return text.split()

    def score(self, prompt, ends):
        self.asked += 1
        if prompt.endswith("is called"):
            return np.array([-3.0, -2.0])  # a token: -1.5 and -2
        if prompt.endswith("asks:"):
            return np.array([-2.0 if "sine" in prompt.splitlines()[-2] else -5.0])
        return np.array([-1.0, -4.0]) if "Request" in prompt else np.array([-0.5, -8.0])


def asked(model, task="t1"):
    env = SimpleNamespace(item=lambda task: SimpleNamespace(tools=TOOLS, question="the sine of 3", gold=GOLD))
    return members.Asked(env, Task(task, "the sine of 3"), [model], seed=0)


def test_three_channels_of_one_model():
    model = Chooser()
    by = {kind: members.scores(model, kind, "", "the sine of 3", TOOLS) for kind in members.CHANNELS}
    assert by["direct"][0].argmax() == 0  # by the token, not by the whole name
    assert by["channel"][0].argmax() == 1 and by["pointwise"][0].argmax() == 1
    assert by["pointwise"][0] == pytest.approx(np.array([-0.5, 4.0]) - 4.0 - np.log(1 + np.exp(-4.5)))
    assert all(np.exp(logp).sum() == pytest.approx(1) and tokens > 8 for logp, tokens in by.values())


def test_a_model_without_tokens_cannot_choose():
    with pytest.raises(BadInput, match="functions are scored by their tokens"):
        members.scores(SimpleNamespace(name="remote"), "direct", "", "x", TOOLS)


def test_alike_at_temperature_0_are_one_agent_and_drawn_ones_are_many():
    model, seen = Chooser(), None
    one = asked(model)
    greedy = {one.ask("direct", "", 0.0, i) for i in range(16)}
    assert len(greedy) == 1 and model.asked == 1
    drawn = [one.said[one.ask("direct", "", 1.0, i)]["answer"] for i in range(16)]
    assert len(set(drawn)) == 2 and model.asked == 1  # draws of the scores that are there
    seen = [asked(Chooser()).said for _ in range(2)]
    assert seen[0] == seen[1]
    row = one.said[one.ask("channel", "verifier", 0.0, 0)]
    assert row["member"] == "channel verifier" and row["right"] and set(row["logprob"]) == {"add two", "sine"}


def test_levels():
    found = members.teams(members.CHANNELS, 16)
    assert set(found["L1"]) == {("direct", "")} and len(found["L1"]) == 16
    assert [persona for _, persona in found["L2"][:6]] == [*list(members.PERSONAS)[1:], "verifier"]
    assert found["L3"][:4] == [("direct", ""), ("channel", ""), ("pointwise", ""), ("direct", "")]
    assert found["L4"][4] == ("channel", "decomposer") and len(set(found["L4"])) == 15
    assert len(found[members.MEMBERS]) == 18 and found[members.MEMBERS][0] == ("direct", "")
    assert list(members.teams(["a model"], 4)) == ["L1", "L2", members.MEMBERS]


def test_who_reads_whom():
    assert [members.reads("mesh", i, 3) for i in range(3)] == [[1, 2, 0], [0, 2, 1], [0, 1, 2]]
    assert members.reads("ring", 0, 4) == [3, 1, 0] and members.reads("ring", 0, 2) == [1, 0]
    assert members.reads("hub", 0, 4) == [1, 2, 3, 0] and members.reads("hub", 2, 4) == [0, 2]
    assert [members.reads(topology, 0, 1) for topology in members.TOPOLOGIES] == [[0]] * 3  # one alone refines itself


def study(tmp_path, monkeypatch, name="run", **more):
    """A writer who is right in sums that begin with an even digit, as an explorer in the others, or where told so."""
    (tmp_path / "writer.py").write_text(
        "import re\n"
        "def answer(prompt):\n"
        "    a, b = map(int, re.findall(r'(\\d) \\+ (\\d)', prompt)[-1])\n"
        "    told = re.findall(r'Another agent answered: (\\d+)', prompt)\n"
        "    right = (a % 2 == 0) != prompt.startswith('You are an explorer') or str(a + b) in told\n"
        "    return f' {a + b if right else 99}\\n'\n"
    )
    monkeypatch.chdir(tmp_path)
    settings = {"model": "writer.py", "answer": "write", "env": "arithmetic:addition", "embedder": "hash", **more}
    return evolvent.run("agent_scaling", out=tmp_path / name, quiet=True, **settings)


def test_a_study_with_debates_from_one_record(tmp_path, monkeypatch):
    found = study(tmp_path, monkeypatch, tasks=24, agents=4, rounds=1, debaters=2, temperature=0.0)
    rows = RunFolder.open(found.folder).read_metrics()
    odd = np.mean([int(row["task"].rpartition("/")[2][0]) % 2 for row in rows])
    cells = {(line[0], line[1], line[2]): line for line in found.summary["cells"]["rows"]}
    rate = {key: line[3] / 100 for key, line in cells.items()}
    assert rate["L1", 4, "vote"] == rate["L1", 1, "vote"] == pytest.approx(1 - odd, abs=1e-3)
    assert rate["L2", 2, "vote"] == pytest.approx(0.5)  # the mean of verifier and explorer
    # each has read the other: both are right, or one was and the other has been told
    assert rate["L2 mesh", 2, "vote"] == rate["L2 ring", 2, "vote"] == 1 and rate["L2 hub", 1, "vote"] == 1
    assert rate["L1 mesh", 2, "vote"] == rate["L1", 2, "vote"]  # clones have nothing to tell
    assert cells["L1", 4, "vote"][7] == 1 and cells["L2", 2, "vote"][7] > 1.05  # K*
    text = " ".join(found.summary["words"])
    assert "two agents score the mean of the two" in text and "best single agent" in text
    lines = [json.loads(line) for line in (found.folder / "answers.jsonl").read_text().splitlines()]
    assert len(read(enumerate(lines, 1), "answers.jsonl").agents) == 5
    page = page_of(RunFolder.open(found.folder))
    assert page.score and page.score.name.startswith("two agents, L2") and "every arm" in str(page).lower()


def test_a_study_goes_on_where_it_was_stopped(tmp_path, monkeypatch):
    whole = study(tmp_path, monkeypatch, tasks=5, agents=2)
    part = study(tmp_path, monkeypatch, "part", tasks=5, agents=2)
    lines = (part.folder / "metrics.jsonl").read_text().splitlines(keepends=True)
    (part.folder / "metrics.jsonl").write_text("".join(lines[:2]) + lines[2][:40])
    (part.folder / "summary.json").unlink()
    again = evolvent.run("agent_scaling", resume=part.folder, quiet=True)
    assert stable(again.folder) == stable(whole.folder) and again.summary["cells"] == whole.summary["cells"]


def test_pooled_log_probabilities_of_two_that_differ_and_the_control_at_equal_tokens():
    rows = []
    for number in range(24):
        one, arm = asked(Chooser(), f"t{number}"), {}
        for level, team in members.teams(members.CHANNELS, 4).items():
            arm[level] = [one.ask(*member, 0.0, i) for i, member in enumerate(team)]
            arm[f"{level} drawn"] = [one.ask(*member, 1.0, i) for i, member in enumerate(team)]
        rows.append({"task": f"t{number}", "said": one.said, "arms": arm, "spent": {}})
    found = arms.summarise(rows, embedders.load("hash"), np.full(24, 2), 0)
    cells = {(line[0], line[1], line[2]): line for line in found["cells"]["rows"]}
    assert cells["L3", 2, "vote"][3] == 50 and cells["L3", 2, "pooled"][3] == 100  # the channel is surer
    assert ("L3 drawn", 2, "pooled") not in cells
    assert cells["best single (channel)", 1, ""][3] == 100 and cells["single greedy (direct)", 1, ""][3] == 0
    alike, two = cells["L1 drawn", 1, "vote"], cells["L3", 2, "vote"]
    assert alike[8] <= two[8] and two[9] is not None
    assert cells["L3", 2, "pooled"][10] == 1 and cells["L3", 2, "vote"][10] == 0  # bits of one
    assert any(line.startswith("Best 2 by pooled") for line in found["words"])
    assert {line["mark"] for line in found["pictures"][0]["lines"]} >= {"points"}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"answer": "choose"}, "nothing to choose among"),
        ({"rounds": 1, "topologies": ("star",)}, "unknown topology"),
        ({"tasks": 1}, "out of bounds"),
        ({"agents": 1}, "out of bounds"),
        ({"model": "none"}, "nobody answers"),
    ],
)
def test_settings_that_cannot_be(tmp_path, monkeypatch, settings, said):
    with pytest.raises(BadInput, match=said):
        study(tmp_path, monkeypatch, **{"tasks": 2, **settings})
