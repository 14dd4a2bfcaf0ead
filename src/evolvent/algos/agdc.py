"""AGDC: a searcher that is paid for being sure, and stops itself; PPO, DQN or DDPG learns the way.

Paper: Shi et al., AAAI 2025, Autonomous goal detection and cessation in reinforcement learning: a case study on source
term estimation (arXiv 2409.09541).

    v = sense(p);  belief.update(v, p);  fired = sqrt(Var x + Var y) < zeta
    r = 100 if fired else -1,   the attempt ends where it fired;   no other signal says that the source was found

The module is the same around every learner, and stands in the world (``envs.team.ste``): self-feedback
(``--env ste:wide,feedback=false`` pays -1 a step and nothing else), stopping (``stops=false``) and what is seen
(``sees=position``, as in the released code) are options there. ``--learner`` says what learns: ppo, dqn (four moves),
or ddpg (angles, ``heading=true``), each with ``SETTINGS`` for this world; ``evolvent run ppo --env ste:wide`` has all
of its own. The score counts attempts that stopped *and* were right, and stands beside random moves; ``infotaxis`` has
planners that learn nothing, on the same searches where the seed is the same.

Deviations: what the learner sees are features of the belief (in the code its position alone), so that it may learn
where to look and not one path; 32 searches at once; the networks and settings of this library's learners (the paper's
are not published).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

from evolvent import catalogue
from evolvent.core.config import with_fields
from evolvent.core.errors import BadInput, closest
from evolvent.core.folder import RunFolder
from evolvent.evaluate.live import Live
from evolvent.runs.team.config import EnvConfig, Plan
from evolvent.runs.team.frozen import evaluate_team, policy_of
from evolvent.runs.team.searches import KIND as KIND
from evolvent.runs.team.searches import judged, searching, summary_of

if TYPE_CHECKING:
    from evolvent.learn.team.player import Act
    from evolvent.learn.team.views import Views

PAPER = "arXiv 2409.09541"
LEVELS = ("step",)
STATUS = "lightly tested"
_REPLAY = {"batch": 256, "warmup": 10_000, "train_every": 1, "buffer": 200_000}
SETTINGS: dict[str, dict[str, Any]] = {
    "ppo": {"entropy": 0.01, "epochs": 4, "minibatches": 8},
    "dqn": {**_REPLAY, "double": True, "n_step": 3, "target_every": 200, "exploration": 150_000},
    "ddpg": {**_REPLAY, "noise": 0.2, "critic_lr": 1e-3},
}
"""What each learner has otherwise than by default."""
_PLAN = Plan(eval_episodes=224)


@dataclass(frozen=True)
class Config(EnvConfig):
    """Settings of AGDC."""

    env: str = "ste:wide"
    """The search with its options: ste:wide, ste:released."""
    learner: Literal["ppo", "dqn", "ddpg"] = "ppo"
    """What learns: ppo; dqn, where there are four moves; ddpg, with heading=true."""
    steps: int = 600_000
    """Total environment steps over all copies. Only whole updates are run."""
    horizon: int = 128
    """Steps of each copy between two updates; of dqn and ddpg, between two lines of the log."""
    hidden: tuple[int, ...] = (128, 64)
    """Hidden layers of the networks, as their widths."""
    lr: float = 3e-4
    """Learning rate (Adam)."""
    plan: Plan = _PLAN
    """Workers, device, evaluations, checkpoints."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    from evolvent.runs.team.run import open_team

    learner, own = _learner(config)
    with open_team(config, folder, live, resume=resume) as team:
        options = searching(team.env).options
        if options.heading != (config.learner == "ddpg") and config.learner != "ppo":
            got, do = f"--learner {config.learner}", f"--env …,heading={str(not options.heading).lower()}"
            raise BadInput("moves of another kind than the learner's", got=got, where=config.env, do=do)
        learner.loop(own, team)
        summary = team.finish("agdc")
        episodes = config.plan.eval_episodes
        return summary | summary_of("agdc", config, judged(config, lambda env: team.player, live, episodes, folder))


def _learner(config: Config) -> tuple[ModuleType, Any]:
    """The system that learns, and its settings.

    Raises:
        BadInput: no such learner.
    """
    if config.learner not in SETTINGS:
        known = closest(str(config.learner), list(SETTINGS))
        raise BadInput("unknown learner", got=config.learner, expected=known, where="--learner")
    module = catalogue.system(config.learner).module
    shared = ("env", "seed", "steps", "envs", "horizon", "gamma", "plan", "hidden", "lr")
    given = {name: getattr(config, name) for name in shared}
    return module, with_fields(module.Config(), **given, **SETTINGS[config.learner])


def _played(config: Config, views: Views) -> tuple[Act, dict[str, Any]]:
    learner, own = _learner(config)
    return learner.played(own, views)


evaluate, policy = partial(evaluate_team, Config, _played), partial(policy_of, Config, _played)
