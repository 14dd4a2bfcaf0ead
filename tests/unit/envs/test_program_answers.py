"""How a program is found in an answer: what it costs, whatever the answer is."""

import ast
from types import SimpleNamespace

import pytest

from evolvent.envs.text import program_answers
from evolvent.envs.text.program_answers import MOST_CHARS, extract

ADVERSARIAL = {
    "sixty functions": lambda n: "".join(f"def f{i}(x):\n    return x + {i}\n" for i in range(n // 26)),
    "sixty long lines": lambda n: "".join(f"def f{i}(x): return {'x+' * (n // 150)}1\n" for i in range(60)),
    "an error at the very end": lambda n: "def f(x):\n    return 1\n" * (n // 25) + "(",
    "an unclosed text at the end": lambda n: "x = 1\n" * (n // 7) + '"""',
    "words": lambda n: "x\n" * (n // 2),
    "imports": lambda n: "import f\n" * (n // 9),
    "notes": lambda n: "note: this\n" * (n // 11),
    "calls": lambda n: "f(1)\n" * (n // 5),
    "nearly indented": lambda n: "".join(" " * (i % 2) + "x = 1\n" for i in range(n // 7)),
    "empty lines": lambda n: "\n" * (n - 9) + "x = 1",
    "sentences": lambda n: "def f(x):\n" + "\n\nSo it" * (n // 7),
    "sentences in a text": lambda n: "def f(x):\n    '''" + "\n\nSo it '''" * (n // 11),
}


@pytest.mark.parametrize("shape", ADVERSARIAL)
def test_what_is_read_of_an_answer_is_a_few_times_its_length(monkeypatch, shape):
    read, parse = 0, ast.parse

    def counted(source):
        nonlocal read
        try:
            tree = parse(source)
        except SyntaxError as error:
            read += sum(map(len, source.splitlines()[: error.lineno])) if error.lineno else len(source)
            raise
        read += len(source)
        return tree

    monkeypatch.setattr(program_answers, "ast", SimpleNamespace(**vars(ast) | {"parse": counted}))
    for length in (MOST_CHARS // 4, MOST_CHARS, 4 * MOST_CHARS):
        read = 0
        extract(ADVERSARIAL[shape](length), "wanted")
        assert read <= 8 * MOST_CHARS, (length, read)


@pytest.mark.parametrize("before", [1, 20, 59])
@pytest.mark.parametrize("line", ["Sure", "Here it is:", "Note: this", "It's (I think", "x = 1"])
def test_the_program_behind_many_lines_is_found(before, line):
    program = "def wanted(x):\n    return x + 1"
    found = extract(f"{line}\n" * before + program, "wanted")
    assert found.endswith(program) and (line == "x = 1") == found.startswith("x = 1")


def test_a_program_behind_much_that_is_none_is_still_found():
    """All that may be read of it line by line was read: then what was read together is left together."""
    words = "".join(f"thing{i} = {'1 + ' * 150}1\n" for i in range(12)) + "Here it is:\n"
    program = "def wanted(x):\n    return x + 1"
    assert extract(words + program, "wanted") == program


def test_a_text_in_a_program_may_hold_what_looks_like_a_sentence():
    program = 'def wanted(x):\n    """One.\n\n    Two.\n\nThis is more."""\n    return x'
    assert extract(f"{program}\n\nThis works well.", "wanted") == program
    assert extract(program.replace('"""', "'''") + "\n\nThis works well.", "wanted") == program.replace('"""', "'''")
