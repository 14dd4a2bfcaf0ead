"""``check_team_env``: a team environment proves that it keeps the promises of ``evolvent.core.team.TeamEnv``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np

from evolvent.core.errors import BadInput
from evolvent.core.protocols import members
from evolvent.core.team import Frame, TeamEnv, TeamSpec, parts_differ
from evolvent.envs.promises import Promise

Make = Callable[[int], TeamEnv]
_COLUMNS = tuple(column.name for column in fields(Frame) if column.name != "info")
_MASKS = ("terminated_B", "truncated_B", "available_BAN", "active_BA")


@dataclass(frozen=True, eq=False)
class _Course:
    """What was done and seen, copied: ``frames[t + 1]`` follows ``actions[t]``; columns by name."""

    frames: list[dict[str, np.ndarray | None]]
    actions: list[np.ndarray]
    info: list[dict[str, np.ndarray]]


def check_team_env(
    make: Make, *, n_envs: int = 3, steps: int = 60, seed: int = 0, ends: bool = True, random_start: bool = True
) -> list[str]:
    """Check an environment with random actions and return the names of the checks it passed.

    Args:
        make: gives ``n_envs`` copies; called twice. Both are closed.
        n_envs: B.
        steps: to play.
        seed: of the environment and of the actions.
        ends: whether an attempt must be seen to its end within ``steps``.
        random_start: whether attempts differ by seed.

    Checked: attributes; shapes, dtypes and finite values of every column; terminated and truncated exclusive, the limit
    honoured; named parts sum to the reward; what was seen last is kept and differs from the restart; a choice for every
    active agent; wrong actions refused; the same seed gives the same course, in the same copies and in new ones, and
    another seed another one.

    Raises:
        BadInput: the first promise that is broken, with what was seen.
    """
    env = Promise("the maker of the environment").called(f"make({n_envs})", lambda: make(n_envs))
    missing = [name for name in members(TeamEnv) if not hasattr(env, name)]
    _check(env, not missing, "members of the protocol are missing", missing, ", ".join(members(TeamEnv)))
    try:
        team = _attributes(env, n_envs)
        first = _play(env, steps, seed, seed)
        for t, frame in enumerate(first.frames):
            _shapes(env, team, frame, started=t == 0)
        _choices(env, team, first)
        _ends(env, team, first, ends)
        _refuses(env, team, seed)
        _same(env, "the same seed gives another course in the same copies", first, _play(env, steps, seed, seed))
        second = make(n_envs)
        try:
            _same(env, "the same seed gives another course in new copies", first, _play(second, steps, seed, seed))
        finally:
            second.close()
        other = _play(env, min(steps, 3), seed + 1, seed)
        same = _equal(first.frames[:4], other.frames)
        _check(env, not same or not random_start, "another seed gives the same course", seed + 1)
    finally:
        env.close()
    return ["attributes", "shapes", "choices", "ends", "refuses", "same seed", *([] if same else ["other seed"])]


def random_action(team: TeamSpec, frame: Frame, generator: np.random.Generator) -> np.ndarray:
    """Uniform actions among those available; numbers from beyond [-1, 1] too, which an environment clips."""
    shape = (*frame.reward_BA.shape, team.choices)
    open_BAN = np.broadcast_to(team.choice_mask(), shape) if frame.available_BAN is None else frame.available_BAN
    choice_BA = (generator.random(shape) * open_BAN).argmax(axis=2) if team.choices else None
    if team.kind == "discrete" and choice_BA is not None:
        return choice_BA
    numbers = generator.uniform(-1.2, 1.2, (*shape[:2], *team.action_shape)).astype(np.float32)
    if choice_BA is not None:
        numbers[..., 0] = choice_BA
    return numbers


def _play(env: TeamEnv, steps: int, seed: int, action_seed: int) -> _Course:
    generator, promise = np.random.default_rng(action_seed), Promise(f"environment {env.name}")
    frame = _framed(env, f"reset({seed})", promise.called(f"reset({seed})", lambda: env.reset(seed)))
    course = _Course([_copied(frame)], [], [])
    for t in range(steps):
        course.actions.append(random_action(env.team, frame, generator))
        action, call = course.actions[-1], f"step {t + 1}"
        frame = _framed(env, call, promise.called(call, lambda action=action: env.step(action)))
        course.frames.append(_copied(frame))
        course.info.append({name: np.array(column) for name, column in frame.info.items()})
    return course


def _framed(env: TeamEnv, call: str, frame: object) -> Frame:
    """What was returned is a frame, its columns are arrays."""
    _check(env, isinstance(frame, Frame), f"{call} returns no frame", type(frame).__name__, "evolvent.core.team.Frame")
    assert isinstance(frame, Frame)
    for name in _COLUMNS:
        column = getattr(frame, name)
        fits = isinstance(column, np.ndarray) or (column is None and name not in _COLUMNS[:4])
        _check(env, fits, f"{name} of {call}", type(column).__name__, "a numpy array")
    b, a = env.n_envs, env.team.n_agents
    shape = frame.reward_BA.shape
    _check(env, shape == (b, a), f"shape of reward_BA, expected {(b, a)}", shape)
    return frame


def _copied(frame: Frame) -> dict[str, np.ndarray | None]:
    columns = {name: getattr(frame, name) for name in _COLUMNS}
    out = {name: None if column is None else np.array(column) for name, column in columns.items()}
    for name, column in out.items():
        if column is not None and name.startswith("final_"):  # elsewhere they hold what nobody reads
            column[~frame.done_B] = 0
    return out


def _attributes(env: TeamEnv, n_envs: int) -> TeamSpec:
    _check(env, env.n_envs == n_envs, "n_envs is not the number asked for", env.n_envs, n_envs)
    fits = isinstance(env.team, TeamSpec) and isinstance(env.name, str) and bool(env.name)
    _check(env, fits, "name or team", (env.name, env.team), "a word, and an evolvent.core.team.TeamSpec")
    return env.team


def _shapes(env: TeamEnv, team: TeamSpec, frame: dict[str, np.ndarray | None], *, started: bool) -> None:
    sizes = {"B": env.n_envs, "A": team.n_agents, "D": team.obs_dim, "N": team.choices, "S": team.state_dim}
    sizes["R"] = len(team.parts)
    ended = bool((_must(frame, "terminated_B") | _must(frame, "truncated_B")).any())
    needed = {"obs_BAD", "reward_BA", "terminated_B", "truncated_B"}
    needed |= {"state_BS"} if team.state_dim else set()
    needed |= {"part_BAR"} if team.parts else set()
    if ended:
        shown = ("obs_BAD", "state_BS", "available_BAN", "active_BA")
        needed |= {f"final_{name}" for name in shown if frame[name] is not None}
    for name, column in frame.items():
        _check(env, column is not None or name not in needed, f"{name} is missing", None)
        if column is None:
            continue
        shape = tuple(sizes[axis] for axis in name.rpartition("_")[2])
        kind = np.bool_ if name.removeprefix("final_") in _MASKS else np.float32
        _check(env, column.shape == shape, f"shape of {name}, expected {shape}", column.shape)
        _check(env, column.dtype == kind, f"dtype of {name}, expected {np.dtype(kind)}", column.dtype)
        _check(env, bool(np.isfinite(column).all()), f"{name} is not finite", column)
    if (part_BAR := frame["part_BAR"]) is not None:
        reward_BA = _must(frame, "reward_BA")
        off_BA = parts_differ(part_BAR, reward_BA)
        _check(env, not off_BA.any(), "the parts do not sum to the reward", part_BAR[off_BA], reward_BA[off_BA])
    if started:
        _check(env, not ended and not _must(frame, "reward_BA").any(), "reset shows an end or a reward", frame)


def _choices(env: TeamEnv, team: TeamSpec, course: _Course) -> None:
    for frame in course.frames:
        available, active = frame["available_BAN"], frame["active_BA"]
        if available is not None:
            _check(env, not (available & ~team.choice_mask()).any(), "a choice that the agent does not have", available)
            nothing_BA = ~available.any(axis=2) & (np.array([spec.choices for spec in team.actions]) > 0)
            nothing_BA &= True if active is None else active
            _check(env, not nothing_BA.any(), "an active agent without a choice", np.argwhere(nothing_BA).tolist())
        if active is not None:
            _check(env, bool(active.any(axis=1).all()), "an attempt goes on without an active agent", active)


def _ends(env: TeamEnv, team: TeamSpec, course: _Course, must_end: bool) -> None:
    age_B, seen, ends = np.zeros(env.n_envs, np.int64), 0, list[tuple[np.ndarray, np.ndarray]]()
    for t, frame in enumerate(course.frames[1:], start=1):
        over_B, cut_B = _must(frame, "terminated_B"), _must(frame, "truncated_B")
        age_B += 1
        _check(env, not (over_B & cut_B).any(), "terminated and truncated at once", t)
        if team.limit:
            _check(env, bool((age_B <= team.limit).all()), f"the limit of {team.limit} steps is passed", age_B)
            late_B = cut_B & (age_B != team.limit)
            _check(env, not late_B.any(), f"cut off, but not at the limit of {team.limit} steps", age_B)
        done_B = over_B | cut_B
        if done_B.any():
            ends.append((_must(frame, "final_obs_BAD")[done_B], _must(frame, "obs_BAD")[done_B]))
        for name, column in (course.info[t - 1] if done_B.any() else {}).items():
            _check(env, column.shape == (env.n_envs,), f"shape of info {name!r}", column.shape)
            _check(env, not np.isfinite(column[~done_B]).any(), f"info {name!r} of an attempt that goes on", column)
        seen += int(done_B.sum())
        age_B[done_B] = 0
    # one may look like a restart by chance, as where few things can be seen; all of them do where nothing moves at all
    moved = any(not np.array_equal(_must(course.frames[0], "obs_BAD"), _must(f, "obs_BAD")) for f in course.frames)
    same = bool(ends) and all(np.array_equal(last, fresh) for last, fresh in ends)
    _check(env, not (same and moved), "the last observation is that of the restart", f"{seen} ends")
    _check(env, seen > 0 or not must_end, "no attempt ended", f"{len(course.actions)} steps")


def _refuses(env: TeamEnv, team: TeamSpec, seed: int) -> None:
    frame = env.reset(seed)
    good = random_action(team, frame, np.random.default_rng(seed))
    bad = [good[:, :-1], good[0], np.concatenate([good, good])]
    if team.kind == "discrete":
        bad += [good - 1 - good.max(), np.full_like(good, team.choices), good.astype(np.float64)]
    else:
        bad += [np.full_like(good, np.nan), good[..., 0]]
    if frame.available_BAN is not None and team.kind == "discrete" and not frame.available_BAN.all():
        shut = np.argwhere(~frame.available_BAN)[0]
        bad.append(good.copy())
        bad[-1][shut[0], shut[1]] = shut[2]
    for action in bad:
        try:
            env.step(action)
        except BadInput:
            continue
        _check(env, False, "a wrong action is accepted (a BadInput is expected)", (action.dtype, action.shape, action))
    env.step(good)


def _same(env: TeamEnv, what: str, first: _Course, second: _Course) -> None:
    _check(env, _equal(first.frames, second.frames), what, "")


def _equal(first: list[dict[str, np.ndarray | None]], second: list[dict[str, np.ndarray | None]]) -> bool:
    return len(first) == len(second) and all(
        (a[name] is None) == (b[name] is None) and (a[name] is None or np.array_equal(_must(a, name), _must(b, name)))
        for a, b in zip(first, second, strict=True)
        for name in _COLUMNS
    )


def _must(frame: dict[str, np.ndarray | None], name: str) -> np.ndarray:
    column = frame[name]
    assert column is not None
    return column


def _check(env: TeamEnv, holds: bool, what: str, got: object, expected: object = "") -> None:
    if not holds:
        where = f"environment {getattr(env, 'name', '') or type(env).__name__}"
        do = "see evolvent.core.team.TeamEnv and Frame"
        raise BadInput(
            f"the team environment breaks its protocol: {what}", got=got, expected=expected, where=where, do=do
        )
