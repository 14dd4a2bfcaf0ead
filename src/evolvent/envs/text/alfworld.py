"""ALFWorld household tasks: six types of text game, generated from the rules and floor plans in its package."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import json
import random
import re
import runpy
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evolvent.core.errors import BadInput, EnvError, missing_extra
from evolvent.core.protocols import Task, Turn
from evolvent.envs.text._text import TextEnv, check_limit, check_request, playing

KINDS = {
    "pick": "pick_and_place_simple",
    "look": "look_at_obj_in_light",
    "clean": "pick_clean_then_place_in_recep",
    "heat": "pick_heat_then_place_in_recep",
    "cool": "pick_cool_then_place_in_recep",
    "two": "pick_two_obj_and_place",
}
_KITCHEN, _LIVING, _BED, _BATH = 0, 200, 300, 400  # floor plans 1-30, 201-230, 301-330, 401-430
_ROOMS = {
    "pick": (_KITCHEN, _LIVING, _BED, _BATH),
    "look": (_LIVING, _BED),
    "clean": (_KITCHEN, _BATH),
    "heat": (_KITCHEN,),
    "cool": (_KITCHEN,),
    "two": (_KITCHEN, _LIVING, _BED, _BATH),
}
_NEEDS = {"clean": ("Cleanable", "SinkBasin"), "heat": ("Heatable", "Microwave"), "cool": ("Coolable", "Fridge")}
_STATION = {"clean": "sinkbasin|bathtubbasin", "heat": "microwave", "cool": "fridge"}
_SEVERAL = {"StoveBurner": 4}
_LAMP_STANDS = ("Desk", "SideTable", "Dresser", "Shelf")
_IDLE = ("close ", "examine ", "inventory", "look", "help")
_HEAD = "You are in a house. Give one command at a time until the task is done.\n\n"


def make(kinds: str = "all", step_limit: int = 50, all_commands: bool = False) -> AlfWorld:
    """Text games by the rules of ALFWorld (Shridhar et al., arXiv 2010.03768).

    These are not the released games, which have to be downloaded: they are drawn by seed from the package's own
    rules, grammar, goals and lists of what each floor plan holds, with every thing in a random place that may hold it.
    Held-out tasks are in other rooms than training tasks (the package's test floor plans). The first attempt at a
    game takes a second or two while the planner reads it.

    Args:
        kinds: "all", or some of pick, look, clean, heat, cool, two joined by "+".
        step_limit: commands per attempt, after which it is truncated.
        all_commands: also offer look, inventory, examine, close and help.

    Raises:
        BadInput: no such kind. MissingExtra: a package is missing.
    """
    chosen = list(KINDS) if kinds == "all" else kinds.split("+")
    for kind in chosen:
        if kind not in KINDS:
            raise BadInput("no such kind of task", got=kind, expected=", ".join(KINDS), where="envs.alfworld.make")
    check_limit(step_limit, 1, "envs.alfworld.make")
    # the rules and floor plans, TextWorld, and the planner that runs the rules
    if not all(map(importlib.util.find_spec, ("alfworld", "textworld", "fast_downward"))):
        raise missing_extra("alfworld", "alfworld", "evolvent.envs.text.alfworld")
    return AlfWorld(chosen, step_limit, all_commands)


class AlfWorld(TextEnv):
    """Household tasks. The reward of an attempt is 1 when its task is done, else 0."""

    name = "alfworld"
    instructions = _HEAD
    key_is_state = True

    def __init__(self, kinds: list[str], step_limit: int, all_commands: bool) -> None:
        self._kinds, self._limit, self._all = kinds, step_limit, all_commands
        self._world: Any = None

    def tasks(self, split: str, n: int, seed: int) -> list[Task]:
        """``n`` tasks, the kinds in turn; train and held-out tasks play in different floor plans."""
        check_request(split, n, "alfworld.tasks")
        draw = random.Random(f"alfworld/{split}/{seed}")
        found: list[Task] = []
        for _ in range(100 * n):  # about one draw in three is of a floor plan that has such a task
            if len(found) == n:
                break
            kind = self._kinds[len(found) % len(self._kinds)]
            s = draw.randrange(1_000_000) + (0 if split == "train" else 1_000_000)
            made = _problem(kind, split, s)
            if made is not None:
                found.append(Task(f"alfworld/{kind}/{s}", made[1], kind, split, s, {"kind": kind, "split": split}))
        if len(found) != n:
            raise EnvError(
                "the floor plans offer too few such tasks", got=len(found), expected=n, where="alfworld.tasks"
            )
        return found

    def reset(self, task: Task, seed: int = 0) -> Turn:
        """Start ``task`` anew. The world is deterministic: ``seed`` changes nothing."""
        from textworld.core import EnvInfos
        from textworld.envs import PddlEnv

        made = _problem(task.meta["kind"], task.meta["split"], task.seed)
        if made is None:
            raise BadInput("this seed gives no such task", got=task.id, where="alfworld.reset", do="use tasks()")
        problem, goal, _ = made
        root = _root()
        grammar = (root / "data" / "alfred.twl2").read_text().replace("UNKNOWN GOAL", goal)
        rules = (root / "data" / "alfred.pddl").read_text()
        if self._world is None:
            self._world = PddlEnv(EnvInfos(admissible_commands=True, won=True))
        world = self._world
        with _translating_once():
            world.load({"pddl_domain": rules, "grammar": grammar, "pddl_problem": problem})
        for thing in world._entity_infos.values():
            thing.name = thing.id.replace("__", " ")
        self._goal = goal
        self._moves, self._last, self._place, self._holding = 0, "none", "the middle of the room", "nothing"
        with _translating_once():
            state = world.reset()
        return self._show(state, state.feedback.split("\n\n", 1)[-1])

    def step(self, action: str) -> Turn:
        """Give one command; one that is not admissible does nothing and costs a step."""
        playing(self._turn, self.name)
        state, _, _ = self._world.step(action)
        self._moves, self._last = self._moves + 1, action
        if went := re.fullmatch(r"go to (.+)", action):
            self._place = went.group(1)
        if took := re.match(r"You pick up the (.+) from ", state.feedback):
            self._holding = took.group(1)
        elif state.feedback.startswith("You move "):
            self._holding = "nothing"
        return self._show(state, state.feedback)

    def expert(self, task: Task) -> tuple[str, ...]:
        """The commands of one who looks for things where they may be, and knows no more than is seen."""
        turn = self.reset(task)
        made = _problem(task.meta["kind"], task.meta["split"], task.seed)
        assert made is not None
        constants, goal = _tables()[0], made[2]
        doors, holds = constants["OPENABLE_CLASS_SET"], constants["VAL_RECEPTACLE_OBJECTS"]
        likely = sorted((place for place, things in holds.items() if goal["obj"] in things), key=doors.__contains__)
        return _walk(self, turn, task.meta["kind"], goal, (likely, list(_LAMP_STANDS)))

    def close(self) -> None:
        """Let go of the game being played."""
        self._world = self._turn = None

    def _show(self, state: Any, seen: str) -> Turn:
        won = bool(state["won"])
        commands = state["admissible_commands"]
        useful = tuple(c for c in commands if self._all or not c.startswith(_IDLE))
        loose = ", ".join(c[5:].split(" from ")[0] for c in commands if c.startswith("take "))
        self._turn = Turn(
            observation=f"Task: {self._goal}\n{' '.join(seen.split())}\nAt {self._place}. Holding: {self._holding}.",
            admissible=useful or tuple(commands),
            reward=float(won),
            terminated=won,
            truncated=not won and self._moves >= self._limit,
            success=won,
            key=f"Task: {self._goal}. At {self._place}. Loose things: {loose or 'none seen'}. "
            f"Holding: {self._holding}. Last: {self._last}.",
            info={"score": float(won), "moves": self._moves},
        )
        return self._turn


@contextlib.contextmanager
def _translating_once() -> Iterator[None]:
    """TextWorld has each game translated four times, by code that overwrites ``sys.argv``: once, and put it back."""
    import fast_downward

    original, arguments = fast_downward.pddl2sas, sys.argv

    def remembered(domain: str, problem: str, verbose: bool = False, optimize: bool = False) -> Any:
        return _translated(domain, problem)

    fast_downward.pddl2sas = remembered
    try:
        yield
    finally:
        fast_downward.pddl2sas, sys.argv = original, arguments


@functools.lru_cache(maxsize=128)
def _translated(domain: str, problem: str) -> Any:
    from fast_downward.interface import pddl2sas

    return pddl2sas(domain, problem)


def _root() -> Path:
    spec = importlib.util.find_spec("alfworld")  # not imported: its import makes folders in the user's home
    if spec is None or not spec.submodule_search_locations:
        raise missing_extra("alfworld", "alfworld", "evolvent.envs.text.alfworld")
    return Path(spec.submodule_search_locations[0])


@functools.cache
def _tables() -> tuple[dict[str, Any], dict[str, Any]]:
    gen = _root() / "gen"
    return runpy.run_path(str(gen / "constants.py")), runpy.run_path(str(gen / "goal_library.py"))["gdict"]


@functools.cache
def _plan(number: int) -> tuple[tuple[tuple[str, str], ...], tuple[str, ...]]:
    """What a floor plan holds: fixed receptacles as (name, type), and the types of its movable things."""
    constants, _ = _tables()
    layouts = _root() / "gen" / "layouts"
    listed = json.loads((layouts / f"FloorPlan{number}-objects.json").read_text())
    placed: list[str] = [
        key.split("|")[0] for key in json.loads((layouts / f"FloorPlan{number}-openable.json").read_text())
    ]
    basins = {"Sink": "SinkBasin", "Bathtub": "BathtubBasin"}
    types: list[str] = [basins.get(kind, kind) for kind in placed]
    fixed = set(constants["VAL_RECEPTACLE_OBJECTS"]) - set(constants["MOVABLE_RECEPTACLES"])
    types = [kind for kind in types if kind in fixed]
    for kind in sorted(fixed & set(listed) - set(types)):
        types += [kind] * _SEVERAL.get(kind, 1)
    names = tuple((f"{kind.lower()}__{types[: i + 1].count(kind)}", kind) for i, kind in enumerate(types))
    movable = tuple(sorted(set(listed) & set(constants["OBJECTS_SET"]) - fixed))
    return names, movable


def _problem(kind: str, split: str, seed: int) -> tuple[str, str, dict[str, str]] | None:
    """The PDDL problem, the goal in words and by its parts, or ``None`` where this floor plan offers no such task."""
    draw = random.Random(f"alfworld/{kind}/{seed}")
    constants, goals = _tables()
    scenes = constants["TRAIN_SCENE_NUMBERS" if split == "train" else "TEST_SCENE_NUMBERS"]
    fixed, movable = _plan(draw.choice([s for s in scenes if s // 100 * 100 in _ROOMS[kind]]))
    holds = {place: constants["VAL_RECEPTACLE_OBJECTS"][place] for _, place in fixed}
    things: list[tuple[str, str, str, str]] = []  # name, type, receptacle, its type
    for thing in movable:
        homes = [place for place in fixed if thing in holds[place[1]]]
        if thing == "DeskLamp":  # never carried, so the table of what may hold what leaves it out
            homes = [place for place in fixed if place[1] in _LAMP_STANDS]
        for i in range(draw.randint(1, 3) if homes and thing != "DeskLamp" else min(1, len(homes))):
            things.append((f"{thing.lower()}__{i + 1}", thing, *draw.choice(homes)))
    goal = _choose_goal(kind, fixed, things, holds, draw)
    if goal is None:
        return None
    goal_text = draw.choice(goals[KINDS[kind]]["templates"]).format(**{k: v.lower() for k, v in goal.items()})
    target = goals[KINDS[kind]]["pddl"].format(**goal).replace("#", "-")
    return _pddl(fixed, things, target), goal_text, goal


def _choose_goal(
    kind: str,
    fixed: tuple[tuple[str, str], ...],
    things: list[tuple[str, str, str, str]],
    holds: dict[str, set[str]],
    draw: random.Random,
) -> dict[str, str] | None:
    """A goal that can be reached and is not met at the start."""
    constants, _ = _tables()
    able, station = _NEEDS.get(kind, ("", ""))
    places = sorted({place for _, place in fixed})
    if (station and station not in places) or (kind == "look" and not any(t[1] == "DeskLamp" for t in things)):
        return None
    options: list[dict[str, str]] = []
    for thing in sorted({t[1] for t in things} - {"DeskLamp"}):
        where = [t[3] for t in things if t[1] == thing]
        if able and thing not in constants["VAL_ACTION_OBJECTS"][able]:
            continue
        if kind == "look":
            options.append({"obj": thing, "toggle": "DeskLamp", "recep": ""})
        elif kind != "two" or len(where) >= 2:
            options += [
                {"obj": thing, "recep": place, "toggle": ""}
                for place in places
                if thing in holds[place] and place not in where and place != station
            ]
    return draw.choice(options) if options else None


def _pddl(fixed: tuple[tuple[str, str], ...], things: list[tuple[str, str, str, str]], goal: str) -> str:
    constants, _ = _tables()
    movable_types = sorted(constants["OBJECTS_SET"])
    fixed_types = sorted(set(constants["RECEPTACLES"]) - set(constants["MOVABLE_RECEPTACLES"]))
    lines = ["(define (problem household) (:domain alfred) (:objects agent1 - agent"]
    lines += [f"{name} - receptacle at_{name} - location" for name, _ in fixed]
    lines += ["at_start - location", *(f"{name} - object" for name, *_ in things)]
    lines += [f"{kind}Type - rtype" for kind in fixed_types]
    lines += [f"{kind}Type - otype" for kind in movable_types if kind not in fixed_types]
    lines += [") (:init (= (total-cost) 0) (atLocation agent1 at_start)"]
    for name, kind in fixed:
        lines.append(f"(receptacleAtLocation {name} at_{name}) (receptacleType {name} {kind}Type)")
        if kind in constants["OPENABLE_CLASS_SET"]:
            lines.append(f"(openable {name})")
    for place in sorted({kind for _, kind in fixed}):
        allowed = sorted(constants["VAL_RECEPTACLE_OBJECTS"][place] & {t[1] for t in things})
        lines += [f"(canContain {place}Type {thing}Type)" for thing in allowed]
    for name, kind, home, _ in things:
        lines.append(f"(objectType {name} {kind}Type) (inReceptacle {name} {home}) (objectAtLocation {name} at_{home})")
        if kind == "DeskLamp":
            lines.append(f"(toggleable {name})")
        else:
            lines.append(f"(pickupable {name})")
        for able in ("Cleanable", "Heatable", "Coolable", "Sliceable"):
            if kind in constants["VAL_ACTION_OBJECTS"][able]:
                lines.append(f"({able.lower()} {name})")
    lines.append(")")
    return "\n".join(lines) + goal


# ------------------------------------------------------------------------------------------------ the expert
def _walk(
    env: Any, turn: Turn, kind: str, goal: Mapping[str, str], likely: tuple[Sequence[str], Sequence[str]]
) -> tuple[str, ...]:
    """Play a game to its end, knowing no more than is seen; the commands that were given.

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
