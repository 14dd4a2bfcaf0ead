"""Metrics where people look: each line of ``metrics.jsonl`` also goes to TensorBoard, trackio or Weights & Biases.

The run folder stays the whole truth. Nothing is imported, and nothing sent anywhere, unless ``--log`` names it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from evolvent.core.errors import BadInput, EvolventError, closest

_MODULES = {"tensorboard": "torch.utils.tensorboard", "trackio": "trackio", "wandb": "wandb"}
Write = Callable[[int, Mapping[str, float]], None]
"""Takes a step and its numbers."""


def tracker(name: str) -> ModuleType:
    """The package of a tracker, imported.

    Raises:
        BadInput: no such tracker.
        EvolventError: its package is not installed.
    """
    if name not in _MODULES:
        raise BadInput("unknown tracker", got=name, expected=closest(name, _MODULES), where="--log")
    try:
        return import_module(_MODULES[name])
    except ModuleNotFoundError as error:
        do = f"pip install {'tensorboard torch' if name == 'tensorboard' else name}"
        raise EvolventError(f"{error.name or name} is not installed", where=f"--log {name}", do=do) from error


def mirror(module: Any, path: Path, manifest: Mapping[str, Any]) -> tuple[Write, Callable[[], None]]:
    """How to write to a tracker, and how to end.

    Args:
        module: from ``tracker``.
        path: of the run folder; its name is that of the run.
        manifest: content of ``config.json``.
    """
    if hasattr(module, "SummaryWriter"):
        return _tensorboard(module.SummaryWriter(str(path / "tensorboard")))
    module.init(project="evolvent", name=path.name, config=dict(manifest["config"]))
    return (lambda step, values: module.log(dict(values), step=step)), module.finish


def numbers(line: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a line, those of a part of the run under its name: ``after/success``."""
    part = f"{line['phase']}/" if line.get("phase") else ""
    return {
        f"{part}{name}": float(value)
        for name, value in line.items()
        if isinstance(value, int | float) and name != "step"
    }


def _tensorboard(writer: Any) -> tuple[Write, Callable[[], None]]:
    def write(step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            writer.add_scalar(name, value, step)

    return write, writer.close
