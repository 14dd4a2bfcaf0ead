"""`evolvent export verl`: recorded attempts of a run, with their credit, as a file that verl trains on."""

from __future__ import annotations

from typing import Any

from evolvent.cli.credit import incomplete
from evolvent.cli.export.credited import Asked, Credited, Folder, credited
from evolvent.core.errors import missing_extra


def verl(folder: Folder, export: Asked) -> None:
    """Recorded attempts with the advantage of every token, as the content of a verl.DataProto (docs/verl.md).

    Example: evolvent export verl runs/grpo --out batch.npz
    """
    found = credited(folder, export, "verl", tokens=True)
    manifest = found.folder.manifest()
    config: dict[str, Any] = manifest["config"]
    meta = {"temperature": float(config.get("temperature", 1.0)), "rule": found.rule.name, "algo": manifest["algo"]}
    meta |= {"env": manifest["env"], "model": str(config.get("model", ""))}
    batch = token_rows(found, export.agent, "verl", meta)
    from evolvent.learn.tokens import export_verl

    export_verl.save(export.out, batch)
    mask, adv = batch.tensors["response_mask"], batch.tensors["advantages"]
    rows: list[list[object]] = [
        ["attempts", len(found.episodes)],
        ["groups (uid)", len(set(batch.non_tensors["uid"]))],
        ["rows", len(batch)],
        ["decisions", sum(batch.non_tensors["__num_turns__"])],
        ["sampled tokens", sum(e.n_tokens for e in found.episodes)],
        ["tokens to train on", int(mask.sum())],
        ["sum of advantages", round(float(adv.sum()), 4)],
        ["longest prompt", batch.tensors["prompts"].shape[1]],
        ["longest response", batch.tensors["responses"].shape[1]],
        ["log-probabilities as sampled", "yes" if "old_log_probs" in batch.tensors else "no"],
        ["credit rule", found.rule.name],
    ]
    with export.live() as live:
        live.table(f"{folder} → {export.out}", ["", "value"], rows)
        for warning in (*incomplete(found.episodes, config, finished=found.folder.finished), *batch.warnings):
            live.note(f"! {warning}")


def token_rows(found: Credited, agent: str, name: str, meta: dict[str, Any] | None = None) -> Any:
    """Conversations as rows of tokens (``learn.tokens.export_verl.VerlBatch``).

    Raises:
        MissingExtra: torch is not installed.
        BadInput: nothing has credit, or several agents decided and none is named.
    """
    try:
        from evolvent.learn.tokens.export_verl import verl_batch
    except ModuleNotFoundError as error:
        raise missing_extra(str(error.name), "train", f"evolvent export {name}") from error
    return verl_batch(found.episodes, found.ledger, level=found.rule.level, agent=agent, meta_info=meta)
