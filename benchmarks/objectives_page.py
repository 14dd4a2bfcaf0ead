"""The table of docs/objectives.md, from ``learn.tokens.objectives_of_papers``: python benchmarks/objectives_page.py."""

from pathlib import Path

from algo_pages import filled

from evolvent.learn.tokens.objectives_of_papers import table

PAGE = Path(__file__).resolve().parents[1] / "docs" / "objectives.md"


def parts() -> dict[str, str]:
    """The parts of the page that are generated, by name."""
    head, *rows = [tuple(cell.replace("|", "\\|") for cell in row) for row in table()]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    return {"table": "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])}


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text("utf-8"), parts()), "utf-8")
