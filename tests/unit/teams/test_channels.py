"""Rows of answers become arrays, or an error that names the line."""

from __future__ import annotations

import math

import numpy as np
import pytest

from evolvent.core.errors import BadInput
from evolvent.teams.channels import chosen, measure, pooled, vote
from evolvent.teams.table import read
from evolvent.teams.telling import words


def row(question, agent, answer, right, **more):
    return {"question": question, "agent": agent, "answer": answer, "right": right, **more}


GOOD = [row("q1", "a", "4", True), row("q1", "b", 4, 1), row("q2", "a", " x  y", False), row("q2", "b", None, False)]


def table(rows, agents=()):
    return read(enumerate(rows, 1), "answers.jsonl", agents)


def test_answers_are_numbered_by_their_text():
    found = table(GOOD)
    assert found.agents == ("a", "b")
    assert found.answer_QA.tolist() == [[0, 0], [0, -1]]
    assert found.right_QA.tolist() == [[1, 1], [0, 0]]
    assert found.text_QA == (("4", "4"), ("x y", ""))
    assert found.score_QAN is None and math.isnan(found.tokens_A[0]) and found.greedy == ""


def test_log_probabilities_of_all_answers_and_of_the_own_one():
    whole = table(
        [
            row(1, "a", "x", True, logprob={"x": -0.1, "y": -3, "z": -4}, tokens=5, greedy=True),
            row(1, "b", "y", False, logprob={"x": -1.5, "y": -1, "z": None}, tokens=7),
            row(2, "a", "x", False, logprob={"x": -1, "y": -1.1}, tokens=5, greedy=True),
            row(2, "b", "y", True, logprob={"x": -2, "y": -0.5}, tokens=7),
        ]
    )
    assert whole.score_QAN.tolist() == [[[-0.1, -3], [-1.5, -1]], [[-1, -1.1], [-2, -0.5]]]
    assert pooled(whole, [0, 1]).tolist() == [1, 1] and vote(whole, [0, 1]).tolist() == [0.5, 0.5]
    assert pooled(whole, [0]).tolist() == [1, 0]
    assert whole.greedy == "a" and whole.tokens_A.tolist() == [10, 14]
    confident, torn = row(1, "a", "x", True, logprob=-0.1), row(2, "a", "x", True, logprob=-3)
    own = table([confident, row(1, "b", "y", False, logprob=-1), torn, row(2, "b", None, False)])
    assert own.score_QAN[:, 0, 0].tolist() == [math.exp(-0.1), math.exp(-3)]
    assert own.score_QAN[0, 0, 1] == 0 and math.isnan(own.score_QAN[1, 0, 1])  # the second question has one answer
    assert pooled(own, [0, 1]).tolist() == [1, 1]


def test_a_member_without_a_log_probability_for_an_answer_keeps_it_from_winning():
    rows = [
        row(q, "a", "x", True, logprob={"x": -0.1, "y": -3})
        if who == "a"
        else row(q, "b", "y", False, logprob={"y": -1})
        for q in (1, 2)
        for who in "ab"
    ]
    assert pooled(table(rows), [0, 1]).tolist() == [0, 0] and pooled(table(rows), [0]).tolist() == [1, 1]


