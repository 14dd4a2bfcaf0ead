"""VMAS: particle, robot and football scenarios that torch computes for all copies at once.

Bettini et al., "VMAS: A Vectorized Multi-Agent Simulator for Collective Robot Learning", 2022. Variants are its
scenarios: simple_spread, balance, navigation, transport, dispersion, flocking, discovery, football, …
"""

from __future__ import annotations

from typing import Any

from evolvent.core.errors import BadInput, EnvError, closest, missing_extra
from evolvent.envs.team._tensors import Vmas


def make_team(
    variant: str = "simple_spread",
    *,
    n_envs: int,
    n: int = 0,
    continuous: bool = True,
    limit: int = 100,
    device: str = "cpu",
) -> Vmas:
    """``n_envs`` copies of a scenario with ``n`` agents (0 = its own number), computed on ``device``."""
    try:
        import vmas
    except ImportError as err:
        raise missing_extra("vmas", "vmas", "envs.vmas") from err
    known = sorted({*vmas.scenarios, *vmas.mpe_scenarios, *vmas.debug_scenarios})
    if variant not in known or limit < 1:
        raise BadInput("scenario", got=f"{variant}, limit={limit}", expected=closest(variant, known), where="vmas")
    options: dict[str, Any] = {"n_agents": n} if n else {}
    try:
        env: Any = vmas.make_env(
            variant, n_envs, device, continuous, max_steps=limit, seed=0, terminated_truncated=True, **options
        )
    except (RuntimeError, AssertionError, ValueError, TypeError) as err:
        raise EnvError("the scenario does not start", got=repr(err), where=f"vmas:{variant} on {device}") from err
    if n and len(env.agents) != n:
        raise BadInput(
            "this scenario has its own number of agents", got=f"n={n}", expected=len(env.agents), where="vmas"
        )
    return Vmas(env, limit)
