"""Performance as ratios in one run: ``python -m benchmarks.speed NAME`` calls ``run(seed) -> dict`` of a module.

Modules with an underscore are parts of these.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

FRESH = f"import sys; sys.path.insert(0, {str(Path(__file__).parents[2])!r}); "
"""Begins the code of a process of its own: there ``benchmarks.speed`` is found from any folder."""


def command_of(record: dict[str, Any]) -> str:
    """The command of a result file, as a page shows it: older files were written by one that is gone."""
    old, now = str(record["command"]), "python -m benchmarks.speed "
    return f"`{old}`" + (f" (now `{old.replace('evolvent bench ', now)}`)" if old.startswith("evolvent bench ") else "")
