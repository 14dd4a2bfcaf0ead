"""`evolvent export jsonl|trl|tinker|atif`: recorded decisions with their credit, for readers and trainers elsewhere."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from tyro.conf import Positional

from evolvent import catalogue
from evolvent.cli.credit import applied, read
from evolvent.core.branches import linear
from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput, missing_extra
from evolvent.core.folder import RunFolder
from evolvent.core.jsonfile import check_target, dump, write_atomic
from evolvent.core.ledger import Ledger
from evolvent.evaluate.live import Live, count
from evolvent.traces.atif import write_credit


def jsonl(
    folder: Annotated[Path, Positional],
    *,
    rule: str,
    out: Path,
    agent: str = "",
    last: bool = False,
    plain: bool = False,
) -> None:
    """Every decision with its context and its credit, a JSON line each; credit that a rule did not give is null.

    Args:
        folder: run folder with recorded attempts.
        rule: credit rule with its settings, e.g. step_leave_one_out.
        out: file to write.
        agent: only decisions of this agent.
        last: only the attempts of the last update.
        plain: plain text output even on a terminal.
    """
    episodes, ledger = _credited(folder, rule, out, last)
    rows: list[dict[str, Any]] = []
    for episode, step, credit in _decisions(episodes, ledger, agent):
        node = int(episode.step_nodes_T[step])
        text = list(episode.nodes)[node].text
        context = _messages(episode, node)[:-1]
        row = {"episode": episode.id, "step": step, "agent": episode.agents_T[step], "task": episode.task_id}
        row |= {"group": episode.group, "messages": context, "completion": text, "credit": credit}
        rows.append(row | {"reward": float(episode.rewards_T[step]), "success": episode.success})
    _write(rows, out, folder, "decision", plain)


def trl(
    folder: Annotated[Path, Positional],
    *,
    rule: str,
    out: Path,
    agent: str = "",
    last: bool = False,
    plain: bool = False,
) -> None:
    """Decisions with credit as rows of prompt and completion, with columns advantage, label and reward.

    No trainer of TRL that we know reads an advantage: it is for a loss of yours, for weights or a filter. label (the
    advantage is positive) is what KTO reads.

    Args:
        folder: run folder with recorded attempts.
        rule: credit rule with its settings, e.g. step_leave_one_out.
        out: file to write (JSON lines).
        agent: only decisions of this agent.
        last: only the attempts of the last update.
        plain: plain text output even on a terminal.
    """
    episodes, ledger = _credited(folder, rule, out, last)
    rows: list[dict[str, Any]] = []
    for episode, step, credit in _decisions(episodes, ledger, agent):
        if credit is not None:
            *prompt, done = _messages(episode, int(episode.step_nodes_T[step]))
            row = {"prompt": prompt, "completion": [done], "advantage": credit, "label": credit > 0}
            rows.append(row | {"reward": float(episode.rewards_T[step])})
    _write(rows, out, folder, "decision", plain)


def tinker(
    folder: Annotated[Path, Positional],
    *,
    rule: str,
    out: Path,
    agent: str = "",
    cross_entropy: bool = False,
    last: bool = False,
    plain: bool = False,
) -> None:
    """Conversations as tokens, targets, log-probabilities and advantages, shifted as Tinker's Datum wants them.

    Args:
        folder: run folder with recorded tokens.
        rule: credit rule with its settings, e.g. step_leave_one_out.
        out: file to write (JSON lines).
        agent: the agent whose decisions are exported, where there are several.
        cross_entropy: write weights (the advantages) instead, where log-probabilities are not known.
        last: only the attempts of the last update.
        plain: plain text output even on a terminal.
    """
    episodes, ledger = _credited(folder, rule, out, last)
    try:
        from evolvent.learn.tokens.export_verl import verl_batch
    except ModuleNotFoundError as error:
        raise missing_extra(str(error.name), "train", "evolvent export tinker") from error
    level = "token" if catalogue.rule_with_settings(rule)[0].LEVEL == "token" else "step"
    batch = verl_batch(episodes, ledger, level=level, agent=agent)
    t = batch.tensors
    if "old_log_probs" not in t and not cross_entropy:
        raise BadInput(
            "log-probabilities as sampled are not known for every token",
            got="; ".join(batch.warnings),
            expected="those of the policy that sampled",
            where="evolvent export tinker",
            do="--cross-entropy writes weights for that loss instead",
        )
    rows: list[dict[str, Any]] = []
    for i in range(len(batch)):
        taken = t["attention_mask"][i].astype(bool)
        prompt = np.zeros(t["prompts"].shape[1])

        def column(name: str, i: int = i, taken: np.ndarray = taken, prompt: np.ndarray = prompt) -> list[float]:
            return np.concatenate([prompt, t[name][i] * t["response_mask"][i]])[taken][1:].tolist()

        ids = t["input_ids"][i][taken].tolist()
        row: dict[str, Any] = {"tokens": ids[:-1], "target_tokens": ids[1:]}
        advantages = column("advantages")
        rows.append(
            row
            | (
                {"weights": advantages}
                if cross_entropy
                else {"logprobs": column("old_log_probs"), "advantages": advantages}
            )
        )
    _write(rows, out, folder, "conversation", plain)


def atif(folder: Annotated[Path, Positional], *, rule: tuple[str, ...], out: Path, plain: bool = False) -> None:
    """The imported ATIF documents as they were, with the credit of each step under extra.evolvent.

    Args:
        folder: run folder made by `evolvent import --from atif`.
        rule: credit rules with their settings.
        out: folder for the documents.
        plain: plain text output even on a terminal.
    """
    opened = RunFolder.open(folder)
    episodes = [e for e in read(opened) if e.meta.get("source", {}).get("format") == "atif"]
    if not episodes:
        do = "evolvent import FILE --from atif --out DIR, or export jsonl instead"
        raise BadInput("no ATIF document was imported", got=str(folder), where="evolvent export atif", do=do)
    found = {text: catalogue.rule_with_settings(text) for text in rule}
    ledgers = {text: (one.LEVEL, applied(one, config, episodes, opened)) for text, (one, config) in found.items()}
    out.mkdir(parents=True, exist_ok=True)
    for number, episode in enumerate(episodes):
        source = episode.meta["source"]
        root: dict[str, Any] = {"schema": 1, "success": episode.success, "reward": episode.total_reward, "rules": {}}
        root = root if episode.valid else {"schema": 1, "rules": {}}
        steps: dict[str, dict[str, Any]] = {}
        for text, (level, ledger) in ledgers.items():
            values = ledger.values(level)[ledger.episode_index(level) == number]
            known = values[np.isfinite(values)]
            root["rules"][text] = {"level": level, "total": float(known.sum()), "group": episode.group}
            for step, node in enumerate(episode.step_nodes_T.tolist()):
                at = steps.setdefault(source["nodes"][str(node)]["origin"], {"reward": float(episode.rewards_T[step])})
                if level == "token":
                    mine = values[episode.token_step == step]
                    at.setdefault("tokens", {})[text] = [_number(value) for value in mine]
                elif level == "step":
                    at.setdefault("credit", {})[text] = _number(values[step])
        document = json.loads((opened.path / "source" / f"{source['sha256']}.json").read_text(encoding="utf-8"))
        write_credit(document, steps, root)
        write_atomic(out / f"{episode.id}.json", json.dumps(document, ensure_ascii=False, indent=1) + "\n")
    with Live(plain=True if plain else None) as live:
        live.note(f"{count(len(episodes), 'document')} of {folder} → {out}")


# -------------------------------------------------------------------------------------------------------- inside
def _credited(folder: Path, rule: str, out: Path, last: bool) -> tuple[list[Episode], Ledger]:
    """The attempts, one by one, and their credit."""
    check_target(out, "--out")
    opened = RunFolder.open(folder)
    episodes = list(linear(read(opened, last=last)))
    chosen, config = catalogue.rule_with_settings(rule)
    if chosen.RECORD != "episode" or chosen.LEVEL not in ("token", "step", "agent"):
        expected = "a rule over episodes for tokens, steps or agents"
        raise BadInput("this rule pays no decisions", got=f"{rule} ({chosen.LEVEL})", expected=expected, where="--rule")
    ledger = applied(chosen, config, episodes, opened)
    if chosen.LEVEL == "token":
        ledger.project("token", "step")
    return episodes, ledger


def _decisions(episodes: Sequence[Episode], ledger: Ledger, agent: str) -> Iterator[tuple[Episode, int, float | None]]:
    """Each decision with its credit by step."""
    values = iter(ledger.values("step").tolist())
    for episode in episodes:
        for step, who in enumerate(episode.agents_T):
            credit = _number(next(values))
            if agent in ("", who):
                yield episode, step, credit


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _messages(episode: Episode, node: int) -> list[dict[str, Any]]:
    """The conversation up to a decision, the decision last; every message has the same keys, arguments are text."""
    nodes = list(episode.nodes)
    notes: dict[str, Any] = episode.meta.get("source", {}).get("nodes", {})
    made: list[dict[str, Any]] = []
    waiting: list[str] = []
    for i in episode.branch(node):
        one, about = nodes[i], notes.get(str(i), {})
        role = {"action": "assistant", "tool": "tool"}.get(one.kind, about.get("role", "user"))
        if (one.kind == "observation" and not one.text) or one.kind in ("recall", "component"):
            continue
        made.append({"role": role, "content": one.text, "tool_calls": [], "tool_call_id": ""})
        if one.kind == "action":
            called = _called(nodes, i)
            if called:
                made[-1]["content"] = about.get("said", "") if "source" in episode.meta else one.text
            ids = [*about.get("calls", ()), *([""] * len(called))]
            made[-1]["tool_calls"] = [
                {
                    "id": name,
                    "type": "function",
                    "function": {"name": t.data["name"], "arguments": dump(t.data["arguments"])},
                }
                for name, t in zip(ids, called, strict=False)
            ]
            waiting = [call["id"] for call in made[-1]["tool_calls"]]
        elif one.kind == "tool":
            made[-1]["tool_call_id"] = waiting.pop(0) if waiting else ""
    return made


def _called(nodes: Sequence[Any], action: int) -> list[Any]:
    """The tools that a decision called: those that follow it, one after the other."""
    found: list[Any] = []
    at = action
    while at + 1 < len(nodes) and nodes[at + 1].kind == "tool" and nodes[at + 1].parent == at:
        at += 1
        found.append(nodes[at])
    return found


def _write(rows: Sequence[dict[str, Any]], out: Path, folder: Path, thing: str, plain: bool) -> None:
    if not rows:
        raise BadInput("nothing to export: no decision has credit", got=str(folder), where="evolvent export")
    write_atomic(out, "".join(dump(row) + "\n" for row in rows))
    with Live(plain=True if plain else None) as live:
        live.note(f"{count(len(rows), thing)} of {folder} → {out}")
