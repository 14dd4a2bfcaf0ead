"""The worlds of ``household``: what can be done where, what it needs, what is seen, and the goal."""

from __future__ import annotations

from dataclasses import dataclass, field

ROOMS = ("kitchen", "living room", "bathroom", "bedroom")
_SNACKS, _PLACES = ("chips", "milk"), ("coffee table", "TV", "sofa")
Move = tuple[str, ...]  # a key of the phrases and the names that go into it


@dataclass
class Heating:
    """Food Preparation: the thing must end up in the closed machine. Ten commands, six steps at best."""

    verb: str
    item: str
    machine: str
    rooms: tuple[str, ...] = ROOMS
    room: str = "kitchen"
    near: str = ""
    where: str = "table"
    is_open: bool = False

    @property
    def goal(self) -> str:
        """What is asked."""
        return f"{self.verb} the {self.item} in the {self.machine}"

    def moves(self) -> list[Move]:
        """Walking to the other rooms; in the kitchen also what can be done there."""
        moves = to_rooms(self.room, self.rooms)
        if self.room == "kitchen":
            at_item, at_machine = self.near == self.item, self.near == self.machine
            if self.where == "hand" or (self.where == "table" and not at_item):
                moves.append(("walk", self.item))
            moves += [] if at_machine else [("walk", self.machine)]
            moves += [("grab", self.item)] if self.where == "table" and at_item else []
            if at_machine:
                moves += [("put in", self.item, self.machine)] if self.where == "hand" else []
                moves += [("open", self.machine), ("close", self.machine)]
        return moves

    def make(self, move: Move) -> None:
        """Nothing can be put through a closed door, and what is in the hand need not be walked to."""
        kind, name = move[0], move[1]
        if name in ROOMS:
            self.room, self.near = name, ""
        elif kind == "walk" and not (name == self.item and self.where == "hand"):
            self.near = name
        elif kind == "grab":
            self.where = "hand"
        elif kind == "put in" and self.is_open:
            self.where = "machine"
        elif kind in ("open", "close"):
            self.is_open = kind == "open"

    def seen(self) -> str:
        """The room, what is in it, the door, the hand, what is near."""
        hand = f"You hold the {self.item}." if self.where == "hand" else "You hold nothing."
        if self.room != "kitchen":
            return f"You are in the {self.room}, where nothing is of use. {hand}"
        door = f"the {self.machine}, which is {'open' if self.is_open else 'shut'}"
        what = f"the {self.item} in {door}" if self.where == "machine" else f"the {self.item} and {door}"
        by = f" You are beside the {self.near}." if self.near else ""
        return f"You are in the kitchen and see {what}. {hand}{by}"

    def solved(self) -> bool:
        """In the machine, and the machine closed."""
        return self.where == "machine" and not self.is_open


@dataclass
class Leisure:
    """Entertainment: sit on the sofa before the running TV with both snacks in reach. Seventeen commands, eleven steps.

    Both hands are full after grabbing, and a switch needs a free one: a snack has to go on the coffee table.
    """

    rooms: tuple[str, ...] = ROOMS
    room: str = "kitchen"
    near: str = ""
    where: dict[str, str] = field(default_factory=lambda: dict.fromkeys(_SNACKS, "kitchen"))
    is_on: bool = False
    sits: bool = False

    @property
    def goal(self) -> str:
        """What is asked."""
        return "enjoy the chips and the milk while watching TV"

    def moves(self) -> list[Move]:
        """Walking, and what the place one stands at is for."""
        moves = to_rooms(self.room, self.rooms)
        if self.room == "kitchen":
            left = [snack for snack in _SNACKS if self.where[snack] == "kitchen"]
            moves += [("grab" if self.near == snack else "walk", snack) for snack in left]
        if self.room == "living room":
            moves += [("walk", place) for place in _PLACES if place != self.near]
            if self.near == "coffee table":
                moves += [("put on", snack, "coffee table") for snack in _SNACKS if self.where[snack] == "hand"]
            elif self.near == "TV":
                moves += [("switch on", "TV"), ("switch off", "TV")]
            elif self.near == "sofa":
                moves += [("sit", "sofa"), ("stand", "sofa")]
        return moves

    def make(self, move: Move) -> None:
        """Nobody walks while sitting, and nobody switches with both hands full."""
        kind, name = move[0], move[1]
        if kind == "walk" and not self.sits:
            self.room, self.near = (name, "") if name in ROOMS else (self.room, name)
        elif kind == "grab":
            self.where[name] = "hand"
        elif kind == "put on":
            self.where[name] = "coffee table"
        elif kind in ("switch on", "switch off") and {*self.where.values()} != {"hand"}:
            self.is_on = kind == "switch on"
        elif kind in ("sit", "stand"):
            self.sits = kind == "sit"

    def seen(self) -> str:
        """The room, the snacks, the TV, the hands, what is near."""
        held = " and ".join(f"the {snack}" for snack in _SNACKS if self.where[snack] == "hand") or "nothing"
        left = " and ".join(f"the {snack}" for snack in _SNACKS if self.where[snack] == self.room)
        by = f" You are {'on' if self.sits else 'beside'} the {self.near}." if self.near else ""
        if self.room == "living room":
            on = " and ".join(f"the {snack}" for snack in _SNACKS if self.where[snack] == "coffee table")
            table = f"a coffee table with {on}" if on else "a coffee table"
            left = f"{table}, a sofa and a TV, which is {'on' if self.is_on else 'off'}"
        here = f" and see {left}" if left else ", where nothing is of use"
        return f"You are in the {self.room}{here}. You hold {held}.{by}"

    def solved(self) -> bool:
        """On the sofa, TV running, each snack in the hand or on the coffee table."""
        return self.sits and self.is_on and "kitchen" not in self.where.values()


