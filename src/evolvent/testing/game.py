"""``check_game``: a game in turns proves that it keeps the promises of ``evolvent.core.turns.GameEnv``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from evolvent.core.errors import BadInput
from evolvent.core.game import decode_game, encode_game, episodes
from evolvent.core.match import play_match
from evolvent.core.protocols import members
from evolvent.core.turns import GameEnv, GameFrame, GameSpec, seed_below, uniform, uniform_policy
from evolvent.envs.promises import Promise

_DTYPES = {"acts_BP": np.bool_, "info_BPD": np.float32, "legal_BPN": np.bool_}
_DTYPES |= {"reward_BP": np.float32, "ended_B": np.bool_}


@dataclass
class _Course:
    """One game: what was shown, copied, what was done in each step, and what chance did."""

    frames: list[tuple[np.ndarray, ...]] = field(default_factory=list)
    actions: list[list[int]] = field(default_factory=list)
    chance: list[int] = field(default_factory=list)

    def same(self, other: _Course) -> bool:
        return (self.actions, self.chance, len(self.frames)) == (
            other.actions,
            other.chance,
            len(other.frames),
        ) and all(
            np.array_equal(a, b)
            for x, y in zip(self.frames, other.frames, strict=True)
            for a, b in zip(x, y, strict=True)
        )


def check_game(make: Callable[[int], GameEnv], *, n_envs: int = 4, games: int = 100, seed: int = 0) -> list[str]:
    """Check a game with random moves and return the names of the checks it passed.

    Args:
        make: gives ``n_envs`` copies; called twice. Both are closed.
        n_envs: B.
        games: to play, from different seeds; rounded up to a multiple of B.
        seed: of the games and of the moves.

    Checked: attributes; shapes, dtypes and finite values; who moves has a move, others show nothing; illegal moves are
    refused, named, and move nothing; games end in time and then stand still; steps and resets in some copies leave the
    others alone; a seed gives the same game in any copy; seeds differ where there is chance; rewards sum to 0 and a
    player's information tells all that it knew and did before, where that is claimed; the record of a match comes back.

    Raises:
        BadInput: the first promise that is broken, with what was seen.
    """
    env = make(n_envs)
    missing = [name for name in members(GameEnv) if not hasattr(env, name)]
    promise = Promise(f"game {getattr(env, 'name', type(env).__name__)}")
    promise.holds(not missing, "members of the protocol are missing", missing, ", ".join(members(GameEnv)))
    seeds = seed_below(np.full(-(-games // n_envs) * n_envs, seed), np.arange(-(-games // n_envs) * n_envs))
    done = ["attributes", "frames", "refuses", "some copies", "same seed", "record"]
    try:
        _attributes(env, n_envs, promise)
        first = _play(env, seeds, promise, tease=True)
        _some_copies(env, seeds[:n_envs], promise)
        second = make(n_envs)
        try:
            again = _play(second, seeds[::-1], promise, tease=False)[::-1]
        finally:
            second.close()
        for one, other, its_seed in zip(first, again, seeds.tolist(), strict=True):
            promise.holds(one.same(other), "the same seed gives another game in another copy", f"seed {its_seed}")
        most = max((course.chance for course in first), key=len)
        begins = len({course.frames[0][1].tobytes() for course in first})
        if most or begins > 1:
            differ = any(a != b for course in first for a, b in zip(most, course.chance, strict=False))
            promise.holds(differ or begins > 1, "chance does the same for every seed", most)
            done.append("seeds differ")
        if env.game.zero_sum:
            sums = [float(sum(frame[3].sum(dtype=np.float64) for frame in course.frames)) for course in first]
            promise.holds(np.abs(sums).max() < 1e-4, "rewards do not sum to 0", max(sums, key=abs), 0)
            done.append("zero sum")
        if env.game.perfect_recall:
            _recall(first, promise)
            done.append("perfect recall")
        _record(env, seeds, promise)
    finally:
        env.close()
    return done


def _attributes(env: GameEnv, n_envs: int, promise: Promise) -> None:
    promise.holds(env.n_envs == n_envs, "n_envs is not the number asked for", env.n_envs, n_envs)
    fits = isinstance(env.game, GameSpec) and isinstance(env.name, str) and bool(env.name)
    promise.holds(fits, "name or game", (env.name, env.game), "a word, and an evolvent.core.turns.GameSpec")
    sizes = (env.game.players, env.game.actions, env.game.info_dim, env.game.max_steps)
    promise.holds(min(sizes) > 0, "sizes of the game", sizes, "players, actions, info_dim and max_steps of at least 1")


def _play(env: GameEnv, seeds: np.ndarray, promise: Promise, *, tease: bool) -> list[_Course]:
    """A random game for each seed, B at a time; ``tease`` tries illegal moves on the way."""
    courses, b, shape = [_Course() for _ in seeds], env.n_envs, (env.game.players, env.game.actions)
    for first in range(0, len(seeds), b):
        seed_B, now = seeds[first : first + b], courses[first : first + b]
        frame = promise.called("reset", lambda seed_B=seed_B: env.reset(seed_B))
        over_B = np.zeros(b, np.bool_)
        for step in range(env.game.max_steps + 1):
            _frame(env, frame, over_B, promise, started=step == 0)
            for copy in np.flatnonzero(~over_B).tolist():
                now[copy].frames.append(tuple(getattr(frame, name)[copy].copy() for name in _DTYPES))
                now[copy].chance += [outcome for outcome, _ in env.chance(copy)]
            over_B = frame.ended_B.copy()
            if over_B.all():
                break
            if tease:
                _refuses(env, frame, promise, shapes=step == 0)
            draw_BPN = uniform(seed_B[:, None, None], 1, step, np.arange(shape[0] * shape[1]).reshape(shape))
            action_BP = np.where(frame.legal_BPN, draw_BPN, -1).argmax(axis=2)
            for copy in np.flatnonzero(~over_B):
                now[copy].actions.append(action_BP[copy].tolist())
            frame = promise.called("step", lambda action_BP=action_BP: env.step(action_BP))
        promise.holds(over_B.all(), "a game has no end", f"more than {env.game.max_steps} steps", "GameSpec.max_steps")
    return courses


def _frame(env: GameEnv, frame: GameFrame, over_B: np.ndarray, promise: Promise, *, started: bool) -> None:
    promise.holds(isinstance(frame, GameFrame), "no frame", type(frame).__name__, "evolvent.core.turns.GameFrame")
    sizes = {"B": env.n_envs, "P": env.game.players, "N": env.game.actions, "D": env.game.info_dim}
    for name, dtype in _DTYPES.items():
        column, shape = getattr(frame, name), tuple(sizes[axis] for axis in name.rpartition("_")[2])
        got = f"{getattr(column, 'dtype', type(column).__name__)} {np.shape(column)}"
        fits = isinstance(column, np.ndarray) and column.shape == shape and column.dtype == dtype
        promise.holds(fits, name, got, f"{np.dtype(dtype)} {shape}")
        promise.holds(np.isfinite(column).all(), f"{name} is not finite", column)
    acts_BP = frame.acts_BP
    promise.holds((acts_BP.any(axis=1) != frame.ended_B).all(), "nobody moves, or somebody after the end", acts_BP)
    promise.holds((frame.legal_BPN.any(axis=2) == acts_BP).all(), "who moves has a move, and nobody else", acts_BP)
    promise.holds(not frame.info_BPD[~acts_BP].any(), "information of players who do not move", frame.info_BPD)
    promise.holds(
        not (started and (frame.reward_BP.any() or frame.ended_B.any())), "reset shows an end or a reward", ""
    )
    still = frame.ended_B[over_B].all() and not frame.reward_BP[over_B].any()
    promise.holds(still, "a game that had ended goes on or earns", frame.reward_BP[over_B])


def _refuses(env: GameEnv, frame: GameFrame, promise: Promise, *, shapes: bool) -> None:
    copy, player = np.argwhere(frame.acts_BP)[0].tolist()
    illegal = np.flatnonzero(~frame.legal_BPN[copy, player])
    move = int(illegal[0]) if len(illegal) else env.game.actions
    good_BP = frame.legal_BPN.argmax(axis=2)
    bad_BP, knows = good_BP.copy(), env.knows(copy, player)
    bad_BP[copy, player] = move
    for action in (bad_BP, good_BP[:, :-1], good_BP.astype(np.float64)) if shapes else (bad_BP,):
        try:
            env.step(action)
        except BadInput as error:
            named = action is not bad_BP or (str(move) in str(error.got) and repr(knows) in str(error.where))
            do = "call check_moves, which names them"
            promise.holds(
                named, "the refusal of a move names no move or no state", str(error), f"{move}, {knows}", do=do
            )
            continue
        promise.holds(False, "an illegal move is accepted", action[copy].tolist(), "a BadInput")


def _some_copies(env: GameEnv, seed_B: np.ndarray, promise: Promise) -> None:
    """Steps and resets of one copy leave the others alone."""
    only_B = np.arange(env.n_envs) == 0
    start = env.reset(seed_B)
    before = [getattr(start, name)[1:].copy() for name in _DTYPES]
    frame = env.step(start.legal_BPN.argmax(axis=2), only_B)
    for call in ("step", "reset"):
        same = all(np.array_equal(a, getattr(frame, name)[1:]) for a, name in zip(before, _DTYPES, strict=True))
        same = same and not any(env.chance(copy) for copy in range(1, env.n_envs))
        promise.holds(same, f"{call} of one copy changes another", call, "only the copies of where_B change")
        frame = env.reset(seed_B[::-1], only_B)


def _recall(courses: list[_Course], promise: Promise) -> None:
    """The same information never follows upon two pasts of a player, nor allows two sets of moves."""
    seen: dict[tuple[int, bytes], tuple[object, bytes]] = {}
    for course in courses:
        past: dict[int, tuple[tuple[bytes, int], ...]] = {}
        for (acts_P, info_PD, legal_PN, *_), action in zip(course.frames, course.actions, strict=False):
            for player in np.flatnonzero(acts_P).tolist():
                mine, info = past.get(player, ()), info_PD[player].tobytes()
                known = seen.setdefault((player, info), (mine, legal_PN[player].tobytes()))
                got = f"player {player}, {info_PD[player].tolist()}"
                do = "show all of a player's own moves and what it saw, or say perfect_recall=False"
                promise.holds(known[0] == mine, "what a player knows forgets its past", got, do=do)
                promise.holds(known[1] == legal_PN[player].tobytes(), "the same information, other legal moves", got)
                past[player] = (*mine, (info, action[player]))


def _record(env: GameEnv, seeds: np.ndarray, promise: Promise) -> None:
    some = seeds[:5].tolist()
    match = promise.called(
        "play_match", lambda: play_match(env, [uniform_policy] * env.game.players, some, record=True)
    )
    for game, paid_P in zip(match.games, match.returns_MP, strict=True):
        promise.holds(decode_game(encode_game(game)) == game, "the record does not come back", encode_game(game))
        earned = [episode.total_reward for episode in episodes(game) if episode.n_steps]
        seats = [player for player, episode in enumerate(episodes(game)) if episode.n_steps]
        promise.holds(np.allclose(earned, paid_P[seats]), "the record pays something else", earned, paid_P[seats])
        texts = [text for ply in game.plies if ply.player >= 0 for text in (ply.knows, ply.text)]
        promise.holds(all(isinstance(text, str) for text in texts), "knows or word gives no text", texts, "a text")
