"""Games of TextArena by name, alone or against chance: ``textarena:GuessTheNumber-v0``, ``textarena:TicTacToe-v0``.

The agent always has the first seat. Small models seldom keep to a game's format, and most games end at the second move
that does not: ``info["invalid"]`` counts such moves, ``info["reason"]`` says in the game's words how it ended.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import math
import random
import re
import threading
import zlib
from collections.abc import Iterator
from typing import Any

from evolvent.core.errors import BadInput, EnvError, closest
from evolvent.core.protocols import Task, Turn
from evolvent.core.rounding import inside, reaches
from evolvent.envs.text._settings import parse_settings
from evolvent.envs.text._text import TextEnv, check_limit, check_request, need, playing

_WHERE = "envs.textarena.make"
_ONE_AT_A_TIME = threading.Lock()


def make(variant: str = "GuessTheNumber-v0", *, settings: str = "", step_limit: int = 50) -> TextArena:
    """A game of TextArena (Guertler et al., arXiv 2504.11442).

    Args:
        variant: the game's id. As it stands, a situation is everything that was said in the game so far; the package's
            "…-train" form of it leaves out the agent's own moves and all boards but the last, "…-raw" all but what is
            new. Games for two are played against a player that moves at random, which works where the game lists
            the moves that are available (TicTacToe, WildTicTacToe, SimpleTak).
        settings: settings of the game joined by "+", e.g. "max_number=10+max_turns=5".
        step_limit: the agent's moves per attempt, after which it is truncated.

    Raises:
        BadInput: no such game or setting, or a game for more players. MissingExtra: the package is missing.
        EnvError: the game does not start (some need word lists that the package downloads, or a newer Python).
    """
    need("textarena", "textarena", "textarena")
    check_limit(step_limit, 1, _WHERE)
    with _quietly():
        package = importlib.import_module("textarena")
        games = importlib.import_module("textarena.envs.registration").ENV_REGISTRY
    if variant not in games:
        plain = [name for name in games if not name.endswith(("-raw", "-train"))]
        raise BadInput("no such game", got=variant, expected=closest(variant, plain), where=_WHERE)
    options = parse_settings(settings, None, f"{_WHERE}({variant!r}, settings=)")
    where = f"textarena:{variant}"
    try:
        with _quietly():
            world = package.make(variant, **options)
    except TypeError as error:
        raise BadInput("the game refuses its settings", got=settings, expected=str(error), where=where) from error
    except (ImportError, LookupError, OSError, SyntaxError, ValueError) as error:
        raise EnvError("the game does not start", got=str(error).strip()[:200], where=where) from error
    return TextArena(variant, world, step_limit)


class TextArena(TextEnv):
    """One game. The reward is the one that the game pays when it ends, in [-1, 1]; a success is the full 1."""

    instructions = "Play the game. Give one move at a time, in the form that the game asks for.\n\n"
    labels = ("Game", "Move")
    max_tokens = 32
    reward_range = (-1.0, 1.0)

    def __init__(self, name: str, world: Any, limit: int) -> None:
        self.name, self._world, self._limit = f"textarena-{name}", world, limit
        self.conversation = name.endswith("-raw")  # shows only what is new
        self._chance = random.getstate()
        starts = self._seat_players()
        # Where a seed decides how a game starts, the start tells games apart; elsewhere only the seed can.
        self._split_by_start = starts[0] == starts[1] != starts[2]

    def tasks(self, split: str, n: int, seed: int) -> list[Task]:
        """``n`` games by seed, distinguished by their hidden start where there is one: 70 % are for training.

        Of a game with few different starts some are held out, whichever they are.
        """
        check_request(split, n, f"{self.name}.tasks")
        draw = random.Random(f"{self.name}/{split}/{seed}")
        found: dict[str, Task] = {}
        misses, few = 0, self._few_starts()
        while len(found) < n:
            s = draw.randrange(2**31)
            start = self._start(s) if self._split_by_start else str(s)
            training = few[start] if start in few else zlib.crc32(start.encode()) % 10 < 7
            if training == (split == "train") and start not in found:
                found[start], misses = Task(f"{self.name}/{s}", self.instructions.strip(), self.name, split, s), 0
            elif (misses := misses + 1) > 300:
                expected = f"about {len(found)} games that start differently"
                raise BadInput("too many tasks for this game", got=n, expected=expected, where=f"{self.name}.tasks")
        self._turn = None  # the games made here have replaced the one being played
        return list(found.values())

    def reset(self, task: Task, seed: int = 0) -> Turn:
        """Start ``task`` anew; ``seed`` drives the opponent where there is one."""
        self._start(task.seed)
        self._moves = self._invalid = 0
        self._opponent = random.Random(f"{task.id}/{seed}")
        with self._own_chance():
            ended = self._others_move()
        return self._show(ended=ended)

    def step(self, action: str) -> Turn:
        """Make one move; one that the game refuses is counted in ``info["invalid"]``."""
        playing(self._turn, self.name)
        with self._own_chance():
            ended, _ = self._world.step(action)
            state = self._world.state
            refused = getattr(state, "error_count", 0) > 0 and state.current_player_id == 0
            refused = refused or bool(state.game_info[0].get("invalid_move"))
            self._invalid += refused
            ended = ended or self._others_move()
        self._moves += 1
        return self._show(ended=bool(ended), refused=refused)

    def close(self) -> None:
        """Nothing is held."""
        self._turn = None

    def _few_starts(self) -> dict[str, bool]:
        """Whether each start is for training, of a game with few; nothing of one with many."""
        if not self._split_by_start:
            return {}
        starts = sorted({self._start(s) for s in range(60)}, key=lambda start: zlib.crc32(start.encode()))
        n_heldout = max(1, round(0.3 * len(starts)))
        return {start: i >= n_heldout for i, start in enumerate(starts)} if len(starts) <= 20 else {}

    def _seat_players(self) -> list[str]:
        """Find out for how many the game is (it does not say): three starts, by seeds 0, 0 and 1."""
        for players in (1, 2):
            self._players = players
            try:
                starts = [self._start(seed) for seed in (0, 0, 1)]
            except (AssertionError, ValueError):
                continue  # another number of players
            except (AttributeError, LookupError, OSError) as error:
                raise EnvError("the game does not start", got=repr(error)[:200], where=self.name) from error
            if players == 1 or self._listed():
                return starts
        expected = "a game for one, or one for two that lists the available moves"
        raise BadInput("a game that needs other players", got=self.name, expected=expected, where=_WHERE)

    def _start(self, seed: int) -> str:
        """Start a game; everything that is hidden in it, as text."""
        with self._own_chance():
            if hasattr(self._world, "full_observations"):
                self._world.full_observations.clear()  # its wrapper keeps those of the game before
            self._world.reset(num_players=self._players, seed=seed)
        return repr(self._world.state.game_state)

    def _others_move(self) -> bool:
        """Let the other player move until it is the agent's turn; whether the game ended."""
        while self._world.state.current_player_id != 0:
            moves = self._listed()
            if not moves:
                raise EnvError("the game lists no moves for the other player", where=self.name)
            ended, _ = self._world.step(self._opponent.choice(moves))
            if ended:
                return True
        return False

    def _listed(self) -> list[str]:
        _, here, after = self._seen().rpartition("Available Moves:")
        return re.findall(r"\[[^\[\]]+\]", after.split("\n")[0]) if here else []

    def _seen(self) -> str:
        _, seen = self._world.get_observation()
        return seen if isinstance(seen, str) else "\n".join(message for _, message, _ in seen)

    def _show(self, *, ended: bool, refused: bool = False) -> Turn:
        state, reward = self._world.state, 0.0
        info = {"moves": self._moves, "invalid": self._invalid}
        if ended:
            reward = float((state.rewards or {}).get(0, 0.0))
            if math.isnan(earned := inside(reward, -1.0, 1.0)):
                raise EnvError("a reward outside -1 to 1", got=reward, where=self.name)
            reward = earned
            info["reason"] = str(state.game_info[0].get("reason", ""))
            seen = info["reason"] or "The game is over."
        else:
            refusals = [text for _, text in state.logs[-4:] if "invalid move" in text] if refused else []
            seen = self._seen().strip()
            seen += "".join(f"\n{text}" for text in refusals[-1:] if text not in seen)  # some forms leave it out
        cut = not ended and self._moves >= self._limit
        self._turn = Turn(seen, None, reward, terminated=ended, truncated=cut, success=reaches(reward, 1.0), info=info)
        return self._turn

    @contextlib.contextmanager
    def _own_chance(self) -> Iterator[None]:
        """The package draws from Python's global generator: lend it one of this game's own, one game at a time."""
        with _ONE_AT_A_TIME:
            outside = random.getstate()
            random.setstate(self._chance)
            try:
                yield
            finally:
                self._chance = random.getstate()
                random.setstate(outside)


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Without what downloads of word lists tell."""
    with _ONE_AT_A_TIME, contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        yield
