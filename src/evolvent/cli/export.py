"""`evolvent export verl`: recorded attempts of a run, with their credit, as a file that verl trains on."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

from tyro.conf import Positional

from evolvent import catalogue
from evolvent.cli.credit import incomplete, read
from evolvent.cli.export_pairs import pairs
from evolvent.cli.export_rows import atif, jsonl, tinker, trl
from evolvent.core.arguments import parsed
from evolvent.core.branches import linear
from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput, missing_extra
from evolvent.core.folder import RunFolder
from evolvent.core.jsonfile import check_target
from evolvent.evaluate.live import Live
from evolvent.runs.language.credit import Rule

_WHERE = "evolvent export verl"


def verl(
    folder: Annotated[Path, Positional],
    *,
    out: Path,
    rule: str = "",
    agent: str = "",
    last: bool = False,
    plain: bool = False,
) -> None:
    """Recorded attempts of a run with the advantage of every token, as the content of a verl.DataProto (docs/verl.md).

    Args:
        folder: run folder of a language model.
        out: file to write, e.g. batch.safetensors.
        rule: credit rule with its settings, e.g. step_group_std or token_bad:gamma=0.95,gae_lambda=1.0; default: the
            rule that trained the run, if it has no settings.
        agent: the agent whose decisions are exported, where there are several.
        last: only the attempts of the last update, which are all recorded.
        plain: plain text output even on a terminal.
    """
    opened = RunFolder.open(folder)
    manifest = opened.manifest()
    chosen = _rule(rule, manifest)
    check_target(out, "--out")
    try:
        from evolvent.learn.tokens import export_verl
    except ModuleNotFoundError as error:
        raise missing_extra(str(error.name), "train", _WHERE) from error
    with opened, Live(plain=True if plain else None) as live:
        live.status("reading episodes.jsonl")
        episodes = linear(read(opened, last=last, where=_WHERE))
        if not any(e.n_tokens for e in episodes):
            raise BadInput(
                "the run has recorded no tokens",
                got=f"{len(episodes)} attempts without token ids",
                where=_WHERE,
                expected="a run that trains a language model",
                do="record token_ids and logp as sampled (Episode.act)",
            )
        live.status(f"credit by {chosen.name}")
        ledger = chosen.assign(episodes)
        config: dict[str, Any] = manifest["config"]
        meta = {"temperature": float(config.get("temperature", 1.0)), "rule": chosen.name, "algo": manifest["algo"]}
        meta |= {"env": manifest["env"], "model": str(config.get("model", ""))}
        batch = export_verl.verl_batch(episodes, ledger, level=chosen.level, agent=agent, meta_info=meta)
        export_verl.save(out, batch)
        _tell(live, batch, episodes, f"{folder} → {out}")
        for warning in (*incomplete(episodes, config, finished=opened.finished), *batch.warnings):
            live.note(f"! {warning}")


def _tell(live: Live, batch: Any, episodes: Sequence[Episode], title: str) -> None:
    mask, adv = batch.tensors["response_mask"], batch.tensors["advantages"]
    rows: list[list[object]] = [
        ["attempts", len(episodes)],
        ["groups (uid)", len(set(batch.non_tensors["uid"]))],
        ["rows", len(batch)],
        ["decisions", sum(batch.non_tensors["__num_turns__"])],
        ["sampled tokens", sum(e.n_tokens for e in episodes)],
        ["tokens to train on", int(mask.sum())],
        ["sum of advantages", round(float(adv.sum()), 4)],
        ["longest prompt", batch.tensors["prompts"].shape[1]],
        ["longest response", batch.tensors["responses"].shape[1]],
        ["log-probabilities as sampled", "yes" if "old_log_probs" in batch.tensors else "no"],
        ["credit rule", batch.meta_info["rule"]],
    ]
    live.table(title, ["", "value"], rows)


# -------------------------------------------------------------------------------------------------------- rules
def _rule(text: str, manifest: dict[str, Any]) -> Rule:
    """The rule by its name in ``credit/``, or the one that trained."""
    if not text:
        return _trained(manifest)
    rule, config = catalogue.rule_with_settings(text)
    if rule.RECORD == "rollout" or rule.LEVEL not in ("token", "step", "agent"):
        raise BadInput(
            "this credit rule pays nothing that verl trains",
            got=f"{text} ({rule.LEVEL}, {rule.RECORD})",
            expected="a rule over episodes for tokens, steps or agents",
            where="--rule",
            do="see `evolvent list credit`",
        )
    return Rule.of(rule, text, rule.summary, config)


def _trained(manifest: dict[str, Any]) -> Rule:
    """The rule of the run's algorithm, where it is one for tokens or steps that has no settings of the run."""
    algo: str = manifest["algo"]
    if algo == "import":
        raise BadInput(
            "which credit rule?",
            got="attempts that were imported: no rule trained them",
            expected="--rule NAME",
            where=_WHERE,
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
        where=_WHERE,
        do=f"e.g. --rule {example}; see `evolvent list credit`",
    )


_FORMATS = {"verl": verl, "pairs": pairs, "jsonl": jsonl, "trl": trl, "tinker": tinker, "atif": atif}


def _main(arguments: list[str]) -> None:
    named = arguments[0] if arguments else "none"
    if named in ("-h", "--help"):
        said = {name: (inspect.getdoc(do) or "").split("\n")[0] for name, do in _FORMATS.items()}
        lines = (f"evolvent export {name:<6} DIR --out FILE   {what}\n" for name, what in said.items())
        sys.stdout.write("".join(lines) + "Settings of one: evolvent export NAME --help; the rule: --rule NAME\n")
    elif named in _FORMATS:
        parsed(_FORMATS[named], arguments[1:], f"evolvent export {named}")
    else:
        raise BadInput(
            "unknown format",
            got=named,
            expected=f"evolvent export {'|'.join(_FORMATS)} DIR --out FILE",
            where="evolvent export",
        )


COMMANDS = {"export": _main}
