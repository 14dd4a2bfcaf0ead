"""The tables of definitions in docs/analyst.md, from the kinds of question: ``python benchmarks/analyst_page.py``."""

import sys

from evolvent.envs.text.analyst import DATABASES

SHOWN = 12


def table(database: str) -> str:
    """The first kinds of one database as a Markdown table."""
    lines = ["| kind | the house's definition |", "|---|---|"]
    lines += [f"| {kind.name} | {kind.meaning} |" for kind in DATABASES[database].kinds[:SHOWN]]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write("\n".join(map(table, DATABASES)))
