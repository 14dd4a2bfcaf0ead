"""Household: heat a pancake, enjoy chips and milk before the TV, or do four chores, by walking, grabbing, opening, ….

The two tasks over four rooms of TWOSOME (Tan et al., arXiv 2401.14151), taken up by POAD (arXiv 2405.15821), written
anew without VirtualHome: the commands, what they need (a free hand, a door that is open, standing up) and the goals are
those of the papers, the words are not. Deviation: what can be done at a place is offered whenever one stands there; the
released rules leave commands out in some situations, so that whoever sits down too early stays there for ever.

``chores`` is ours: four things have to be heated and washed, in 17 commands and more, and held-out tasks are other
ones. Nothing is ever lost there; but doors have to be opened first and shut last.
"""

from __future__ import annotations

import copy
import itertools
import random
import zlib
from collections import deque
from dataclasses import replace

from evolvent.core.errors import BadInput, EnvError
from evolvent.core.protocols import Task, Turn
from evolvent.envs.text._house import ROOMS, Chores, Heating, Leisure, World
from evolvent.envs.text._text import TextEnv, check_limit, check_request, known, playing

ITEMS = {
    "pancake": ("heat", "pancake", "microwave"),
    "cheese": ("heat", "cheese", "microwave"),
    "hamburger": ("heat", "hamburger", "microwave"),
    "apple pie": ("heat", "apple pie", "microwave"),
    "pizza": ("heat", "pizza", "microwave"),
    "washing plate": ("wash", "dishes", "dishwasher"),
    "laundry": ("wash", "clothes", "washing machine"),
}
_SHORT = {
    "walk": "walk to the {}",
    "grab": "grab the {}",
    "put in": "put the {} in the {}",
    "put on": "put the {} on the {}",
    "open": "open the {}",
    "close": "close the {}",
    "switch on": "turn on the {}",
    "switch off": "turn off the {}",
    "sit": "sit on the {}",
    "stand": "stand up from the {}",
}
_LONG = {
    "walk": "walk from where you are straight over to the {}",
    "grab": "grab the {} and keep it in your hand",
    "put in": "put the {} that you have grabbed in the {}",
    "put on": "put the {} that you have grabbed on the {}",
    "open": "open the door of the {} that is beside you",
    "close": "close the door of the {} that is beside you",
    "switch on": "turn on the {} that is right in front of you",
    "switch off": "turn off the {} that is right in front of you",
    "sit": "sit on the {} that is right in front of you",
    "stand": "stand up from the {} that you may be sitting on",
}


def make(
    variant: str = "food",
    *,
    item: str = "",
    rooms: int = 4,
    long: bool = False,
    swap: bool = False,
    step_limit: int = 50,
) -> Household:
    """A household task.

    Args:
        variant: "food" (ten commands), "entertainment" (seventeen), or "chores" (four items of "food" in one task, the
            start in any room, some doors open: 17 to 23 commands at best; 680 tasks with four rooms,
            a quarter of them held out).
        item: of "food": what is heated or washed: "pancake", "cheese", "hamburger", "apple pie", "pizza",
            "washing plate" (dishes in the dishwasher) or "laundry" (clothes in the washing machine).
        rooms: how many of the four can be walked to, kitchen and living room first; fewer are easier ("food" can do
            with the kitchen).
        long: commands are sentences of eight words and more.
        swap: held-out tasks have the other six items of "food" instead of the same one (generalisation).
        step_limit: commands per attempt, after which it is truncated.

    Raises:
        BadInput: no such variant or item, an item where there is no choice, too small a limit.
    """
    where = "envs.household.make"
    known(variant, ("food", "entertainment", "chores"), "variant", where)
    least = 2 if variant == "entertainment" else 1
    if not least <= rooms <= len(ROOMS):
        raise BadInput("number of rooms", got=rooms, expected=f"{least} to {len(ROOMS)}", where=where)
    phrases = _LONG if long else _SHORT
    if variant != "food":
        if item or swap:
            raise BadInput(f"{variant} has no other items", got=item or "swap=true", where=where, do="leave it out")
        made, shortest = (Household, 11) if variant == "entertainment" else (Chored, 23)
        return made(variant, {}, phrases, ROOMS[:rooms], check_limit(step_limit, shortest, where))
    chosen = known(item.lower().replace("_", " ").replace("-", " ") or "pancake", tuple(ITEMS), "item", where)
    others = [name for name in ITEMS if name != chosen]
    splits = {"train": [chosen], "heldout": others if swap else [chosen]}
    return Household("food", splits, phrases, ROOMS[:rooms], check_limit(step_limit, 6, where))


