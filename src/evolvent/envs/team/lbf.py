"""Level-based foraging: agents collect food that only agents of enough level together can lift.

Package lbforaging (Albrecht and Ramamoorthy 2013; Papoudakis et al., NeurIPS 2021). Variants are its gymnasium ids:
``lbf:Foraging-8x8-2p-2f-v3``. All food gone terminates, the step limit (50) truncates; the package calls both "done".
"""

from __future__ import annotations

import functools

from evolvent.core.errors import missing_extra
from evolvent.envs.team._gym import GymSolo, make_gym


def make_solo(variant: str = "Foraging-8x8-2p-2f-v3") -> GymSolo:
    """One copy of the environment with that id."""
    try:
        import lbforaging  # noqa: F401  (registers its ids)
        from gymnasium import registry
    except ImportError as err:
        raise missing_extra("lbforaging", "marl", "envs.lbf") from err
    env = make_gym(variant, [name for name in registry if name.startswith("Foraging-")])
    for number, player in enumerate(env.players):
        player.__class__, player.number = _numbered(type(player)), number

    def forget() -> None:
        for player in env.players:  # else nobody starts where somebody stood last, and the seed does not decide
            player.position = None

    return GymSolo(env, env._max_episode_steps, lambda: env.field.sum() == 0, forget)


@functools.cache
def _numbered(player: type) -> type:
    """Players hash by number: the package takes them out of a set, in an order that else depends on addresses."""
    return type("Player", (player,), {"__hash__": lambda self: self.number})
