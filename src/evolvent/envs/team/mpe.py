"""Multi-agent particle environments (mpe2): simple_spread and the others, discrete or continuous.

Lowe et al., "Multi-Agent Actor-Critic for Mixed Cooperative-Competitive Environments", NeurIPS 2017. Variants are the
modules of mpe2 without their version, e.g. ``mpe:simple_spread,n=10,continuous=true``. The step limit truncates.
Games of two sides (simple_adversary, simple_crypto, simple_push, simple_tag, simple_world_comm) load, but team learners
refuse to train them: they know one team.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from typing import Any

from evolvent.core.errors import BadInput, closest, missing_extra
from evolvent.envs.team._parallel import ParallelSolo


def make_solo(
    variant: str = "simple_spread", *, n: int = 0, continuous: bool = False, limit: int = 25, local_ratio: float = 0.5
) -> ParallelSolo:
    """One copy.

    Args:
        variant: simple_spread, simple_reference, simple_speaker_listener, …
        n: agents and landmarks where the scenario has such a number (simple_spread: 3); 0 = its own.
        continuous: act with 5 numbers instead of one of 5 choices.
        limit: steps of an attempt.
        local_ratio: share of an agent's own reward (collisions) beside the team's, where the scenario has it.
    """
    try:
        import mpe2
    except ImportError as err:
        raise missing_extra("mpe2", "marl", "envs.mpe") from err
    names = {
        m.name.rpartition("_v")[0]: m.name for m in pkgutil.iter_modules(mpe2.__path__) if m.name.startswith("simple")
    }
    if variant not in names:
        raise BadInput("unknown scenario", got=variant, expected=closest(variant, list(names)), where="mpe")
    module = importlib.import_module(f"mpe2.{names[variant]}")
    known = inspect.signature(module.raw_env.__init__).parameters
    options: dict[str, Any] = {"max_cycles": limit, "continuous_actions": continuous, "render_mode": "rgb_array"}
    if n:
        if "N" not in known:
            raise BadInput("this scenario has a fixed number of agents", got=f"n={n}", where=f"mpe:{variant}")
        options["N"] = n
    if "local_ratio" in known:
        options["local_ratio"] = local_ratio
    return ParallelSolo(module.parallel_env(**options), limit=limit)
