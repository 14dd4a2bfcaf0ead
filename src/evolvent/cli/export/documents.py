"""`evolvent export atif|verifiers`: whole attempts in the format of another harness, with credit on each decision."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from evolvent import catalogue
from evolvent.cli.credit import applied, read
from evolvent.cli.export.credited import Asked, Credited, Folder, credited, number
from evolvent.cli.export.messages import Message, messages
from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput
from evolvent.core.folder import RunFolder
from evolvent.core.jsonfile import write_atomic
from evolvent.core.ledger import Ledger
from evolvent.evaluate.live import Live, count
from evolvent.traces.atif import write_credit


def atif(folder: Folder, *, rule: tuple[str, ...], out: Path, plain: bool = False) -> None:
    """The imported ATIF documents as they were, with the credit of each step under extra.evolvent.

    Example: evolvent export atif runs/imported --rule step_leave_one_out --out trials/

    Args:
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
    paid = {text: _by_episode(ledger, level, len(episodes)) for text, (level, ledger) in ledgers.items()}
    out.mkdir(parents=True, exist_ok=True)
    for place, episode in enumerate(episodes):
        source = episode.meta["source"]
        root: dict[str, Any] = {"schema": 1, "rules": {}}
        if episode.valid:
            root |= {"success": episode.success, "reward": episode.total_reward}
        rewards = episode.rewards_T.tolist()
        steps = [{"reward": reward, "credit": {}, "tokens": {}} for reward in rewards]
        for text, (level, _) in ledgers.items():
            values = paid[text][place]
            root["rules"][text] = {"level": level, "total": float(np.nansum(values)), "group": episode.group}
            for step, at in enumerate(steps):
                if level == "token":
                    at["tokens"][text] = [number(value) for value in values[episode.token_step == step]]
                elif level == "step":
                    at["credit"][text] = number(values[step])
        origins = [source["nodes"][str(node)]["origin"] for node in episode.step_nodes_T.tolist()]
        told = [{key: value for key, value in at.items() if value != {}} for at in steps]
        document = json.loads((opened.path / "source" / f"{source['sha256']}.json").read_text(encoding="utf-8"))
        write_credit(document, dict(zip(origins, told, strict=True)), root)
        write_atomic(out / f"{episode.id}.json", json.dumps(document, ensure_ascii=False, indent=1) + "\n")
    with Live(plain=True if plain else None) as live:
        live.note(f"{count(len(episodes), 'document')} of {folder} → {out}")


def verifiers(folder: Folder, export: Asked) -> None:
    """Attempts as a traces.jsonl of verifiers 0.4, a trace an agent, with the advantage of every sampled token.

    Example: evolvent export verifiers runs/grpo --rule step_leave_one_out --out traces.jsonl

    Credit by decision stands in info.evolvent of each trace, for those without token ids too.
    """
    export.write(_attempts(credited(folder, export, "verifiers"), export.agent), folder, "attempt")


def _attempts(found: Credited, agent: str) -> Iterator[dict[str, Any]]:
    """Each attempt with the traces of its agents, or of the one."""
    of_tokens = _by_episode(found.ledger, "token", len(found.episodes))
    for episode, credits, tokens in zip(found.episodes, found.by_step, of_tokens, strict=True):
        if found.rule.level != "token":
            tokens = np.array(credits, float)[episode.token_step]
        agents = [who for who in dict.fromkeys(episode.agents_T) if agent in ("", who)]
        traces = [_trace(episode, who, credits, tokens, found.rule.name) for who in agents]
        if traces:
            row = {"id": episode.id, "env": {"id": episode.env}, "group": {"id": episode.group or episode.task_id}}
            yield row | {"task": traces[0]["task"], "ok": episode.valid, "traces": traces}


def _by_episode(ledger: Ledger, level: str, n: int) -> list[np.ndarray]:
    """Credit of the units of each of ``n`` episodes."""
    ends = np.searchsorted(ledger.episode_index(level), np.arange(1, n), "left")
    return np.split(ledger.values(level), ends)


def _trace(episode: Episode, agent: str, credits: list[float | None], tokens: np.ndarray, rule: str) -> dict[str, Any]:
    """What one agent saw and did: a tree of messages, each with the tokens that it added.

    Tokens of what shows no text (a template, results of tools) stand at the head of the next message, not sampled.
    """
    said, recorded, seen = messages(episode), list(episode.nodes), episode.seen_ids.tolist()
    starts = [0, *accumulate(episode.seen_tokens(i) for i in range(episode.n_nodes))]
    nodes: list[dict[str, Any]] = []
    place: dict[int, int] = {}
    paid: dict[str, float | None] = {}
    for last in (one.index for one in recorded if one.agent == agent and one.index in said):
        way = [last] if last not in place else []
        while way and (above := recorded[way[-1]].parent) >= 0 and above not in place:
            way.append(above)
        head: list[int] = []
        parent = place.get(recorded[way[-1]].parent) if way else None
        for i in reversed(way):
            step, own = recorded[i].step, seen[starts[i] : starts[i + 1]]
            mine = -1 if step is None or recorded[i].agent != agent else step
            if step is not None:
                own = episode.step_tokens(step).tolist()
            if i not in said:
                head += own
                continue
            node = {"parent": parent, "message": _message(said[i]), "sampled": mine >= 0, "token_ids": [*head, *own]}
            node["mask"] = [False] * len(head) + [mine >= 0] * len(own)
            if mine >= 0:
                paid[str(len(nodes))] = credits[mine]
                at = episode.token_step == mine
                logp, advantages = episode.logp[at], tokens[at]
                node["logprobs"] = logp.tolist() if np.isfinite(logp).all() else []
                if np.isfinite(advantages).any():  # nothing at all: not assigned, which is not 0
                    node["advantages"] = np.nan_to_num(advantages).tolist()
            head, parent, place[i] = [], len(nodes), len(nodes)
            nodes.append(node)
    finish = [
        (place[int(i)], f) for i, f in zip(episode.step_nodes_T, episode.finish_T, strict=True) if int(i) in place
    ]
    kinds = {name: value for name, value in episode.rewards_by_kind.items() if not isinstance(value, list)}
    rewards = {name: {"score": value, "weight": 0.0} for name, value in kinds.items()}
    rewards["reward"] = {"score": episode.total_reward, "weight": 1.0}
    return {
        "version": 1,
        "id": f"{episode.id}.{agent}",
        "task": {"type": episode.env or "task", "data": {"name": episode.task_id}, "key": episode.task_id},
        "agent": {"config": {}, "name": agent},
        "nodes": nodes,
        "calls": [{"node": at, "finish_reason": word} for at, word in finish if word and nodes[at]["sampled"]],
        "rewards": rewards if episode.valid else {},
        "info": {"evolvent": {"rule": rule, "credit": paid, "success": episode.success}},
        "is_completed": True,
        "ok": episode.valid,
        "stop_condition": episode.stop or None,
    }


def _message(given: Message) -> dict[str, Any]:
    """A message as the models of verifiers want it."""
    role, content = given["role"], given["content"]
    if role == "assistant":
        calls = [{"id": one["id"], **one["function"]} for one in given["tool_calls"]]
        return {"role": role, "content": content or None, **({"tool_calls": calls} if calls else {})}
    if role == "tool":
        return {"role": role, "tool_call_id": given["tool_call_id"], "content": content}
    return {"role": role if role == "system" else "user", "content": content}
