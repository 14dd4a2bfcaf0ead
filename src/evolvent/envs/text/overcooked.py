"""Overcooked: one cook in a 7 × 7 kitchen chops and serves a salad by macro actions, described in text.

Map A with one agent as TWOSOME (Tan et al., arXiv 2401.14151) and POAD (arXiv 2405.15821) use it, written anew:
positions, rewards, what each macro action does and how far one sees are those of the released code, the words are not.
Deviations: an attempt ends at the step limit even in the middle of a macro action; putting down is always called so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from evolvent.core.errors import BadInput
from evolvent.core.protocols import Task, Turn
from evolvent.envs.text._kitchen import BOWL, SUBTASK, WRONG, Kitchen
from evolvent.envs.text._sight import article
from evolvent.envs.text._text import TextEnv, check_limit, known, numbered, playing

STEP = -0.001
# the foods of the room, those of the dish, the number of boards
_DISHES = {
    "tomato-salad": (("tomato",), frozenset({"tomato"}), 1),
    "tomato-lettuce-salad": (("tomato", "lettuce", "onion"), frozenset({"tomato", "lettuce"}), 2),
}
_SHORT = {
    "pick": "pick up the {}",
    "add": "put the {} in the bowl",
    "take": "take the {}",
    "walk": "walk to the {}",
    "put": "put the {} on the {}",
    "serve": "serve {}",
    "chop": "chop {}",
}
_LONG = {
    "pick": "pick up the {} and keep it in your hand",
    "add": "put the {} that has been chopped in the bowl",
    "take": "take the {} and keep it in your hand",
    "walk": "walk from where you are straight over to the {}",
    "put": "put the {} that you hold in your hand on the {}",
    "serve": "serve {} at the counter on the other side of the room",
    "chop": "chop {} on the board that is right in front of you",
}
Macro = Callable[[], Iterator[float]]


def make(
    variant: str = "tomato-salad", *, long: bool = False, radius: int = 2, discount: float = 0.99, step_limit: int = 200
) -> Overcooked:
    """A kitchen and its dish.

    Args:
        variant: "tomato-salad" (five macro actions) or "tomato-lettuce-salad" (eight; the onion is of no use).
        long: commands are sentences of at least eight words.
        radius: how far the cook sees, in cells to each side; 0 = the whole kitchen.
        discount: of the primitive steps inside a macro action, whose reward is their discounted sum.
        step_limit: primitive steps per attempt, after which it is truncated.

    Raises:
        BadInput: no such variant, a negative radius, a discount outside (0, 1], or too few steps to serve anything.
    """
    where = "envs.overcooked.make"
    known(variant, tuple(_DISHES), "variant", where)
    if radius < 0 or not 0.0 < discount <= 1.0:
        expected = "radius ≥ 0, 0 < discount ≤ 1"
        raise BadInput("radius or discount", got=(radius, discount), expected=expected, where=where)
    return Overcooked(variant, _LONG if long else _SHORT, radius, discount, check_limit(step_limit, 28, where))


class Overcooked(TextEnv):
    """One kitchen. A chopped food of the dish +0.2, the dish served +1, anything else served −0.1, a step −0.001.

    A text that is no command costs one primitive step. All tasks are this one.
    """

    def __init__(self, variant: str, phrases: dict[str, str], radius: int, discount: float, step_limit: int) -> None:
        self.name = f"overcooked-{variant}"
        self._dish, self._phrases = _DISHES[variant], phrases
        self._radius, self._discount, self._limit = radius, discount, step_limit
        names = sorted(self._dish[1], reverse=True)
        self._goal = f"Serve a bowl of {' and '.join(f'chopped {name}' for name in names)} and nothing else."
        self.instructions = f"You are a cook. {self._goal} Give one command at a time.\n\n"
        # a food comes back whole after a wrong delivery: 19 steps until it is chopped again, 14 until it is wrong again
        highest = 1.0 + SUBTASK * len(names) * (step_limit // 19 + 1)
        self.reward_range = (WRONG * (step_limit // 14 + 1) + STEP * step_limit, highest)

    def tasks(self, split: str, n: int, seed: int) -> list[Task]:
        """``n`` times the one task, under names that tell the splits apart; ``seed`` changes nothing."""
        return numbered(self.name, self._goal, self.name, split, n)

    def reset(self, task: Task, seed: int = 0) -> Turn:
        """Enter the kitchen with everything in its place. Nothing is random: ``seed`` changes nothing."""
        self._kitchen, self._steps = Kitchen(*self._dish), 0
        return self._show(0.0)

    def step(self, action: str) -> Turn:
        """Carry out one macro action; ``info["steps"]`` are the primitive steps of the attempt so far."""
        playing(self._turn, self.name)
        reward, weight = 0.0, 1.0
        macro = self._offered.get(action.strip())
        for earned in macro() if macro else (0.0,):
            reward += weight * (STEP + earned)
            weight *= self._discount
            self._steps += 1
            if self._steps >= self._limit:
                break
        return self._show(reward)

    def _show(self, reward: float) -> Turn:
        kitchen = self._kitchen
        self._offered = self._commands(kitchen)
        self._turn = Turn(
            self._seen(kitchen),
            tuple(self._offered),
            reward=reward,
            terminated=kitchen.served,
            truncated=not kitchen.served and self._steps >= self._limit,
            success=kitchen.served,
            info={"steps": self._steps},
        )
        return self._turn

    def _commands(self, kitchen: Kitchen) -> dict[str, Macro]:
        say, held = self._phrases, kitchen.held
        found: dict[str, Macro] = {}
        for food in kitchen.foods:
            found[say["add" if held == BOWL else "pick"].format(food)] = lambda food=food: kitchen.get(food)
        found[say["take"].format("bowl" if kitchen.contents else "empty bowl")] = kitchen.get_bowl
        for board in kitchen.boards:
            name = self._board(board)
            command = say["put"].format(held, name) if held else say["walk"].format(name)
            found[command] = lambda board=board: kitchen.go(board)
        found[say["serve"].format("the dish" if held else "nothing")] = kitchen.serve
        food = kitchen.on(kitchen.before()) if kitchen.before() else ""
        raw = food in kitchen.foods and not kitchen.is_chopped(food)
        found[say["chop"].format(f"the {food}" if raw else "nothing")] = kitchen.chop
        return found

    def _seen(self, kitchen: Kitchen) -> str:
        """What is in its own place, on the boards and in the hand, as far as it is in view."""
        tables = [article(item) for item in (*kitchen.foods, BOWL) if kitchen.sees(item, self._radius)]
        lines = [f"In view: {', '.join(tables)}."] if tables else []
        for board in kitchen.boards:
            item = kitchen.on(board)
            if item and kitchen.sees_board(board, self._radius):
                lines.append(f"On the {self._board(board)}: {_thing(kitchen, item)}.")
        lines.append(f"In your hand: {_thing(kitchen, kitchen.held) if kitchen.held else 'nothing'}.")
        if kitchen.before():
            lines.append(f"You stand before the {self._board(kitchen.before())}.")
        return " ".join(lines)

    def _board(self, board: str) -> str:
        if len(self._dish[0]) == 1:
            return "cutting board"
        return "first cutting board" if board == "board 1" else "second cutting board"


def _thing(kitchen: Kitchen, item: str) -> str:
    if item == BOWL:
        inside = " and ".join(f"chopped {food}" for food in kitchen.contents)
        return f"a bowl with {inside}" if inside else "an empty bowl"
    return f"{'a chopped' if kitchen.is_chopped(item) else 'an unchopped'} {item}"
