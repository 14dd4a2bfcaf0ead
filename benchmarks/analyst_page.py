"""The table of definitions in docs/analyst.md, from the questions themselves: ``python benchmarks/analyst_page.py``."""

import sys

from evolvent.envs.text.analyst_questions import KINDS


def table() -> str:
    """The table as Markdown."""
    example = {"c": "UA", "o": "JFK", "d": "BOS", "f": "BOEING", "m": "5"}
    heads = ("kind", "asked like this", "the house's definition", "after a drift", "a mistaken reviewer", "query")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for kind in KINDS:
        constants = {slot: example[slot] for slot in kind.slots}
        query = f"`{kind.query('gold', constants)}`"
        cells = (kind.name, kind.question(0, constants), kind.meaning, kind.meaning_drift, kind.mistake, query)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(table())
