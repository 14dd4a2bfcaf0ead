"""Trees as drawn: the first wrong line as the world says it, the first that a process reward model doubts."""

from pathlib import Path

import numpy as np
import pytest

from evolvent.core.protocols import Completion
from evolvent.envs.text import chain
from evolvent.evaluate.pages.draw import draw
from evolvent.play.renderers import Text
from evolvent.play.settings import AttemptSettings
from evolvent.runs.account.trees import trees
from evolvent.runs.search.drawing import drawn
from evolvent.runs.search.grow import Grower
from evolvent.search import best_of_n

ENV = chain.make(3, digits=1)
TASK = ENV.tasks("heldout", 1, 0)[0]
NONE = np.zeros(0, np.float32)
RIGHT = chain.worked(TASK.text).split()


def shown(tree):
    """A tree as the page of its run has it."""
    return draw(trees([tree]), Path())


def says(wrong):
    """An engine that writes the lines of the solution, the ``wrong``-th with another result."""

    def engine(requests):
        done = []
        for request in requests:
            at = str(request.prompt).rpartition("Steps:")[2].count("=")
            line = RIGHT[at] if at != wrong else f"{RIGHT[at][:-1]}{(int(RIGHT[at][-1]) + 1) % 10}"
            last = at == len(RIGHT) - 1
            done.append(Completion(line, NONE, NONE, finish="stop", stopped="\n\n" if last else "\n"))
        return done

    return engine


class Doubts:
    """A process reward model that gives each line so much."""

    kind = "process"

    def __init__(self, *scores):
        self.scores = scores

    def __call__(self, states):
        return [self.scores[len(s.steps) - 1] if s.steps else 0.0 for s in states]


@pytest.mark.parametrize("wrong", [0, 1, 2])
def test_the_first_wrong_line_and_the_first_doubted_one_are_marked(wrong):
    grower = Grower([ENV], AttemptSettings(Text()), says(wrong), widths=(1,), longest=20)
    search, space = grower.grow(
        [TASK], lambda s: best_of_n.run(s, best_of_n.Config(paths=1)), Doubts(0.9, 0.2, 0.1), seed=0
    )
    tree = drawn(search, space, 0, search.of(0)[0], "best_of_n")
    nodes = [node for node in tree["nodes"] if node["text"]]
    assert [node["wrong"] for node in nodes] == [i == wrong for i in range(3)]
    assert [node["doubted"] for node in nodes] == [False, True, False]
    assert shown(tree).count("first wrong line") == 1
    search.tree.value[search.tree.path(search.of(0)[0].leaf)[2]] = 0.7  # doubts before, and again behind it
    search.tree.value[search.tree.path(search.of(0)[0].leaf)[1]] = 0.4
    again = drawn(search, space, 0, search.of(0)[0], "best_of_n")["nodes"]
    assert [node["doubted"] for node in again if node["text"]] == [True, False, False], "once on a path"
    search.value = lambda states: [0.1] * len(states)  # a value is no probability of being right
    assert not any(node["doubted"] for node in drawn(search, space, 0, search.of(0)[0], "best_of_n")["nodes"])


@pytest.mark.parametrize("moves", [{"engine": says(-1)}, {"engine": says(0), "unit": "answer"}])
def test_a_right_answer_and_moves_that_are_no_lines_have_no_wrong_line(moves):
    grower = Grower([ENV], AttemptSettings(Text()), widths=(1,), longest=20, **moves)
    search, space = grower.grow([TASK], lambda s: best_of_n.run(s, best_of_n.Config(paths=1)), seed=0)
    assert not any(node["wrong"] for node in drawn(search, space, 0, search.of(0)[0], "x")["nodes"])
