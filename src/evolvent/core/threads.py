"""Threads of numerical libraries: how they wait for each other."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def threads_sleep() -> Generator[None]:
    """While this lasts, an OpenMP that is loaded lets its threads sleep at barriers; a policy that is set stays.

    Otherwise they spin: beside one other busy process, tokens on two cores took nine times as long (LOG.md).
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
