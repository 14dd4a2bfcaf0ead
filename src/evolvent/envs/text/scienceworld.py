"""ScienceWorld: thirty kinds of elementary-school experiment in a simulated house; variations by number."""

from __future__ import annotations

import random
import re
import zlib
from typing import Any

from evolvent.core.errors import BadInput, EnvError, missing_extra
from evolvent.core.protocols import Task, Turn
from evolvent.core.rounding import reaches
from evolvent.envs.text import _jvm
from evolvent.envs.text._text import TextEnv, check_limit, check_request, flat, playing

_HEAD = "Do the experiment that the goal asks for. Give one command at a time.\n\n"
_IDLE = re.compile(
    r"drop |look|examine|inventory|task|reset|close|eat|flush|wait$|go to .*door|open .*\bdoor"
    r"|mix (inventory|.*\b(door|agent|air)\b)|focus on (sewer|drain|.*\b(door|agent|air|inventory)$)"
)
_MOVES = re.compile(r"move (.+) to (.+)|(?:pour|dunk) (.+) into (.+)|use (.+) on (.+)")


def make(
    task: str = "find-living-thing", simplifications: str = "easy", step_limit: int = 50, all_commands: bool = False
) -> ScienceWorld:
    """ScienceWorld (Wang et al., arXiv 2203.07540).

    Args:
        task: a task's name, several joined by "+", or "all".
        simplifications: "easy" (all of them), "" (none), or names joined by "+": teleportAction, openDoors,
            openContainers, selfWateringFlowerPots, noElectricalAction. Tasks about circuits drop what they cannot have.
        step_limit: commands per attempt, after which it is truncated.
        all_commands: offer every command that the world accepts (up to thousands), not only those that can matter.
            Tasks about circuits keep many hundreds either way: every terminal with every other.

    Raises:
        BadInput: no such task or simplification. MissingExtra: the package or Java is missing.
    """
    check_limit(step_limit, 1, "envs.scienceworld.make")
    try:
        from scienceworld.constants import JAR_PATH
    except ImportError as error:
        raise missing_extra("scienceworld", "envs", "evolvent.envs.text.scienceworld") from error
    root = _jvm.machine(str(JAR_PATH), "evolvent.envs.text.scienceworld")
    server = root.scienceworld.runtime.pythonapi.PythonInterface()
    known = sorted(server.getTaskNames())
    names = known if task == "all" else task.split("+")
    for name in names:
        if name not in known:
            raise BadInput("no such task", got=name, expected=", ".join(known), where="envs.scienceworld.make(task=)")
    possible = server.getPossibleSimplifications().split(", ")
    asked = [part for part in simplifications.split("+") if part]
    for part in asked:
        if part not in (*possible, "easy"):
            expected = ", ".join(["easy", *possible])
            raise BadInput("no such simplification", got=part, expected=expected, where="envs.scienceworld.make")
    chance = getattr(getattr(root.scala.util, "Random$"), "MODULE$")
    return ScienceWorld((server, chance), names, possible if "easy" in asked else asked, step_limit, all_commands)


