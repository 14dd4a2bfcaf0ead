"""Attempts that break: counted, reported, never to the good of what is judged; and too many of them end the run."""

import json

import pytest

import tiny_language
from evolvent.algos import aepo, grpo
from evolvent.core.errors import EnvError
from evolvent.core.folder import RunFolder
from evolvent.evaluate.blocks import Table
from evolvent.evaluate.live import Live
from evolvent.running import page_of, write_report
from evolvent.runs.copies import Copies
from evolvent.runs.language.config import Plan
from evolvent.runs.language.evaluation import summarise
from run_folders import begin

folder = tiny_language.fixture(max_position_embeddings=512)
pytestmark = pytest.mark.usefixtures("one_thread")
FILE = """
PROMPTS = [{{"prompt": f"{{i}} + {{j}} =", "row": 10 * i + j}} for i in range(5) for j in range(5)]
REWARD_RANGE = (-1.0, 1.0)
CALLS = []

def reward(completion, prompt, row):
    CALLS.append(row)
    {body}
"""


def run(algo, path, model, body, **more):
    file = path.with_suffix(".py")
    file.write_text(FILE.format(body=body))
    plan = Plan(dtype="float32", eval_every=0, eval_tasks=4, answer=2)
    settings = {"updates": 2, "prompts": 4, "group": 4, "lr": 0.01} | more
    config = algo.Config(env=f"graded:{file}", model=model, plan=plan, **settings)
    with begin(path, algo.__name__.rpartition(".")[2], config) as opened, Live(plain=True) as live:
        return algo.run(config, opened, live)


MOSTLY = {
    "raises": "if len(CALLS) > 8 and len(CALLS) % 8: raise ValueError('unreadable')\n    return 0.0",
    "out of range": "return 7.0 if len(CALLS) > 8 and len(CALLS) % 8 else 0.0",
    "NaN": "return float('nan') if len(CALLS) > 8 and len(CALLS) % 8 else 0.0",
}
SOME = (
    "if len(CALLS) > 8 and len(CALLS) % 4 == 0: raise ValueError('unreadable')\n    return float(len(CALLS) % 3 == 0)"
)


@pytest.mark.parametrize("body", MOSTLY.values(), ids=MOSTLY)
@pytest.mark.parametrize("algo", [grpo, aepo])
def test_a_run_stops_where_most_attempts_break(algo, body, folder, tmp_path):
    with pytest.raises(
        EnvError, match=r"\d+ of \d+ attempts of update 1 broke: (the reward function failed|not a reward)"
    ):
        run(algo, tmp_path / "run", folder, body, updates=50)
    rows = RunFolder.open(tmp_path / "run").read_metrics()
    assert not [row for row in rows if "update" in row]


def test_a_run_goes_on_where_some_break_and_says_how_many(folder, tmp_path, capsys):
    summary = run(grpo, tmp_path / "run", folder, SOME)
    rows = [row for row in RunFolder.open(tmp_path / "run").read_metrics() if "update" in row]
    assert [row["broken"] for row in rows] == [4, 4] and all(row["attempts"] == 12 for row in rows)
    assert all(row["broken_mean"] == 0.25 for row in rows)
    assert summary["broken"] == 8 and summary["steps"] == 24
    said = capsys.readouterr().out
    assert "! 4 of 16 attempts broke: the reward function failed" in said and "4 attempts broke" in said
    (tmp_path / "run" / "summary.json").write_text(json.dumps(summary))
    page = write_report(tmp_path / "run").read_text()
    assert "8 attempts broke and were not learned from" in page and "attempts that broke" in page


def test_an_evaluation_counts_what_broke_as_failures(folder, tmp_path):
    body = "if len(CALLS) > 4 and len(CALLS) % 4 == 0: raise ValueError('unreadable')\n    return 1.0"
    summary = run(grpo, tmp_path / "run", folder, body)
    for how in ("before", "greedy", "sampled"):
        result = summary[how]
        assert (result["success_mean"], result["value"]) == (0.75, 0.5), how  # one of four: -1, the lowest
        assert result["n"] == result["tasks"] == 4 and result["broken"] == 1, how
    (tmp_path / "run" / "summary.json").write_text(json.dumps(summary))
    (table,) = page_of(RunFolder.open(tmp_path / "run")).of(Table)
    judged = [row[-1] for row in table.rows if row[0] in ("greedy", "answers sampled")]
    assert table.said and judged == ["4, 1 of them broke"] * 3


def test_an_evaluation_in_which_most_broke_is_none(folder, tmp_path):
    body = "if len(CALLS) > 4: raise ValueError('unreadable')\n    return 1.0"
    with pytest.raises(EnvError, match=r"4 of 4 attempts at held-out tasks of graded:.* broke: the reward function"):
        run(grpo, tmp_path / "run", folder, body)


def test_what_broke_has_no_success_and_the_lowest_return():
    summary = summarise([], broken=["a", "b", "a"], lowest=-2.0)
    assert (summary["n"], summary["tasks"], summary["broken"]) == (3, 2, 3)
    assert summary["value"] == -2.0 and summary["success_mean"] == 0.0 and summary["length_mean"] is None


def test_a_copy_that_broke_is_made_anew(monkeypatch, folder, tmp_path):
    kept = []
    play = Copies.play

    def noted(self, jobs, acting, player):
        before = list(self._copies)
        played = play(self, jobs, acting, player)
        after = self._copies[: len(before)]
        kept.append((len(played.broken), sum(a is not b for a, b in zip(before, after, strict=True))))
        return played

    monkeypatch.setattr(Copies, "play", noted)
    run(grpo, tmp_path / "run", folder, SOME)
    assert any(broken for broken, _ in kept)
    assert all(made == broken for (broken, made) in kept[2:])
