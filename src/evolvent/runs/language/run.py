"""A run that trains a language model: tasks, attempts, clock, learner, evaluation, checkpoints. Loops: ``algos/``.

A run that was killed goes on after its last checkpoint (by default: after its last finished update) with the same
weights, optimizer state and random streams; tasks, attempts and draws are seeded by the number of the update.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from evolvent.core.episode import Episode
from evolvent.core.folder import RunFolder
from evolvent.core.ledger import Ledger
from evolvent.core.protocols import Env, Task
from evolvent.core.seeding import seed_tree
from evolvent.evaluate.live import Live, count
from evolvent.play.attempt import play
from evolvent.play.renderers import renderer
from evolvent.play.settings import AttemptSettings, Budget
from evolvent.play.together import Player
from evolvent.runs.account import changed
from evolvent.runs.copies import Played, PlayerOf
from evolvent.runs.language.config import LanguageConfig
from evolvent.runs.language.credit import Rule
from evolvent.runs.language.curriculum import Curriculum
from evolvent.runs.language.evaluation import outcome, passed, random_play, summarise
from evolvent.runs.language.health import Health
from evolvent.runs.language.learn import logprobs_of, training_batch, with_shares
from evolvent.runs.language.log import Shown, described, facts, sampled_tokens, update_row
from evolvent.runs.language.start import Needs, check_settings, tasks_of
from evolvent.runs.language.tasks import drawn, repeated
from evolvent.runs.language.weights import Weights
from evolvent.runs.opening import FILE, Started, started
from evolvent.runs.shell import Shell, threads

if TYPE_CHECKING:
    from evolvent.learn.critics.token import TokenCritic
    from evolvent.learn.tokens.batch import Unit
    from evolvent.learn.tokens.logprobs import ActionLogprobs, TokenLogprobs
    from evolvent.learn.tokens.units import Loss
    from evolvent.models.language.acting import Acting
    from evolvent.runs.language.memory import LanguageMemory

REFERENCE = "reference"
"""Name of the adapter that stays as it was when training began."""


class LanguageRun:
    """What a learner's loop works with; made by ``open_language``.

    Attributes:
        model: the ``models.language.model.LanguageModel``.
        copies: of the environment.
        heldout: the tasks of evaluations.
        shell: clock, updates, checkpoints; ``clock`` and ``keep`` are its.
        attempt_settings: how attempts go; one agent at first.
        learners: number of an update → whose weights move in it; all at first.
        memory: what learns beside the weights, where ``plan.memory`` asks for it.
        acting: how the model decides while it learns.
        reference: the adapter whose weights divergence is measured from; ``None`` = the frozen base.
        judge: what an evaluation measures before it attempts tasks; nothing at first.
    """

    def __init__(
        self,
        config: LanguageConfig,
        folder: RunFolder,
        live: Live,
        begun: Started[tuple[list[Task], list[Task]]],
        *,
        adapters: Sequence[str],
        resume: bool,
    ) -> None:
        import torch

        from evolvent.models.language.acting import Acting

        self.config, self.folder, self.live = config, folder, live
        self.copies, model, (self._tasks, self.heldout) = begun
        self.copies.workers, self.model = config.plan.workers, model
        plan = config.plan
        budget = Budget(turns=plan.turns, tokens=plan.tokens, context=model.context, answer=plan.answer)
        self.attempt_settings = AttemptSettings(renderer(plan.style, model), budget=budget, transcript=plan.transcript)
        self.learners: Callable[[int], Sequence[str]] = lambda _: tuple(adapters)
        self.optimizers = {
            name: torch.optim.AdamW(model.trainable(name), lr=config.lr, weight_decay=0.0) for name in adapters
        }
        self.generator, self.reference = torch.Generator(), _reference(config, model, folder)
        self.judge: Callable[[], object] = lambda: None
        self.attempts = self.sampled = 0
        self._waited = False
        self.acting = Acting(model, config.act, config.temperature)
        self.exact = model.dtype == torch.float32 and config.plan.sampler == "own"
        self.shell = Shell(
            folder,
            live,
            config.updates,
            plan.save_every,
            plan.eval_every,
            resume=resume,
            evaluate=self.evaluate,
            state=lambda: {"attempts": self.attempts, "sampled": self.sampled, "waited": self._waited},
            spent=self._spent,
            signs=Health(exact=self.exact).look,
        )
        self.clock, self.keep = self.shell.clock, self.shell.keep
        self.keep(**{f"weights.{name}": Weights(model, name) for name in adapters})
        self.keep(**{f"optimizer.{name}": optimizer for name, optimizer in self.optimizers.items()})
        self.memory: LanguageMemory | None = None
        if plan.memory:
            from evolvent.runs.language.memory import LanguageMemory

            self.memory = LanguageMemory(plan, folder.path / FILE, config.seed, self.env.reward_range)
            self.keep(memory=self.memory)
        self._curriculum = Curriculum(config, self._tasks)
        if (plan.curriculum, plan.allocation) != ("none", "even"):
            self.keep(curriculum=self._curriculum)
        self._shown, self._played = Shown(folder, live, plan.record, config.seed), Played()

    @property
    def env(self) -> Env:
        """One copy of the environment, to ask it for names and limits."""
        return self.copies.first

    @property
    def update(self) -> int:
        """Number of updates finished."""
        return self.shell.update

    # ---------------------------------------------------------------------------------------------- the loop
    def updates(self) -> Iterator[int]:
        """The numbers of the updates to do, 0-based; see ``Shell.updates``."""
        self._begin()
        for update in self.shell.updates():
            self.generator.manual_seed(seed_tree(self.config.seed, "update", update))
            yield update

    def collect(
        self, player: PlayerOf | None = None, *, again: int = 0, which: Sequence[tuple[int, int]] = ()
    ) -> list[Episode]:
        """``group`` attempts at each of ``prompts`` tasks, or as ``plan.allocation`` distributes them; those whose
        environment broke are left out and counted.

        Args:
            player: how an attempt goes, where ``attempt_settings`` does not say it.
            again: 1, 2, … for further draws of tasks within an update.
            which: numbers (task, attempt) of those to make, all by default.

        Raises:
            EnvError: more than half of the update's attempts broke.
        """
        config, now = self.config, (self.update, again) if again else (self.update,)
        tasks = self.tasks_of(self.update, again)
        which = which or self._curriculum.which(tasks)
        seeds = [seed_tree(config.seed, "attempt", *now, n, g) for n, g in which]
        jobs = [(tasks[n], seed, ".".join(map(str, (*now, n)))) for (n, _), seed in zip(which, seeds, strict=True)]
        played = self._play(jobs, self.acting, player or self.attempt)
        self.shell.seconds["act"] += played.act_s
        self.shell.seconds["step"] += played.step_s
        self._played += played
        self._played.check(f"of update {self.update + 1}")
        return played.episodes

    def tasks_of(self, update: int, again: int = 0) -> list[Task]:
        """The training tasks of an update; ``again``: 1, 2, … for further draws within it."""
        config = self.config
        if config.plan.curriculum == "sec":
            tasks = self._curriculum.tasks(update, again)
        elif again:
            tasks = drawn(self.env, config.prompts, seed_tree(config.seed, "tasks", update, again) % 2**31)
        else:
            tasks = self._tasks[update * config.prompts :][: config.prompts]
        return self._curriculum.noted(tasks)

    def early(self, updates: int) -> bool:
        """Whether this is one of the first ``updates``, in which the policy waits; not once half the budget is gone."""
        self._waited = self._waited or self.update >= updates or self._spent() >= 0.5
        return not self._waited

    def attempt(self, env: Env, task: Task, seed: int, group: str, *, learns: bool = True) -> Player:
        """One attempt by ``attempt_settings``, with memories where there are any; frozen unless it ``learns``."""
        if self.memory is None:
            return play(env, task, self.attempt_settings, seed=seed, group=group)
        return self.memory.play(env, task, self.attempt_settings, seed=seed, group=group, learns=learns)

    def improve(
        self,
        objective: Loss,
        ledger: Ledger,
        *,
        level: str,
        unit: Unit = "token",
        adapter: str = "policy",
        kl_stop: float = 0.0,
        replayed: int = 0,
    ) -> dict[str, float]:
        """Train the policy on the attempts of a ledger for ``epochs`` passes.

        Args:
            objective: the loss.
            ledger: the credit of the attempts, which is their advantage.
            level: of the credit.
            unit: "token", or "action" for whole actions chosen from a list.
            adapter: whose weights move; among several agents it is the one of that name, by its own decisions.
            kl_stop: discard a minibatch's step where the policy moved further than this; 0 = never.
            replayed: so many of the attempts, the last ones, were sampled by older policies.
        """
        from evolvent.learn.tokens.policy_gradient import improve, reference_kl

        config, plan = self.config, self.config.plan
        fresh = 0 if self.exact else len(ledger.episodes) - replayed
        batch = training_batch(ledger, config, adapter, level=level, unit=unit, fresh=fresh)
        if plan.truncated != "count" and not len(batch.units):
            return {"untrained": 1.0}
        policy, base, away = self.logprobs(adapter, unit), self.logprobs(self.reference, unit), dict[str, float]()
        if not objective.needs_reference and plan.lora_rank:
            away["kl_ref"] = reference_kl(batch, policy, base, micro_tokens=plan.micro_tokens, which=self.update)
        metrics = improve(
            objective,
            batch,
            policy,
            self.optimizers[adapter],
            epochs=config.epochs,
            minibatches=config.minibatches,
            micro_tokens=plan.micro_tokens,
            kl_stop=kl_stop,
            grad_clip=config.grad_clip,
            generator=self.generator,
            reference=base if objective.needs_reference else None,
        )
        return away | with_shares(metrics)

    def critic(self, lr: float, clip: float) -> TokenCritic:
        """A value head on the frozen base; it is part of the checkpoints."""
        from evolvent.learn.critics.token import TokenCritic

        model, seed = self.model, seed_tree(self.config.seed, "critic") % 2**31
        critic = TokenCritic(
            model.states, model.width, lr=lr, clip=clip, seed=seed, device=model.device, context=model.context
        )
        self.keep(critic=critic)
        return critic

    def logprobs(self, adapter: str | None, unit: Unit = "token") -> TokenLogprobs | ActionLogprobs:
        """The model with some adapter (``None``: the frozen base): log-probabilities of what was sampled."""
        return logprobs_of(self.model, adapter, self.config, unit)

    def log(self, episodes: Sequence[Episode], ledger: Ledger, **values: float) -> None:
        """End an update: settle the memory, write the update's line and some of its attempts.

        Raises:
            ModelError: a value is not finite: the run stops with its last checkpoint.
        """
        self.attempts += len(episodes)
        self.sampled += sampled_tokens(episodes)
        settled = {} if self.memory is None else self.memory.settle(self.acting, self.attempt_settings, ledger)
        row = update_row(episodes, self._played, self.shell.seconds)
        self._played = Played()
        settled |= self._curriculum.learn(ledger)
        self.shell.tell(facts(self.logged(row, episodes, ledger, values | settled)))

    def logged(
        self, row: Mapping[str, Any], episodes: Sequence[Episode], ledger: Ledger, learned: Mapping[str, float]
    ) -> dict[str, Any]:
        """End an update with these columns and what was learned; some of its attempts are kept to be seen.

        Raises:
            ModelError: a value is not finite.
        """
        line = self.shell.log(self.attempts, row, learned)
        self._shown.add(self.update, episodes, ledger)
        return line

    # ---------------------------------------------------------------------------------------------- judging
    def evaluate(self) -> dict[str, Any]:
        """Attempt the held-out tasks greedily and log it; without an environment only what ``judge`` does."""
        self.judge()
        if not self.heldout:
            return {}
        result = self.attempt_heldout("greedy", keep="after" if self.update else "before")
        self.folder.log(self.attempts, phase="eval", **result)
        self.shell.signs({"phase": "eval", **result})
        self.live.note(f"held-out tasks after update {self.update}: {described(result)}")
        return result

    def attempt_heldout(self, how: str, attempts: int = 0, *, keep: str = "") -> dict[str, Any]:
        """Attempts at the held-out tasks; see ``evaluation.summarise``, and ``passed`` where ``attempts`` are given.

        ``greedy``: one at each; ``sampled``: so many ``attempts`` at each, by default several where there are fewer
        than ``eval_tasks``. ``keep`` them in the folder as those "before" learning or "after" it.
        """
        from evolvent.models.language.acting import Acting

        acting = Acting(self.model, self.config.act, 0.0 if how == "greedy" else self.config.temperature)
        tasks = self.heldout if how == "greedy" else repeated(self.heldout, self.config.plan.eval_tasks)
        tasks = self.heldout * attempts if attempts else tasks
        jobs = [(task, seed_tree(self.config.seed, "eval", i), task.id) for i, task in enumerate(tasks)]
        played = self._play(jobs, acting, partial(self.attempt, learns=False))
        played.check(f"at held-out tasks of {self.config.env}")
        broken = [task for task, _ in played.broken]
        if keep:
            changed.write(self.folder.path, keep, played.episodes)
        result = summarise(played.episodes, broken, self.env.reward_range[0])
        return result | (passed(played.episodes, broken, attempts) if attempts else {})

    def finish(self, algo: str, rule: Rule) -> dict[str, Any]:
        """The last evaluation, greedy and sampled, as the content of ``summary.json``; keeps the trained model."""
        greedy, sampled = self.shell.judged(self.attempts), self.attempt_heldout("sampled")
        self.keep_model(rule)
        metrics = outcome(self.folder.read_metrics(), greedy, sampled)
        if not metrics["policy_updates"]:
            self.live.note(f"! the policy was trained in none of {self.update} updates: this is the model as it began")
        return {
            "algo": algo,
            "env": self.config.env,
            "model": self.config.model,
            "seed": self.config.seed,
            "agents": list(self.optimizers),
            "steps": self.attempts,
            "updates": self.update,
            **metrics,
            **({} if self.memory is None else self.memory.summary()),
        }

    def keep_model(self, rule: Rule) -> None:
        """Write the trained model, and the credit of the attempts that are shown."""
        self._shown.finish(rule, self.model.decode)
        for adapter in self.optimizers:
            self.model.save(self.folder.path / "model" / (adapter if len(self.optimizers) > 1 else ""), adapter)

    def close(self) -> None:
        """Release the memory; environments and model belong to who opened them."""
        if self.memory is not None:
            self.memory.close()

    # ---------------------------------------------------------------------------------------------- inside
    def _begin(self) -> None:
        """Go on where the newest checkpoint of a resumed run stands; otherwise look at where learning starts."""
        if state := self.shell.restore(lambda state: int(state["attempts"])):
            self.attempts, self.sampled = int(state["attempts"]), int(state["sampled"])
            self._waited = bool(state.get("waited"))  # a larger budget does not begin an early stage anew
            for row in self.folder.read_metrics():
                self.shell.signs(row)  # what was said is not said again
            return
        if self.shell.resume and self.memory is not None:
            self.memory.forget()
        if self.heldout:
            some = count(len(self.heldout), "held-out task")
            self.live.status(f"attempting {some} of {self.config.env} before learning")
            tasks = repeated(self.heldout, self.config.plan.eval_tasks)
            self.folder.log(
                0, phase="random", **random_play(self.copies.spec, tasks, self.config.seed, self.attempt_settings.world)
            )
        self.evaluate()

    def _play(self, jobs: Sequence[tuple[Task, int, str]], acting: Acting, player: PlayerOf) -> Played:
        played = self.copies.play(jobs, acting, player)
        if broken := played.broken:
            self.live.note(f"! {len(broken)} of {len(jobs)} attempts broke: {broken[0][1]}")
        return played

    def _spent(self) -> float:
        """How much of the minutes or of the tokens is gone, as a share; 0 without such limits."""
        spent = ((self.folder.seconds / 60, self.config.plan.minutes), (self.sampled, self.config.plan.sampled))
        return max(used / most if most > 0 else 0.0 for used, most in spent)


def _reference(config: LanguageConfig, model: Any, folder: RunFolder) -> str | None:
    """A second copy of the adapter that training starts from, where it starts from one; else the frozen base.

    Runs of earlier versions, which have no such setting, measured from the base and go on so.
    """
    stored = folder.config.get("plan", {}) if (folder.path / "config.json").is_file() else {"reference": ""}
    start = model.started_from
    if start is None or config.plan.reference == "base" or "reference" not in stored:
        return None
    model.load_adapter(start, REFERENCE)
    return REFERENCE


@contextmanager
def open_language(
    config: LanguageConfig,
    folder: RunFolder,
    live: Live,
    *,
    resume: bool = False,
    adapters: Sequence[str] = ("policy",),
    others: Sequence[str] = (),
    needs: Needs = Needs(),
) -> Iterator[LanguageRun]:
    """Check the settings, open the environment, load the model, and close both at the end.

    ``adapters``: one set of trainable weights each, on one shared base (LoRA only, where there are several).
    ``others``: adapters that the algorithm trains, keeps and restores by itself. ``needs``: what it cannot do without.

    Raises:
        BadInput: settings that do not fit together; nothing is loaded before they are known to.
    """
    import torch

    from evolvent.models.language import model as language

    plan = config.plan

    def load(name: str, progress: Any) -> Any:
        torch.manual_seed(seed_tree(config.seed, "torch"))  # nothing should draw from it; a checkpoint holds its state
        return language.load(
            name,
            dtype=plan.dtype,
            lora_rank=plan.lora_rank,
            lora_alpha=plan.lora_alpha,
            targets=plan.lora_targets,
            adapters=(*adapters, *others),
            device=plan.device,
            gradient_checkpointing=plan.checkpointing,
            seed=seed_tree(config.seed, "weights") % 2**31,
            progress=progress,
        )

    check_settings(config, (*adapters, *others), needs)
    prepare = partial(tasks_of, config, needs=needs, note=live.note)
    writes = "the weights of a model are trained"
    with threads(plan.threads), started(config, folder, live, prepare, load=load, writes=writes) as begun:
        if plan.sampler == "vllm":
            from evolvent.models.language.vllm import VllmSampler

            begun.model.sampler = VllmSampler(begun.model)
        with closing(LanguageRun(config, folder, live, begun, adapters=adapters, resume=resume)) as run:
            yield run
