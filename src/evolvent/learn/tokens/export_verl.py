"""Episodes and their credit as verl reads them: padded rows with one advantage for every sampled token.

A row of verl is a prompt, padded on the left, and a response, padded on the right, with a mask over the response. What
is trained on is what ``learn.tokens.batch`` trains on, token by token. Decisions of a trajectory share a row while each
context continues the former one exactly (a conversation that goes on): what was observed in between stands in the
response, masked. Where a context does not, as with fresh prompts, a new row begins.

The file is safetensors; what is not a tensor stands in its metadata as JSON. Format: verl 0.9.1, ``verl.DataProto``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from evolvent.core.episode import Episode
from evolvent.core.errors import BadInput, optional
from evolvent.core.jsonfile import dump
from evolvent.core.ledger import Ledger
from evolvent.learn.tokens.batch import TokenBatch, token_batch

HEAD = "evolvent"
"""Key of the metadata that holds ``{"non_tensors": …, "meta_info": …}``."""


@dataclass(frozen=True, eq=False)
class VerlBatch:
    """The content of a ``verl.DataProto`` of B rows, prompts of up to P tokens and responses of up to R.

    Attributes:
        tensors: int64 ``prompts`` ``[B, P]``, ``responses`` ``[B, R]``, ``input_ids``, ``attention_mask`` and
            ``position_ids`` ``[B, P + R]``, ``response_mask`` ``[B, R]`` (1 = trained on); float32 ``[B, R]``
            ``advantages``, ``returns`` (the same), ``token_level_scores`` and ``token_level_rewards`` (the reward of a
            decision at its last token), and ``rollout_log_probs`` and ``old_log_probs`` as sampled, where known.
        non_tensors: lists ``[B]``: ``uid`` (attempts that are compared share one), ``data_source``, ``task_id``,
            ``episode``, ``step`` (the first decision in the row), ``agent``, ``__num_turns__`` (decisions in the row).
        meta_info: what holds for all rows.
        warnings: what verl must do otherwise than usual, in words.
    """

    tensors: Mapping[str, np.ndarray]
    non_tensors: Mapping[str, list[Any]]
    meta_info: Mapping[str, Any]
    warnings: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.tensors["responses"])


def verl_batch(
    episodes: Sequence[Episode],
    ledger: Ledger,
    *,
    level: str,
    agent: str = "",
    pad_id: int = 0,
    meta_info: Mapping[str, Any] | None = None,
) -> VerlBatch:
    """Every decision of the valid episodes that has credit.

    Args:
        episodes: those of the ledger, in order.
        ledger: their credit; NaN = not trained on.
        level: of the credit: "token", "step" or "agent" (a step's goes to each of its tokens undivided).
        agent: whose decisions, where several decided: a row is for one policy.
        pad_id: token id that fills up; it is masked wherever it stands.
        meta_info: JSON values to go along, such as the temperature, which verl divides logits by.

    Raises:
        BadInput: nothing has credit, several agents and none chosen, a decision with credit but without tokens or
            without a context.
    """
    batch = _of_agent(token_batch(episodes, ledger, level=level), agent)
    rows = _rows(batch, episodes)
    known = all(bool(np.isfinite(row.column("logp")[row.column("mask") == 1]).all()) for row in rows)
    constrained = _constrained(batch, episodes)
    warnings: list[str] = []
    if not known:
        warnings.append("log-probabilities were not recorded for every token: verl must compute old_log_probs itself")
    if constrained:
        warnings.append(
            f"{constrained} decisions were sampled inside the allowed actions, which verl does not know of: the "
            "recorded log-probabilities are left out, and verl must compute old_log_probs itself"
        )
    return VerlBatch(
        _padded(rows, pad_id, with_logp=known and not constrained),
        _names(rows, batch, episodes),
        dict(meta_info or {}),
        tuple(warnings),
    )


def save(path: Path, batch: VerlBatch) -> None:
    """Write ``batch`` as one safetensors file, atomically.

    Raises:
        MissingExtra: safetensors is not installed.
    """
    safetensors = optional("safetensors.numpy", "train", "learn.export_verl")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    head = {"non_tensors": dict(batch.non_tensors), "meta_info": dict(batch.meta_info)}
    safetensors.save_file(dict(batch.tensors), temporary, {"format": "pt", HEAD: dump(head)})
    temporary.replace(path)


def load(path: Path) -> VerlBatch:
    """Read what ``save`` wrote, without its warnings.

    Raises:
        BadInput: no such file, or another kind of file.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "np") as file:
            head = json.loads((file.metadata() or {})[HEAD])
            return VerlBatch({n: file.get_tensor(n) for n in file.keys()}, head["non_tensors"], head["meta_info"])  # noqa: SIM118 - no mapping
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        expected = "a file that `evolvent export verl` wrote"
        raise BadInput("not an export for verl", got=str(error), expected=expected, where=str(path)) from error


# ------------------------------------------------------------------------------------------------------- rows
@dataclass
class _Row:
    """A row that is being filled: context and tokens so far, and columns over the response."""

    trajectory: int
    step: int
    prompt: np.ndarray
    turns: int = 0
    ids: list[np.ndarray] = field(default_factory=list[np.ndarray])
    columns: dict[str, list[np.ndarray]] = field(default_factory=dict[str, list[np.ndarray]])

    @property
    def response(self) -> np.ndarray:
        return np.concatenate([np.empty(0, np.int32), *self.ids])

    def column(self, name: str) -> np.ndarray:
        return np.concatenate(self.columns[name])

    def continues(self, trajectory: int, context: np.ndarray) -> bool:
        """Whether ``context`` begins with all that stands here."""
        so_far = np.concatenate([self.prompt, *self.ids])
        return self.trajectory == trajectory and np.array_equal(context[: len(so_far)], so_far)

    def add(self, ids: np.ndarray, **columns: np.ndarray) -> None:
        """Tokens of the response; a column that is not given is 0 there."""
        self.ids.append(ids)
        for name in ("mask", "adv", "logp", "score"):
            self.columns.setdefault(name, []).append(columns.get(name, np.zeros(len(ids))))


