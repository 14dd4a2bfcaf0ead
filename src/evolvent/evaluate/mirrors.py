"""Metrics where people look: each line of ``metrics.jsonl`` also goes to TensorBoard, trackio or Weights & Biases.

The run folder stays the whole truth. Nothing is imported, and nothing sent anywhere, unless ``--log`` names it.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

from evolvent.core.errors import BadInput, EvolventError, closest
from evolvent.core.folder import RunFolder

_MODULES = {"tensorboard": "torch.utils.tensorboard", "trackio": "trackio", "wandb": "wandb"}


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


@contextmanager
def mirrored(folder: RunFolder, module: Any) -> Generator[None]:
    """A tracker (``module``, if any) gets the numbers of each line of the metrics, for as long as the block lasts.

    Its run is called as the run folder is.
    """
    if module is None:
        yield
        return
    if hasattr(module, "SummaryWriter"):
        writer = module.SummaryWriter(str(folder.path / "tensorboard"))
        finish = writer.close

        def write(step: int, line: Mapping[str, Any]) -> None:
            for name, value in numbers(line).items():
                writer.add_scalar(name, value, step)
    else:
        module.init(project="evolvent", name=folder.path.name, config=dict(folder.manifest()["config"]))
        finish = module.finish

        def write(step: int, line: Mapping[str, Any]) -> None:
            module.log(numbers(line), step=step)

    folder.watchers.append(write)
    try:
        yield
    finally:
        folder.watchers.clear()
        finish()


def numbers(line: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a line, those of a part of the run under its name: ``after/success``."""
    part = f"{line['phase']}/" if line.get("phase") else ""
    return {
        f"{part}{name}": float(value)
        for name, value in line.items()
        if isinstance(value, int | float) and name != "step"
    }
