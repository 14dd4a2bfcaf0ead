"""Settings of the learners that several systems of teams share."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PPO:
    """Settings of the actors; the defaults are those of HARL (Zhong et al. 2024, arXiv 2304.09870)."""

    epochs: int = 5
    """Epochs of the actors over a rollout."""
    minibatches: int = 1
    """Minibatches that a rollout is split into."""
    lr: float = 5e-4
    """Learning rate of the actors (Adam, eps 1e-5)."""
    clip: float = 0.2
    """Clip range of probability ratios and of values (PPO's epsilon)."""
    entropy: float = 0.01
    """Coefficient of the entropy bonus."""
    grad_clip: float = 10.0
    """Gradient norm above which a gradient is scaled down."""


@dataclass(frozen=True)
class Joint:
    """Settings of a joint policy and of its learning; the defaults are those of MAT's released SMAC script."""

    width: int = 64
    """Embedding width of the transformer."""
    blocks: int = 1
    """Transformer blocks of the encoder and of the decoder."""
    heads: int = 1
    """Attention heads in each block."""
    mask_dead: bool = False
    """Mask dead agents out of attention."""
    epochs: int = 15
    """Epochs over a rollout."""
    minibatches: int = 1
    """Minibatches that a rollout is split into; the actions of one joint step stay together."""
    lr: float = 5e-4
    """Learning rate (Adam, eps 1e-5)."""
    clip: float = 0.05
    """Clip range of probability ratios and of values (PPO's epsilon)."""
    entropy: float = 0.01
    """Coefficient of the entropy bonus over actions."""
    grad_clip: float = 10.0
    """Gradient norm above which the gradient is scaled down."""