def _of_agent(batch: TokenBatch, agent: str) -> TokenBatch:
    """The rows of one policy."""
    if agent and agent not in batch.agents:
        raise BadInput("no such agent decided", got=agent, expected=f"one of {list(batch.agents)}", where="--agent")
    batch = batch.of_agent(agent) if agent else batch
    if not len(batch.units):
        raise BadInput(
            "nothing to export: no token has credit",
            got=f"{batch.sampled} sampled tokens",
            where="export_verl",
            do="check that the rule scores these episodes, that they are valid, and that token ids were recorded",
        )
    names = [batch.agents[i] for i in sorted(set(batch.units.agent.tolist()))]
    if len(names) > 1:
        raise BadInput(
            "several agents decided, and a row trains one policy",
            got=names,
            expected="one of them",
            where="export_verl",
            do=f"export each by itself: --agent {names[0]}",
        )
    return batch


def _rows(batch: TokenBatch, episodes: Sequence[Episode]) -> list[_Row]:
    """Decisions one after the other, each in the open row of its trajectory where that fits."""
    u = {name: getattr(batch.units, name).numpy() for name in ("row", "at", "step", "trajectory", "adv", "old_logp")}
    starts = np.searchsorted(u["row"], np.arange(len(batch.rows) + 1))
    rows: list[_Row] = []
    for i, one in enumerate(batch.rows):
        mine = slice(starts[i], starts[i + 1])
        trajectory, step = int(u["trajectory"][mine][0]), int(u["step"][mine][0])
        context, tokens = np.asarray(one.context, np.int32), np.asarray(one.tokens, np.int32)
        if not len(context):
            raise BadInput(
                "a decision has no context tokens",
                got=f"decision {step}",
                expected="what the model saw",
                where=f"episode {episodes[trajectory].id}",
                do="record it: episode.observe(text, token_ids=…)",
            )
        if rows and rows[-1].continues(trajectory, context):
            rows[-1].add(context[len(rows[-1].prompt) + sum(map(len, rows[-1].ids)) :])
        else:
            rows.append(_Row(trajectory, step, context))
        mask, adv, logp, score = (np.zeros(len(tokens)) for _ in range(4))
        at = u["at"][mine]
        mask[at], adv[at], logp[at] = 1, u["adv"][mine], u["old_logp"][mine]
        score[-1] = episodes[trajectory].rewards_T[step]
        rows[-1].add(tokens, mask=mask, adv=adv, logp=logp, score=score)
        rows[-1].turns += 1
    return rows


def _constrained(batch: TokenBatch, episodes: Sequence[Episode]) -> int:
    """Decisions whose log-probabilities are over the allowed actions only, not over the vocabulary.

    A choice by the likelihood of whole actions notes ``action_logp`` and records those of the vocabulary.
    """
    taken = set(zip(batch.units.trajectory.tolist(), batch.units.step.tolist(), strict=True))
    return sum(bool(episodes[i].choices(t)) for i, t in taken if "action_logp" not in episodes[i].notes)


def _padded(rows: Sequence[_Row], pad_id: int, *, with_logp: bool) -> dict[str, np.ndarray]:
    prompts = _pad([row.prompt for row in rows], pad_id, np.int64, left=True)
    responses = _pad([row.response for row in rows], pad_id, np.int64)
    seen = _pad([np.ones(len(row.prompt)) for row in rows], 0, np.int64, left=True)
    written = _pad([np.ones(len(row.response)) for row in rows], 0, np.int64)
    attention = np.concatenate([seen, written], axis=1)

    def column(name: str, dtype: DTypeLike = np.float32) -> np.ndarray:
        return _pad([row.column(name) for row in rows], 0, dtype)

    tensors = {
        "prompts": prompts,
        "responses": responses,
        "input_ids": np.concatenate([prompts, responses], axis=1),
        "attention_mask": attention,
        "position_ids": np.maximum(attention.cumsum(axis=1) - 1, 0),
        "response_mask": column("mask", np.int64),
        "advantages": column("adv"),
        "returns": column("adv"),
        "token_level_scores": column("score"),
        "token_level_rewards": column("score"),
    }
    return tensors | (dict.fromkeys(("rollout_log_probs", "old_log_probs"), column("logp")) if with_logp else {})


def _pad(arrays: Sequence[np.ndarray], fill: float, dtype: DTypeLike, *, left: bool = False) -> np.ndarray:
    """Arrays of different length as one, ``[B, longest]``."""
    out = np.full((len(arrays), max(map(len, arrays))), fill, dtype)
    for row, array in zip(out, arrays, strict=True):
        row[slice(len(row) - len(array), None) if left else slice(len(array))] = array
    return out


def _names(rows: Sequence[_Row], batch: TokenBatch, episodes: Sequence[Episode]) -> dict[str, list[Any]]:
    of = [episodes[row.trajectory] for row in rows]
    agent = batch.agents[int(batch.units.agent[0])]
    return {
        "uid": [e.group or e.task_id for e in of],
        "data_source": [e.env for e in of],
        "task_id": [e.task_id for e in of],
        "episode": [e.id for e in of],
        "step": [row.step for row in rows],
        "agent": [agent] * len(rows),
        "__num_turns__": [row.turns for row in rows],
    }
