"""The task of ``examples/calculator_task.py`` without its tool, for ``language_worlds.py``."""

import runpy
from pathlib import Path

TASK = runpy.run_path(str(Path(__file__).parent.parent / "examples" / "calculator_task.py"))
INSTRUCTIONS = (
    "Q: 3 + 4 =\nA: 7\n\nQ: 5128 + 967 =\nA: 6095\n\nQ: 382 * 7140 =\nA: 2727480\n\nQ: 905 + 4417 =\nA: 5322\n\n"
)
MAX_TOKENS = TASK["MAX_TOKENS"]

prompts = TASK["prompts"]


def reward(completion: str, prompt: str, answer: str) -> float:
    return float(completion.strip() == answer)