def test_questions_that_not_all_answered_are_left_out_and_said():
    rows = [row(q, a, "x", True) for q in "123" for a in "ab"] + [row("4", "a", "x", True)]
    found = table(rows)
    assert found.left_out == 1 and len(found.answer_QA) == 3
    assert "1 more that not all of them answered" in words(measure(found))[0]
    three = [*rows, row("1", "c", "x", True)]
    with pytest.raises(BadInput, match=r"1 of 4; the fewest, 1, by 'c'(.|\n)*--agents a b"):
        table(three)
    assert table(three, ["a", "b"]).agents == ("a", "b")


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([{"question": 1, "agent": "a", "right": True}], r"no 'answer'(.|\n)*where: answers.jsonl:1"),
        ([*GOOD, {"agent": "a"}], r"no 'question'(.|\n)*answers.jsonl:5"),
        ([row("q", "a", ["x"], True)], r"'answer' is no text(.|\n)*answers.jsonl:1"),
        ([row(None, "a", "x", True)], "'question' is no text"),
        ([row("q", "a", "x", None)], r"not known whether it is right(.|\n)*got: None(.|\n)*jsonl:1"),
        ([row("q", "a", "x", "yes")], "not known whether it is right"),
        ([row("q", "a", None, True)], "right without an answer"),
        ([*GOOD, row("q1", "b", "5", False)], r"answers a question twice(.|\n)*as in line 2(.|\n)*jsonl:5(.|\n)*a#1"),
        ([row(q, "a", "x", True) for q in "123"], r"one agent alone(.|\n)*got: \['a'\]"),
        ([], "no answers"),
        ([row("q", "a", "x", True), row("q", "b", "x", False), *GOOD], r"right and wrong(.|\n)*line 1(.|\n)*jsonl:2"),
        ([{**one, "greedy": True} for one in GOOD], "several agents are marked as greedy"),
        ([row("q", "a", "x", True, logprob="high")], "log-probabilities are numbers"),
        ([row("q", "a", "x", True, logprob=math.nan)], "log-probabilities are numbers"),
        ([row("q", "a", "x", True, logprob=0.5)], "a log-probability above 0"),
        ([GOOD[0], *({**one, "logprob": -1} for one in GOOD[1:])], "log-probabilities of several kinds"),
    ],
)  # fmt: skip
def test_what_cannot_be_used(rows, said):
    with pytest.raises(BadInput, match=said):
        measure(table(rows))


def test_an_agent_that_is_not_there():
    with pytest.raises(BadInput, match=r"no such agent(.|\n)*did you mean 'planner'"):
        table([row("q", "planner", 1, True), row("q", "critic", 1, True)], ["planer", "critic"])


def planted(questions: int, rng: np.random.Generator):
    """a and its copies, b and c: each right in .7, the copies always as a; confidence says who is right."""
    rows = []
    for q in range(questions):
        right = dict(zip("abc", rng.random(3) < 0.7, strict=True))
        for name in ("a", "a#2", "a#3", "b", "c"):
            won = bool(right[name[0]])
            p = rng.uniform(0.6, 0.9) if won else rng.uniform(0.3, 0.55)
            rows.append(row(q, name, "gold" if won else f"wrong {name[0]}", won, logprob=math.log(p)))
    return table(rows)


def test_the_best_pair_is_found_on_one_half_and_holds_on_the_other():
    answers = planted(400, np.random.default_rng(0))
    data = measure(answers)
    by = {(len(one["members"]), one["rule"]): one for one in data["teams"]}
    pair = by[2, "pooled"]
    assert pair["members"][0] != "a" or pair["members"][1] in ("b", "c")  # never two copies
    assert pair["gain"][1] > 0 and pair["questions"] == [200, 200]
    assert by[2, "vote"]["gain"][1] <= 0.05  # a vote of two is their mean
    sizes = {one["agents"]: one for one in data["by_number"]}
    assert sizes[1]["vote"] == pytest.approx(sizes[2]["vote"], abs=0.02) and sizes[2]["teams"] == 10
    errors = data["error_correlation"]
    copies = {tuple(one["agents"]): one["value"] for one in errors["pairs"]}
    assert copies["a", "a#2"] == pytest.approx(1) and abs(copies["a", "b"]) < 0.15
    assert 2 < errors["effective_size"] < 4
    assert 1 < data["k_star"]["answers"][0] < 3


def test_chosen_and_judged_on_the_same_half_would_flatter_a_team_of_noise():
    """Ten agents that are right by chance alone: the best single of one half gains nothing on the other."""
    rng = np.random.default_rng(3)
    gains = []
    for _ in range(40):
        rows = [row(q, f"a{a}", str(n := int(rng.integers(2))), n == 1) for q in range(40) for a in range(6)]
        gains.append(chosen(table(rows))[1]["gain"][0])
    assert abs(np.mean(gains)) < 0.05


def test_answers_that_never_agree_are_said_to_be_lots():
    rows = [row(q, a, f"{q} by {a}", a == "a") for q in range(4) for a in "ab"]
    assert any("every vote is a lot" in line for line in words(measure(table(rows))))
