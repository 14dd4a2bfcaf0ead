"""Behaviour cloning: a team learns to do what recorded rollouts did. A kind of run of its own, in one file.

    evolvent run mappo --env spread:n=3 --steps 400000 --save-every 10 --keep-rollouts 0 --out runs/mappo
    evolvent run examples/behaviour_cloning.py --data runs/mappo --out runs/cloned
    evolvent eval runs/cloned
    evolvent compare runs/cloned runs/mappo

The first stores the rollout of every update. `evolvent run bc` (docs/recorded.md) is the whole of this.
"""

from contextlib import closing
from dataclasses import dataclass

import torch

from evolvent import envs
from evolvent.core.config import from_json
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.core.rollout_codec import load_rollout
from evolvent.core.seeding import rng, seed_tree
from evolvent.learn import checkpoint
from evolvent.learn.team.player import TeamPlayer
from evolvent.learn.team.views import Views
from evolvent.models.team.actors import Actors
from evolvent.runs.kind import Kind
from evolvent.runs.own.account import account
from evolvent.runs.shell import Shell
from evolvent.runs.team.actors import acting
from evolvent.runs.team.evaluation import random_act, summarise
from evolvent.runs.team.frozen import team_of

KIND = Kind("cloning", "behaviour cloning: a policy from recorded rollouts", account)


@dataclass(frozen=True)
class Config:
    """Settings of behaviour cloning."""

    data: str = ""
    """Run folder of a team whose rollouts are imitated."""
    env: str = ""
    """Environment that is played for evaluations; empty = that of the data."""
    seed: int = 0
    """Random seed of weights, minibatches and evaluations."""
    updates: int = 40
    """Updates of fifty minibatches of 512 steps; an evaluation after every tenth."""
    lr: float = 1e-3
    """Learning rate of Adam."""


def run(config, folder, live, *, resume=False):
    data, spec = recorded(config)
    team, views, actors = policy(config, spec)
    adam = torch.optim.Adam(actors.parameters(), lr=config.lr)

    def evaluate():
        folder.log(shell.update, phase="eval", **played(views, acting(actors), spec, config.seed))

    shell = Shell(folder, live, total=config.updates, eval_every=10, resume=resume, evaluate=evaluate)
    shell.keep(actors=actors, adam=adam)
    shell.restore(lambda state: state["update"])
    for update in shell.updates():
        draws = rng(config.seed, "batches", update)
        loss = torch.zeros(())
        with shell.clock("learn"):
            for _ in range(50):
                rows = torch.from_numpy(draws.integers(len(data["obs_TBAD"]), size=512))
                obs, action, open_ = (None if x is None else x[rows] for x in data.values())
                loss = -actors.logprobs(obs, action, available_BAN=open_).logp.sum(-1).mean()  # LEARN
                adam.zero_grad()
                loss.backward()
                adam.step()
        shell.log(update + 1, {}, {"loss": loss.item()})
        shell.tell([f"loss {loss.item():.3g}"])
    result = shell.judged(shell.update)
    base = played(views, random_act(team), spec, config.seed)
    return {
        "algo": "behaviour_cloning",
        "env": spec,
        "seed": config.seed,
        "score": {"name": "return", **result, "higher_is_better": True},
        "baseline": {"name": "random actions", **base},
    }


def evaluate(folder, live, episodes):
    config = from_json(Config, folder.config)
    _, spec = recorded(config)
    _, views, actors = policy(config, spec)
    checkpoint.load(checkpoint.latest(folder.path / "checkpoints"), {"actors": actors})
    return played(views, acting(actors), spec, config.seed, episodes or 32)


def recorded(config):
    """Columns of all stored rollouts, a row for each step of a copy, and the environment."""
    if not config.data:
        raise BadInput("nothing to imitate", expected="a run folder of a team", where="--data")
    folder = RunFolder.open(config.data)
    files = sorted(folder.path.glob("rollouts/*.json")) or [folder.path / "rollout.json"]
    rollouts, data = [load_rollout(file) for file in files], {}
    for name in ("obs_TBAD", "action_TBA", "available_TBAN"):
        parts = [getattr(one, name) for one in rollouts]
        data[name] = None if parts[0] is None else torch.cat([torch.from_numpy(x).flatten(0, 1) for x in parts])
    return data, config.env or folder.manifest()["env"]


def policy(config, spec):
    """The shape of the team, what it is shown, and its networks."""
    torch.manual_seed(seed_tree(config.seed, "weights"))
    team = team_of(spec)
    return team, Views(team, ids=True, device=torch.device("cpu")), Actors(team, team.obs_dim, ids=True)


def played(views, act, spec, seed, episodes=32):
    """Return of whole attempts, greedily."""
    env, generator = envs.load_team(spec, 8), torch.Generator().manual_seed(seed)
    with closing(env):
        player = TeamPlayer(views, act)
        return summarise(player.play(env, episodes=episodes, greedy=True, generator=generator, seed=seed))
