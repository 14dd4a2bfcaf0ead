"""BabyAI and MiniGrid levels as text, by name: ``babyai:GoToRedBallNoDists``; worlds are drawn by seed.

The agent sees a part of the room (7 × 7 cells before it), so what it reads is what it sees, how far ahead and to which
side, and the mission. There are few different situations, which makes the single rooms learnable by a small model.
"""

from __future__ import annotations

import importlib
import random
import zlib
from typing import Any

import numpy as np

from evolvent.core.errors import BadInput, closest
from evolvent.core.protocols import Task, Turn
from evolvent.envs.text._sight import article, sight
from evolvent.envs.text._text import TextEnv, check_limit, check_request, need, playing

_LEFT, _RIGHT, _FORWARD, _PICK, _DROP, _TOGGLE, _NOTHING = range(7)
_SHORT = ("turn left", "turn right", "go forward", "pick up", "drop", "toggle")
_LONG = (
    "turn to the left where you stand by a quarter of a circle",
    "turn to the right where you stand by a quarter of a circle",
    "go forward by one step in the direction that you are facing",
    "pick up the thing that is right in front of you",
    "put down the thing that you carry on the free spot in front of you",
    "open or close the thing that is right in front of you",
)
_HEAD = "You are in a room and see what lies before you. Say one command at a time until the mission is done.\n\n"


def make(variant: str = "GoToRedBallNoDists", *, long: bool = False, step_limit: int = 0) -> BabyAI:
    """A level of BabyAI (Chevalier-Boisvert et al., arXiv 1810.08272) or MiniGrid (arXiv 2306.13831).

    Args:
        variant: the level's name without "BabyAI-" and version, e.g. "GoToObj", "GoToLocalS5N2", "PickupLoc"; levels
            of MiniGrid with their prefix, e.g. "MiniGrid-Empty-5x5". Levels with several rooms work, but what was seen
            earlier is not repeated.
        long: commands are sentences of at least eight words.
        step_limit: commands per attempt, after which it is truncated; 0 = 20 where the task is to go to something in
            a single room, the level's own elsewhere.

    Raises:
        BadInput: no such level; names the closest. MissingExtra: the package is missing.
    """
    need("minigrid", "language", "babyai")
    check_limit(step_limit, 0, "envs.babyai.make")
    import gymnasium
    import minigrid  # noqa: F401  (names its levels to gymnasium)

    # the package prints which drawn worlds it rejects; redirecting stdout would take it from other threads too
    vars(importlib.import_module("minigrid.envs.babyai.core.roomgrid_level"))["print"] = lambda *_: None
    ids = sorted(name for name in gymnasium.registry if name.startswith(("BabyAI-", "MiniGrid-")))
    names = {name.removeprefix("BabyAI-").rsplit("-v", 1)[0]: name for name in ids}  # the last version of each
    if variant not in names:
        raise BadInput("no such level", got=variant, expected=closest(variant, list(names)), where="envs.babyai.make")
    world: Any = gymnasium.make(names[variant], disable_env_checker=True).unwrapped
    return BabyAI(variant, world, _LONG if long else _SHORT, step_limit)


