"""Robot warehouse: agents carry requested shelves to the workstations and back through narrow aisles.

Package rware (Papoudakis et al., NeurIPS 2021). Variants are its gymnasium ids without the leading "rware-", e.g.
``rware:tiny-2ag-v2``. An attempt has no end of its own: the step limit (500) truncates. Reward: 1 to the agent that
delivers a requested shelf.
"""

from __future__ import annotations

from evolvent.core.errors import missing_extra
from evolvent.envs.team._gym import GymSolo, make_gym


def make_solo(variant: str = "tiny-2ag-v2") -> GymSolo:
    """One copy of the environment with that id."""
    try:
        import rware  # noqa: F401  (registers its ids)
        from gymnasium import registry
    except ImportError as err:
        raise missing_extra("rware", "marl", "envs.rware") from err
    name = "rware-" + variant.removeprefix("rware-")
    env = make_gym(name, [known for known in registry if known.startswith("rware-")])
    return GymSolo(env, env.max_steps, lambda: False)
