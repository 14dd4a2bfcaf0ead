"""Small programs with the house's rules: memory systems × who hands over what × seeds on the real model.

    python benchmarks/programs.py --seeds 0 1 2

Six kinds of function, 12 questions in the stream, 12 held out, two passes. Conditions: "tests": after a failure the
memory is handed calls that went wrong with their right answers; "house": the right program; "told": the rule stands in
the question, which is what a memory could reach; "repair": generated programs in which one line is wrong, and the right
program is handed over, "repair-tests": calls that went wrong; "codeio": programs of CodeI/O (the extra ``language``).
Arms: "pass@3" tries three times without memory, "solved" remembers what was right and nothing else, "rag" recalls by
similarity alone, "icl" has every lesson in the prompt, newest last.
"""

import grid

from evolvent.algos import icl, memlift, no_memory, rag

GRID = grid.Grid(
    name="programs",
    conditions={
        "tests": "program:house,kinds=6,reviewer=tests",
        "house": "program:house,kinds=6,reviewer=house",
        "told": "program:told,kinds=6,reviewer=tests",
        "repair": "program:repair,reviewer=house",
        "repair-tests": "program:repair,reviewer=tests",
        "codeio": "program:codeio",
    },
    arms={
        "none": (no_memory, {"passes": 1}),
        "pass@3": (no_memory, {"passes": 1, "attempts": 3, "temperature": 0.8}),
        "solved": (memlift, {"lessons": ("successes",)}),
        "rag": (rag, {}),
        "icl": (icl, {}),
        "memlift": (memlift, {}),
    },
    settings={"passes": 2, "train": 12, "heldout": 12},
    by_condition={},
)

if __name__ == "__main__":
    grid.main(GRID, __doc__ or "")
