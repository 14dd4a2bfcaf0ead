"""Holos as a run: agents with memories of their own answer, and a market of their processes is measured."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import evolvent
import holos_house
from evolvent.algos.holos.accounts import Accounts
from evolvent.algos.holos.cells import BONUS, worth
from evolvent.algos.holos.profiles import Profile
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.running import page_of
from run_folders import stable

HOUSE = Path(holos_house.__file__)
SMALL = {"env": f"{HOUSE},wrong=0.3", "model": str(HOUSE), "embedder": "hash", "questions": 12, "lease_s": 5.0}


def served(out, **more):
    return evolvent.run("holos", out=out, quiet=True, **(SMALL | more))


def test_a_market_beside_one_agent_and_the_closed_form(tmp_path):
    failures = ("crash", "lie", "caught", "wash")
    found = served(tmp_path / "run", tasks=6, failures=failures, rates=(0.0, 0.5))
    rows = {(line[0], line[2], line[1]): line for line in found.summary["cells"]["rows"]}
    assert len(rows) == 4 * 2 + 4 * 2 + 2
    assert rows["market", "crash", 0.0][3] == 100 and rows["market", "caught", 0.0][8] == 100
    assert rows["market", "crash", 0.5][6] == pytest.approx(58.62)
    assert rows["market", "lie", 0.5][3] < rows["market", "crash", 0.5][3] == rows["random, able", "crash", 0.5][3]
    assert found.summary["score"]["value"] > found.summary["baseline"]["value"]
    text = " ".join(found.summary["words"])
    assert "within two standard errors in 2 of 2 cells" in text and "Delivered / right at r = 0.5: lie" in text
    assert "sells 50% of the parts of each task to its own owner" in text and "Worth (Shapley" in text
    for file in (found.folder / "accounts").iterdir():
        if file.suffix == ".db":
            with closing(Accounts(file)) as accounts:
                assert accounts.audit()["escrow"] == 0
    agents = found.summary["agents"]
    assert len(agents) == 6 and sum(one["bonus"] for one in agents) == BONUS
    answers = RunFolder.open(found.folder).read_metrics()[:12]
    able = [
        any(row["said"][one["agent"]]["right"] and row["kind"] in one["skills"] for one in agents) for row in answers
    ]
    assert sum(one["worth"][0] for one in agents) == pytest.approx(np.mean(able))
    assert all(len(one["tools"]) >= 4 for one in agents) and (found.folder / "agents" / "agent0.db").exists()
    page = page_of(RunFolder.open(found.folder))
    assert page.score and "market" in page.score.name and "(1 - r^k)^n" in str(page)


def test_a_run_goes_on_where_it_was_stopped_and_pays_nobody_twice(tmp_path):
    settings = {"tasks": 3, "nodes": 2, "failures": ("crash",), "rates": (0.5,)}
    whole, part = served(tmp_path / "whole", **settings), served(tmp_path / "part", **settings)
    for kept in (5, 12 + 2):  # among the answers, and within a cell whose accounts are ahead of the log
        lines = (part.folder / "metrics.jsonl").read_text().splitlines(keepends=True)
        (part.folder / "metrics.jsonl").write_text("".join(lines[:kept]) + lines[kept][:40])
        (part.folder / "summary.json").unlink()
        part = evolvent.run("holos", resume=part.folder, quiet=True)
        assert stable(part.folder) == stable(whole.folder)
        assert part.summary["cells"] == whole.summary["cells"] and part.summary["agents"] == whole.summary["agents"]


def test_worth_of_two_who_know_the_same_is_halved_and_skills_that_are_not_there_are_worth_nothing():
    agents = [Profile(name, name, ("a",), 1) for name in "xyz"]
    row = {"kind": "a", "said": {"x": {"right": True}, "y": {"right": True}, "z": {"right": False}}}
    assert worth([row, row | {"kind": "b"}], agents).tolist() == [[0.5, 0.0], [0.5, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"failures": ("sulk",)}, "unknown failure"),
        ({"rates": (2.0,)}, "nothing to measure"),
        ({"env": "arithmetic:addition"}, "no market"),
        ({"nodes": 13}, "no market"),
        ({"model": "none"}, "nobody answers"),
        ({"explore": 1.5}, "out of bounds"),
    ],
)
def test_settings_that_cannot_be(tmp_path, settings, said):
    with pytest.raises(BadInput, match=said):
        served(tmp_path / "run", **settings)


def test_one_with_everybodys_lessons_is_the_control(tmp_path):
    found = served(tmp_path / "run", env=str(HOUSE), tasks=2, failures=("crash",), rates=(0.0,))
    rows = {line[0]: line for line in found.summary["cells"]["rows"]}
    assert rows["market"][8] == rows["one with all lessons"][8] == 100 and rows["best single agent"][8] == 0
    assert (
        found.summary["baseline"]["value"] == 1
        and "one agent with everybody's lessons 100%" in found.summary["words"][0]
    )
    assert "generalist" not in {one["agent"] for one in found.summary["agents"]}


def test_the_log_says_who_was_asked_and_with_which_chance(tmp_path):
    found = served(tmp_path / "run", tasks=3, failures=("crash",), rates=(0.0,), plan="fan")
    rows = [json.loads(line) for line in (found.folder / "metrics.jsonl").read_text().splitlines()]
    (lease, *_) = rows[12]["leases"]
    assert rows[12]["cell"] == ["market", "crash", 0.0] and 0 < lease["p"] <= 1 and len(lease["x"]) == 5
    assert {row["cell"][0] for row in rows[12:]} == {"market", "unlearned", "random", "single", "generalist"}
