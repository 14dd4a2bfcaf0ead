"""Signs that learning cannot work: said where it is so, and only there."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from evolvent.core.episode import Episode
from evolvent.core.ledger import Ledger
from evolvent.learn.tokens.batch import token_batch
from evolvent.learn.tokens.objective import Objective
from evolvent.learn.tokens.policy_gradient import improve
from evolvent.runs.language.health import AGAIN, PAGE, SIGNS, Health

DOC = Path(__file__).parents[3] / PAGE


def said(row, updates=5):
    health = Health(exact=True)
    return [line for n in range(updates) for line in health.look({"update": n, **row})]


@pytest.mark.parametrize(
    ("row", "sign"),
    [
        ({"flat_mean": 0.9, "success_mean": 0.0}, "no-difference"),
        ({"flat_mean": 1.0, "success_mean": 0.94}, "no-difference"),
        ({"flat_mean": 1.0, "success_mean": 1.0, "entropy": 0.0}, "all-right"),
        ({"entropy": 0.009, "success_mean": 0.5}, "entropy-gone"),
        ({"entropy": 0.011, "success_mean": 0.5}, None),
        ({"success_mean": 0.9, "flat_mean": 0.8}, None),
        ({"gap": 0.1}, "sampler-and-trainer-differ"),
        ({"explained": -0.3, "success_mean": 0.5}, "critic-blind"),
        ({"explained": 0.06, "success_mean": 0.5}, None),
        ({"accepted": 0.05}, "one-verdict"),
        ({"accepted": 0.97}, "one-verdict"),
        ({"accepted": 0.3}, None),
        ({"explained": 0.0, "success_mean": 1.0}, "all-right"),
    ],
)
def test_what_is_said_of_a_run(row, sign):
    found = said(row)
    assert [line.rpartition("#")[2].rstrip(")") for line in found] == ([sign] if sign else [])


def test_a_solved_task_is_called_so_and_not_a_fault():
    (line,) = said({"flat_mean": 1.0, "success_mean": 1.0, "entropy": 0.0001})
    assert line.startswith("100% of the attempts succeed") and "solved or too easy" in line


def test_a_sign_is_not_repeated_too_soon():
    assert len(said({"flat_mean": 1.0, "success_mean": 0.0}, 9)) == 1
    assert len(said({"flat_mean": 1.0, "success_mean": 0.5}, 5 + AGAIN)) == 2


def test_every_sign_has_a_section_on_the_page():
    headings = [line.removeprefix("## ") for line in DOC.read_text(encoding="utf-8").splitlines() if line[:3] == "## "]
    assert set(SIGNS) <= set(headings)


# ------------------------------------------------------------------------------------------------ entropy of choices
def attempt(ret, choices):
    episode = Episode("task", group="g")
    episode.observe("seen", token_ids=[0], parent=-1)
    episode.act("said", token_ids=[1, 2, 3], logp=[-0.5, 0.0, -0.5], reward=ret, choices=choices)
    episode.end(terminated=True)
    return episode


class Model:
    """Half a nat of entropy wherever there is a choice, none where there is not; whole actions like first tokens."""

    def __init__(self):
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def __call__(self, rows):
        entropy = torch.tensor([0.5, 0.0, 0.5] * len(rows))
        return SimpleNamespace(logp_K=-entropy + self.weight, entropy_K=entropy)


@pytest.mark.parametrize(
    ("choices", "free"),
    [
        ([[1, 2, 3], [1, 2, 4], [5, 2, 4], [5, 6]], [True, False, True]),
        ([[1, 2, 3], [5, 2, 3]], [True, False, False]),
        ([[1, 2, 3]], [False, False, False]),
        ([], [True, True, True]),
    ],
)
def test_forced_tokens_are_known_from_what_was_allowed(choices, free):
    episodes = [attempt(1.0, choices), attempt(0.0, choices)]
    ledger = Ledger.for_episodes(episodes)
    ledger.set("step", [0.5, -0.5])
    batch = token_batch(episodes, ledger, level="step", constrained=True)
    assert batch.units.free.tolist() == free * 2
    assert token_batch(episodes, ledger, level="step").units.free.tolist() == [True] * 6, "any token could have come"
    if choices:
        whole = token_batch(episodes, ledger, level="step", unit="action")
        assert whole.units.free.tolist() == [len(choices) > 1] * 2


@pytest.mark.parametrize("micro_tokens", [1, 100])
def test_the_entropy_that_is_reported_is_that_of_choices(micro_tokens):
    episodes = [attempt(1.0, [[1, 2, 3], [1, 2, 4], [5]]), attempt(0.0, [[1, 2, 3], [1, 2, 4], [5]])]
    ledger = Ledger.for_episodes(episodes)
    ledger.set("step", [0.5, -0.5])
    model = Model()

    def logged(constrained):
        batch = token_batch(episodes, ledger, level="step", constrained=constrained)
        optimizer = torch.optim.SGD([model.weight], lr=0.0)
        return improve(Objective(), batch, model, optimizer, micro_tokens=micro_tokens)["entropy"]

    assert logged(True) == pytest.approx(0.5), "two thirds of the tokens had an alternative"
    assert logged(False) == pytest.approx(np.mean([0.5, 0.0, 0.5]))


def test_nothing_is_reported_of_an_entropy_where_nothing_was_to_choose():
    episodes = [attempt(1.0, [[1, 2, 3]]), attempt(0.0, [[1, 2, 3]])]
    ledger = Ledger.for_episodes(episodes)
    ledger.set("step", [0.5, -0.5])
    model = Model()
    batch = token_batch(episodes, ledger, level="step", constrained=True)
    assert "entropy" not in improve(Objective(), batch, model, torch.optim.SGD([model.weight], lr=0.0))


@pytest.mark.parametrize(
    ("before", "first", "due"),
    [
        ({"success_mean": 0.0, "n": 32}, {"success_mean": 0.0, "flat_mean": 1.0}, True),
        ({"success_mean": 0.0, "n": 32}, {"success_mean": 0.0, "flat_mean": None}, True),
        ({"success_mean": 0.0, "n": 32}, {"success_mean": 0.0, "flat_mean": 0.9}, False),  # parts of answers are paid
        ({"success_mean": 0.0, "n": 32}, {"success_mean": 0.1, "flat_mean": 1.0}, False),
        ({"success_mean": 1 / 32, "n": 32}, {"success_mean": 0.0, "flat_mean": 1.0}, False),
        ({"success_mean": 0.0, "n": 32}, {"examples": 16}, False),  # imitated, nothing was attempted
    ],
)
def test_a_run_without_hope_is_warned_after_its_first_update(before, first, due):
    health = Health(exact=True)
    assert health.look({"phase": "eval", **before}) == []
    said = health.look({"update": 1, **first})
    assert any("nothing-to-begin-with" in one for one in said) == due
    assert not any("nothing-to-begin-with" in one for one in health.look({"update": 2, **first}))
    if due:
        assert "0 of 32 held-out attempts" in said[0] and "--group" in said[0]


def test_without_an_evaluation_before_nothing_is_said_of_it():
    health = Health(exact=True)
    assert health.look({"update": 1, "success_mean": 0.0, "flat_mean": 1.0}) == []
    health.look({"phase": "eval", "success_mean": 0.0, "n": 8})
    assert health.look({"update": 2, "success_mean": 0.0, "flat_mean": 1.0}) == []
