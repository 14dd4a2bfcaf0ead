"""Which tasks can be disturbed how: the table in docs/robust.md, which algo_pages.py writes there."""

from __future__ import annotations

from contextlib import closing

from evolvent import envs
from evolvent.core.team import TeamEnv
from evolvent.envs.runners.vector import Vector
from evolvent.envs.team._mujoco_fields import fields_of

_ROBOTICS = "gymnasium:gymnasium_robotics:"
TASKS: dict[str, tuple[str, ...]] = {
    "MuJoCo, one agent": tuple(
        f"gymnasium:{name}-v5"
        for name in (
            "Ant", "HalfCheetah", "Hopper", "Humanoid", "HumanoidStandup", "InvertedDoublePendulum",
            "InvertedPendulum", "Pusher", "Reacher", "Swimmer", "Walker2d",
        )
    ),
    "classic control": tuple(
        f"gymnasium:{name}"
        for name in ("Acrobot-v1", "CartPole-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1")
    ),
    "Box2D": tuple(
        f"gymnasium:{name}"
        for name in ("BipedalWalker-v3", "BipedalWalkerHardcore-v3", "LunarLander-v3", "LunarLanderContinuous-v3")
    ),
    "tables": tuple(
        f"gymnasium:{name}"
        for name in ("Blackjack-v1", "CliffWalking-v1", "FrozenLake-v1", "FrozenLake8x8-v1", "Taxi-v4")
    ),
    "arm and hand": tuple(
        f"{_ROBOTICS}{name}"
        for name in (
            "FetchPickAndPlace-v4", "FetchPush-v4", "FetchReach-v4", "FetchSlide-v4", "HandReach-v3",
            "HandManipulateBlock-v1", "HandManipulateEgg-v1", "HandManipulatePen-v1",
            "AdroitHandDoor-v1", "AdroitHandHammer-v1", "AdroitHandPen-v1", "AdroitHandRelocate-v1", "FrankaKitchen-v1",
        )
    ),
    "mazes": tuple(
        f"{_ROBOTICS}{name}"
        for name in (
            "PointMaze_UMaze-v3", "PointMaze_Medium-v3", "PointMaze_Large-v3", "AntMaze_UMaze-v5", "AntMaze_Medium-v5",
        )
    ),
    "MuJoCo, several agents": tuple(
        f"mamujoco:{name}"
        for name in (
            "Ant-2x4", "Ant-4x2", "HalfCheetah-2x3", "HalfCheetah-6x1", "Hopper-3x1", "Humanoid-9|8", "Pusher-3p",
            "Reacher-2x1", "Swimmer-2x1", "Walker2d-2x3",
        )
    ),
    "particles and grids": (
        "spread:n=3", "mpe:simple_spread", "mpe:simple_tag", "mpe:simple_adversary", "mpe:simple_speaker_listener",
        "mpe:simple_reference", "mpe:simple_push", "mpe:simple_crypto", "lbf", "rware", "matrix", "permutation",
    ),
}  # fmt: skip
"""By family; ``evolvent list envs`` has more of most of them."""


def fields(env: TeamEnv) -> tuple[str, ...]:
    """Which fields of the dynamics an open environment of one copy has."""
    inside = getattr(env, "env", None)
    return fields_of(inside.solos[0]) if isinstance(inside, Vector) else ()


def modes(env: TeamEnv) -> dict[str, str]:
    """Every source that an open environment has, with a disturbance for it."""
    action = "gaussian:0.1" if env.team.dims else "uniform:0.5"
    found = {"obs": "gaussian:0.1", "reward": "uniform:0.1", "action": action}
    moved = ",".join(f"{name}:shift:0.1" for name in fields(env))
    return found | ({"dynamics": moved} if moved else {})


def line(spec: str) -> str:
    """The row of a task."""
    with closing(envs.load_team(spec, 1)) as env:
        team, found = env.team, fields(env)
    kind = {"discrete": "choices", "continuous": "numbers", "mixed": "both"}[team.kind]
    name = spec.replace("|", "\\|")
    return f"| `{name}` | {team.n_agents} | {team.obs_dim} | {kind} | {', '.join(found) or '–'} |"


def table() -> list[str]:
    """All tasks as Markdown."""
    lines = [
        f"{sum(map(len, TASKS.values()))} tasks; observations, rewards and actions can be disturbed in all of them.",
        "",
    ]
    for family, specs in TASKS.items():
        lines += [f"**{family}**", "", "| task | agents | numbers seen | actions | dynamics |", "|---|---|---|---|---|"]
        lines += [*map(line, specs), ""]
    return lines[:-1]
