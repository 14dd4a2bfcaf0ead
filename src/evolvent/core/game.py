"""``Game``: the record of one game in turns; who acted, what each could know, what chance did, what everybody earned.

A *ply* is one choice, by a player or by chance. Players who choose at the same time make plies of one *turn*: none of
them saw the others' choice. What a player knows when choosing is its information state, as text or as tokens: in games
with hidden cards it is less than the record, which holds everything. ``episodes`` gives each player's own view of the
game, so that credit rules and learners read it as any attempt.

The terms are those of extensive-form games, as in OpenSpiel: players are numbered from 0, chance is -1, actions are
numbers, chance's outcomes have probabilities, and rewards are for all players after each ply or only at the end.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, cast

import numpy as np

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.strict_json import escape, plain, unescape

SCHEMA = 1
CHANCE = -1
_LISTS = {"legal", "probs", "context_ids", "token_ids", "logp", "rewards"}


@dataclass(frozen=True)
class Ply:
    """One choice."""

    player: int
    """Who chose; ``CHANCE`` = nobody."""
    turn: int
    """Plies of one turn were chosen at the same time."""
    action: int
    legal: tuple[int, ...]
    """Every action that could be taken, or outcome that could come."""
    probs: tuple[float, ...] = ()
    """Of each of ``legal``: chance's, or those of the policy that chose; empty where not known."""
    text: str = ""
    """The action in words."""
    knows: str = ""
    """What the player knew: its information state."""
    context_ids: tuple[int, ...] = ()
    """The same in tokens, where a language model chose."""
    token_ids: tuple[int, ...] = ()
    """Tokens of the action as sampled, where a language model chose."""
    logp: tuple[float, ...] = ()
    """Their log-probabilities as sampled."""
    rewards: tuple[float, ...] = ()
    """What every player earned after it; empty = nothing."""


