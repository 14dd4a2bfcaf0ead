"""Changed lines: which there are, that one line changes, and that rewriting keeps what a program does."""

import ast

import pytest

from evolvent.core.errors import BadInput
from evolvent.envs.text.program_problems import tests as cases_of
from evolvent.envs.text.program_tasks import EASY, HOUSE, LONG
from evolvent.sandbox.mutants import mutants, normal, rewritten

SOURCE = "def f(x):\n    if x < 3 and True:\n        x += 2\n    return x * 10"


def test_the_normal_form_has_no_comments_and_no_docstrings():
    text = 'import math\ndef f(x):\n    """Doc."""  # why\n    return (x +\n        1)\nclass A:\n    "Doc."\n'
    assert normal(text) == "import math\n\ndef f(x):\n    return x + 1\n\nclass A:\n    pass"
    with pytest.raises(BadInput, match="no Python program"):
        normal("def f(x)\n")


def test_every_fault_of_a_program_by_hand():
    found = [(m.line, m.what, m.source.splitlines()[m.line].strip()) for m in mutants(SOURCE)]
    assert sorted(found) == sorted(
        [
            (1, "comparison", "if x <= 3 and True:"),
            (1, "comparison", "if x > 3 and True:"),
            (1, "number", "if x < 4 and True:"),
            (1, "number", "if x < 2 and True:"),
            (1, "and, or", "if x < 3 or True:"),
            (1, "truth", "if x < 3 and False:"),
            (1, "condition", "if not (x < 3 and True):"),
            (2, "operator", "x -= 2"),
            (2, "number", "x += 3"),
            (2, "number", "x += 1"),
            (2, "left out", "pass"),
            (3, "operator", "return x + 10"),
            (3, "number", "return x * 11"),
            (3, "number", "return x * 9"),
            (3, "nothing returned", "return None"),
        ]
    )
    ways = [(m.line, m.source.splitlines()[m.line].strip()) for m in rewritten(SOURCE)]
    assert ways == [(1, "if 3 > x and True:"), (2, "x = x + 2"), (3, "return 10 * x")]


@pytest.mark.parametrize("kind", [*HOUSE, *EASY, *LONG], ids=lambda kind: kind.name)
def test_a_mutant_differs_in_its_line_alone(kind):
    n = next(iter(kind.constants))
    source = normal(kind.source(n))
    rows = source.splitlines()
    for mutant in (*mutants(source), *rewritten(source)):
        other = mutant.source.splitlines()
        assert [i for i, (a, b) in enumerate(zip(rows, other, strict=True)) if a != b] == [mutant.line]
        ast.parse(mutant.source)
    assert len({mutant.source for mutant in mutants(source)}) == len(mutants(source)) > 0
    # numbers and comparisons, which is most of these: written otherwise, it does the same
    for mutant in rewritten(source):
        space = {}
        exec(mutant.source, space)
        right = [space[kind.name](*case.inputs) == case.expected for case in cases_of(kind.name, n)]
        assert all(right) or kind.name == "shifted", mutant
