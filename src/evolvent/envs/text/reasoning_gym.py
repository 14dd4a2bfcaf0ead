"""Any generator of reasoning-gym by name, asked in free text: ``reasoning_gym:basic_arithmetic,settings=max_terms=2``.

A question is an index of the generator; acre, gsm_symbolic, list_functions and word_ladder hold 500 of them, the others
as many as their settings allow. With ``work=TOKENS`` an answer is worked out before it is given, a line a step, so that
a search has lines to choose among: ``reasoning_gym:gsm_symbolic,work=200,shots=2``. Of version 0.1.25
isomorphic_strings, list_functions, polynomial_multiplication and ransom_note ask other things in a process with another
hash seed (``PYTHONHASHSEED=0`` makes runs repeatable), and knight_swap never repeats itself, so it is refused.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
import random
import re
import zlib
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from evolvent.core.errors import BadInput, EnvError, closest
from evolvent.core.protocols import Task, Turn
from evolvent.core.rounding import inside, reaches
from evolvent.envs.text._math import checker
from evolvent.envs.text._settings import parse_settings
from evolvent.envs.text._text import TextEnv, check_request, need, playing

_WHERE = "envs.reasoning_gym.make"
_HEAD = "Answer the question with the answer alone.\n\n"
_WORK_HEAD = "Work out the answer, a short line a step. The last line is 'Answer:' and the answer alone.\n\n"
_ANSWER = "Answer:"
_MOST_MISSES = 300
_NUMBER = re.compile(r"\$?-?[\d.,]+(/\d+)?%?")


def make(
    variant: str = "basic_arithmetic",
    *,
    settings: str = "",
    shots: int = 4,
    max_tokens: int = 0,
    exact: bool = False,
    work: int = 0,
    check: str = "",
) -> ReasoningGym:
    """One generator of reasoning-gym (Stojanovski et al., arXiv 2505.24760) with its own verifier as the reward.

    Args:
        variant: the generator, e.g. "basic_arithmetic", "letter_counting", "chain_sum".
        settings: the generator's own settings joined by "+", e.g. "min_terms=2+max_terms=2+max_digits=1"; values are
            written as in Python, bare words are text.
        shots: worked examples in the instructions; no task repeats one of them.
        max_tokens: longest answer without ``work``; 0 = what the longest of 32 answers needs, at one token a character.
        exact: pay 1 or 0. Otherwise the verifier's partial scores stand; many of them pay an answer that only
            contains the right one by its share of the characters.
        work: longest answer where it is worked out in lines, of which the last is "Answer: …"; 0 = the answer alone.
            Worked examples are then those whose working the generator gives (gsm_symbolic); of others ``shots=0``.
        check: "math_verify" judges answers of word problems as mathematics, 1 or 0, in place of the generator's own
            verifier: an equal value is right however it is written ("1798/2" for 899), and of several numbers the last
            one counts (extra ``math``).

    Raises:
        BadInput: no such generator or setting, or one that it refuses. MissingExtra: the package is missing.
    """
    need("reasoning_gym", "language", "reasoning_gym")
    if min(shots, max_tokens, work) < 0:
        got, expected = (shots, max_tokens, work), "shots, max_tokens and work ≥ 0"
        raise BadInput("a negative number", got=got, expected=expected, where=_WHERE)
    factory = importlib.import_module("reasoning_gym.factory")
    importlib.import_module("reasoning_gym")  # its generators enter their names
    if variant not in factory.DATASETS:
        expected = closest(variant, sorted(factory.DATASETS))
        raise BadInput("no such generator", got=variant, expected=expected, where=_WHERE)
    fields = [field.name for field in dataclasses.fields(factory.DATASETS[variant][1])]
    known = [name for name in fields if name not in ("seed", "size")]
    options = parse_settings(settings, known, f"{_WHERE}({variant!r}, settings=)")
    try:
        pool = factory.create_dataset(variant, **options, seed=0)
    except (AssertionError, TypeError, ValueError) as error:
        raise BadInput("the generator refuses its settings", got=settings, expected=str(error), where=_WHERE) from error
    if check not in ("", "math_verify"):
        raise BadInput("no such checker", got=check, expected="math_verify, or none: the generator's own", where=_WHERE)
    same = checker(f"reasoning_gym:{variant}") if check else None
    return ReasoningGym(variant, pool, shots, max_tokens, exact, work, same)


class ReasoningGym(TextEnv):
    """Questions of one generator, one answer each. The reward in [0, 1] is the generator's own verdict."""

    labels = ("Question", "Answer")

    def __init__(
        self,
        generator: str,
        pool: Any,
        shots: int,
        max_tokens: int,
        exact: bool,
        work: int = 0,
        same: Callable[[str, str], bool] | None = None,
    ) -> None:
        self._exact, self._works, self._same = exact, work > 0, same
        self.name, self._generator, self._pool = f"reasoning_gym-{generator}", generator, pool
        self._span = _span(pool)
        examples = list(islice(self._draw(random.Random("examples")), 32))
        if any(self._pool[entry["number"]]["question"] != entry["question"] for entry in examples[:8]):
            raise BadInput("a generator that does not repeat its questions", got=generator, where=_WHERE)
        if same is not None:
            _check_word_problems(examples, same)
        shown = [entry for entry in examples if _example(entry, self._works)][:shots]
        if len(shown) < shots:
            why = "gives no working" if self._works else "has many right answers and names none"
            do = f"use shots=0: this generator {why}"
            raise BadInput("no worked examples", got=generator, expected=f"{shots} answers", where=_WHERE, do=do)
        answers = [str(entry["answer"]) for entry in examples]
        several = self._works or any("\n" in answer for answer in answers)
        self.stop = ("\n\n",) if several else ("\n",)
        self.max_tokens = work or max_tokens or min(512, max(map(len, answers)) + 4)
        if self._works:
            self.labels = ("Question", "Steps")
        worked = [f"{self.labels[0]}: {e['question']}\n{self.labels[1]}: {_example(e, self._works)}\n\n" for e in shown]
        self.instructions = (_WORK_HEAD if self._works else _HEAD) + "".join(worked)
        self._shown = {entry["question"] for entry in shown}

    def tasks(self, split: str, n: int, seed: int) -> list[Task]:
        """``n`` different questions. Splits are distinguished by what a question says: 70 % are for training."""
        check_request(split, n, f"{self.name}.tasks")
        found: dict[str, Task] = {}
        misses = 0
        for entry in self._draw(random.Random(f"{self.name}/{split}/{seed}")):
            if len(found) >= n:
                break
            text = entry["question"]
            fits = (zlib.crc32(text.encode()) % 10 < 7) == (split == "train") and text not in self._shown
            if fits and text not in found:
                number, misses = entry["number"], 0
                meta = {"answer": entry["answer"]} if isinstance(entry["answer"], str) else {}
                found[text] = Task(f"{self.name}/{number}", text, self._generator, split, number, meta)
            elif (misses := misses + 1) > _MOST_MISSES:
                expected = f"about {len(found)} different questions"
                raise BadInput(
                    "too many tasks for this generator", got=n, expected=expected, where=f"{self.name}.tasks"
                )
        return list(found.values())

    def reset(self, task: Task, seed: int = 0) -> Turn:
        """Ask the question of ``task``; ``seed`` changes nothing."""
        self._entry = self._pool[task.seed]
        self._turn = Turn(self._entry["question"])
        return self._turn

    def step(self, action: str) -> Turn:
        """Answer; the attempt ends."""
        playing(self._turn, self.name)
        answer = _answer(action) if self._works else action.strip()
        reward = self._verdict(answer)
        observation = f"Score: {reward:g} of 1."
        info = {"expected": self._entry["answer"]} | ({"action": answer} if self._works else {})
        self._turn = Turn(observation, reward=reward, terminated=True, success=reaches(reward, 1.0), info=info)
        return self._turn

    def close(self) -> None:
        """Nothing is held."""
        self._turn = None

    def _verdict(self, answer: str) -> float:
        if self._same is not None:
            return float(self._same(str(self._entry["answer"]), answer))
        try:
            reward = float(self._pool.score_answer(answer, self._entry))
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, SyntaxError, RecursionError):
            return 0.0  # some verifiers fail on text that they cannot parse: a wrong answer
        if math.isnan(earned := inside(reward, 0.0, 1.0)):
            raise EnvError("a reward outside 0 to 1", got=reward, where=self.name)
        return float(reaches(earned, 1.0)) if self._exact else earned

    def _draw(self, chance: random.Random) -> Iterator[dict[str, Any]]:
        missed: list[ValueError] = []
        while len(missed) < _MOST_MISSES:
            number = chance.randrange(self._span)
            try:
                entry = self._pool[number]
            except ValueError as error:  # some generators give up on an index
                missed.append(error)
                continue
            missed.clear()
            yield {**entry, "number": number}
        raise BadInput(
            "the generator makes no question",
            got=str(missed[-1]),
            expected="settings that it can meet",
            where=self.name,
            do="widen settings=…",
        )


