"""Shared rooms hold what is shared: names each file outside ``algos/`` that is reached through one system alone.

Such a file belongs into the folder of that system (``algos/NAME/``). Exit code 1 where there is one. What stands in
``ALLOWED``, and what that needs, is no system's own.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

ALLOWED = {
    "evolvent.credit": "credit rules are listed, proved and asked for by name",
    "evolvent.memory.rules": "policies of any memory, asked for by name",
    "evolvent.search": "ways to search, asked for by name",
    "evolvent.envs": "environments, asked for by name",
    "evolvent.runs.search": "the kind of run whose one system is `search`",
}


def modules(root: Path) -> dict[str, Path]:
    """The modules below the package ``root``, by dotted name."""
    found = {}
    for path in root.rglob("*.py"):
        parts = path.relative_to(root.parent).with_suffix("").parts
        found[".".join(parts[:-1] if path.name == "__init__.py" else parts)] = path
    return found


def importers(known: dict[str, Path]) -> dict[str, set[str]]:
    """By module: the modules that import it, anywhere in their text."""
    found: dict[str, set[str]] = {name: set() for name in known}
    for name, path in known.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                inner = [f"{node.module}.{alias.name}" for alias in node.names]
                names = [one if one in known else node.module for one in inner]
            for one in names:
                if one in known and one != name:
                    found[one].add(name)
    return found


def allowed(name: str) -> bool:
    """Whether a module stands in a room whose files are asked for by name."""
    return any(name.startswith(f"{room}.") for room in ALLOWED)


def tenants(root: Path) -> dict[str, str]:
    """The modules outside ``algos/`` that one system alone reaches, each with that system."""
    by = importers(modules(root))
    owner: dict[str, str] = {}
    for name in by:
        parts = name.split(".")
        if parts[1:2] == ["algos"] and len(parts) > 2:
            owner[name] = parts[2]
    systems = {*owner}
    while True:
        new = {
            name: next(iter(of))
            for name, them in by.items()
            if not allowed(name)
            and name not in owner
            and len(of := {owner.get(one, "") for one in them}) == 1
            and of != {""}
        }
        if not new:
            return {name: system for name, system in owner.items() if name not in systems}
        owner |= new


def main(root: Path) -> int:
    found = tenants(root)
    for name, system in sorted(found.items()):
        print(f"FAIL {name}: only the system {system!r} reaches it; it belongs into algos/{system}/")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(Path(__file__).parents[1] / "src" / "evolvent"))
