"""Checkpoints that survive a kill: tensors as safetensors, everything else in a JSON manifest, checksums on both.

A checkpoint is a folder ``step-000000012/`` with ``tensors.safetensors`` and ``manifest.json``. It is written under a
hidden name, synced, and appears by one rename, so a kill at any moment leaves the one before. It holds the state of
every part it was given (modules, optimizers, generators), plain data, and the state of torch's global generators.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from evolvent.core.errors import BadInput, ModelError, optional
from evolvent.core.fetch import sha256_file

SCHEMA = 1
_TENSORS, _MANIFEST = "tensors.safetensors", "manifest.json"


def save(
    folder: Path, step: int, parts: Mapping[str, Any], state: Mapping[str, Any] | None = None, *, keep: int = 2
) -> Path:
    """Write a checkpoint, drop all but the newest ``keep`` (1 or more), and return its folder.

    Args:
        folder: where checkpoints live; made if missing.
        step: orders checkpoints, at least 0; an existing one of the same step is replaced.
        parts: by name: modules, optimizers, schedulers (anything with ``state_dict`` and ``load_state_dict``),
            ``torch.Generator`` and ``numpy.random.Generator``.
        state: plain data: numbers, text, None, lists, tuples, mappings, tensors and arrays in any nesting.
        keep: how many.

    Raises:
        BadInput: something that cannot be saved, named.
    """
    if keep < 1 or step < 0:
        raise BadInput("keep or step out of range", got=(keep, step), expected="keep >= 1, step >= 0", where="save")
    tensors: dict[str, Tensor] = {}
    manifest: dict[str, Any] = {"schema": SCHEMA, "step": step}
    manifest["parts"] = {name: _pack(_state_of(part, name), name, tensors) for name, part in parts.items()}
    manifest["state"] = _pack(dict(state or {}), "state", tensors)
    manifest["rng"] = _pack(_global_rng(), "rng", tensors)
    folder.mkdir(parents=True, exist_ok=True)
    for left in folder.glob(".step-*"):  # of a writer that was killed: one process writes at a time
        shutil.rmtree(left)
    target = folder / f"step-{step:09d}"
    hidden = folder / f".{target.name}.tmp"
    hidden.mkdir()
    _safetensors().save_file(tensors, str(hidden / _TENSORS))
    manifest["sha256"] = sha256_file(hidden / _TENSORS)
    manifest["check"] = _digest(manifest)
    (hidden / _MANIFEST).write_text(json.dumps(manifest, allow_nan=False), encoding="utf-8")
    for path in (hidden / _TENSORS, hidden / _MANIFEST, hidden):
        _sync(path)
    _appear(hidden, target)
    for old in checkpoints(folder)[:-keep]:
        _remove(old)
    return target


def load(path: Path, parts: Mapping[str, Any]) -> dict[str, Any]:
    """Restore ``parts`` and torch's global generators from a checkpoint; returns the plain data.

    Args:
        path: one checkpoint, e.g. ``latest(folder)``.
        parts: as given to ``save``; a part that the checkpoint has and this lacks is left alone.

    Raises:
        ModelError: damaged (names the one before), of another schema, or one that does not fit a part.
    """
    manifest, tensors = _read(path)
    for name, part in parts.items():
        if name not in manifest["parts"]:
            raise ModelError(
                "the checkpoint lacks a part", got=sorted(manifest["parts"]), expected=name, where=str(path)
            )
        saved = _unpack(manifest["parts"][name], tensors)
        try:
            _restore(part, saved)
        except (RuntimeError, ValueError, KeyError) as error:
            raise ModelError(
                f"the checkpoint does not fit {name!r}",
                got=str(error),
                where=str(path),
                do="use the configuration it was written with; one of an earlier version may have had others: use "
                "the version that its config.json names",
            ) from error
    _restore_global_rng(_unpack(manifest["rng"], tensors))
    return _unpack(manifest["state"], tensors)


def part_names(path: Path) -> set[str]:
    """The names of the parts in a checkpoint.

    Raises:
        ModelError: it is damaged.
    """
    return set(_read(path)[0]["parts"])


def latest(folder: Path) -> Path | None:
    """The newest checkpoint of a folder, ``None`` where there is none."""
    return next(reversed(checkpoints(folder)), None)


def checkpoints(folder: Path) -> list[Path]:
    """Complete checkpoints, oldest first."""
    return sorted(path for path in folder.glob("step-*") if path.is_dir())


# ------------------------------------------------------------------------------------------------------ files
def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    try:
        manifest = json.loads((path / _MANIFEST).read_text(encoding="utf-8"))
        whole = manifest.get("check") == _digest(manifest) and manifest["sha256"] == sha256_file(path / _TENSORS)
    except (OSError, ValueError, KeyError, AttributeError) as error:
        raise _damaged(path, str(error)) from error
    if not whole:
        raise _damaged(path, "a checksum that does not fit")
    if manifest["schema"] != SCHEMA:
        raise ModelError("checkpoint of another version", got=manifest["schema"], expected=SCHEMA, where=str(path))
    return manifest, _safetensors().load_file(str(path / _TENSORS))


def _damaged(path: Path, got: str) -> ModelError:
    before = [other for other in checkpoints(path.parent) if other.name < path.name]
    do = f"move it away; the one before is {before[-1]}" if before else "there is none before it: start anew"
    return ModelError("the checkpoint is damaged", got=got, where=str(path), do=do)


def _digest(manifest: Mapping[str, Any]) -> str:
    body = {key: value for key, value in manifest.items() if key != "check"}
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _appear(hidden: Path, target: Path) -> None:
    """Give a finished checkpoint its name; an older one of the same step is renamed away first, not deleted."""
    aside = target.with_name(f".{target.name}.old")
    if target.exists():
        target.rename(aside)
    hidden.rename(target)
    _sync(target.parent)
    if aside.exists():
        shutil.rmtree(aside)


def _remove(path: Path) -> None:
    """Delete a checkpoint; it is renamed to a hidden name first, so that a half-deleted one is never found."""
    hidden = path.with_name(f".{path.name}.old")
    path.rename(hidden)
    shutil.rmtree(hidden)


def _sync(path: Path) -> None:
    if path.is_dir() and os.name != "posix":  # folders cannot be opened there
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _safetensors() -> Any:
    return optional("safetensors.torch", "marl", "learn.checkpoint")


# ----------------------------------------------------------------------------------------------------- states
def _state_of(part: Any, name: str) -> Any:
    if isinstance(part, torch.Generator):
        return part.get_state()
    if isinstance(part, np.random.Generator):
        return part.bit_generator.state
    if hasattr(part, "state_dict") and hasattr(part, "load_state_dict"):
        return part.state_dict()
    raise BadInput("a part without a state", got=type(part).__name__, expected="state_dict()", where=f"save({name!r})")


def _restore(part: Any, saved: Any) -> None:
    if isinstance(part, torch.Generator):
        part.set_state(saved)
    elif isinstance(part, np.random.Generator):
        part.bit_generator.state = saved
    else:
        part.load_state_dict(saved)


def _global_rng() -> dict[str, Any]:
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return {"torch": torch.get_rng_state(), "cuda": cuda}


def _restore_global_rng(rng: Mapping[str, Any]) -> None:
    torch.set_rng_state(rng["torch"])
    if torch.cuda.is_available() and len(rng["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(rng["cuda"])


def _pack(value: Any, at: str, tensors: dict[str, Tensor]) -> Any:
    """``value`` as strict JSON; tensors go to ``tensors`` under their place. Objects with a tag are not plain JSON."""
    if isinstance(value, Tensor | np.ndarray):
        kind = "array" if isinstance(value, np.ndarray) else "tensor"
        tensor = torch.from_numpy(np.array(value)) if isinstance(value, np.ndarray) else value.detach()
        tensors[at] = tensor.to("cpu", copy=True).contiguous()  # a copy: tensors that share memory are refused
        return {f"${kind}": at}
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": repr(value)}
    if isinstance(value, np.generic):
        return _pack(value.item(), at, tensors)
    if isinstance(value, list | tuple):
        items = [_pack(item, f"{at}.{i}", tensors) for i, item in enumerate(cast("list[Any]", value))]
        return items if isinstance(value, list) else {"$tuple": items}
    if isinstance(value, Mapping):
        return {"$map": list(_pack_items(cast("Mapping[Any, Any]", value), at, tensors))}
    raise BadInput("cannot be saved", got=f"{type(value).__name__}: {value!r}", where=f"checkpoint, {at}")


def _pack_items(mapping: Mapping[Any, Any], at: str, tensors: dict[str, Tensor]) -> Iterator[list[Any]]:
    """Pairs, since the keys of an optimizer's state are integers."""
    for key, item in mapping.items():
        if not isinstance(key, str | int):
            raise BadInput("a key that is neither text nor number", got=key, where=f"checkpoint, {at}")
        yield [key, _pack(item, f"{at}.{key}", tensors)]


def _unpack(value: Any, tensors: Mapping[str, Tensor]) -> Any:
    if isinstance(value, list):
        return [_unpack(item, tensors) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    ((tag, body),) = cast("dict[str, Any]", value).items()
    kinds: dict[str, Callable[[Any], Any]] = {
        "$tensor": lambda name: tensors[name],
        "$array": lambda name: tensors[name].numpy(),
        "$float": float,
        "$tuple": lambda items: tuple(_unpack(item, tensors) for item in items),
        "$map": lambda pairs: {key: _unpack(item, tensors) for key, item in pairs},
    }
    return kinds[tag](body)