class BabyAI(TextEnv):
    """One level. An attempt that fulfils its mission is worth 1, any other 0."""

    def __init__(self, level: str, world: Any, commands: tuple[str, ...], limit: int) -> None:
        self.name, self.instructions = f"babyai-{level}", _HEAD
        self._level, self._world, self._commands, self._given_limit = level, world, commands, limit

    def tasks(self, split: str, n: int, seed: int) -> list[Task]:
        """``n`` worlds that start differently.

        A small room repeats under many seeds, so the splits are distinguished by how a world starts: 70 % of the starts
        are for training, and the id of a task is that start.
        """
        check_request(split, n, f"{self.name}.tasks")
        draw = random.Random(f"{self.name}/{split}/{seed}")
        found: dict[str, Task] = {}
        misses = 0
        while len(found) < n:
            s = draw.randrange(2**31)
            self._build(s)
            start = self._start()
            if (zlib.crc32(start.encode()) % 10 < 7) == (split == "train") and start not in found:
                mission = self._world.mission
                found[start], misses = Task(f"{self.name}/{start}", mission, self._level, split, s), 0
            elif (misses := misses + 1) > 300:
                expected = f"about {len(found)} worlds that start differently"
                raise BadInput("too many tasks for this level", got=n, expected=expected, where=f"{self.name}.tasks")
        self._turn = None  # the worlds made here have replaced the one being played
        return list(found.values())

    def reset(self, task: Task, seed: int = 0) -> Turn:
        """Build the world of ``task`` anew. What happens in it follows from the task: ``seed`` changes nothing."""
        seen = self._build(task.seed)
        single_room = getattr(self._world, "num_rows", 0) * getattr(self._world, "num_cols", 0) == 1
        own = 20 if single_room and self._level.startswith("GoTo") else self._world.max_steps
        self._limit, self._moves = self._given_limit or own, 0
        self._world.max_steps = 1 << 30  # the limit is kept here
        self._hands, self._tools = _needs(self._world)
        return self._show(seen, 0.0, ended=False)

    def step(self, action: str) -> Turn:
        """Give one command; one that the world does not know passes a step."""
        playing(self._turn, self.name)
        move = self._commands.index(action) if action in self._commands else _NOTHING
        seen, reward, ended, _, _ = self._world.step(move)
        self._moves += 1
        return self._show(seen["image"], float(reward > 0), ended=bool(ended))

    def close(self) -> None:
        """Let go of the world."""
        self._world.close()
        self._turn = None

    def _build(self, seed: int) -> np.ndarray:
        return self._world.reset(seed=seed)[0]["image"]

    def _start(self) -> str:
        held = self._world.carrying
        holding = f"{held.color} {held.type}" if held else ""
        return f"{self._world.hash()}{zlib.crc32((self._world.mission + holding).encode()):08x}"

    def _show(self, seen: np.ndarray, reward: float, *, ended: bool) -> Turn:
        lines = [f"Mission: {self._world.mission}.", *sight(seen)]
        if self._hands:
            held = self._world.carrying
            lines.append(f"You carry {article(f'{held.color} {held.type}') if held else 'nothing'}.")
        self._turn = Turn(
            observation="\n".join(lines),
            admissible=tuple(self._commands[move] for move in self._possible()),
            reward=reward,
            terminated=ended,
            truncated=not ended and self._moves >= self._limit,
            success=reward > 0,
            info={"moves": self._moves},
        )
        return self._turn

    def _possible(self) -> list[int]:
        """The moves, and what hands can do with the cell in front."""
        front, held = self._world.grid.get(*self._world.front_pos), self._world.carrying
        can = [_LEFT, _RIGHT, _FORWARD]
        if self._hands and not held and front is not None and front.can_pickup():
            can.append(_PICK)
        if self._hands and held and front is None:
            can.append(_DROP)
        if front is not None and front.type in self._tools:
            can.append(_TOGGLE)
        return can


def _needs(world: Any) -> tuple[bool, tuple[str, ...]]:
    """Whether the level needs hands, and which kinds of thing are worth toggling (a box is destroyed by it)."""
    kinds = _kinds(getattr(world, "instrs", None)) or {"PickupInstr"}  # MiniGrid's own levels do not say
    things = [thing for thing in world.grid.grid if thing is not None]
    doors = [thing for thing in things if thing.type == "door"]
    full = any(thing.type == "box" and thing.contains is not None for thing in things)
    hands = bool(kinds & {"PickupInstr", "PutNextInstr"}) or any(door.is_locked for door in doors)
    return hands, (("door",) if doors else ()) + (("box",) if full else ())


def _kinds(instruction: Any) -> set[str]:
    if instruction is None:
        return set()
    parts = [getattr(instruction, part) for part in ("instr_a", "instr_b") if hasattr(instruction, part)]
    return set().union(*map(_kinds, parts)) if parts else {type(instruction).__name__}