@dataclass
class Chores:
    """Several things to heat and wash, one hand, machines with doors: each must end up in its machine, doors closed.

    A thing takes four commands (walk to it, grab it, walk to its machine, put it in), a door that is shut two, one that
    stands open one; getting into the kitchen one. Doors are opened on the way and shut at the end: counting what of the
    goal holds already (``done``) gets worse before it gets better.
    """

    things: dict[str, tuple[str, str]]
    """Of each thing what is done to it, and in which machine."""
    rooms: tuple[str, ...] = ROOMS
    room: str = "kitchen"
    open: list[str] = field(default_factory=list[str])
    """Machines whose doors stand open."""
    near: str = ""
    where: dict[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        self.where = self.where or dict.fromkeys(self.things, "table")

    @property
    def machines(self) -> list[str]:
        """Those that something belongs into."""
        return list(dict.fromkeys(machine for _, machine in self.things.values()))

    @property
    def goal(self) -> str:
        """What is asked."""
        parts = (f"{verb} the {thing} in the {machine}" for thing, (verb, machine) in self.things.items())
        return f"{', '.join(parts)}, and leave no door open"

    def moves(self) -> list[Move]:
        """Walking to the other rooms; in the kitchen also what can be done there."""
        moves = to_rooms(self.room, self.rooms)
        if self.room == "kitchen":
            left = [thing for thing, place in self.where.items() if place == "table"]
            moves += [("walk", name) for name in (*left, *self.machines) if name != self.near]
            if self.near in left and self._held() is None:
                moves.append(("grab", self.near))
            held = self._held()
            if held is not None and self.things[held][1] == self.near:
                moves.append(("put in", held, self.near))
            if self.near in self.machines:
                moves += [("open", self.near), ("close", self.near)]
        return moves

    def make(self, move: Move) -> None:
        """Nothing can be put through a closed door."""
        kind, name = move[0], move[1]
        if name in ROOMS:
            self.room, self.near = name, ""
        elif kind == "walk":
            self.near = name
        elif kind == "grab":
            self.where[name] = "hand"
        elif kind == "put in" and move[2] in self.open:
            self.where[name] = move[2]
        elif kind == "open" and name not in self.open:
            self.open.append(name)
        elif kind == "close" and name in self.open:
            self.open.remove(name)

    def next_move(self) -> Move:
        """The first move of a shortest way to the goal, of one machine after the other."""
        if self.room != "kitchen":
            return "walk", "kitchen"
        held, at = self._held(), self.near
        if at in self.open and not self._waiting(at):
            return "close", at
        if held is not None:
            machine = self.things[held][1]
            if at != machine:
                return "walk", machine
            return ("put in", held, at) if at in self.open else ("open", at)
        left = [thing for machine in self.machines for thing in self._waiting(machine)]
        if at in left:
            return "grab", at
        return ("walk", left[0]) if left else ("walk", self.open[0])

    def seen(self) -> str:
        """The room, what is in it, the doors, the hand, what is near."""
        held = self._held()
        hand = f"You hold the {held}." if held else "You hold nothing."
        if self.room != "kitchen":
            return f"You are in the {self.room}, where nothing is of use. {hand}"
        parts = [f"the {thing}" for thing, place in self.where.items() if place == "table"]
        for machine in self.machines:
            inside = " and ".join(f"the {thing}" for thing, place in self.where.items() if place == machine)
            door = f"which is {'open' if machine in self.open else 'shut'}"
            parts.append(f"the {machine}, {door}" + (f", with {inside} in it" if inside else ""))
        by = f" You are beside the {self.near}." if self.near else ""
        return f"You are in the kitchen and see {'; '.join(parts)}. {hand}{by}"

    def done(self) -> float:
        """The share of the goal that holds now: things in their machines, doors that are shut."""
        things = sum(self.where[thing] == machine for thing, (_, machine) in self.things.items())
        shut = len(self.machines) - len(self.open)
        return (things + shut) / (len(self.things) + len(self.machines))

    def solved(self) -> bool:
        """Everything is in its machine, and nothing open."""
        return self.done() == 1.0

    def _held(self) -> str | None:
        return next((thing for thing, place in self.where.items() if place == "hand"), None)

    def _waiting(self, machine: str) -> list[str]:
        return [thing for thing, (_, mine) in self.things.items() if mine == machine and self.where[thing] != machine]


World = Heating | Leisure | Chores
"""A state that names the moves offered, makes one, describes itself and knows its goal."""


def to_rooms(room: str, rooms: tuple[str, ...]) -> list[Move]:
    """Walking to every other room."""
    return [("walk", other) for other in rooms if other != room]
