"""The world of ``household:chores``: several things to heat and wash, one hand, machines with doors."""

from __future__ import annotations

from dataclasses import dataclass, field

from evolvent.envs.text._house import ROOMS, Move, to_rooms


@dataclass
class Chores:
    """Every thing must end up in its machine, and the machines closed.

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
