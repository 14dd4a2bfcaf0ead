"""MADT: a transformer that imitates recorded teams, agent by agent, and then goes on by itself with PPO.

Paper: Meng et al. 2021, Offline Pre-trained Multi-Agent Decision Transformer (arXiv 2112.02845).

    offline   L = - mean log pi(a | the last K steps of one agent),   critic to the discounted return
    online    L = - mean min(r A, clip(r, 1 +- eps) A) - c H,  A = GAE of the critic; whole attempts between updates

``tokens`` says what a step is: what is seen; and the action before; and the return to go. The online part starts from
the newest checkpoint of this run, loaded from its folder, or from that of another run (``--init``); ``--no-pretrain``
is the same from scratch, without a pass over the data.

Deviations: the critic is a perceptron (there a second GPT), and learns offline: its error is not clipped (there it is,
around a made-up old value of 0, and the larger of two means is taken: a target of 9.6 is at .25 after 4,000 steps);
value targets are normalised; advantages are normalised (there not); a time limit is bootstrapped from what was seen
last (there its value is 0); the critic has the policy's learning rate (there ten times that); drawn windows (there
passes over shuffled ones); embeddings without tanh, and no table of places in the context beside that of time; agents
of different maps are not padded to one size.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from evolvent.core.folder import RunFolder
from evolvent.evaluate.live import Live
from evolvent.learn.team.config import PPO
from evolvent.runs.offline.config import OfflineConfig
from evolvent.runs.team.frozen import evaluate_team, policy_of

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from evolvent.algos.madt.acting import Policy
    from evolvent.core.team import TeamEnv
    from evolvent.learn.team.batch import Batch
    from evolvent.learn.team.player import Act
    from evolvent.learn.team.value_norm import ValueNorm
    from evolvent.learn.team.views import Views
    from evolvent.models.team.actors import Critic
    from evolvent.runs.offline.run import OfflineRun

PAPER = "arXiv 2112.02845"
LEVELS = ("agent", "step")
STATUS = "tested"
EPISODES = 64  # copies of the environment in an online update, each plays to the time limit
GAMMA, GAE_LAMBDA, WEIGHT_DECAY = 0.99, 0.95, 0.1
LONGEST = 200  # steps of each copy in an online update where there is no time limit
ORDER = {"state_only": ("obs",), "state_action": ("obs", "action"), "rtgs_state_action": ("togo", "obs", "action")}


@dataclass(frozen=True)
class Config(PPO, OfflineConfig):
    """Settings of MADT; the defaults are those of its released script."""

    EXTENDABLE = ()  # what is online comes after what is not

    env: str = "spread:n=3"
    """Environment that the data are of, with its options; what is learned is judged there, and goes on there."""
    steps: int = 10_000
    """Gradient steps on the data. Only whole updates are run."""
    batch: int = 128
    """Windows of the data in a gradient step."""
    epochs: int = 10
    """Epochs over the attempts of an online update."""
    grad_clip: float = 0.5
    """Gradient norm above which a gradient is scaled down."""
    tokens: Literal["state_only", "state_action", "rtgs_state_action"] = "state_only"
    """Tokens of a step: what is seen; and the action before; and the return to go, in front."""
    context: int = 1
    """Steps that the policy sees."""
    width: int = 32
    """Embedding width of the transformer."""
    blocks: int = 2
    """Transformer blocks, with two heads."""
    pretrain: bool = True
    """Learn from the data first; off = online from scratch (the data only say how observations are normalised)."""
    init: str = ""
    """Run folder whose policy and critic are loaded at the start; empty = random weights."""
    online: int = 0
    """Environment steps over all copies after the data; only whole updates are run, 64 attempts each."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    from contextlib import closing

    from evolvent import envs
    from evolvent.learn.team.descent import means
    from evolvent.runs.offline.run import open_offline
    from evolvent.runs.sources import pinned
    from evolvent.runs.team.weights import load_parts

    spec = pinned(folder, config.env)
    with (
        open_offline(config, folder, live, resume=resume) as offline,
        closing(envs.load_team(spec, EPISODES, step_s=config.plan.step_s)) as env,
    ):
        learner = Learner(config, offline, env)
        first = offline.shell.total if config.pretrain else 0
        offline.shell.total = max(first + config.online // learner.each, 1)
        offline.keep(learner.acting, **learner.parts)
        if config.init and not offline.shell.update:
            other = RunFolder.open(Path(config.init))
            load_parts(other.path, learner.nets, other.manifest()["env"], config.env)
            live.note(f"starting with the policy and the critic of {config.init}")
        for update in offline.updates():
            if update < first:
                with offline.clock("learn"):  # LEARN
                    losses = [learner.imitate(offline.generator) for _ in range(config.log_every)]
                offline.log(**means(losses))
                continue
            if update == first > 0:  # go on from the file, with optimizers that begin anew
                offline.shell.save()
                load_parts(folder.path, learner.nets, config.env, config.env)
                learner.renew()
            learner.play(update)
        online = (offline.shell.update - first) * learner.each if config.online else 0
        return offline.finish("madt", online_steps=online)


class Learner:
    """Networks, what they learn from, and both ways of learning.

    Attributes:
        nets: policy, critic, and the scale of its values.
        parts: what a checkpoint holds: these and the optimizers.
        each: environment steps of an online update.
    """

    def __init__(self, config: Config, offline: OfflineRun, env: TeamEnv) -> None:
        import numpy as np
        import torch

        from evolvent.algos.madt.acting import Recent
        from evolvent.formulas.returns import discounted
        from evolvent.learn.sequence.windows import Windows
        from evolvent.learn.team.course import Course
        from evolvent.learn.team.steps import Steps

        self.config, self.offline, views = config, offline, offline.views
        self.windows = Windows(views, offline.data, config.context)
        self.policy, self.critic, self.norm = make_nets(config, views)
        self.policy.net.scale.fill_(self.windows.scale)
        self.policy.net.target.fill_(self.windows.targets[0])
        came = np.concatenate([discounted(attempt.reward_TA, gamma=GAMMA) for attempt in offline.data.attempts])
        self._came = torch.from_numpy(came).float().to(views.device)
        if config.pretrain:
            self.norm.update(self._came)
        self.acting = Recent(self.policy, config.context)
        horizon = env.team.limit or LONGEST
        self.each = horizon * env.n_envs
        self.steps, self.course = Steps(views, horizon, env.n_envs), Course(env, config.seed, remember=False)
        self._agents = env.team.n_agents
        self.adam = torch.optim.AdamW(
            self.policy.parameters(), lr=config.lr, betas=(0.9, 0.95), weight_decay=WEIGHT_DECAY
        )
        self.critic_adam = torch.optim.Adam(self.critic.parameters(), lr=config.lr)
        self.nets = {"policy": self.policy, "critic": self.critic, "norm": self.norm}
        self.parts: dict[str, Any] = {**self.nets, "adam": self.adam, "critic_adam": self.critic_adam}

    def renew(self) -> None:
        """Optimizers forget what they learned from the data."""
        self.adam.state.clear()
        self.critic_adam.state.clear()

    def imitate(self, generator: torch.Generator) -> dict[str, float]:
        """One gradient step on windows of the data, of the policy and of the critic."""
        from evolvent.algos.madt.acting import read_of
        from evolvent.learn.sequence.imitation import take_step
        from evolvent.models.team.action_heads import Allowed

        config, window = self.config, self.windows.sample(self.config.batch, generator)
        out = self.policy(read_of(self.policy, self.windows, window))
        logp = self.policy.action.logp(out, self.policy.sigma, window.action_MK, Allowed()).sum(-1)
        loss = -logp[window.mask_MK].mean()
        take_step(self.adam, loss, lr=config.lr, grad_clip=config.grad_clip)
        target = self.norm.normalise(self._came[window.row_MK, window.agent_MK])
        error = (self.critic(window.state_MKS) - target)[window.mask_MK].square().mean()
        take_step(self.critic_adam, error, lr=config.lr, grad_clip=config.grad_clip)
        return {"loss": loss.item(), "value_loss": error.item()}

    def play(self, update: int) -> None:
        """One online update: whole attempts in fresh copies, then PPO on them; ends the update."""
        from evolvent.credit import agent_gae

        offline, steps, norm = self.offline, self.steps, self.norm
        steps.begin()
        view = steps.see(self.course.restart(update), 0)
        self.acting.begin()
        for _ in range(self.each // EPISODES):
            with offline.clock("act"):  # ACT
                action, logp, read = self.acting.act(view, False, offline.generator)
                value = self.value(view).detach()
            with offline.clock("step"):  # STEP
                frame = self.course.step(action.cpu().numpy())
            view = steps.add(action, logp, value, frame, **read._asdict())
            self.acting.follow(frame)
        with offline.clock("credit"):  # CREDIT
            batch = steps.batch(self.value, norm.denormalise)
            ledger = agent_gae.assign(batch.rollout, agent_gae.Config(GAMMA, GAE_LAMBDA, pooled=True))
        with offline.clock("learn"):  # LEARN
            metrics = self._improve(batch, batch.credit(ledger))
            metrics |= self._fit(batch, ledger)
        gained = {name: one for name, one in self.course.metrics().items() if isinstance(one, float)}
        offline.log(**gained, **metrics)

    def value(self, view: Any) -> Tensor:
        """What the critic says, the same for every agent, ``[B, A]``."""
        return self.critic(view.state).unsqueeze(-1).expand(-1, self._agents)

    def _improve(self, batch: Batch, adv_TBA: Tensor) -> dict[str, float]:
        from evolvent.algos.madt.acting import Read
        from evolvent.learn.losses import clipped_share, clipped_surrogate, masked_mean, normalised
        from evolvent.learn.team.descent import Rows, descend

        config, policy = self.config, self.policy
        seen, action, old = batch.view.flat(), batch.action.flatten(0, 1), batch.logp.flatten(0, 1)
        adv = normalised(adv_TBA, batch.view.active).flatten(0, 1)
        read = Read(*(batch.extra[name].flatten(0, 1) for name in Read._fields))

        def loss_of(rows: Rows) -> tuple[Tensor, dict[str, Tensor | float]]:
            view, out = seen[rows], policy.now(Read(*(column[rows] for column in read)))
            allowed = policy.action.allowed(view.available)
            logp, entropy = policy.action.logprobs(out, policy.sigma, action[rows], allowed)
            gain = clipped_surrogate(logp, old[rows], adv[rows], clip=config.clip, parts="product")
            gain, entropy = (masked_mean(x, view.active) for x in (gain, entropy))
            moved = clipped_share(logp, old[rows], config.clip, view.active)
            return -gain - config.entropy * entropy, {"policy_loss": -gain, "entropy": entropy, "clipped": moved}

        passes = batch.passes(config.epochs, config.minibatches, self.offline.generator)
        return descend(self.adam, passes, loss_of, adv, mask=seen.active, grad_clip=config.grad_clip)

    def _fit(self, batch: Batch, ledger: Any) -> dict[str, float]:
        from evolvent.learn.team.critic import fit_state_critic

        config = self.config
        passes = batch.passes(config.epochs, config.minibatches, self.offline.generator)
        limits = {"clip": config.clip, "grad_clip": config.grad_clip}
        return fit_state_critic(self.critic, self.critic_adam, self.norm, batch, ledger, passes, **limits)


def make_nets(config: Config, views: Views) -> tuple[Policy, Critic, ValueNorm]:
    """Policy, critic and the scale of its values, on the device of ``views``."""
    from evolvent.algos.madt.acting import Policy
    from evolvent.learn.team.value_norm import ValueNorm
    from evolvent.models.team.actors import Critic

    policy = Policy(views.team, ORDER[config.tokens], config.width, config.blocks)  # type: ignore[arg-type]
    return policy.to(views.device), Critic(views.state_dim).to(views.device), ValueNorm()


def _played(config: Config, views: Views) -> tuple[Act, dict[str, Any]]:
    from evolvent.algos.madt.acting import Recent

    policy, critic, norm = make_nets(config, views)
    return Recent(policy, config.context), {"policy": policy, "critic": critic, "norm": norm}


evaluate, policy = partial(evaluate_team, Config, _played), partial(policy_of, Config, _played)
