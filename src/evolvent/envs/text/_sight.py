"""What an agent in a grid world sees, in words."""

from __future__ import annotations

import numpy as np

_TYPES = ("", "", "wall", "", "door", "key", "ball", "box", "goal", "lava")
_COLORS = ("red", "green", "blue", "purple", "yellow", "grey")
_DOORS = ("open", "closed", "locked")


def sight(seen: np.ndarray) -> list[str]:
    """What the agent sees, nearest first; ``seen`` uint8 ``[7, 7, 3]``: type, colour, state of each cell before it."""
    middle, near = seen.shape[0] // 2, seen.shape[1] - 1
    things = []
    for x, y in np.argwhere((seen[:, :, 0] > 3) & (seen[:, :, 0] < len(_TYPES))):
        kind, color, state = _TYPES[seen[x, y, 0]], _COLORS[seen[x, y, 1]], seen[x, y, 2]
        ahead, side = int(near - y), int(x - middle)
        if (ahead, side) != (0, 0):  # there is what it carries
            name = f"{_DOORS[state]} {color} door" if kind == "door" else f"{color} {kind}"
            things.append((ahead + abs(side), ahead, side, f"{article(name)} {_place(ahead, side)}"))
    lines = [f"You see {'; '.join(text for *_, text in sorted(things)) or 'nothing'}."]
    if seen[middle, near - 1, 0] == _TYPES.index("wall"):
        lines.append("A wall is right in front of you.")
    return lines


def _place(ahead: int, side: int) -> str:
    if (ahead, side) == (1, 0):
        return "right in front of you"
    parts = [f"{ahead} step{'s' * (ahead > 1)} ahead"] if ahead else []
    if side:
        parts.append(f"{abs(side)} step{'s' * (abs(side) > 1)} to the {'left' if side < 0 else 'right'}")
    return " and ".join(parts)


def article(name: str) -> str:
    """``name`` with its article."""
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
