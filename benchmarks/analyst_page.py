"""The tables of definitions in docs/analyst.md, from the questions: ``python benchmarks/analyst_page.py``."""

import sys

from evolvent.envs.text.analyst import DATABASES

EXAMPLE = {
    "flights": {"c": "UA", "o": "JFK", "d": "BOS", "f": "BOEING", "m": "5"},
    "baseball": {"t": "BOS", "l": "AL", "p": "SS", "b": "TX", "y": "1998", "s": "1998", "e": "196"},
}


def table(database: str) -> str:
    """The table of one database as Markdown."""
    heads = ("kind", "asked like this", "the house's definition", "after a drift", "a mistaken reviewer", "query")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for kind in DATABASES[database].kinds:
        constants = {slot: EXAMPLE[database][slot] for slot in kind.slots}
        query = f"`{kind.query('gold', constants)}`"
        cells = (kind.name, kind.question(0, constants), kind.meaning, kind.meaning_drift, kind.mistake, query)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write("\n".join(map(table, DATABASES)))