class Game:
    """One game, recorded while it is played.

    Args:
        name: of the game, with its settings.
        players: a name for each, in order; those of a population are distinguished by it.
        seed: of the draws.
        id: unique name.
        meta: free JSON values.
    """

    def __init__(
        self, name: str, players: Sequence[str], *, seed: int = 0, id: str = "", meta: Mapping[str, Any] | None = None
    ) -> None:
        if not players:
            raise BadInput("a game without players", got=players, expected="at least one name", where="Game")
        self.name, self.players, self.seed, self.id = name, tuple(players), int(seed), id
        self.meta: dict[str, Any] = plain(dict(meta or {}), "Game(meta=…)")
        self.plies: list[Ply] = []
        self.returns: tuple[float, ...] = ()
        self.terminated = self.truncated = False

    @property
    def ended(self) -> bool:
        """Whether it is over, either way."""
        return self.terminated or self.truncated

    # -------------------------------------------------------------------------------------------------- build
    def chance(self, action: int, outcomes: Sequence[tuple[int, float]], *, text: str = "") -> None:
        """What chance did: one of ``outcomes``, pairs of action and probability, as in OpenSpiel."""
        legal, probs = tuple(int(a) for a, _ in outcomes), tuple(float(p) for _, p in outcomes)
        if not probs:
            raise self._bad("chance without outcomes", got=outcomes)
        self.add(Ply(CHANCE, self._next_turn(), int(action), legal, probs, text))

    def act(
        self,
        player: int,
        action: int,
        legal: Sequence[int],
        *,
        probs: Sequence[float] = (),
        text: str = "",
        knows: str = "",
        tokens: tuple[Sequence[int], Sequence[int], Sequence[float]] = ((), (), ()),
        together: bool = False,
    ) -> None:
        """The choice of a player.

        Args:
            player: its number.
            action: one of ``legal``.
            legal: all actions that it could take.
            probs: of each of ``legal``, by the policy that chose.
            text: the action in words.
            knows: its information state.
            tokens: of a language model: those of its context, of its action, and their log-probabilities.
            together: chosen at the same time as the ply before, by another player.
        """
        if not 0 <= player < len(self.players):
            raise self._bad("no such player", got=player)
        turn = self._next_turn()
        if together:
            turn -= 1
            others = [ply.player for ply in self.plies if ply.turn == turn]
            if not others or CHANCE in others or player in others:
                raise self._bad("nobody else chose at this time", got=others)
        context, ids, logp = tokens
        if len(logp) not in (0, len(ids)):
            raise self._bad("one log-probability a token, or none", got=(len(ids), len(logp)))
        self.add(
            Ply(
                player,
                turn,
                int(action),
                tuple(map(int, legal)),
                tuple(map(float, probs)),
                text,
                knows,
                tuple(map(int, context)),
                tuple(map(int, ids)),
                tuple(map(float, logp)),
            )
        )

    def add(self, ply: Ply) -> None:
        """A ply as it stands; the verbs above fill it in."""
        if self.ended:
            raise self._bad("a ply after the end", got=ply.action)
        if ply.action not in ply.legal or len(set(ply.legal)) != len(ply.legal):
            raise self._bad("the action is not among the legal ones, each once", got=f"{ply.action} of {ply.legal}")
        odds = ply.probs
        taken = odds[ply.legal.index(ply.action)] if len(odds) == len(ply.legal) else 0.0
        if odds and not (taken > 0 and min(odds) >= 0 and abs(math.fsum(odds) - 1) < 1e-6):
            raise self._bad("not probabilities of the legal actions, with some for the one taken", got=odds)
        self.plies.append(ply)

    def reward(self, values: Sequence[float]) -> None:
        """What every player earned after the ply before; more than once adds up."""
        if not self.plies:
            raise self._bad("nothing was done that could be rewarded", got=values)
        before = self.plies[-1].rewards or (0.0,) * len(self.players)
        new = tuple(a + b for a, b in zip(before, self._numbers(values), strict=True))
        self.plies[-1] = replace(self.plies[-1], rewards=new)

    def end(self, returns: Sequence[float] | None = None, *, truncated: bool = False) -> None:
        """Close the game.

        Args:
            returns: what every player earned in all. Where no reward was recorded it follows the last ply; otherwise it
                must be their sum, which is taken where none is given.
            truncated: by a limit, not by the rules.
        """
        if self.ended:
            raise self._bad("the game ended twice", got=self.returns)
        paid = [ply.rewards for ply in self.plies if ply.rewards]
        total = tuple(map(math.fsum, zip(*paid, strict=True))) if paid else (0.0,) * len(self.players)
        if returns is not None:
            given = self._numbers(returns)
            if paid and not np.allclose(given, total, atol=1e-6):
                raise self._bad("returns are not the sum of the rewards", got=f"{given} and {total}")
            if not paid and self.plies and any(given):
                self.reward(given)
            total = given
        self.returns, self.terminated, self.truncated = total, not truncated, truncated

    # --------------------------------------------------------------------------------------------------- read
    def __eq__(self, other: object) -> bool:
        """Equal records; NaN equals NaN."""
        return isinstance(other, Game) and encode_game(self) == encode_game(other)

    __hash__ = None  # type: ignore[assignment]  # mutable

    def _next_turn(self) -> int:
        return self.plies[-1].turn + 1 if self.plies else 0

    def _numbers(self, values: Sequence[float]) -> tuple[float, ...]:
        numbers = tuple(map(float, values))
        if len(numbers) != len(self.players) or not all(map(math.isfinite, numbers)):
            raise self._bad("not one finite number a player", got=numbers)
        return numbers

    def _bad(self, what: str, got: object) -> BadInput:
        return BadInput(what, got=got, where=f"Game {self.name} {self.id}, ply {len(self.plies)}")


