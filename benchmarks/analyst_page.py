"""The tables of definitions in docs/analyst.md, from the kinds of question: ``python benchmarks/analyst_page.py``."""

import sys

from evolvent.envs.text.analyst import DATABASES


def table(database: str) -> str:
    """The table of one database as Markdown."""
    lines = ["| kind | the house's definition |", "|---|---|"]
    lines += [f"| {kind.name} | {kind.meaning} |" for kind in DATABASES[database].kinds]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write("\n".join(map(table, DATABASES)))
