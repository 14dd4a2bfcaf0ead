"""TextWorld (Microsoft): quests, cooking, coin collector, treasure hunter; games are generated and compiled by seed."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import random
import re
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evolvent.core.errors import BadInput
from evolvent.core.fetch import cache_dir
from evolvent.core.protocols import Task, Turn
from evolvent.envs.text._text import TextEnv, check_request, flat, need, playing

_SETTINGS: dict[str, dict[str, int]] = {
    "quest": {"rooms": 3, "objects": 6, "quest_length": 3},
    "simple": {},
    "coin_collector": {"level": 5},
    "treasure_hunter": {"level": 5},
    "cooking": {"recipe": 1, "take": 1, "go": 1, "open": 0, "cook": 1, "cut": 0, "drop": 0},
}
_WANTED = ("admissible_commands", "description", "inventory", "objective", "won", "lost", "score", "max_score")
_IDLE = ("examine ", "inventory", "look")
_HEAD = "A text adventure. Give one command at a time until the goal is reached.\n\n"


def make(
    game: str = "cooking", settings: str = "", step_limit: int = 30, all_commands: bool = False, games: int = 0
) -> TextWorld:
    """A family of TextWorld games (Côté et al., arXiv 1806.11532), compiled on first use (about 2 s a game) and kept.

    Args:
        game: "quest", "simple", "coin_collector", "treasure_hunter" or "cooking".
        settings: the game's own settings joined by "+", e.g. "level=3", "rooms=4+objects=8+quest_length=4" or
            "recipe=2+take=2+cut=1" (also go, open, cook, drop).
        step_limit: commands per attempt, after which it is truncated.
        all_commands: also offer look, inventory and examine (the cookbook can always be examined).
        games: different games for training, whatever the seed; 0 = as many as are asked for. Held-out games are others.

    Raises:
        BadInput: no such game or setting. MissingExtra: the package is missing.
    """
    if game not in _SETTINGS:
        raise BadInput("no such game", got=game, expected=", ".join(_SETTINGS), where="envs.textworld.make(game=)")
    merged = dict(_SETTINGS[game])
    for pair in filter(None, settings.split("+")):
        key, _, value = pair.partition("=")
        if key not in merged or not value.isdigit():
            known = "key=number with key of: " + (", ".join(merged) or "none")
            raise BadInput("no such setting", got=pair, expected=known, where=f"envs.textworld.make({game!r})")
        merged[key] = int(value)
    if step_limit < 1 or games < 0:
        got, expected = (step_limit, games), "step_limit ≥ 1, games ≥ 0"
        raise BadInput("step limit or games", got=got, expected=expected, where="envs.textworld.make")
    need("textworld", "textworld", "textworld")
    return TextWorld(game, merged, step_limit, all_commands, games)


class TextWorld(TextEnv):
    """One family of games. The reward of an attempt is its share of the points in [0, 1], paid as it grows.

    A situation says the goal, what the last command brought, the room, what is carried, and what was read.
    """

    key_is_state = True

    def __init__(self, game: str, settings: dict[str, int], step_limit: int, all_commands: bool, games: int) -> None:
        self._games = games
        self.name, self.instructions = f"textworld-{game}", _HEAD
        self._game, self._settings, self._limit, self._all = game, settings, step_limit, all_commands
        self._world: Any = None
        self._playing: Path | None = None

    def tasks(self, split: str, n: int, seed: int) -> list[Task]:
        """``n`` games by seed; held-out seeds start at a million. What a game asks is in its first observation."""
        check_request(split, n, f"{self.name}.tasks")
        first, size = (0, self._games or 1_000_000) if split == "train" else (1_000_000, 1_000_000)
        if n > size:
            raise BadInput("too many tasks", got=n, expected=f"at most games={size}", where=f"{self.name}.tasks")
        seeds = random.Random(f"{self.name}/{split}/{seed}").sample(range(first, first + size), n)
        return [Task(f"{self.name}/{s}", _HEAD.strip(), kind=self._game, split=split, seed=s) for s in seeds]

    def reset(self, task: Task, seed: int = 0) -> Turn:
        """Start ``task`` anew, compiling its game if need be. The world is deterministic: ``seed`` changes nothing."""
        import textworld as tw

        path = _compiled(self._game, self._settings, task.seed)
        with _quietly():
            if path != self._playing or self._world is None:
                self.close()
                wanted = tw.EnvInfos(**dict.fromkeys(_WANTED, True))
                self._world, self._playing = tw.start(str(path), request_infos=wanted), path
            state = self._world.reset()
        self._moves, self._score, self._last, self._read = 0, 0.0, "none", ""
        return self._show(state, "")

    def step(self, action: str) -> Turn:
        """Give one command; one that the game does not understand costs a step."""
        playing(self._turn, self.name)
        state, _, _ = self._world.step(action)
        self._moves, self._last = self._moves + 1, action
        seen = flat(re.split(r"\n\s*>", state.feedback or "")[0])  # the status line is no part of the story
        if action.endswith("cookbook") and action.startswith(("examine", "read")):
            self._read = f" It says: {seen[:300]}"
        return self._show(state, seen)

    def close(self) -> None:
        """End the interpreter of the game being played; compiled games stay in the cache."""
        if self._world is not None:
            self._world.close()
        self._world = self._playing = self._turn = None

    def _show(self, state: Any, seen: str) -> Turn:
        score = max(0.0, state.score / max(1, state.max_score))
        reward, self._score = score - self._score, score
        ended = bool(state.won or state.lost)
        commands = sorted(set(state.admissible_commands))
        useful = tuple(c for c in commands if self._all or c.endswith("cookbook") or not c.startswith(_IDLE))
        room = re.search(r"-= (.+?) =-", state.description or "")
        loose = ", ".join(c[5:] for c in commands if c.startswith("take "))
        holding = flat(state.inventory or "").removeprefix("You are carrying").strip(" .:")
        # each situation says all that a decision needs: a prompt may hold nothing else
        parts = (f"Goal: {flat(state.objective)}", seen, state.description, state.inventory, self._read)
        self._turn = Turn(
            observation="\n".join(dict.fromkeys(filter(None, (flat(text or "") for text in parts)))),
            admissible=useful or tuple(commands),
            reward=reward,
            terminated=ended,
            truncated=not ended and self._moves >= self._limit,
            success=bool(state.won),
            key=f"Goal: {flat(state.objective)[-200:]} In the {room.group(1) if room else 'dark'}. "
            f"Loose things: {loose or 'none'}. Holding: {holding}. Last: {self._last}.{self._read}",
            info={"score": score, "moves": self._moves},
        )
        return self._turn


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Without the interpreter's warning that a generated game is none of its classics."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _compiled(game: str, settings: dict[str, int], seed: int) -> Path:
    """The compiled game, from the cache or made now; it appears there by rename, so never half-written."""
    import textworld as tw

    mark = hashlib.sha256(json.dumps([tw.__version__, game, settings], sort_keys=True).encode()).hexdigest()
    folder = cache_dir() / "textworld" / f"{game}-{mark[:10]}"
    path = folder / f"{seed}.z8"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    options = tw.GameOptions()
    options.seeds = seed
    options.grammar.only_last_action = True  # the goal, not the way to it
    with tempfile.TemporaryDirectory(dir=folder) as scratch, _quietly():
        options.path = f"{scratch}/{seed}.z8"
        if game == "quest":
            options.nb_rooms, options.nb_objects = settings["rooms"], settings["objects"]
            options.quest_length = settings["quest_length"]
            made = tw.generator.make_game(options)
        else:
            challenges = importlib.import_module("textworld.challenges").CHALLENGES
            made = challenges[f"tw-{game}"][1](_arguments(game, settings), options)
        tw.generator.compile_game(made, options)
        for ending in (".json", ".z8"):
            Path(scratch, f"{seed}{ending}").replace(path.with_suffix(ending))
    return path


def _arguments(game: str, settings: dict[str, int]) -> dict[str, Any]:
    if game == "simple":
        return {"rewards": "dense", "goal": "brief", "test": False}
    if game == "cooking":
        flags = {key: bool(settings[key]) for key in ("open", "cook", "cut", "drop")}
        return {**settings, **flags, "split": "train", "recipe_seed": 0}
    return dict(settings)
