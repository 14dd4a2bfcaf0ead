"""Does bisection find the first wrong step, and what does it save? OmegaPRM on chains whose truth is known, no model.

python benchmarks/search_first_error.py            # seconds: results/search_first_error.json

A scripted policy writes chains of steps; each is right with some chance, a wrong one is never mended, but a wrong chain
ends in the right answer now and then by luck. Set beside it: an estimate behind every step (Math-Shepherd's labels).
"""

import json
from pathlib import Path

import numpy as np

from evolvent.algos.openr import omega
from evolvent.core.jsonfile import write_atomic
from evolvent.core.machine import provenance
from evolvent.formulas.statistics import wilson

RESULT = Path(__file__).parent / "results" / "search_first_error.json"
STEPS, RIGHT, LUCK, SAMPLES, SEEDS, QUESTIONS = (8, 16), 0.9, (0.0, 0.02), (2, 4, 8, 16), (0, 1, 2), 100


class Chains:
    """A question's states: node to how many steps are written, and how many of them before the first wrong one."""

    def __init__(self, steps, luck, samples, draw):
        self.steps, self.luck, self.samples, self.draw = steps, luck, samples, draw
        self.path, self.fine = {0: []}, {0: 0}

    def estimate(self, node):
        result = omega.Estimate(0.0)
        for _ in range(self.samples):
            end, right = self.write(node)
            (result.right if right else result.wrong).append(end)
        result.mc = len(result.right) / self.samples
        return result

    def write(self, node):
        path, fine = list(self.path[node]), self.fine[node]
        while len(path) < self.steps:
            alive = fine == len(path)
            fine += alive and self.draw.random() < RIGHT
            new = len(self.path)
            path.append(new)
            self.path[new], self.fine[new] = list(path), fine
        return path[-1], fine == self.steps or self.draw.random() < self.luck


def bisected(steps, luck, samples, seed):
    """Wrong chains that were bisected: how many at the true step, and samples spent on them."""
    right = n = spent = 0
    for question in range(QUESTIONS):
        chains = Chains(steps, luck, samples, np.random.default_rng([seed, question]))
        asks = omega.question(
            0,
            chains.path.__getitem__,
            lambda node, c=chains: len(c.path[node]),
            omega.Config(samples, searches=2, rollouts=10**6),
        )
        node, found = next(asks), None
        while found is None:
            try:
                node = asks.send(chains.estimate(node))
            except StopIteration as done:
                found = done.value
        spent += (found.estimates - 1) * samples
        n += len(found.errors)
        right += sum(step == chains.fine[end] for end, step in found.errors.items())
    return right, n, spent


def each_step(steps, luck, samples, seed):
    """The same of estimates behind every step but the last."""
    right = n = spent = 0
    for question in range(QUESTIONS):
        chains = Chains(steps, luck, samples, np.random.default_rng([seed, question, 1]))
        for end in chains.estimate(0).wrong[:2]:
            alive = [chains.estimate(node).mc > 0 for node in chains.path[end][:-1]]
            said = alive.index(False) if False in alive else steps - 1
            right, n, spent = right + (said == chains.fine[end]), n + 1, spent + samples * (steps - 1)
    return right, n, spent


def main() -> None:
    rows = []
    for steps in STEPS:
        for luck in LUCK:
            for samples in SAMPLES:
                for name, way in (("bisection (OmegaPRM)", bisected), ("every step", each_step)):
                    found = [way(steps, luck, samples, seed) for seed in SEEDS]
                    right, n, spent = (sum(column) for column in zip(*found, strict=True))
                    low, high = wilson(right, n)
                    rows.append(
                        {
                            "steps": steps,
                            "luck": luck,
                            "samples": samples,
                            "way": name,
                            "n": n,
                            "right": right / n,
                            "ci95": [low, high],
                            "spent": spent / n,
                        }
                    )
    facts = {
        "name": "search_first_error",
        "command": "python benchmarks/search_first_error.py",
        "right": RIGHT,
        "questions": QUESTIONS,
        "seeds": list(SEEDS),
        **provenance(),
        "rows": rows,
    }
    write_atomic(RESULT, json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
