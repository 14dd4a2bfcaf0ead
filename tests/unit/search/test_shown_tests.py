"""Programs are searched by the tests in their question, and judged by those that nobody is shown."""

import pytest

from evolvent.core.errors import BadInput
from evolvent.core.protocols import Task, Turn
from evolvent.models.served.acting import Served
from evolvent.models.served.scripted import Scripted
from evolvent.play.renderers import Text
from evolvent.runs.search.config import SearchConfig
from evolvent.runs.search.outcome import chosen
from evolvent.runs.search.run import Backend, searched

PASSES = {"neither": 0.0, "one": 0.5, "learned by heart": 1.0, "right": 1.0}


class Programs:
    """One answer; half of what passes both shown tests fails the hidden one."""

    name, instructions, labels, stop, max_tokens = "programs", "", ("Task", "Program"), ("\n",), 8
    reward_range = (0.0, 1.0)

    def __init__(self, *, tells: bool) -> None:
        self.tells = tells

    def reset(self, task: Task, seed: int = 0) -> Turn:
        return Turn(task.text)

    def step(self, action: str) -> Turn:
        right = action == "right"
        info = {"rewards": {"shown": PASSES[action]}} if self.tells else {}
        return Turn("", reward=float(right), success=right, terminated=True, info=info)


def best(replies, *, tells=True, name="best_of_n"):
    config = SearchConfig(search=(name,), value="shown", paths=len(replies), budget_tokens=0, unit="answer")
    model = Scripted(replies)
    backend = Backend("scripted", lambda temperature: Served(model, temperature), Text(), None, [Programs(tells=tells)])
    search, space = searched(name, [Task("t", "f(1) == 2")], config, backend)
    return chosen(search, space, 0, name)


def test_what_passes_the_shown_tests_is_chosen_and_the_world_judges_it():
    found = best(["neither", "right", "one"])
    assert (found.answer, found.path.value) == ("right", 1.0) and found.episode.success
    found = best(["one", "learned by heart", "right"])  # the first of equals: what is hidden is not looked at
    assert (found.answer, found.path.value) == ("learned by heart", 1.0)
    assert not found.episode.success and found.right_somewhere


def test_a_tree_chooses_by_them_too():
    assert best(["neither", "one", "right"] * 12, name="mcts_rollout").answer == "right"


def test_a_world_without_tests_in_its_questions_is_refused():
    with pytest.raises(BadInput, match="no tests stand in the questions"):
        best(["right"], tells=False)
