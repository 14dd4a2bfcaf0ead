"""What the exports share: which decisions of a run, by which rule they are paid, and where they go."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, TypeAlias

import numpy as np
from tyro.conf import OmitArgPrefixes, Positional, arg

from evolvent import catalogue
from evolvent.cli.credit import applied, read
from evolvent.core.branches import linear
from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.core.jsonfile import check_target, dump, write_atomic
from evolvent.core.ledger import Ledger
from evolvent.evaluate.live import Live, count
from evolvent.runs.language.credit import Rule

Folder: TypeAlias = Annotated[Path, Positional, arg(help="run folder with recorded attempts.")]


@dataclass(frozen=True)
class Export:
    """What is exported.

    Attributes:
        out: file to write.
        rule: credit rule with its settings, e.g. step_leave_one_out or token_bad:gamma=0.95,gae_lambda=1.0; default:
            the rule that trained the run, if it has no settings.
        agent: only decisions of this agent; a row of tokens is for one.
        last: only the attempts of the last update, which are all recorded.
        plain: plain text output even on a terminal.
    """

    out: Path
    rule: str = ""
    agent: str = ""
    last: bool = False
    plain: bool = False

    def live(self) -> Live:
        """Where it tells what it does."""
        return Live(plain=True if self.plain else None)

    def write(self, rows: Iterable[Mapping[str, Any]], folder: Path, thing: str) -> None:
        """JSON lines, one row in memory at a time: each holds the whole conversation before it.

        Raises:
            BadInput: there is none.
        """
        n = 0

        def lines() -> Iterator[str]:
            nonlocal n
            for row in rows:
                n += 1
                yield dump(row) + "\n"
            if not n:
                raise BadInput("nothing to export: no decision has credit", got=str(folder), where="evolvent export")

        write_atomic(self.out, lines())
        with self.live() as live:
            live.note(f"{count(n, thing)} of {folder} → {self.out}")


Asked: TypeAlias = OmitArgPrefixes[Export]


@dataclass(frozen=True, eq=False)
class Credited:
    """The attempts of a run, one by one, and their credit by a rule."""

    folder: RunFolder
    episodes: list[Episode]
    rule: Rule
    ledger: Ledger

    @property
    def by_step(self) -> list[list[float | None]]:
        """Credit of the decisions of each attempt; ``None`` where the rule gave none."""
        if self.rule.level == "token":
            self.ledger.project("token", "step")
        values = iter(self.ledger.values("step").tolist())
        return [[number(next(values)) for _ in range(episode.n_steps)] for episode in self.episodes]


def credited(folder: Path, export: Export, name: str, *, tokens: bool = False) -> Credited:
    """Read the run and compute the credit.

    Args:
        folder: of the run.
        export: which decisions, which rule.
        name: of the format.
        tokens: it has no use for decisions without token ids.

    Raises:
        BadInput: no such run, a rule that pays no decisions, none given and none known, nothing recorded.
    """
    opened = RunFolder.open(folder)
    rule = _rule(export.rule, opened, name)
    check_target(export.out, "--out")
    where = f"evolvent export {name}"
    with opened, export.live() as live:
        live.status("reading episodes.jsonl")
        episodes = linear(read(opened, last=export.last, where=where))
        if tokens and not any(e.n_tokens for e in episodes):
            raise BadInput(
                "the run has recorded no tokens",
                got=f"{len(episodes)} attempts without token ids",
                where=where,
                expected="a run that trains a language model",
                do="record token_ids and logp as sampled (Episode.act)",
            )
        live.status(f"credit by {rule.name}")
        return Credited(opened, episodes, rule, rule.assign(episodes))


def number(value: float) -> float | None:
    """``None`` = not scored."""
    return float(value) if np.isfinite(value) else None


# -------------------------------------------------------------------------------------------------------- rules
def _rule(text: str, folder: RunFolder, name: str) -> Rule:
    """The rule by its name in ``credit/``, or the one that trained."""
    if not text:
        return _trained(folder.manifest(), f"evolvent export {name}")
    rule, config = catalogue.rule_with_settings(text)
    if rule.RECORD == "rollout" or rule.LEVEL not in ("token", "step", "agent"):
        raise BadInput(
            f"this credit rule pays nothing that {name} trains",
            got=f"{text} ({rule.LEVEL}, {rule.RECORD})",
            expected="a rule over episodes for tokens, steps or agents",
            where="--rule",
            do="see `evolvent list credit`",
        )
    chosen = Rule.of(rule, text, rule.summary, config)
    return dataclasses.replace(chosen, assign=lambda episodes: applied(rule, config, episodes, folder))


def _trained(manifest: dict[str, Any], where: str) -> Rule:
    """The rule of the run's algorithm, where it is one for tokens or steps that has no settings of the run."""
    algo: str = manifest["algo"]
    if algo == "import":
        raise BadInput(
            "which credit rule?",
            got="attempts that were imported: no rule trained them",
            expected="--rule NAME",
            where=where,
            do="give --rule, e.g. --rule step_leave_one_out; see `evolvent list credit`",
        )
    module = catalogue.system(algo).module
    rule = getattr(module, "RULE", None)
    if isinstance(rule, Rule) and rule.assign.__module__.startswith("evolvent.credit."):
        home = sys.modules[rule.assign.__module__]
        if not getattr(home, "LABEL", False):
            return dataclasses.replace(rule, name=home.__name__.rpartition(".")[2])
    modules = [
        m for m in vars(module).values() if isinstance(m, ModuleType) and m.__name__.startswith("evolvent.credit.")
    ]
    config: dict[str, Any] = manifest["config"]
    modules.sort(key=lambda m: getattr(m, "LEVEL", "") != config.get("level"))  # marft --level token
    names = [m.__name__.rpartition(".")[2] for m in modules]
    example = names[0] if names else "step_group_std"
    settings: Any = getattr(modules[0], "Config", None) if modules else None
    shared = [f.name for f in dataclasses.fields(settings) if f.name in config] if settings else []
    example += ":" * bool(shared) + ",".join(f"{name}={config[name]}" for name in shared)
    raise BadInput(
        "which credit rule?",
        got=f"a run of {algo}, whose rule has settings or is none for a policy gradient",
        expected="--rule NAME",
        where=where,
        do=f"e.g. --rule {example}; see `evolvent list credit`",
    )
