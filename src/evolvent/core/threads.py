"""Threads of numerical libraries: how they wait for one another."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def threads_sleep() -> Generator[None]:
    """OpenMP, which reads this variable when it is loaded, lets threads sleep at a barrier; a set one is left alone.

    They spin otherwise: beside one other busy process, tokens on two cores then took nine times as long (LOG.md).
    """
    name = "OMP_WAIT_POLICY"
    if name in os.environ:
        yield
        return
    os.environ[name] = "passive"
    try:
        yield
    finally:
        del os.environ[name]
