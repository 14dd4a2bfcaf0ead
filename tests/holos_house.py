"""Questions of six kinds that only a house can answer, and an agent that does as the newest lesson on a kind did."""

import random
import re

from evolvent.core.protocols import Correction, Task, Turn

KINDS = ("apples", "bricks", "clouds", "doors", "engines", "flowers")


class House:
    """To a number each kind adds another one; a share ``wrong`` of reviewers is mistaken about a kind."""

    name, instructions, labels, stop, max_tokens = "house", "", ("Q", "A"), ("\n",), 8
    reward_range = (0.0, 1.0)

    def __init__(self, wrong=0.0):
        self.wrong, self.task = wrong, None

    def tasks(self, split, n, seed):
        first = 0 if split == "train" else 1000
        kinds = [KINDS[i % len(KINDS)] for i in range(n)]
        return [
            Task(f"{kind}-{first + i}", f"{kind} {kind} {first + i}", kind, split, seed, {"n": first + i})
            for i, kind in enumerate(kinds)
        ]

    def answer(self, task):
        return str(task.meta["n"] + 7 * (1 + KINDS.index(task.kind)))

    def reset(self, task, seed=0):
        self.task = task
        return Turn(task.text, key=task.text)

    def step(self, action):
        right = action.strip() == self.answer(self.task)
        return Turn("", reward=float(right), terminated=True, success=right)

    def review(self, task, seed):
        wrong = random.Random(f"{task.kind}/{seed}").random() < self.wrong
        return Correction("0" if wrong else self.answer(task), wrong=wrong)

    def advance(self, pass_number):
        pass

    def close(self):
        pass


def make(wrong: float = 0.0):
    return House(wrong)


def answer(prompt):
    kind, number = re.findall(r"Q: \w+ (\w+) (\d+)", prompt)[-1]
    for what, n, said in reversed(re.findall(r"Q: \w+ (\w+) (\d+)\nA: (\d+)", prompt)):
        if what == kind:
            return f" {int(number) + int(said) - int(n)}\n"
    return " 0\n"