def episodes(game: Game) -> list[Episode]:
    """The game as each player saw it, an episode a player: nothing in it but what that player knew.

    A decision begins with the information state, as a context of its own. Its tokens are those that were sampled, or
    one token, the number of the action, chosen among the legal ones. It earns what the player was paid from there up
    to its next decision; rewards before the first decision are added to it. So the total of an episode is the
    player's return. A player who never chose has an episode without decisions, and its return in ``meta``.

    Raises:
        BadInput: the game has not ended.
    """
    if not game.ended:
        raise BadInput("the game has not ended", got=f"{len(game.plies)} plies", where=f"Game {game.name}", do="end()")
    return [_episode(game, player) for player in range(len(game.players))]


def _episode(game: Game, player: int) -> Episode:
    name = game.players[player]
    ep = Episode(
        game.name,
        env=game.name,
        seed=game.seed,
        group=f"{game.name}/{player}",
        id=f"{game.id}.{player}",
        meta={"player": player, "return": game.returns[player], **game.meta},
    )
    early = 0.0
    for ply in game.plies:
        if ply.player == player:
            ep.turn = ply.turn
            ep.observe(ply.knows, agent=name, token_ids=ply.context_ids, parent=-1)
            one = [math.log(ply.probs[ply.legal.index(ply.action)])] if ply.probs else []
            ids, logp = (ply.token_ids, ply.logp) if ply.token_ids else ([ply.action], one)
            ep.act(
                ply.text or str(ply.action),
                agent=name,
                token_ids=np.array(ids, np.int32),
                logp=logp,
                reward=early,
                choices=() if ply.token_ids else [[a] for a in ply.legal],
            )
            early = 0.0
        earned = ply.rewards[player] if ply.rewards else 0.0
        if ep.n_steps:
            ep.add_reward(earned)
        else:
            early += earned
    ep.end(terminated=game.terminated, truncated=game.truncated)
    return ep


def encode_game(game: Game) -> str:
    """One line of strict JSON, without its newline; fields of a ply that say nothing are left out."""
    empty = {field.name: field.default for field in fields(Ply)}
    plies = [{k: v for k, v in asdict(ply).items() if v != empty[k]} for ply in game.plies]
    record = {
        "kind": "game",
        "schema": SCHEMA,
        "id": game.id,
        "name": game.name,
        "players": list(game.players),
        "seed": game.seed,
        "meta": game.meta,
        "plies": plies,
        "returns": list(game.returns),
        "terminated": game.terminated,
        "truncated": game.truncated,
    }
    return json.dumps(escape(plain(record, "encode_game")), ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def decode_game(line: str) -> Game:
    """The inverse of ``encode_game``.

    Raises:
        BadInput: not the line of a game, of a newer schema, or one that breaks a rule of building.
    """
    where = "decode_game"
    try:
        read: Any = unescape(json.loads(line))
    except ValueError as error:
        raise BadInput("line is not JSON", got=line[:120], where=where) from error
    record = cast("dict[str, Any]", read if isinstance(read, dict) else {})
    if record.get("kind") != "game":
        raise BadInput("this is no game", got=line[:120], expected='"kind": "game"', where=where)
    schema = record.get("schema")
    if not isinstance(schema, int) or schema > SCHEMA:
        raise BadInput(
            f"the game was written by a newer version of evolvent: schema {schema}, this one reads up to {SCHEMA}",
            where=where,
            do="upgrade evolvent",
        )
    try:
        game = Game(record["name"], record["players"], seed=record["seed"], id=record["id"], meta=record["meta"])
        for row in cast("list[dict[str, Any]]", record["plies"]):
            lists: dict[str, Any] = {key: tuple(row[key]) for key in _LISTS & row.keys()}
            game.add(Ply(**(row | lists)))
        if record["terminated"] or record["truncated"]:
            game.end(record["returns"], truncated=record["truncated"])
    except (KeyError, TypeError) as error:
        raise BadInput("the record of a game lacks a field, or has another", got=str(error), where=where) from error
    return game