class Household(TextEnv):
    """One of the two tasks. Reward 1 on reaching the goal, nothing before; a text that is no command costs a step.

    The papers log the return with 0.95 a step; rewards here are not discounted.
    """

    instructions = "You keep house. Give one command at a time until the goal is reached.\n\n"

    def __init__(
        self,
        variant: str,
        items: dict[str, list[str]],
        phrases: dict[str, str],
        rooms: tuple[str, ...],
        step_limit: int,
    ) -> None:
        self.name = f"household-{variant}"
        self._items, self._phrases, self._rooms, self._limit = items, phrases, rooms, step_limit
        self._world: World = Leisure()

    def tasks(self, split: str, n: int, seed: int) -> list[Task]:
        """``n`` tasks that differ in their name only, or by turns in the item where there are several."""
        check_request(split, n, f"{self.name}.tasks")
        names = self._items.get(split, [""])
        tasks: list[Task] = []
        for i in range(n):
            item = names[i % len(names)]
            world = _world(item, self._rooms)
            kind = item or "entertainment"
            name, first = (f"{self.name}/{split}/{number}" for number in (i, i % len(names)))
            repeats = first if name != first else ""
            tasks.append(Task(name, world.goal, kind, split, seed=i, meta={"item": item}, repeats=repeats))
        return tasks

    def reset(self, task: Task, seed: int = 0) -> Turn:
        """Stand in the kitchen with nothing done. Nothing is random: ``seed`` changes nothing."""
        if "item" not in task.meta:
            raise BadInput("not a task of this world", got=task.id, expected="one of env.tasks(…)", where=self.name)
        self._world, self._moves = self._start(task), 0
        return self._show()

    def step(self, action: str) -> Turn:
        """Give one command."""
        playing(self._turn, self.name)
        self._moves += 1
        move = self._offered.get(action.strip())
        if move is not None:
            self._world.make(move)
        return self._show()

    def expert(self, task: Task) -> tuple[str, ...]:
        """The fewest commands that reach the goal, of equally few the first that are offered."""
        ways: deque[tuple[World, tuple[str, ...]]] = deque([(self._start(task), ())])
        known = {repr(ways[0][0])}
        while ways:
            world, said = ways.popleft()
            for move in world.moves():
                after, spoken = copy.deepcopy(world), (*said, self._phrases[move[0]].format(*move[1:]))
                after.make(move)
                if after.solved():
                    return spoken
                if repr(after) not in known:
                    known.add(repr(after))
                    ways.append((after, spoken))
        raise EnvError("no way to the goal", got=task.id, where=f"{self.name}.expert")

    def _start(self, task: Task) -> World:
        return _world(task.meta["item"], self._rooms)

    def _show(self) -> Turn:
        world = self._world
        self._offered = {self._phrases[move[0]].format(*move[1:]): move for move in world.moves()}
        solved = world.solved()
        self._turn = Turn(
            f"Goal: {world.goal}. {world.seen()}",
            tuple(self._offered),
            reward=float(solved),
            terminated=solved,
            truncated=not solved and self._moves >= self._limit,
            success=solved,
        )
        return self._turn


class Chored(Household):
    """Four chores. Reward 1 when all are done, nothing before."""

    def tasks(self, split: str, n: int, seed: int) -> list[Task]:
        """``n`` tasks, no two alike while there are so many, then the same once more; those of the splits differ."""
        check_request(split, n, f"{self.name}.tasks")
        every = [task for task in self._every(split) if (zlib.crc32(task.id.encode()) % 4 == 0) == (split == "heldout")]
        random.Random(f"{self.name}/{split}/{seed}").shuffle(every)
        again = (replace(task, id=f"{task.id}/{k}", repeats=task.id) for k in itertools.count(2) for task in every)
        return list(itertools.islice(itertools.chain(every, again), n))

    def expert(self, task: Task) -> tuple[str, ...]:
        """The fewest commands that reach the goal."""
        world, said = self._start(task), list[str]()
        while not world.solved():
            move = world.next_move()
            world.make(move)
            said.append(self._phrases[move[0]].format(*move[1:]))
        return tuple(said)

    def _start(self, task: Task) -> Chores:
        things = {item: (ITEMS[item][0], ITEMS[item][2]) for item in task.meta["things"]}
        return Chores(things, self._rooms, task.meta["room"], list(task.meta["open"]))

    def _every(self, split: str) -> list[Task]:
        """All tasks: four things, a room to begin in, doors that stand open."""
        found = list[Task]()
        for items in itertools.combinations(ITEMS, 4):
            machines = list(dict.fromkeys(ITEMS[item][2] for item in items))
            doors = itertools.chain.from_iterable(itertools.combinations(machines, k) for k in range(len(machines) + 1))
            for opened, room in itertools.product(doors, self._rooms):
                meta = {"item": "", "things": list(items), "room": room, "open": list(opened)}
                name = f"{self.name}/{'+'.join(items)}/{room}/{'+'.join(opened) or 'shut'}"
                task = Task(name, "", "chores", split, meta=meta)
                found.append(replace(task, text=self._start(task).goal))
        return found


def _world(item: str, rooms: tuple[str, ...]) -> World:
    return Heating(*ITEMS[item], rooms) if item else Leisure(rooms)
