"""A reward for training on code: hidden tests in a sandbox, with a verdict that the program cannot write.

Needs the package without extras, on Linux. The tests of a row are pairs [arguments, expected answer]. What the
model wrote never sees an expected answer. Below, the same reward in the signature of three trainers.
"""

import json

from evolvent.envs.text.program_answers import extract
from evolvent.sandbox import Case, Limits, Sandbox, judge

SANDBOX = Sandbox(warm=2)  # one for all: a run in it costs a few plain starts of Python
LIMITS = Limits(wall=5.0, memory=512 << 20)


def reward(answer: str, tests: list, function: str) -> float | None:
    """The share of tests that the program in an answer passes; None where the sandbox failed and nothing is known."""
    cases = [Case(tuple(given), expected, hidden=True) for given, expected in tests]
    verdict = judge(extract(answer, function), cases, function=function, sandbox=SANDBOX, limits=LIMITS)
    return verdict.share if verdict.valid else None


def trl_reward(completions, tests, function, **_):
    """TRL: `GRPOTrainer(reward_funcs=trl_reward, …)`, with columns `tests` (JSON) and `function`; None is skipped."""
    texts = [one if isinstance(one, str) else one[-1]["content"] for one in completions]
    rows = zip(texts, tests, function, strict=True)
    return [reward(text, json.loads(of), name) for text, of, name in rows]


def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    """Verl: `reward.custom_reward_function.path=code_reward.py`; `ground_truth` is JSON {"function", "tests"}."""
    row = json.loads(ground_truth)
    return reward(solution_str, row["tests"], row["function"]) or 0.0


async def verifiers_reward(self, trace) -> float:
    """Verifiers: in a Task, `passed = vf.reward(weight=1.0)(verifiers_reward)`; its data has `tests` and `function`."""
    return reward(trace.last_reply, json.loads(self.data.tests), self.data.function) or 0.0
