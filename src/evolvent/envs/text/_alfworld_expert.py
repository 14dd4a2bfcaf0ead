"""An expert of ALFWorld games: looks for things where they may be, and knows no more than is seen."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from evolvent.core.protocols import Turn

_STATION = {"clean": "sinkbasin|bathtubbasin", "heat": "microwave", "cool": "fridge"}


def walk(
    env: Any, turn: Turn, kind: str, goal: Mapping[str, str], likely: tuple[Sequence[str], Sequence[str]]
) -> tuple[str, ...]:
    """Play a game to its end; the commands that were given.

    Args:
        env: the environment.
        turn: how the game begins.
        kind: of task.
        goal: the types of the thing (``obj``) and of the place where it has to go (``recep``, "" where to none).
        likely: types of place where the thing may be, and where a lamp may be, in the order of looking.
    """
    one, thing, target = _Walk(env, turn), goal["obj"].lower(), goal["recep"].lower()
    elsewhere = rf" from (?!{target} \d)" if target else " from "
    for _ in range(2 if kind == "two" else 1):
        one.find(rf"take {thing} \d+{elsewhere}", [place.lower() for place in likely[0]])
        if station := _STATION.get(kind):
            one.find(rf"{kind} {thing} ", station.split("|"))
        if kind == "look":
            one.find("use desklamp ", [place.lower() for place in likely[1]])
        else:
            one.find(rf"move {thing} \d+ to {target} ", [target])
    return tuple(one.said)


class _Walk:
    """What was said so far, and what was offered at each place."""

    def __init__(self, env: Any, turn: Turn) -> None:
        self._env, self._turn = env, turn
        self._places = [command[6:] for command in turn.admissible or () if command.startswith("go to ")]
        self._seen: dict[str, tuple[str, ...]] = {}
        self.said: list[str] = []

    def find(self, pattern: str, types: Sequence[str]) -> None:
        """Go to where the command is offered, and give it: here, where it was seen, then where it was not looked."""
        places = [place for kind in types for place in self._places if place.rpartition(" ")[0] == kind]
        seen = [place for place in places if _first(pattern, self._seen.get(place, ()))]
        for place in [
            "",
            *seen,
            *sorted((place for place in places if place not in seen), key=self._seen.__contains__),
        ]:
            self._go(place)
            if command := _first(pattern, self._turn.admissible or ()):
                self._say(command)
                return

    def _go(self, place: str) -> None:
        if place:
            self._say(f"go to {place}")
            self._say(_first("open ", self._turn.admissible or ()))
            self._seen[place] = self._turn.admissible or ()

    def _say(self, command: str) -> None:
        if command in (self._turn.admissible or ()) and not self._turn.done:
            self._turn = self._env.step(command)
            self.said.append(command)


def _first(pattern: str, commands: Sequence[str]) -> str:
    return next((command for command in commands if re.match(pattern, command)), "")
