"""What an ordinary Python does at its end happens here, too; and text that cannot be UTF-8 is the program's affair."""

import pytest

from evolvent.core.errors import BadInput
from evolvent.sandbox import NoSandbox, Sandbox, judge


@pytest.fixture(scope="module", params=["own", "own+ns"])
def sandbox(request):
    try:
        with Sandbox(mechanism=request.param, warm=0) as sandbox:
            yield sandbox
    except NoSandbox as error:
        pytest.skip(str(error))


def code(sandbox, text, **more):
    return sandbox.run({"main.py": text}, ["python", "main.py"], **more)


@pytest.mark.parametrize(
    ("text", "status", "exit_code", "says"),
    [
        ("import sys; sys.exit(10**30)", "failed", 255, ""),
        ("import sys; sys.stdout.close()", "ok", 0, ""),
        ("import os\nclass A:\n def __del__(self): os.write(2, b'last words')\na = A()", "ok", 0, "last words"),
    ],
)
def test_ends_are_those_of_python(sandbox, text, status, exit_code, says):
    result = code(sandbox, text)
    assert (result.status, result.exit_code, result.stderr) == (status, exit_code, says)


@pytest.mark.parametrize("wrap", ["{}", "{}\nsys.exit(1)", "{}\n1 / 0"])
def test_files_that_a_program_did_not_close_are_written(sandbox, wrap):
    text = """
import os, sys
class Holder: pass
held = Holder(); held.file = open('held', 'w'); held.file.write('held')
top = open('top', 'w'); top.write('at the top')
again = os.fdopen(os.dup(1), 'w'); again.write('second'); sys.stdout.write('first ')
"""
    result = code(sandbox, wrap.format(text), collect=["held", "top"])
    assert result.files == {"held": b"held", "top": b"at the top"}
    assert result.stdout == "first second"


def test_text_that_is_no_unicode_goes_in_as_it_is(sandbox):
    assert "SyntaxError" in code(sandbox, "print('\ud800')").stderr
    read = "import sys; print(sys.stdin.buffer.read())"
    assert code(sandbox, read, stdin="\ud800").stdout == "b'\\xed\\xa0\\x80'\n"
    verdict = judge("def f(x): return '\ud800'", [((1,), 1)], function="f", sandbox=sandbox)
    assert verdict.valid and not verdict.passed and "SyntaxError" in verdict.feedback()


def test_what_a_program_says_of_itself_is_reported_in_characters_that_print(sandbox):
    program = "def f(x): raise ValueError('\\ud800 \\x1b[2J \\0 \\u202e é')"
    feedback = judge(program, [((1,), 1)], function="f", sandbox=sandbox).feedback()
    assert feedback.endswith(r"ValueError: \ud800 \x1b[2J \x00 \u202e é") and feedback.encode()


@pytest.mark.parametrize("env", [{"A": "b\0"}, {"A=B": "1"}, {"": "x"}])
def test_an_environment_that_cannot_be_is_refused(sandbox, env):
    with pytest.raises(BadInput, match="environment variable"):
        code(sandbox, "", env=env)
