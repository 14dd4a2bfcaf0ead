"""What attempts came to, and what chance comes to: commands at random, answers to other questions."""

import math

import pytest

from evolvent import envs
from evolvent.core.episode import Episode
from evolvent.runs.language.evaluation import passed, random_play, summarise


def attempt(reward, group, *, success=False, finish=("stop",), valid=True):
    ep = Episode(f"task {group}", group=group)
    for how in finish:
        ep.act("x", token_ids=[1, 2], finish=how)
    ep.add_reward(reward)
    ep.end(terminated=True, success=success, valid=valid)
    return ep


def test_attempts_in_numbers():
    summary = summarise(
        [
            attempt(1.0, "a", success=True),
            attempt(0.0, "a", finish=("stop", "length")),
            attempt(0.5, "b"),
            attempt(0.5, "b"),
            attempt(9.0, "c", valid=False),
        ]
    )
    assert summary["n"] == 4 and summary["value"] == pytest.approx(0.5) and summary["success_mean"] == 0.25
    assert summary["flat_mean"] == 0.5 and summary["cut_mean"] == pytest.approx(1 / 5)
    assert summary["tokens_mean"] == 2.5 and summary["length_mean"] == 1.25
    assert summary["ci95"][0] <= summary["value"] <= summary["ci95"][1]


def test_nothing_valid_is_reported_as_nothing():
    summary = summarise([attempt(1.0, "a", valid=False)])
    assert (
        summary["n"] == 0
        and summary["value"] is None
        and summary["flat_mean"] is None
        and math.isnan(summary["ci95"][0])
    )


def test_chance_draws_commands_and_borrows_answers():
    microwave = envs.load("microwave").tasks("heldout", 40, 0)
    assert 0.0 < random_play("microwave", microwave, 0)["success_mean"] < 1.0
    assert random_play("microwave", microwave, 0) == random_play("microwave", microwave, 0)
    digits = envs.load("arithmetic:parity").tasks("heldout", 60, 0)
    assert 0.2 < random_play("arithmetic:parity", digits, 0)["success_mean"] < 0.8


def test_success_within_some_of_the_attempts():
    tries = {"a": [1, 0, 0, 0], "b": [0, 0, 0, 0], "c": [1, 1, 1, 1]}
    episodes = [attempt(float(r), task, success=bool(r)) for task, some in tries.items() for r in some]
    found = passed(episodes, [], 4)
    assert found["attempts"] == 4 and list(found["pass_at"]) == ["1", "2", "4"]
    at = {int(k): one["value"] for k, one in found["pass_at"].items()}
    assert at == pytest.approx({1: 5 / 12, 2: (0.5 + 0 + 1) / 3, 4: 2 / 3})
    for one in found["pass_at"].values():
        assert one["ci95"][0] <= one["value"] <= one["ci95"][1] and one["tasks"] == 3
    assert list(passed(episodes, [], 1)["pass_at"]) == ["1"]
    assert list(passed(episodes, [], 3)["pass_at"]) == ["1", "2", "3"]


def test_what_broke_failed_and_what_is_not_valid_does_not_count():
    episodes = [attempt(1.0, "a", success=True), attempt(0.0, "b", valid=False), attempt(1.0, "b", success=True)]
    found = passed(episodes, ["task a", "task c", "task c"], 2)["pass_at"]
    assert found["1"] == {"value": pytest.approx((0.5 + 1 + 0) / 3), "ci95": found["1"]["ci95"], "tasks": 3}
    assert found["2"]["value"] == pytest.approx(0.5) and found["2"]["tasks"] == 2, "one of b's two is not valid"
    nothing = passed([attempt(0.0, "b", valid=False)], [], 2)["pass_at"]["2"]
    assert nothing["value"] is None and nothing["tasks"] == 0
