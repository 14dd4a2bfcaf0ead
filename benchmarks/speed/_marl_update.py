"""One pass of learning over a rollout: ours (``learn.team.ppo``), and the pattern of the released trainer.

The pattern: columns are kept for every agent, the shared state and two memories of recurrent networks among them, which
a transformer never reads; every pass copies all of them, puts them in random order and hands them over; probabilities
go through distribution objects; the value normaliser and its statistics run on every pass.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from evolvent.algos import mat
from evolvent.core.rollout import Rollout
from evolvent.core.rollout_ledger import RolloutLedger
from evolvent.core.team import Frame, TeamSpec
from evolvent.credit import agent_gae
from evolvent.learn.team.batch import Batch
from evolvent.learn.team.ppo import improve_joint
from evolvent.learn.team.steps import Steps
from evolvent.learn.team.value_norm import ValueNorm
from evolvent.learn.team.views import Views
from evolvent.models.team.joint import JointPolicy

from ._marl_reference import PlainJoint

HORIZON, MEMORY = 20, 64
CLIP, DELTA, BETA = 0.05, 10.0, 0.99999


class Sides(NamedTuple):
    """The same rollout learned from by both: call either with a number of passes."""

    ours: Callable[[int], None]
    plain: Callable[[int], None]
    batch: Batch
    nets: tuple[JointPolicy, PlainJoint]


def make(team: TeamSpec, policy: JointPolicy, frames: list[Frame], device: torch.device, seed: int) -> Sides:
    """Act through ``frames`` with ``policy`` and give both learners a copy of it."""
    steps = Steps(Views(team, ids=False, device=device), len(frames) - 1, len(frames[0].obs_BAD))
    norm, generator = ValueNorm(0.99).to(device), torch.Generator(device)
    generator.manual_seed(seed)
    view = steps.see(frames[0], 0)
    for frame in frames[1:]:
        acted = policy.act(view.obs, available_BAN=view.available, generator=generator)
        view = steps.add(acted.action, acted.logp_BAP, acted.value_BA, frame)
    batch = steps.batch(lambda v: policy.value(v.obs, v.active), norm.denormalise)
    ledger = agent_gae.assign(batch.rollout)
    learner = copy.deepcopy(policy)
    adam = torch.optim.Adam(learner.parameters(), lr=5e-4, eps=1e-5, fused=True)  # as in algos.mat

    def ours(passes: int) -> None:
        config = mat.Config(epochs=passes, clip=CLIP)
        improve_joint(config, learner, adam, norm, batch, ledger, generator)

    plain = PlainJoint(copy.deepcopy(policy))
    return Sides(ours, _plain_side(plain, batch, ledger, device), batch, (learner, plain))


def flops(work: Callable[[], object]) -> int:
    """Floating-point operations of the matrix products in ``work`` (two for a multiply-add)."""
    with FlopCounterMode(display=False) as counter:
        work()
    return counter.get_total_flops()


def _plain_side(plain: PlainJoint, batch: Batch, ledger: RolloutLedger, device: torch.device) -> Callable[[int], None]:
    adam = torch.optim.Adam(plain.parameters(), lr=5e-4, eps=1e-5)
    norm = _EveryPass()
    columns = _columns(batch, ledger)
    advantage = columns.pop("advantage")
    columns["advantage"] = (advantage - advantage.mean()) / (advantage.std() + 1e-5)

    def passes(n: int) -> None:
        for _ in range(n):
            _plain_pass(plain, adam, norm, columns, device)

    return passes


def _columns(batch: Batch, ledger: RolloutLedger) -> dict[str, np.ndarray]:
    """The rollout as ``[T, B, A, …]``, all of what the released buffer holds."""
    rollout = batch.rollout
    advantage = ledger.values("step")[..., None].astype(np.float32)
    t, b, a = rollout.shape
    logp = batch.logp.cpu().numpy()
    value = batch.value.cpu().numpy()[..., None]
    memory = np.zeros((t, b, a, 1, MEMORY), np.float32)
    columns = {
        "state": rollout.obs_TBAD.copy(),
        "obs": rollout.obs_TBAD.copy(),
        "memory": memory,
        "memory2": memory.copy(),
        "action": rollout.action_TBA.reshape(t, b, a, -1).astype(np.float32),
        "value": value,
        "target": advantage + value,
        "mask": np.ones((t, b, a, 1), np.float32),
        "active": np.ones((t, b, a, 1), np.float32),
        "logp": logp,
        "advantage": advantage,
    }
    if batch.view.available is not None:
        columns["available"] = batch.view.available.cpu().numpy().astype(np.float32)
    return columns


def _plain_pass(
    plain: PlainJoint, adam: torch.optim.Adam, norm: _EveryPass, columns: dict[str, np.ndarray], device: torch.device
) -> None:
    t, b, a = columns["obs"].shape[:3]
    order = torch.randperm(t * b).numpy()
    rows, agents = np.indices((t * b, a))
    flat = {name: column.reshape(t * b, *column.shape[2:])[rows, agents] for name, column in columns.items()}
    mixed = {name: column[order].reshape(-1, *column.shape[2:]) for name, column in flat.items()}
    part = {name: torch.from_numpy(column).to(device) for name, column in mixed.items()}
    obs = part["obs"].view(-1, a, part["obs"].shape[-1])
    action = part["action"].view(-1, a, part["action"].shape[-1])
    action = action.squeeze(-1).long() if plain.choices else action
    available = part["available"].view(-1, a, plain.choices) > 0 if "available" in part else None
    logp, entropy, value = plain.logprobs(obs, action, available)
    logp, entropy, value = logp.view(t * b * a, -1), entropy.view(-1, 1), value.view(-1, 1)
    ratio = torch.exp(logp - part["logp"])
    gain = torch.min(ratio * part["advantage"], torch.clamp(ratio, 1 - CLIP, 1 + CLIP) * part["advantage"])
    alive = part["active"]
    policy_loss = -(gain.sum(-1, keepdim=True) * alive).sum() / alive.sum()
    norm.update(part["target"])
    target, old = norm.normalise(part["target"]), part["value"]
    near = old + (value - old).clamp(-CLIP, CLIP)
    value_loss = torch.max(_huber(target - near), _huber(target - value))
    value_loss = (value_loss * alive).sum() / alive.sum()
    entropy = (entropy * alive).sum() / alive.sum()
    adam.zero_grad()
    (policy_loss - 0.01 * entropy + value_loss).backward()
    size = nn.utils.clip_grad_norm_(plain.parameters(), 10.0)
    adam.step()
    _ = [x.item() for x in (policy_loss, value_loss, entropy, size, ratio.mean())]


def _huber(error: Tensor) -> Tensor:
    small = (error.abs() <= DELTA).float()
    return small * error**2 / 2 + (1 - small) * DELTA * (error.abs() - DELTA / 2)


class _EveryPass:
    """Running mean and spread that take in the targets of every pass."""

    def __init__(self) -> None:
        self.mean, self.square, self.weight = torch.zeros(1), torch.zeros(1), torch.zeros(1)

    def update(self, target: Tensor) -> None:
        if self.mean.device != target.device:
            self.mean, self.square, self.weight = (x.to(target.device) for x in (self.mean, self.square, self.weight))
        self.mean.mul_(BETA).add_(target.mean(0) * (1 - BETA))
        self.square.mul_(BETA).add_((target**2).mean(0) * (1 - BETA))
        self.weight.mul_(BETA).add_(1 - BETA)

    def moments(self) -> tuple[Tensor, Tensor]:
        mean = self.mean / self.weight.clamp(min=1e-5)
        return mean, (self.square / self.weight.clamp(min=1e-5) - mean**2).clamp(min=1e-2)

    def normalise(self, target: Tensor) -> Tensor:
        mean, variance = self.moments()
        return (target - mean) / torch.sqrt(variance)

    def denormalise(self, value: np.ndarray) -> np.ndarray:
        mean, variance = self.moments()
        return (torch.from_numpy(value) * torch.sqrt(variance).cpu() + mean.cpu()).numpy()


def plain_gae(rollout: Rollout) -> Callable[[], np.ndarray]:
    """Advantages step by step, values brought back to units of reward three times a step."""
    norm = _EveryPass()
    assert rollout.value_TBA is not None
    assert rollout.bootstrap_BA is not None
    norm.update(torch.from_numpy(rollout.value_TBA.astype(np.float32)).reshape(-1, 1))
    value = np.concatenate([rollout.value_TBA, rollout.bootstrap_BA[None]]).astype(np.float32)
    goes_on = 1.0 - np.concatenate([np.zeros_like(rollout.done_TB[:1]), rollout.done_TB]).astype(np.float32)[..., None]
    reward = rollout.reward_TBA

    def work() -> np.ndarray:
        out, target = np.zeros_like(reward), np.zeros_like(reward)
        running = np.zeros_like(reward[0])
        for t in reversed(range(len(reward))):
            delta = reward[t] + 0.99 * norm.denormalise(value[t + 1]) * goes_on[t + 1] - norm.denormalise(value[t])
            running = delta + 0.99 * 0.95 * goes_on[t + 1] * running
            out[t] = running
            target[t] = running + norm.denormalise(value[t])
        return out

    return work
