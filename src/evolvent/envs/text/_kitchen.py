"""The kitchen of ``overcooked``: a 7 × 7 grid, one cook, and what each macro action does, step by step."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import cache

Cell = tuple[int, int]
HOME, HAND, BOWL = "home", "hand", "bowl"
BOARDS = ("board 1", "board 2")
CHOPS = 3
SUBTASK, CORRECT, WRONG = 0.2, 1.0, -0.1
# map A: T L O are tomato, lettuce and onion, B the bowl, 1 2 the cutting boards, S where one serves, C the cook
_MAP = ("#####T#", "1...C.L", "2.....O", "S.....#", "#.....#", "#.....#", "#####B#")
_PLACE = {char: (row, col) for row, line in enumerate(_MAP) for col, char in enumerate(line) if char not in "#."}
HOMES = {"tomato": _PLACE["T"], "lettuce": _PLACE["L"], "onion": _PLACE["O"], BOWL: _PLACE["B"]}
_STATIONS = {"board 1": _PLACE["1"], "board 2": _PLACE["2"], "serve": _PLACE["S"]}


@cache
def path(start: Cell, target: Cell) -> tuple[Cell, ...]:
    """The cells walked through from ``start`` to stand beside ``target``, by breadth-first search."""
    ways: deque[tuple[Cell, ...]] = deque([(start,)])
    seen = {start}
    while ways:
        way = ways.popleft()
        row, col = way[-1]
        if abs(row - target[0]) + abs(col - target[1]) == 1:
            return way[1:]
        for cell in ((row, col + 1), (row, col - 1), (row + 1, col), (row - 1, col)):
            if _MAP[cell[0]][cell[1]] in ".C" and cell not in seen:
                seen.add(cell)
                ways.append((*way, cell))
    return ()


class Kitchen:
    """Where everything is. ``place`` says for each food and the bowl: at home, in the hand, in the bowl, on a board.

    A macro action is run by iterating: every item is what one primitive step earned, without the cost of the step.
    """

    def __init__(self, foods: tuple[str, ...], recipe: frozenset[str], n_boards: int) -> None:
        self.foods, self.recipe, self.boards = foods, recipe, BOARDS[:n_boards]
        self.cell: Cell = _PLACE["C"]
        self.place = dict.fromkeys((*foods, BOWL), HOME)
        self.chopped = dict.fromkeys(foods, 0)
        self.served = False

    @property
    def held(self) -> str:
        """What is in the hand, or nothing."""
        return next((item for item, place in self.place.items() if place == HAND), "")

    @property
    def contents(self) -> list[str]:
        """The foods in the bowl."""
        return [food for food in self.foods if self.place[food] == BOWL]

    def on(self, board: str) -> str:
        """What is on ``board``, or nothing."""
        return next((item for item, place in self.place.items() if place == board), "")

    def before(self) -> str:
        """The board one stands before, or nothing."""
        return next((b for b in self.boards if path(self.cell, _STATIONS[b]) == ()), "")

    def is_chopped(self, food: str) -> bool:
        """Whether ``food`` is in pieces."""
        return self.chopped.get(food, 0) >= CHOPS

    def near(self, cell: Cell, radius: int) -> bool:
        """Whether ``cell`` is in view; radius 0 sees everything."""
        return not radius or max(abs(self.cell[0] - cell[0]), abs(self.cell[1] - cell[1])) <= radius

    def sees(self, item: str, radius: int) -> bool:
        """Whether ``item`` is in its own place and in view."""
        return self.place[item] == HOME and self.near(HOMES[item], radius)

    def sees_board(self, board: str, radius: int) -> bool:
        """Whether ``board`` is in view."""
        return self.near(_STATIONS[board], radius)

    # ------------------------------------------------------------------------------------------------ macro actions
    def get(self, food: str) -> Iterator[float]:
        """Fetch a food with the hand, or with the bowl if that is in the hand and the food chopped."""
        place = self.place[food]
        if place in (HAND, BOWL):
            yield 0.0
            return
        moved = yield from self._walk(HOMES[food] if place == HOME else _STATIONS[place])
        if place != HOME and not self.is_chopped(food):  # chopping is another action
            yield from () if moved else (0.0,)
            return
        if not self.held:
            self.place[food] = HAND
        elif self.held == BOWL and self.is_chopped(food):
            self.place[food] = BOWL
        yield 0.0

    def get_bowl(self) -> Iterator[float]:
        """Fetch the bowl; a chopped food in the hand goes into it first."""
        place, held = self.place[BOWL], self.held
        if place == HAND:
            yield 0.0
            return
        yield from self._walk(HOMES[BOWL] if place == HOME else _STATIONS[place])
        if held and self.is_chopped(held):
            self.place[held] = BOWL
            yield 0.0
        if not held or self.is_chopped(held):
            self.place[BOWL] = HAND
        yield 0.0

    def go(self, board: str) -> Iterator[float]:
        """Walk to a board and put down what is in the hand, or bring food and bowl together there."""
        moved = yield from self._walk(_STATIONS[board])
        held, there = self.held, self.on(board)
        if not held:
            yield from () if moved else (0.0,)
            return
        if not there:
            self.place[held] = board
        elif held == BOWL and self.is_chopped(there):
            self.place[there] = BOWL
        elif there == BOWL and self.is_chopped(held):
            self.place[held], self.place[BOWL] = BOWL, HAND
        yield 0.0

    def serve(self) -> Iterator[float]:
        """Walk to the counter and hand over; what is not the dish goes back to where it came from, whole again."""
        moved = yield from self._walk(_STATIONS["serve"])
        held = self.held
        if not held:
            yield from () if moved else (0.0,)
            return
        if held == BOWL and {*self.contents} == self.recipe:
            self.served = True
            yield CORRECT
            return
        for item in (held, *(self.contents if held == BOWL else ())):
            self.place[item] = HOME
            if item in self.chopped:
                self.chopped[item] = 0
        yield WRONG

    def chop(self) -> Iterator[float]:
        """Chop what is on the board one stands before: three strokes, with an empty hand."""
        food = self.on(self.before()) if self.before() else ""
        if food not in self.foods or self.is_chopped(food):
            yield 0.0
            return
        for _ in range(CHOPS):
            self.chopped[food] += not self.held
            yield SUBTASK if self.is_chopped(food) and food in self.recipe else 0.0

    def _walk(self, target: Cell) -> Iterator[float]:
        way = path(self.cell, target)
        for cell in way:
            self.cell = cell
            yield 0.0
        return bool(way)
