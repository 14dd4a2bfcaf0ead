"""Whether an answer is the right one as mathematics: by math-verify (extra ``math``), for word problems.

"1,000", "1000.0" and "the answer is $1000$" are one answer; "19" is not "9". What cannot be read is wrong.
"""

from __future__ import annotations

import importlib
import importlib.util
import threading
from collections.abc import Callable

from evolvent.core.errors import BadInput, missing_extra

SECONDS = 5  # an expression of the answer's may never come to an end
LONGEST = 2000  # characters of an answer that are read, its last ones


def checker(where: str) -> Callable[[str, str], bool]:
    """``check(right, answer)``.

    Raises:
        MissingExtra: math-verify is not installed.
    """
    if importlib.util.find_spec("math_verify") is None:
        raise missing_extra("math-verify", "math", where, "leave check=math_verify out: the world's own verifier")
    math_verify = importlib.import_module("math_verify")

    def check(right: str, answer: str) -> bool:
        if threading.current_thread() is not threading.main_thread():
            raise BadInput(
                "math-verify keeps its time by a signal, which the main thread alone gets",
                where=where,
                got=f"thread {threading.current_thread().name}",
                do="step worlds in the main thread: --workers 0",
            )
        gold = math_verify.parse(right, parsing_timeout=SECONDS)
        if not gold:
            expected = "a number, an expression, a set, …"
            do = "leave check=math_verify out: the world's own verifier"
            raise BadInput("the right answer is no mathematics", got=right, expected=expected, where=where, do=do)
        said = math_verify.parse(answer[-LONGEST:], parsing_timeout=SECONDS)
        return bool(said) and bool(math_verify.verify(gold, said, timeout_seconds=SECONDS))

    return check