def _span(pool: Any) -> int:
    """How many indices it answers: most generators seed themselves with any index, some hold a list."""
    try:
        pool[10**9 - 1]
    except IndexError:
        return len(pool)
    except ValueError:  # it knows the index, but gave up on this question
        pass
    return 10**9


def _check_word_problems(examples: list[dict[str, Any]], same: Callable[[str, str], bool]) -> None:
    """Refuse generators of which equal value is not all: an expression that is asked for, or one that need only be
    repeated.
    """
    numbers = all(_NUMBER.fullmatch(str(e["answer"])) for e in examples)
    repeated = numbers and sum(same(str(e["answer"]), e["question"]) for e in examples) > len(examples) / 2
    if not numbers or repeated:
        raise BadInput(
            "repeating the question would be right as mathematics" if repeated else "no word problems",
            got=examples[0]["question"] if repeated else examples[0]["answer"],
            where=_WHERE,
            expected="questions in words that are answered by a number, such as gsm_symbolic",
            do="leave check=math_verify out",
        )


def _example(entry: dict[str, Any], works: bool) -> str:
    """What a worked example answers; nothing where the generator does not say it."""
    answer = entry["answer"]
    if not isinstance(answer, str) or not works:
        return answer if isinstance(answer, str) else ""
    lines = [line.strip() for line in str(entry["metadata"].get("answer_cot", "")).splitlines()]
    steps = [line for line in lines if line and not line.startswith("####")]
    return "\n".join([*steps, f"{_ANSWER} {answer}"]) if steps else ""


def _answer(text: str) -> str:
    """What stands behind the last "Answer:", on its line; nothing where there is none."""
    _, found, behind = text.rpartition(_ANSWER)
    return behind.strip().partition("\n")[0].strip() if found else ""
