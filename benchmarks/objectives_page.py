"""The table of docs/objectives.md, from ``learn.tokens.objectives_of_papers``: python benchmarks/objectives_page.py."""

from pathlib import Path

from algo_pages import PAGES, filled

from evolvent.learn.tokens.objectives_of_papers import table

PAGE = Path(__file__).resolve().parents[1] / "docs" / "objectives.md"


USUAL = {"reward": "outcome", "unit": "trajectory", "spread": "broadcast"}
"""What most papers choose: an empty cell."""


def parts() -> dict[str, str]:
    """The parts of the page that are generated, by name."""
    head, *rows = table()
    names = [name for name in head if name != "paper"]
    lines = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    for row in (dict(zip(head, cells, strict=True)) for cells in rows):
        if not (PAGES / f"{row['system']}.md").exists():  # a system with a page has its paper there
            row["note"] = "; ".join(filter(None, (row["paper"], row["note"])))
        cells = ("" if USUAL.get(name) == row[name] else row[name].replace("|", "\\|") for name in names)
        lines.append(f"| {' | '.join(cells)} |")
    return {"table": "\n".join(lines)}


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text("utf-8"), parts()), "utf-8")