class ScienceWorld(TextEnv):
    """Experiments. The reward of an attempt is its score in [0, 1], paid as it grows; a failure ends at 0."""

    key_is_state = True

    def __init__(
        self, game: tuple[Any, Any], names: list[str], simplifications: list[str], step_limit: int, all_commands: bool
    ) -> None:
        server, self._chance = game
        self.name, self.instructions = "scienceworld", _HEAD
        self._server, self._names, self._simplifications = server, names, simplifications
        self._limit, self._all = step_limit, all_commands
        self._pools: dict[str, list[tuple[str, int]]] = {}

    def tasks(self, split: str, n: int, seed: int) -> list[Task]:
        """``n`` variations drawn from the package's own split: its training or its test variations."""
        check_request(split, n, "scienceworld.tasks")
        if split not in self._pools:
            server = self._open()
            self._pools[split] = []
            for name in self._names:
                server.load(name, 0, self._settings(name), False)
                found = server.getVariationsTrain() if split == "train" else server.getVariationsTest()
                self._pools[split] += [(name, int(variation)) for variation in found]
            self._turn = None  # loading has replaced the game being played
        pool = self._pools[split]
        if not 0 <= n <= len(pool):
            raise BadInput("too many tasks", got=n, expected=f"at most {len(pool)}", where="scienceworld.tasks")
        chosen = random.Random(f"scienceworld/{split}/{seed}").sample(pool, n)
        return [
            Task(
                f"scienceworld/{name}/{v}", name.replace("-", " "), kind=name, split=split, seed=v, meta={"task": name}
            )
            for name, v in chosen
        ]

    def reset(self, task: Task, seed: int = 0) -> Turn:
        """Start ``task`` anew; ``seed`` drives what happens by chance (animals wander)."""
        server = self._open()
        name = task.meta["task"]
        self._seed, self._moves = f"{task.id}/{seed}", 0
        self._draw_anew()
        server.load(name, task.seed, self._settings(name), False)
        server.reset()
        server.step("look around")  # until a first step the world still reports the outcome of its last game
        self._goal = flat(server.getTaskDescription()).removeprefix("Task Description: ")
        self._score, self._last = 0.0, "none"
        return self._show("")

    def step(self, action: str) -> Turn:
        """Give one command; one that the world does not understand costs a step."""
        server = self._open()
        playing(self._turn, self.name)
        self._moves, self._last = self._moves + 1, action
        self._draw_anew()
        seen = flat(server.step(action))
        return self._show(seen)

    def close(self) -> None:
        """Let go of the game; the Java machine stays for the next environment and ends with the process."""
        self._server = self._turn = None

    def _open(self) -> Any:
        if self._server is None:
            raise EnvError("the environment is closed", where="scienceworld", do="make a new one")
        return self._server

    def _draw_anew(self) -> None:
        """All games of the Java machine draw from one source: seeded before each step, none can disturb another."""
        self._chance.setSeed(zlib.crc32(f"{self._seed}/{self._moves}".encode()))

    def _settings(self, name: str) -> str:
        electrical = "power-component" in name or "conductivity" in name
        return ",".join(s for s in self._simplifications if not (electrical and s == "noElectricalAction"))

    def _show(self, seen: str) -> Turn:
        server = self._open()
        raw = float(server.getScore())
        score = max(0.0, raw)
        reward = score - self._score if self._moves else 0.0  # what the start is worth is paid with the first step
        self._score += reward
        ended = bool(server.getCompleted()) or raw < 0
        look, holding = server.freeActionLook(), flat(server.freeActionInventory())
        commands = sorted(set(server.getValidActionObjectCombinations()))
        useful = tuple(commands) if self._all else _sensible(commands)
        room = re.search(r"(?:called the|called) ([\w ]+)\.", look)
        things = re.findall(r"^\t(?:an? )?([^(,.:\n]+)", look.split("You also see")[0], re.MULTILINE)
        loose = ", ".join(t.strip() for t in things if t.strip() not in ("the agent", "substance called air"))
        self._turn = Turn(
            observation="\n".join(dict.fromkeys(filter(None, (f"Goal: {self._goal}", seen, flat(look), holding)))),
            admissible=useful or tuple(commands),
            reward=reward,
            terminated=ended,
            truncated=not ended and self._moves >= self._limit,
            success=ended and reaches(score, 1.0),
            key=f"Goal: {self._goal[:200]} In the {room.group(1) if room else 'dark'}. Things: {loose or 'none'}. "
            f"{holding} Last: {self._last}.",
            info={"score": raw, "moves": self._moves},
        )
        return self._turn


def _sensible(commands: list[str]) -> tuple[str, ...]:
    """Of thousands of accepted commands those that can matter: no idle ones, and only what is held is moved or used."""
    held = {c.removeprefix("put down ") for c in commands if c.startswith("put down ")}
    places = {c.split(" to ", 1)[1] for c in commands if c.startswith(("go to ", "teleport to "))}
    sensible: list[str] = []
    for command in commands:
        verb, _, rest = command.partition(" ")
        if _IDLE.match(command) or (verb in ("focus", "mix") and rest.removeprefix("on ") in places):
            continue
        if verb == "go" and f"teleport {rest}" in commands:
            continue
        parts = _MOVES.fullmatch(command)
        if parts:
            what, target = (part for part in parts.groups() if part is not None)
            if target in places or target.endswith("inventory") or what not in held:
                continue
        sensible.append(command)
    return tuple(sensible)
