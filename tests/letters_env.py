"""Three lines of one letter each; right where all are ``a``. Which line is wrong can be seen."""

import random
from dataclasses import replace

from evolvent.core.protocols import Task, Turn
from evolvent.envs.text._text import TextEnv, check_request, playing


def make():
    return Letters()


def mixed():
    return Mixed()


class Letters(TextEnv):
    name, labels, stop, max_tokens, instructions = "letters", ("Ask", "Say"), ("\n\n",), 12, ""
    _turn: Turn | None = None

    def tasks(self, split, n, seed):
        check_request(split, n, "letters.tasks")
        first = {"train": 100, "heldout": 500}[split]
        return [Task(f"letters/{first + i}", f"{first + i}", "letters", split) for i in range(n)]

    def reset(self, task, seed=0):
        self._turn = Turn(task.text)
        return self._turn

    def step(self, action):
        playing(self._turn, "letters")
        right = action.split() == ["a", "a", "a"]
        self._turn = Turn("", reward=float(right), terminated=True, success=right, info={"action": action})
        return self._turn

    def line_labels(self, task):
        wrong = ["\n".join("b" if i == at else "a" for i in range(3)) for at in range(3)]
        return [("a\na\na", at, True) for at in range(3)] + [(wrong[at], at, False) for at in range(3)]

    def close(self):
        pass


class Mixed(Letters):
    """The same with questions in no order, so that those of later updates and held-out ones look like the first; says
    how many lines are right.
    """

    def tasks(self, split, n, seed):
        mine = [i for i in range(1000) if (i % 7 % 4 == 0) == (split == "heldout")]
        return [Task(f"letters/{i}", f"{i:03d}", "letters", split) for i in random.Random(seed).sample(mine, n)]

    def step(self, action):
        turn = super().step(action)
        n = next(i for i, line in enumerate([*action.split("\n"), ""]) if line != "a")
        return replace(turn, info={"action": action, "rewards": {"lines": n}})


def ask(draw):
    return f"Ask: {draw.randrange(1000)}\nSay:"


def said(draw):
    return "\n".join(draw.choice("ab") for _ in range(3))


def teach(folder, seed=0, asked=ask):
    """Let a tiny model write three lines of ``a`` or ``b`` at random, in a second; ``asked`` draws what it reads."""
    import torch

    from evolvent.models.language import model as language
    from evolvent.models.language.model import Row

    model, draw = language.load(folder, lora_rank=0, dtype="float32"), random.Random(seed)
    optimizer = torch.optim.AdamW(model.trainable(), lr=1e-2)
    for _ in range(60):
        texts = [f" {said(draw)}\n\n" for _ in range(16)]
        rows = [Row(model.encode(asked(draw)), model.encode(text)) for text in texts]
        loss = -model.logprobs(rows).logp_K.mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    model.save(folder)
    return float(loss.detach())
