"""`evolvent export pairs`: siblings of recorded trees, as lines of prompt, chosen and rejected answer."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np

from evolvent.cli.export.credited import Folder
from evolvent.core.episode import Episode
from evolvent.core.errors import missing_extra
from evolvent.core.folder import RunFolder
from evolvent.core.jsonfile import check_target, write_atomic
from evolvent.evaluate.live import Live, count

_WHERE = "evolvent export pairs"


def pairs(folder: Folder, *, out: Path, model: str = "", plain: bool = False) -> None:
    """Siblings of recorded trees as JSON lines of prompt, chosen and rejected, the form that trainers of DPO read.

    Example: evolvent export pairs runs/search --out pairs.jsonl

    A pair is the best and the worst decision made in one state, by what attempts earned that made them: a run of a
    search, or another whose attempts share beginnings, with a model in torch.

    Args:
        out: file to write, e.g. pairs.jsonl.
        model: whose tokens are on record; default: the run's model.
        plain: plain text output even on a terminal.
    """
    opened = RunFolder.open(folder)
    check_target(out, "--out")
    try:
        from evolvent.models.language.model import load
        from evolvent.runs.language.pairs import find_pairs, read_groups
    except ModuleNotFoundError as error:
        raise missing_extra(str(error.name), "train", _WHERE) from error
    found = find_pairs(str(folder), "siblings")
    assert found is not None
    with Live(plain=True if plain else None) as live:
        spec = model or str(opened.config.get("model", ""))
        live.status(f"loading {spec}, for its tokenizer")
        policy = load(spec.removeprefix("train:"))
        rows, otherwise = list[dict[str, str]](), 0
        for best, worst in read_groups(found, policy):
            row = _texts(policy, best, worst)
            otherwise += not _comes_back(policy, row, best, worst)
            rows.append(row)
        write_atomic(out, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
        live.note(f"{count(len(rows), 'pair')} of {folder} → {out}")
        if otherwise:
            live.note(
                f"! {otherwise} of them do not come back from text as the same tokens: learn from the folder itself "
                f"(evolvent run dpo --pairs {shlex.quote(str(folder))} --compare siblings)"
            )


def _texts(policy: Any, chosen: Episode, rejected: Episode) -> dict[str, str]:
    """A pair as texts, without the tokens that begin and end a text."""
    prompt = chosen.context_ids(0)
    start = policy.encode("", start=True)
    if len(start) and prompt[: len(start)].tolist() == start.tolist():
        prompt = prompt[len(start) :]
    best, worst = (policy.decode(_said(policy, one)) for one in (chosen, rejected))
    return {"prompt": policy.decode(prompt), "chosen": best, "rejected": worst}


def _said(policy: Any, attempt: Episode) -> np.ndarray:
    ids = attempt.step_tokens(0)
    ends = [i for i, token in enumerate(ids.tolist()) if token in policy.end_ids]
    return ids[: ends[0]] if ends else ids


def _comes_back(policy: Any, row: dict[str, str], *attempts: Episode) -> bool:
    prompt = policy.encode(row["prompt"], start=True)
    answers = [policy.encode(row[name]) for name in ("chosen", "rejected")]
    return all(
        np.array_equal(prompt, one.context_ids(0)) and np.array_equal(ids, _said(policy, one))
        for one, ids in zip(attempts, answers, strict=True)
    )
