"""ArCHer: off-policy critics of whole utterances, learned from a replay, give the advantage of a token-level policy.

Paper: Zhou et al. 2024, ArCHer: Training Language Model Agents via Hierarchical Multi-Turn RL (arXiv 2402.19446).

    Q_k(o, a) -> r + gamma Vslow_k(o'),    V_k(o) -> Qslow_k(o, a~),  a~ ~ pi(o) drawn now,    k = 1, 2
    A  = min(Q_1, Q_2)(o, a~) - min(V_1, V_2)(o),              L_pi = - mean A sum_j log pi(w~_j | o, w~_{<j})

at situations o from the replay; slow copies move by tau in every pass. In the first ``warmup`` updates only the critics
learn, at most in half of the minutes or tokens.

Deviations: the critics are MLPs on the frozen base's hidden states instead of a second, trained encoder, so the
replay's features are computed once. They are alone in 5 updates (released: 20 of 2,000). Fresh answers are drawn once
an update, at ``draws`` situations: they serve the state values in all passes and the policy afterwards (released: anew
in every step). One pass of the policy instead of three (``--epochs``), 32 attempts an update instead of 128 (WebShop
512), a replay of 4,096 decisions instead of 100,000 steps, rates for LoRA. No token baseline.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evolvent.core.episode import Episode
from evolvent.core.folder import RunFolder
from evolvent.core.protocols import Request
from evolvent.core.seeding import seed_tree
from evolvent.credit import step_utterance_critic
from evolvent.evaluate.live import Live
from evolvent.runs.language.system import CRITIC, ClippedConfig, LanguageRun, Needs, Rule, check_stages, open_language

if TYPE_CHECKING:
    from evolvent.algos.archer.utterance import Situation

PAPER = "arXiv 2402.19446"
LEVELS = ("step",)
STATUS = "lightly tested"
RULE = Rule.of(step_utterance_critic, "archer", "action value minus state value, the lower of two critics")
BATCH = 256  # decisions of a critic's step: 8 with 32 accumulated, as released


@dataclass(frozen=True)
class Config(ClippedConfig):
    """Settings of ArCHer."""

    gamma: float = 0.95
    """Discount factor per utterance."""
    tau: float = 0.1
    """Soft update rate (Polyak) of the target critics in a pass."""
    warmup: int = 5
    """Number of first updates in which only the critics are trained."""
    passes: int = 50
    """Passes of the critics over the replay in an update."""
    draws: int = 128
    """Observations drawn from the replay in an update, at each of which the policy samples a new answer."""
    capacity: int = 4096
    """Capacity of the replay, in decisions."""
    critic_lr: float = 3e-4
    """Learning rate of the critics."""


def run(config: Config, folder: RunFolder, live: Live, *, resume: bool = False) -> dict[str, Any]:
    """Train and return the summary that stands in ``summary.json``."""
    from evolvent.algos.archer.utterance import UtteranceCriticConfig, UtteranceCritics
    from evolvent.learn.tokens.objectives_of_papers import ARCHER

    settings = UtteranceCriticConfig(config.critic_lr, config.gamma, config.tau, config.capacity, config.grad_clip)
    unit = "token" if config.act == "trie" else "action"
    check_stages(config.updates, config.warmup, "--warmup")
    with open_language(config, folder, live, resume=resume, needs=Needs(base=CRITIC)) as run:
        seed = seed_tree(config.seed, "critic") % 2**31
        critics = UtteranceCritics(run.model.states, run.model.width, run.model.context, settings, seed=seed)
        run.keep(critics=critics)
        for update in run.updates():
            episodes = run.collect()  # ACT and STEP
            with run.clock("credit"):  # CREDIT
                critics.add(episodes)
                drawn = critics.draw(config.draws, run.generator)
                answered = _answers(run, drawn, update)
                said = [e.token_ids for e in answered]
                metrics = critics.learn(drawn, said, passes=config.passes, batch=BATCH, generator=run.generator)
                critics.note([*episodes, *answered])
                ledger, fresh = step_utterance_critic.assign(episodes), step_utterance_critic.assign(answered)
            if not run.early(config.warmup):
                with run.clock("learn"):  # LEARN
                    metrics |= run.improve(ARCHER, fresh, level="step", unit=unit)
            run.log(episodes, ledger, **metrics)
        return run.finish("archer", RULE)


def _answers(run: LanguageRun, drawn: list[Situation], update: int) -> list[Episode]:
    """What the policy says now in situations of the replay, each as an attempt of one decision."""
    from evolvent.models.language.acting import Acting

    config, env = run.config, run.env
    room = config.plan.answer or env.max_tokens
    seeds = [seed_tree(config.seed, "fresh", update, n) for n in range(len(drawn))]
    requests = [
        Request(s.context, seed, max(map(len, s.choices), default=room), env.stop, s.choices)
        for s, seed in zip(drawn, seeds, strict=True)
    ]
    answered: list[Episode] = []
    for request, said in zip(requests, Acting(run.model, config.act, config.temperature)(requests), strict=True):
        episode = Episode("replayed", env=env.name, seed=request.seed)
        episode.observe("", token_ids=request.tokens, parent=-1)
        episode.act(
            said.text, token_ids=said.token_ids, logp=said.logp, choices=request.choice_tokens, finish=said.finish
        )
        for name, column in said.notes.items():
            episode.note(name, column)
        episode.end(truncated=True)
        answered.append(episode)
    return answered
