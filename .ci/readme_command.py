"""Prints the command that README.md gives for the tests: the code block after the marker ``<!-- test-command -->``."""

import re
import sys
from pathlib import Path

MARKED = re.compile(r"<!-- test-command -->\s*```(?:bash|sh|console)?\n(.+?)\n```", re.DOTALL)


def test_command(readme: str) -> str:
    found = MARKED.findall(readme)
    if len(found) != 1:
        raise SystemExit(f"README.md: expected one code block after <!-- test-command -->, got {len(found)}")
    lines = [line.strip() for line in found[0].splitlines()]
    if len(lines) != 1 or not lines[0].endswith("&& pytest -n 2"):
        raise SystemExit(f"README.md: expected one line `pip install … && pytest -n 2`, got {lines}")
    return lines[0]


if __name__ == "__main__":
    print(test_command(Path(sys.argv[1]).read_text(encoding="utf-8")))
