"""A text world with admissible commands: how much of a curve is the model, and how much a table of values?

    python benchmarks/text_world.py --model smollm2-135m --threads 1

"none" is the model alone and "values-only" the control that must never be left out: learned values, a uniform prior and
no model at all. rag, memrl, memq and memlift sample a command from the model's distribution given worked examples;
"cases" are Memento by similarity or by an estimate; in "prior+values" and "both" learned values choose together with
the model's prior (PUCT).
"""

import grid

from evolvent.algos import memento, memlift, memq, memrl, no_memory, rag

CONTEXT = {"use": "context", "lessons": ("successes", "failures"), "temperature": 1.0}
GRID = grid.Grid(
    name="text_world",
    conditions={"twc": "twx:step_limit=5"},
    arms={
        "none": (no_memory, {"passes": 1, "temperature": 1.0}),
        "values-only": (memrl, {"model": "none", "use": "values"}),
        "values-only-gate.6": (memrl, {"model": "none", "use": "values", "value_gate": 0.6}),
        "rag": (rag, CONTEXT),
        "memrl": (memrl, CONTEXT),
        "memq": (memq, CONTEXT),
        "cases": (memento, CONTEXT),
        "cases-kernel": (memento, CONTEXT | {"learn": "kernel"}),
        "cases-classifier": (memento, CONTEXT | {"learn": "classifier"}),
        "memlift": (memlift, CONTEXT),
        "prior+values": (memlift, {"use": "values"}),
        "both": (memlift, {"use": "both"}),
    },
    settings={"passes": 4, "train": 16, "heldout": 16},
    by_condition={},
)

if __name__ == "__main__":
    grid.main(GRID, __doc__)
