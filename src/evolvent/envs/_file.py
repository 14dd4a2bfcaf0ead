"""A Python file of the user's as a module."""

from __future__ import annotations

import functools
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from evolvent.core.errors import BadInput


@functools.lru_cache(maxsize=8)
def run_file(path: Path, stamp: tuple[int, int], where: str) -> ModuleType:
    """The file as a module; run anew only where its ``stamp`` has changed: copies share what it builds.

    Raises:
        BadInput: it does not run.
    """
    name = where.partition(":")[0]
    spec = importlib.util.spec_from_file_location(f"{name}_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise BadInput("the file does not run", got=f"{type(error).__name__}: {error}", where=where) from error
    return module
