"""Who an agent is, one-hot behind what it sees: networks that play several agents add it themselves."""

from __future__ import annotations

import torch
from torch import Tensor


def with_ids(obs: Tensor) -> Tensor:
    """``[..., A, D]`` as ``[..., A, D + A]``, each agent's own number behind its observation."""
    agents = obs.shape[-2]
    eye = torch.eye(agents, dtype=obs.dtype, device=obs.device)
    return torch.cat([obs, eye.expand(*obs.shape[:-1], -1)], dim=-1)


def with_id(obs: Tensor, agent: int, agents: int) -> Tensor:
    """``[..., D]`` of one of so many agents as ``[..., D + A]``."""
    number = torch.zeros(agents, dtype=obs.dtype, device=obs.device)
    number[agent] = 1.0
    return torch.cat([obs, number.expand(*obs.shape[:-1], -1)], dim=-1)
